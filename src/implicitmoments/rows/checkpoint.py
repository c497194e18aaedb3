"""Checkpoints: the state of a fit after each pass over the rows, in one file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import array_api_compat
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from implicitmoments.arrays import namespace_of, to_numpy
from implicitmoments.notes import InputError
from implicitmoments.rows.table import Sums

if TYPE_CHECKING:
    from implicitmoments.rows.rows import Rows


class Checkpoint:
    """State of one fit, which an interrupted fit goes on from.

    The sums of finished passes are kept by number, in the order in which a fit asks for them, and
    are returned when the same fit runs again. A loop of many passes keeps its own state in place
    of the sums of its passes. The file is replaced as a whole after every pass.

    Parameters
    ----------
    path : str or path
        Created if it does not exist.
    key : mapping of str to str
        What the sums depend on. A file with another key is refused.
    like : array
        Of the library and on the device of the rows.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "fit.safetensors"
    >>> for _ in range(2):  # the second time the sums come from the file
    ...     checkpoint = Checkpoint(path, {"class": "Example"}, np.ones(1))
    ...     sums = checkpoint.sums("example", lambda: print("pass") or {"n": 3})
    pass
    >>> sums
    {'n': 3}
    """

    def __init__(self, path: str | os.PathLike[str], key: Mapping[str, str], like: Any) -> None:
        self.path, self._like = Path(path), like
        self._header = {"key": json.dumps(dict(key))}
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._loop, self._numbers = 0, count()
        if self.path.exists():
            self._load(key)
        elif not self.path.absolute().parent.is_dir():
            template = "the folder of the checkpoint {path} does not exist; create it"
            raise InputError("checkpoint_no_folder", template, path=str(self.path))

    def _load(self, key: Mapping[str, str]) -> None:
        try:
            with safe_open(self.path, framework="np") as file:
                self._header = dict(file.metadata() or {})
                self._arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            was = json.loads(self._header["key"])
        except (SafetensorError, OSError, KeyError, ValueError) as reason:
            template = "{path} is not a checkpoint, or damaged; delete it, or give another path"
            raise InputError("checkpoint_unreadable", template, path=str(self.path)) from reason
        differing = [n for n in {**was, **key} if was.get(n) != key.get(n)]
        if differing:
            template = "{path} is of a fit that differs in {differing}; delete it or give another"
            values = {"path": str(self.path), "differing": differing}
            raise InputError("checkpoint_of_another_fit", template, **values)

    def seed(self, draw: Callable[[], int]) -> int:
        """Return the seed of the fit that was interrupted, or draw one."""
        if "seed" not in self._header:
            self._header["seed"] = str(draw())
        return int(self._header["seed"])

    def sums(self, what: str, run: Callable[[], Sums]) -> Sums:
        """Return the sums of the next pass, from the file or by ``run()``."""
        name = f"{self._loop} pass {next(self._numbers)} {what}/"
        if self._recall(name) is None:
            self._keep(name, run())
        return self._recall(name) or {}  # with one layout, of which the bits of products depend

    def begin_loop(self) -> Sums | None:
        """Begin a loop with a state of its own; return its state, None at the beginning."""
        self._loop, self._numbers = self._loop + 1, count()
        return self._recall(f"{self._loop} state/")

    def end_step(self, state: Mapping[str, Any]) -> None:
        """Keep the state of the loop, which takes the place of the sums of its passes."""
        own = f"{self._loop} "
        self._arrays = {n: a for n, a in self._arrays.items() if not n.startswith(own)}
        self._numbers = count()
        self._keep(f"{own}state/", state)

    def _recall(self, prefix: str) -> Sums | None:
        found: Sums = {}
        for name, array in self._arrays.items():
            if name.startswith(prefix):
                kind, _, own = name.removeprefix(prefix).partition(" ")
                value: Any = np.array(array)  # a copy, in which callers compute
                if kind == "foreign":
                    device = array_api_compat.device(self._like)
                    value = namespace_of(self._like).asarray(value, device=device)
                found[own] = value.item() if kind == "number" else value
        return found or None

    def _keep(self, prefix: str, sums: Mapping[str, Any]) -> None:
        for name, value in sums.items():
            array, kind = np.asarray(to_numpy(value)), "array"
            if not hasattr(value, "dtype"):
                kind = "number"
            elif not isinstance(value, np.ndarray | np.generic):
                kind = "foreign"
            self._arrays[f"{prefix}{kind} {name}"] = np.array(array, order="C")
        new = self.path.with_name(f".{self.path.name}.new")
        new.write_bytes(save(self._arrays, self._header))
        os.replace(new, self.path)


def open_checkpoint(path: Any, estimator: Any, rows: Rows) -> Checkpoint:
    """Open the checkpoint of a fit, with a key of its class, parameters, shape and first rows."""
    parameters = estimator.get_params(deep=False)
    key = {name: _describe(value) for name, value in parameters.items()}
    if not isinstance(parameters.get("random_state"), int):
        key.pop("random_state", None)  # its seed is in the file
    key["class"], key["shape"] = type(estimator).__name__, f"{rows.n} x {rows.n_features}"
    digest = hashlib.sha256()
    first = rows.table.take(np.arange(min(rows.n, 256)))
    block = rows.prepare(first, whole=True)
    for name in sorted(block):
        digest.update(name.encode() + np.ascontiguousarray(to_numpy(block[name])).tobytes())
    key["rows"] = digest.hexdigest()
    return Checkpoint(path, key, rows.table.first["x"])


def _describe(value: Any) -> str:
    """Describe a parameter by its content, alike in every process."""
    if hasattr(value, "__code__"):
        code = value.__code__
        return f"{value.__qualname__} {code.co_code.hex()} {code.co_consts} {code.co_names}"
    if array_api_compat.is_array_api_obj(value):
        array = np.ascontiguousarray(to_numpy(value))
        return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
    return getattr(value, "__qualname__", None) or repr(value)
