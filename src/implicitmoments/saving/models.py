"""Save fitted models to files, and load them.

A file is safetensors; its metadata has a JSON document with the class, the parameters and the
fitted attributes. An estimator declares in ``saved`` which attributes it has, and of which types.
Only the records that these types lead to are written and built.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import IO, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import array_api_compat
import numpy as np
import safetensors
import safetensors.numpy
from sklearn.utils.validation import check_is_fitted

from implicitmoments.arrays import Array, to_numpy
from implicitmoments.moments.activations import NAMED, Activation
from implicitmoments.notes import CodedError, InputTypeError, Note, Notes

Json: TypeAlias = Any
Hint: TypeAlias = Any
Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]

ESTIMATORS = (  # public names of the package: files build no other class
    *("ActivationSumRegressor", "GaussianMixture", "RegressionMixture"),
    *("RegressionMixtureDensity", "SphericalMixture", "SphericalMixtureClusterer"),
    "SphericalMixtureDensity",
    "TableMixture",
)
ENTRY = "implicitmoments"  # key in the metadata of safetensors
COMMON: dict[str, Hint] = {  # fitted attributes of all estimators, or of several
    "n_features_in_": int,
    "feature_names_in_": np.ndarray | None,
    "columns_in_": dict[str, Any] | None,
    "stats_": dict[str, Any],
    "notes_": Notes,
    "weights_": np.ndarray | None,
    "means_": np.ndarray | None,
    "variance_": float | np.ndarray | None,
    "n_iter_": int | None,
    "converged_": bool | None,
    "lower_bound_": float | None,
}


class ModelFileError(CodedError, ValueError):
    """A model cannot be written, or a file cannot be read; the message says what to try.

    See Also
    --------
    save : Write a fitted model to a file.
    load : Read a fitted model from a file.

    Examples
    --------
    >>> import implicitmoments as im
    >>> try:
    ...     im.load("nowhere.im")
    ... except im.ModelFileError as error:
    ...     print(error.code, error.values["file"])
    cannot_read nowhere.im
    """


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file.

    The file is safetensors with a JSON document: arrays, numbers and strings, and no code. It is
    written completely or not at all. A model whose activation is a user's function, or whose
    random state is a generator, is refused.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    path : str or path
        An existing file is replaced.

    Raises
    ------
    ModelFileError
        If the model has an attribute that a file cannot hold, or the file cannot be written.

    See Also
    --------
    load : Read a fitted model from a file.
    ModelFileError : Raised if a model cannot be written or read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import implicitmoments as im
    >>> X, truth = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> model = im.SphericalMixture(3, random_state=0).fit(X)
    >>> path = Path(tempfile.mkdtemp()) / "mixture.safetensors"
    >>> im.save(model, path)
    >>> again = im.load(path)
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    document, arrays = to_document(model)
    from_document(document, arrays)  # raises for an attribute that is not as declared
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    data = safetensors.numpy.save(arrays, metadata={ENTRY: text})
    try:
        with replace_file(path) as file:
            file.write(data)
    except OSError as error:
        raise ModelFileError(
            "cannot_write",
            "the model file {file} cannot be written: {reason}",
            file=str(path),
            reason=error.strerror or str(error),
        ) from error


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted model from a file.

    No code is run: a file has none. Classes are known by name, and only those that the estimator
    declares are built.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    estimator
        As it was saved; arrays are NumPy arrays.

    Raises
    ------
    ModelFileError
        If there is no file, or it is not one that :func:`save` wrote.

    See Also
    --------
    save : Write a fitted model to a file.
    ModelFileError : Raised if a model cannot be written or read.

    Examples
    --------
    >>> import tempfile
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     im.save(im.SphericalMixture(3, random_state=0).fit(X), file.name)
    ...     im.load(file.name).means_.shape
    (3, 4)
    """
    try:
        if not os.path.isfile(path) and os.path.exists(path):  # a pipe would wait
            raise IsADirectoryError(0, "it is not a regular file")
        with safetensors.safe_open(os.fspath(path), framework="np") as file:
            document = json.loads((file.metadata() or {})[ENTRY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise ModelFileError(
            "cannot_read",
            "the model file {file} cannot be read: {reason}",
            file=str(path),
            reason=error.strerror or str(error),
        ) from error
    except (safetensors.SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise ModelFileError(
            "not_a_model_file",
            "{file} is not a model file, or is damaged: {reason}; give a file written by "
            "`implicitmoments.save`",
            file=str(path),
            reason=str(error)[:200],
        ) from error
    try:
        return from_document(document, arrays)
    # whatever a file makes a constructor or a conversion raise, the file is the cause
    except Exception as error:
        raise ModelFileError(
            "invalid_content",
            "the model file {file} has invalid content: {reason}; give a file written by this "
            "version of `implicitmoments.save`",
            file=str(path),
            reason=str(error)[:200],
        ) from error


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that replaces the one at a path in one step, when it is complete.

    It is written in the same folder, flushed to the disk, and renamed. A reader sees the old file
    or the new one; a failure leaves the old file and nothing else. A symbolic link is followed,
    and a device or a pipe is written to.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:  # raises for a folder
            yield file
        return
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.filename == str(beside):
            error.filename = os.fspath(path)
        raise


def estimator_class(name: str) -> type[Any]:
    """Return an estimator by the name of its class; KeyError for any other name."""
    if name not in ESTIMATORS:
        raise KeyError(name)
    found: type[Any] = getattr(import_module("implicitmoments"), name)
    return found


def to_document(model: Any) -> tuple[dict[str, Json], Arrays]:
    """Convert the state of a fitted estimator to a document and arrays."""
    name = type(model).__name__
    if name not in ESTIMATORS or type(model) is not estimator_class(name):
        raise InputTypeError(
            "not_an_estimator",
            "`save` takes a fitted {estimators}, got {type}; of a pipeline or a search save the "
            "step that is one of these",
            estimators=list(ESTIMATORS),
            type=name,
        )
    held = vars(model)
    check_is_fitted(model)  # also refuses a fit that was interrupted
    kind: Any = type(model)
    encoder = Encoder(records_of(kind))
    parameters = {key: encoder.encode(held[key], key) for key in model.get_params(deep=False)}
    fitted = {key: encoder.encode(held[key], key) for key in declared(kind) if key in held}
    return {"estimator": name, "parameters": parameters, "fitted": fitted}, encoder.arrays


def from_document(document: Json, arrays: Arrays) -> Any:
    """Build the estimator of a document; any error for one that is invalid."""
    kind: Any = estimator_class(document["estimator"])
    hints, decoder = declared(kind), Decoder(arrays, records_of(kind))
    parameters, fitted = (
        {key: decoder.decode(value) for key, value in document[part].items()}
        for part in ("parameters", "fitted")
    )
    model = kind(**parameters)
    unknown = fitted.keys() - hints.keys()
    if unknown:
        raise invalid(f"unknown attribute {min(unknown)}")
    check_types(fitted, hints)
    vars(model).update(fitted)
    return model


class Encoder:
    """Writes values as tagged JSON, and keeps arrays by the path at which they are."""

    def __init__(self, records: Mapping[str, type]) -> None:
        self.arrays: Arrays = {}
        self._records = records

    def encode(self, value: Any, path: str) -> Json:
        """Return the JSON of a value; ``path`` names it in errors."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | tuple | Mapping):
            return self._container(value, path)
        if array_api_compat.is_array_api_obj(value):
            return self._array(to_numpy(value), path)
        return self._object(value, path)

    def _container(self, value: Any, path: str) -> Json:
        if isinstance(value, Notes):
            return {"notes": [[note.code, self.encode(note.values, path)] for note in value]}
        if isinstance(value, Mapping):
            return {"dict": [self._pair(key, held, path) for key, held in value.items()]}
        items = [self.encode(each, f"{path}[{i}]") for i, each in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items

    def _pair(self, key: Any, held: Any, path: str) -> list[Json]:
        return [self.encode(key, path), self.encode(held, f"{path}[{key!r}]")]

    def _array(self, array: np.ndarray[Any, Any], path: str) -> Json:
        if array.dtype.kind in "OU" and all(isinstance(word, str) for word in array.flat):
            return {"words": array.tolist()}  # names of features
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise not_saved(path, f"array of {array.dtype}")
        # the last digits of a product depend on how its factors lie in memory
        turned = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
        plain = np.array(array.T if turned else array, array.dtype.newbyteorder("="), order="C")
        self.arrays[path] = plain
        return {"array": path, "turned": turned}

    def _object(self, value: Any, path: str) -> Json:
        if value in NAMED.values():  # relu for relu()
            value = value()
        if isinstance(value, Activation) and value.origin is not None:
            name, parameters = value.origin
            return {"activation": name, "parameters": [float(each) for each in parameters]}
        name = type(value).__name__
        if self._records.get(name) is not type(value):
            raise not_saved(path, name)
        record: Any = value
        held = {each.name: getattr(record, each.name) for each in fields(record)}
        encoded = {key: self.encode(part, f"{path}.{key}") for key, part in held.items()}
        return {"record": name, "fields": encoded}


@dataclass(frozen=True)
class Decoder:
    """Reads values from tagged JSON and arrays; only the given records are built."""

    arrays: Arrays
    records: Mapping[str, type]

    def decode(self, value: Json) -> Any:
        """Return a value."""
        if isinstance(value, list):
            return [self.decode(each) for each in value]
        if not isinstance(value, dict):
            return value
        tag, content = next(iter(value.items()))
        if tag in ("tuple", "dict", "notes"):
            return self.container(tag, content)
        return self.leaf(tag, content, value)

    def container(self, tag: str, content: Json) -> Any:
        """Return a tuple, a mapping or notes."""
        if tag == "tuple":
            return tuple(self.decode(content))
        if tag == "dict":
            return {self.decode(key): self.decode(held) for key, held in content}
        return Notes(Note(code, self.decode(held)) for code, held in content)

    def leaf(self, tag: str, content: Json, tagged: Json) -> Any:
        """Return a number, names of features, an array, a record or an activation."""
        if tag == "float":
            return float(content)
        if tag == "words":
            return np.array(content, dtype=object)
        if tag == "array":
            return self.arrays[content].T if tagged["turned"] else self.arrays[content]
        if tag == "record":
            return self.record(content, tagged["fields"])
        if tag == "activation":
            make: Callable[..., Activation] = NAMED[content]
            return make(*tagged["parameters"])
        raise invalid(f"unknown tag {tag}")

    def record(self, name: str, content: Json) -> Any:
        """Build a record of declared types."""
        kind = self.records[name]
        held = {key: self.decode(part) for key, part in content.items()}
        hints = get_type_hints(kind)  # also of attributes of the class
        check_types(held, {each.name: hints[each.name] for each in fields(kind)})
        return kind(**held)


def declared(estimator: Any) -> dict[str, Hint]:
    """Return the types of the fitted attributes of an estimator class."""
    return {**COMMON, **estimator.saved}


@cache
def records_of(estimator: Any) -> dict[str, Any]:
    """Return the records that a file of an estimator may contain, by name."""
    found: dict[str, Any] = {}
    hints = [*declared(estimator).values(), *estimator.records]
    while hints:
        hint = hints.pop()
        hints += get_args(hint)
        new = isinstance(hint, type) and is_dataclass(hint) and hint.__name__ not in found
        if new and hint is not Activation:
            found[hint.__name__] = hint
            hints += get_type_hints(hint).values()
    return found


def check_types(values: Mapping[str, Any], hints: Mapping[str, Hint]) -> None:
    """Raise unless all values are of their types, and those are there that cannot be None."""
    for name, hint in hints.items():
        if not matches(values.get(name), hint):
            raise invalid(f"{name} is of type {type(values.get(name)).__name__}")


def matches(value: Any, hint: Hint) -> bool:
    """Say whether a value is of a type; entries of containers are not looked at."""
    origin: Any = get_origin(hint)
    if origin in (Union, UnionType):
        return any(matches(value, each) for each in get_args(hint))
    kind = np.ndarray if hint is Array else origin or hint
    if kind in (int, float):
        numbers = int if kind is int else float | int
        return isinstance(value, numbers) and not isinstance(value, bool)
    if getattr(kind, "_is_protocol", False):
        return is_dataclass(value)
    return kind is Any or isinstance(value, kind)


def not_saved(path: str, kind: str) -> ModelFileError:
    """Return the error for a value that files do not hold."""
    return ModelFileError(
        "type_not_saved",
        "the model cannot be saved: `{attribute}` is of type {type}, and model files hold "
        "numbers, strings, arrays and the activations {known}; change it with `set_params` or fit "
        "again",
        attribute=path,
        type=kind,
        known=list(NAMED),
    )


def invalid(reason: str) -> ModelFileError:
    """Return the error for content that no saved model has."""
    return ModelFileError("invalid_content", "{reason}", reason=reason)
