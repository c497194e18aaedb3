"""How classes are written as fields and read back: records, activations, random states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any, NoReturn, cast, get_type_hints

import numpy as np

from implicitmoments.circuits import Circuit
from implicitmoments.moments import MomentProblem
from implicitmoments.notes import InputError
from implicitmoments.problems import Activation
from implicitmoments.problems.activations import NAMED
from implicitmoments.projections import RecursiveProjection
from implicitmoments.projections.recursive import Step
from implicitmoments.rows import Block, RowDraws
from implicitmoments.saving.errors import ModelFileError

__all__ = ["CODECS", "NO_CODE", "Codec", "record_codec"]

COMPARED = 12  # Hermite coefficients by which an activation is identified
UINT32 = 2**32
NO_CODE = (
    "and a model file holds no code; use one of {known} or cosine(frequency, phase), or keep the "
    "script that fits the model"
)


@dataclass(frozen=True)
class Codec:
    """How a class is written and read.

    Attributes
    ----------
    kind : type
    hints : mapping of str to type
        The fields in a file.
    take : callable
        From an object to its fields.
    build : callable
        From fields of the right types, as keywords, to an object.
    """

    kind: type[Any]
    hints: Mapping[str, Any]
    take: Callable[[Any], dict[str, Any]]
    build: Callable[..., Any]


def record_codec(record: type[Any]) -> Codec:
    """Return the codec of a dataclass. Cached properties are not kept: fields determine them."""
    hints = get_type_hints(record)
    names = [field.name for field in fields(record)]
    return Codec(
        record,
        {name: hints[name] for name in names},
        lambda value: {name: getattr(value, name) for name in names},
        record,
    )


def _take_activation(activation: Activation) -> dict[str, Any]:
    """Return the name of one of the library's activations and the numbers it was made with."""
    function = activation.function
    numbers = function.args if isinstance(function, partial) else ()
    for name, make in NAMED.items():
        try:
            made = cast(Callable[..., Activation], make)(*numbers)
        except (TypeError, ValueError):  # takes another number of parameters
            continue
        if _same_activation(made, activation):
            return {"name": name, "parameters": tuple(numbers)}
    raise ModelFileError(
        "activation_not_saved",
        "`{attribute}` is the activation {activation!r}, defined by a function, " + NO_CODE,
        activation=activation.name,
        known=list(NAMED),
    )


def _same_activation(one: Activation, other: Activation) -> bool:
    plain = ("name", "mean_square", "error", "kinks")
    return (
        all(getattr(one, name) == getattr(other, name) for name in plain)
        and _same_function(one.function, other.function)
        and _same_function(one.derivative, other.derivative)
        and all(one.coefficient(t) == other.coefficient(t) for t in range(COMPARED))
    )


def _same_function(one: Any, other: Any) -> bool:
    if isinstance(one, partial) and isinstance(other, partial):
        return one.func is other.func and one.args == other.args
    return one is other


def _build_activation(name: str, parameters: tuple[float, ...]) -> Activation:
    if name not in NAMED:
        raise ModelFileError(
            "unknown_activation", "the activation {name!r} is unknown", name=name[:40]
        )
    if not parameters:
        return _plain_activation(name)
    return cast(Callable[..., Activation], NAMED[name])(*parameters)


@cache
def _plain_activation(name: str) -> Activation:
    """Make an activation once: some need quadrature, and a file can ask for many."""
    return NAMED[name]()


def _take_generator(generator: np.random.Generator) -> dict[str, Any]:
    state: Any = generator.bit_generator.state
    _check_kind(state, "PCG64")
    return {**state["state"], "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}


def _build_generator(state: int, inc: int, has_uint32: int, uinteger: int) -> np.random.Generator:
    bits, found = np.random.PCG64(0), cast(Any, {"bit_generator": "PCG64"})
    found["state"] = {"state": _below(2**128, state), "inc": _below(2**128, inc)}
    bits.state = {
        **found,
        "has_uint32": _below(2, has_uint32),
        "uinteger": _below(UINT32, uinteger),
    }
    return np.random.Generator(bits)


def _take_random_state(random_state: np.random.RandomState) -> dict[str, Any]:
    state: Any = random_state.get_state(legacy=False)
    _check_kind(state, "MT19937")
    return {**state["state"], "has_gauss": state["has_gauss"], "gauss": state["gauss"]}


def _build_random_state(
    key: np.ndarray[Any, Any], pos: int, has_gauss: int, gauss: float
) -> np.random.RandomState:
    if key.shape != (624,) or key.dtype != np.uint32:
        raise ModelFileError("invalid_random_state", "a random state has an invalid key")
    built = np.random.RandomState(0)
    # NumPy does not check `pos`, and would read beyond the key
    state = {"key": key, "pos": _below(625, pos)}
    found = {"bit_generator": "MT19937", "state": state, "has_gauss": _below(2, has_gauss)}
    built.set_state({**found, "gauss": float(gauss)})
    return built


def _check_kind(state: Any, kind: str) -> None:
    if state["bit_generator"] != kind:
        raise ModelFileError(
            "random_state_not_saved",
            "`{attribute}` is a random state of kind {found}, and model files keep {kind} only; "
            "use an integer",
            found=state["bit_generator"],
            kind=kind,
        )


def _below(end: int, value: int) -> int:
    if not 0 <= value < end:
        raise ModelFileError("invalid_random_state", "a random state is out of range")
    return int(value)


class ProblemWithoutRows(MomentProblem):
    """Takes the place of a moment problem in a loaded model: its rows are not in the file.

    Parameters
    ----------
    n_features : int
    n_rows : int or None
    """

    def __init__(self, n_features: int, n_rows: int | None) -> None:
        self.n_features, self.n_rows = n_features, n_rows

    def circuit(self, order: int) -> Circuit:
        """Refuse: what is averaged is not in a file."""
        self._refuse(order)

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002
        """Refuse: rows are not in a file."""
        self._refuse(order)

    def _refuse(self, order: int) -> NoReturn:
        raise InputError(
            "rows_not_in_file",
            "the moment of order {order} needs the rows of the fit, which are not in a model "
            "file; fit the model again",
            order=order,
        )


def _take(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: getattr(value, name) for name in names}


# Classes that are not written field by field; subclasses are written as these.
CODECS: dict[type[Any], Codec] = {
    codec.kind: codec
    for codec in (
        Codec(
            Activation,
            {"name": str, "parameters": tuple[float, ...]},
            _take_activation,
            _build_activation,
        ),
        Codec(
            np.random.Generator,
            dict.fromkeys(("state", "inc", "has_uint32", "uinteger"), int),
            _take_generator,
            _build_generator,
        ),
        Codec(
            np.random.RandomState,
            {"key": np.ndarray, "pos": int, "has_gauss": int, "gauss": float},
            _take_random_state,
            _build_random_state,
        ),
        Codec(
            RecursiveProjection,
            {"steps": tuple[Step, ...], "n_features": int, "defect": float},
            _take("steps", "n_features", "defect"),
            RecursiveProjection._from_steps,
        ),
        Codec(
            MomentProblem,
            {"n_features": int, "n_rows": int | None},
            _take("n_features", "n_rows"),
            ProblemWithoutRows,
        ),
    )
}
