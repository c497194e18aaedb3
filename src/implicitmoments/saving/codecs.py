"""Conversion of objects to fields and back: records, activations, random states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, cast, get_type_hints

import numpy as np

from implicitmoments.arrays import Array
from implicitmoments.circuits import Circuit
from implicitmoments.moments import MomentProblem
from implicitmoments.notes import InputError
from implicitmoments.problems import Activation
from implicitmoments.problems.activations import NAMED
from implicitmoments.projections import RecursiveProjection
from implicitmoments.rows import ArraySource, Block, RowDraws, Rows
from implicitmoments.saving.errors import ModelFileError, invalid


@dataclass(frozen=True)
class Codec:
    """Conversion of the objects of a class to typed fields, and back."""

    kind: type[Any]
    hints: Mapping[str, Any]
    take: Callable[[Any], dict[str, Any]]
    build: Callable[..., Any]


def record_codec(record: type[Any]) -> Codec:
    """Return the codec of a dataclass. Cached properties are not kept: fields determine them."""
    hints = get_type_hints(record)
    return _codec(record, record, {field.name: hints[field.name] for field in fields(record)})


def _codec(
    kind: type[Any],
    build: Callable[..., Any],
    hints: Mapping[str, Any] | None = None,
    take: Callable[[Any], dict[str, Any]] | None = None,
) -> Codec:
    """Return a codec whose fields are by default the parameters of the function that builds."""
    if hints is None:
        hints = get_type_hints(build)
        del hints["return"]
    return Codec(kind, hints, take or (lambda value: {n: getattr(value, n) for n in hints}), build)


def function_not_saved(function: str) -> ModelFileError:
    """Return the error for a function of the user."""
    return ModelFileError(
        "function_not_saved",
        "{attribute} is the function {function!r}, and a model file holds no code; use one of "
        "{known} or cosine(frequency, phase), or keep the script that fits the model",
        **{"function": function, "known": list(NAMED)},
    )


def _take_activation(activation: Activation) -> dict[str, Any]:
    if activation.origin is None:
        raise function_not_saved(activation.name)
    return dict(zip(("name", "parameters"), activation.origin, strict=True))


def _build_activation(name: str, parameters: tuple[float, ...]) -> Activation:
    if name not in NAMED:
        raise invalid("unknown_activation", name)
    if not parameters:
        return _plain_activation(name)
    return cast(Callable[..., Activation], NAMED[name])(*parameters)


@cache
def _plain_activation(name: str) -> Activation:
    """Build an activation, cached: some need quadrature, and a file may contain many."""
    return NAMED[name]()


def _take_generator(generator: np.random.Generator) -> dict[str, Any]:
    state: Any = _checked(generator.bit_generator.state, "PCG64")
    return {**state["state"], "has_uint32": state["has_uint32"], "uinteger": state["uinteger"]}


def _build_generator(state: int, inc: int, has_uint32: int, uinteger: int) -> Any:
    bits = np.random.PCG64(0)
    words = {"state": _below(2**128, state), "inc": _below(2**128, inc)}
    rest = {"has_uint32": _below(2, has_uint32), "uinteger": _below(2**32, uinteger)}
    bits.state = cast(Any, {"bit_generator": "PCG64", "state": words, **rest})
    return np.random.Generator(bits)


def _take_random_state(random_state: np.random.RandomState) -> dict[str, Any]:
    state: Any = _checked(random_state.get_state(legacy=False), "MT19937")
    return {**state["state"], "has_gauss": state["has_gauss"], "gauss": state["gauss"]}


def _build_random_state(key: Array, pos: int, has_gauss: int, gauss: float) -> Any:
    if key.shape != (624,) or key.dtype != np.uint32:
        raise invalid("invalid_random_state", "key")
    built = np.random.RandomState(0)
    # NumPy does not check `pos`, and would read beyond the key
    words = {"key": key, "pos": _below(625, pos)}
    rest = {"has_gauss": _below(2, has_gauss), "gauss": float(gauss)}
    built.set_state({"bit_generator": "MT19937", "state": words, **rest})
    return built


def _checked(state: Any, kind: str) -> Any:
    if state["bit_generator"] != kind:
        raise ModelFileError(
            "random_state_not_saved",
            "{attribute} is a random state of kind {found}, and model files hold {kind}; use an "
            "integer",
            **{"found": state["bit_generator"], "kind": kind},
        )
    return state


def _below(end: int, value: int) -> int:
    if not 0 <= value < end:
        raise invalid("invalid_random_state", value)
    return int(value)


def _take_rows(rows: Rows) -> dict[str, Any]:
    held = rows.source.block(range(rows.n))
    columns = {"X": held["x"], "sample_weight": held.get("counts")}
    return {**columns, "rows_per_block": rows.rows_per_block}


def _build_rows(X: Array, sample_weight: Array | None, rows_per_block: int | None) -> Rows:
    try:
        counts = {} if sample_weight is None else {"counts": sample_weight}
        return Rows(ArraySource(X, **counts), rows_per_block=rows_per_block)
    except (TypeError, ValueError) as reason:
        raise invalid("invalid_rows", getattr(reason, "code", "")) from reason


class ProblemWithoutRows(MomentProblem):
    """Placeholder for a moment problem in a loaded model: the file does not contain its rows."""

    def __init__(self, n_features: int, n_rows: int | None) -> None:
        self.n_features, self.n_rows = n_features, n_rows

    def circuit(self, order: int) -> Circuit:
        """Refuse: the averaged circuits are not in the file."""
        raise _no_rows(order)

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002
        """Refuse: the rows are not in the file."""
        raise _no_rows(order)


def _no_rows(order: int) -> InputError:
    return InputError(
        "rows_not_in_file",
        "the moment of order {order} needs the rows of the fit, which are not in a model file; "
        "fit the model again",
        order=order,
    )


# Classes that are not written field by field; subclasses are written as these.
CODECS: dict[type[Any], Codec] = {
    codec.kind: codec
    for codec in (
        _codec(Activation, _build_activation, take=_take_activation),
        _codec(np.random.Generator, _build_generator, take=_take_generator),
        _codec(np.random.RandomState, _build_random_state, take=_take_random_state),
        _codec(Rows, _build_rows, take=_take_rows),
        _codec(RecursiveProjection, RecursiveProjection._from_steps),
        _codec(MomentProblem, ProblemWithoutRows, {"n_features": int, "n_rows": int | None}),
    )
}
