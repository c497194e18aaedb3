"""Objects that are not written field by field: activations, random states, projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, cast

import numpy as np

from implicitmoments.circuits import Circuit
from implicitmoments.moments import MomentProblem
from implicitmoments.problems import Activation
from implicitmoments.problems.activations import NAMED
from implicitmoments.projections import RecursiveProjection
from implicitmoments.projections.recursive import Step
from implicitmoments.rows import Block, RowDraws

__all__ = ["SPECIAL", "LeftBehind", "Special", "special_name"]

COMPARED = 12  # Hermite coefficients by which an activation is known
WORDS = 2**32
Unsigned = np.ndarray[Any, np.dtype[np.uint32]]


@dataclass(frozen=True)
class Special:
    """How a class is written and read.

    Attributes
    ----------
    kind : type
        Of what is written.
    hints : dict of str to type
        The fields in a file.
    take : callable
        From an object to its fields; a ValueError says why it cannot be kept.
    build : callable
        From fields of the right types to an object.
    """

    kind: type[Any]
    hints: Mapping[str, Any]
    take: Callable[[Any], dict[str, Any]]
    build: Callable[[dict[str, Any]], Any]


class LeftBehind(MomentProblem):
    """Stands for the rows of a moment that was read from a file, which are not in it.

    Parameters
    ----------
    n_features : int
    n_rows : int or None
    """

    def __init__(self, n_features: int, n_rows: int | None) -> None:
        self.n_features, self.n_rows = n_features, n_rows

    def circuit(self, order: int) -> Circuit:
        """Refuse: what is averaged is not in a file."""
        raise ValueError(self._words(order))

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002
        """Refuse: rows are not in a file."""
        raise ValueError(self._words(order))

    def _words(self, order: int) -> str:
        return (
            f"the moment of order {order} takes the rows of the fit, which are not in a model "
            "file; fit the model again"
        )


def take_activation(activation: Activation) -> dict[str, Any]:
    """Return the name of a library's activation and the numbers it was made with."""
    function = activation.function
    numbers = function.args if isinstance(function, partial) else ()
    for name, make in NAMED.items():
        try:
            made = cast(Callable[..., Activation], make)(*numbers)
        except (TypeError, ValueError):  # of another number of numbers
            continue
        if _same_activation(made, activation):
            return {"name": name, "parameters": tuple(numbers)}
    raise ValueError(
        f"is the activation {activation.name!r}, made of a function, and a model file holds no "
        f"code; use one of {', '.join(map(repr, NAMED))} or cosine(frequency, phase), or keep "
        "the script that fits the model"
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


def _build_activation(fields: dict[str, Any]) -> Activation:
    name, numbers = fields["name"], fields["parameters"]
    if name not in NAMED:
        raise ValueError(f"the activation {name[:40]!r} is not known")
    if not numbers:
        return _plain_activation(name)
    return cast(Callable[..., Activation], NAMED[name])(*numbers)


@cache
def _plain_activation(name: str) -> Activation:
    """Make an activation once: some take quadrature, and a file can ask for many."""
    return NAMED[name]()


def _take_generator(generator: np.random.Generator) -> dict[str, Any]:
    state: Any = generator.bit_generator.state
    _check_kind(state, "PCG64")
    return {**state["state"], "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}


def _build_generator(fields: dict[str, Any]) -> np.random.Generator:
    bits = np.random.PCG64(0)
    state: Any = {
        "bit_generator": "PCG64",
        "state": {name: _within(fields, name, 2**128) for name in ("state", "inc")},
        "has_uint32": _within(fields, "has_uint32", 2),
        "uinteger": _within(fields, "uinteger", WORDS),
    }
    bits.state = state
    return np.random.Generator(bits)


def _take_random_state(random_state: np.random.RandomState) -> dict[str, Any]:
    state: Any = random_state.get_state(legacy=False)
    _check_kind(state, "MT19937")
    return {**state["state"], "has_gauss": state["has_gauss"], "gauss": state["gauss"]}


def _build_random_state(fields: dict[str, Any]) -> np.random.RandomState:
    key = fields["key"]
    if key.shape != (624,) or key.dtype != np.uint32:
        raise ValueError("the key of a RandomState is not 624 words")
    state = {
        "bit_generator": "MT19937",
        # NumPy does not look at the place, and would read beyond the key
        "state": {"key": key, "pos": _within(fields, "pos", 625)},
        "has_gauss": _within(fields, "has_gauss", 2),
        "gauss": float(fields["gauss"]),
    }
    built = np.random.RandomState(0)
    built.set_state(state)
    return built


def _check_kind(state: Any, kind: str) -> None:
    if state["bit_generator"] != kind:
        raise ValueError(
            f"is a random state of kind {state['bit_generator']}, and model files keep {kind} "
            "alone; give a whole number"
        )


def _within(fields: dict[str, Any], name: str, end: int) -> int:
    value = int(fields[name])
    if not 0 <= value < end:
        raise ValueError(f"{name} of a random state is out of range")
    return value


def _take_projection(projection: RecursiveProjection) -> dict[str, Any]:
    names = ("steps", "n_features", "defect")
    return {name: getattr(projection, name) for name in names}


def _build_projection(fields: dict[str, Any]) -> RecursiveProjection:
    return RecursiveProjection._from_steps(**fields)


SPECIAL = {
    "Activation": Special(
        Activation,
        {"name": str, "parameters": tuple[float, ...]},
        take_activation,
        _build_activation,
    ),
    "Generator": Special(
        np.random.Generator,
        {"state": int, "inc": int, "has_uint32": int, "uinteger": int},
        _take_generator,
        _build_generator,
    ),
    "RandomState": Special(
        np.random.RandomState,
        {"key": Unsigned, "pos": int, "has_gauss": int, "gauss": float},
        _take_random_state,
        _build_random_state,
    ),
    "RecursiveProjection": Special(
        RecursiveProjection,
        {"steps": tuple[Step, ...], "n_features": int, "defect": float},
        _take_projection,
        _build_projection,
    ),
    "LeftBehind": Special(
        MomentProblem,
        {"n_features": int, "n_rows": int | None},
        lambda problem: {"n_features": problem.n_features, "n_rows": problem.n_rows},
        lambda fields: LeftBehind(**fields),
    ),
}


def special_name(value: Any) -> str | None:
    """Return the name under which an object is written, if it is one of these."""
    return next((name for name, how in SPECIAL.items() if isinstance(value, how.kind)), None)
