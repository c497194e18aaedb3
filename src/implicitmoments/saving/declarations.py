"""Allowed contents of the model file of an estimator, and the error for all others.

They are derived from type annotations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import (
    Annotated,
    Any,
    NoReturn,
    NotRequired,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from implicitmoments.arrays import Array
from implicitmoments.moments import MomentProblem
from implicitmoments.moments.circuit_rows import CircuitRows
from implicitmoments.moments.hermite_problem import FramedRows
from implicitmoments.notes import InputError
from implicitmoments.problems import Activation
from implicitmoments.problems.activations import NAMED
from implicitmoments.projections import RecursiveProjection
from implicitmoments.registry import ESTIMATORS, estimator_class
from implicitmoments.rows import ArraySource, Block, RowDraws, Rows
from implicitmoments.saving.checks import (
    COMMON,
    Hint,
    ModelFileError,
    check_entries,
    expect,
    invalid,
    matches,
)


@dataclass(frozen=True)
class Codec:
    """Conversion of the objects of a class to typed fields, and back."""

    kind: type[Any]
    hints: Mapping[str, Any]
    build: Callable[..., Any]
    # what ``build`` takes, from an object; by default its attributes
    take: Callable[[Any], dict[str, Any]] | None = None

    def fields(self, value: Any) -> dict[str, Any]:
        """Return the fields of an object."""
        return self.take(value) if self.take else {n: getattr(value, n) for n in self.hints}


def function_not_saved(function: str) -> ModelFileError:
    """Return the error for a function of the user."""
    return ModelFileError(
        "function_not_saved",
        "{attribute} is the function {function!r}, and a model file holds no code; use one of "
        "{known} or cosine(frequency, phase), or keep the script that fits the model",
        function=function,
        known=list(NAMED),
    )


def _take_activation(activation: Activation) -> dict[str, Any]:
    if activation.origin is None:
        raise function_not_saved(activation.name)
    return dict(zip(("name", "parameters"), activation.origin, strict=True))


def _build_activation(name: str, parameters: tuple[float, ...]) -> Activation:
    expect(name in NAMED, "unknown_activation", name)
    make = cast(Callable[..., Activation], NAMED[name])
    return make(*parameters) if parameters else _plain(make)


@cache
def _plain(make: Callable[..., Activation]) -> Activation:
    """Build an activation once: some need quadrature, and a file may contain many."""
    return make()


def _take_state(state: Any, kind: str) -> dict[str, Any]:
    """Return the state of a random generator as one mapping."""
    found, inner = state["bit_generator"], state["state"]
    if found != kind:
        raise ModelFileError(
            "random_state_not_saved",
            "{attribute} is a random state of kind {found}, and model files hold {kind}; use an "
            "integer",
            found=found,
            kind=kind,
        )
    return {**inner, **{k: v for k, v in state.items() if k not in ("bit_generator", "state")}}


def _build_generator(state: int, inc: int, has_uint32: int, uinteger: int) -> Any:
    bits = np.random.PCG64(0)
    words = {"state": _below(2**128, state), "inc": _below(2**128, inc)}
    rest = {"has_uint32": _below(2, has_uint32), "uinteger": _below(2**32, uinteger)}
    bits.state = cast(Any, {"bit_generator": "PCG64", "state": words, **rest})
    return np.random.Generator(bits)


def _build_random_state(key: Array, pos: int, has_gauss: int, gauss: float) -> Any:
    expect(key.shape == (624,) and key.dtype == np.uint32, "invalid_random_state", "key")
    built = np.random.RandomState(0)
    # NumPy does not check `pos`, and would read beyond the key
    words = {"key": key, "pos": _below(625, pos)}
    rest = {"has_gauss": _below(2, has_gauss), "gauss": float(gauss)}
    built.set_state({"bit_generator": "MT19937", "state": words, **rest})
    return built


def _below(end: int, value: int) -> int:
    expect(0 <= value < end, "invalid_random_state", value)
    return int(value)


def _take_rows(rows: Rows) -> dict[str, Any]:
    held = rows.source.block(range(rows.n))
    columns = {"X": held["x"], "sample_weight": held.get("counts")}
    return {**columns, "rows_per_block": rows.rows_per_block}


def _build_rows(X: Array, sample_weight: Array | None, rows_per_block: int | None) -> Rows:
    counts = {} if sample_weight is None else {"counts": sample_weight}
    try:
        return Rows(ArraySource(X, **counts), rows_per_block=rows_per_block)
    except (TypeError, ValueError) as reason:
        raise invalid("invalid_rows", getattr(reason, "code", "")) from reason


class ProblemWithoutRows(MomentProblem):
    """Placeholder for a moment problem in a loaded model: the file does not contain its rows."""

    def __init__(self, n_features: int, n_rows: int | None) -> None:
        self.n_features, self.n_rows = n_features, n_rows

    def circuit(self, order: int) -> NoReturn:
        """Refuse: the averaged circuits are not in the file."""
        raise InputError(
            "rows_not_in_file",
            "the moment of order {order} needs the rows of the fit, which are not in a model "
            "file; fit the model again",
            order=order,
        )

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002
        """Refuse: the rows are not in the file."""
        self.circuit(order)


def _hints(build: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of a function, with their types."""
    hints = get_type_hints(build)
    del hints["return"]
    return hints


# Classes that are not written field by field; subclasses are written as these.
CODECS: dict[type[Any], Codec] = {
    codec.kind: codec
    for codec in (
        Codec(Activation, _hints(_build_activation), _build_activation, _take_activation),
        Codec(
            np.random.Generator,
            _hints(_build_generator),
            _build_generator,
            lambda generator: _take_state(generator.bit_generator.state, "PCG64"),
        ),
        Codec(
            np.random.RandomState,
            _hints(_build_random_state),
            _build_random_state,
            lambda state: _take_state(state.get_state(legacy=False), "MT19937"),
        ),
        Codec(Rows, _hints(_build_rows), _build_rows, _take_rows),
        Codec(
            RecursiveProjection,
            _hints(RecursiveProjection._from_steps),
            RecursiveProjection._from_steps,
        ),
        Codec(MomentProblem, {"n_features": int, "n_rows": int | None}, ProblemWithoutRows),
    )
}
PARAMETERS = (Activation, np.random.Generator, np.random.RandomState)  # classes they may have


def declaration_of(name: str) -> Declaration | None:
    """Return the declaration for the name of an estimator class; None if there is none.

    Annotations are resolved once, so that nothing is compiled while further files are read.
    """
    return _declare(name) if name in ESTIMATORS.values() else None


@cache
def _declare(name: str) -> Declaration:
    return Declaration(estimator_class(name))


class Declaration:
    """Declared contents of the model file of one estimator.

    Its ``saved`` declares fitted attributes, ``variants`` the classes in place of protocols.
    """

    def __init__(self, estimator: type[Any]) -> None:
        self.estimator = estimator
        self.parameters = list(inspect.signature(estimator).parameters)
        self._saved = {**COMMON, **estimator.saved}
        self.required = {  # fitted attributes that every file has
            name for name, hint in self._saved.items() if get_origin(hint) is not NotRequired
        }
        # all classes that can be reached from the declaration: no others are written or read
        self.codecs: dict[str, Codec] = {}
        no_rows: dict[Hint, Hint] = dict.fromkeys((FramedRows, CircuitRows), NoneType)
        self._variants: dict[Hint, Hint] = {**no_rows, **estimator.variants}
        for hint in (*PARAMETERS, *self._saved.values()):
            self._collect(hint)

    def codec_of(self, value: Any) -> tuple[str, Codec]:
        """Return how an object is written, and under which name; KeyError if it cannot be."""
        for name, codec in self.codecs.items():
            as_base = codec.kind in CODECS and isinstance(value, codec.kind)
            if as_base or type(value) is codec.kind:
                return name, codec
        raise KeyError(type(value).__name__)

    def accepts(self, attribute: str, value: Any) -> bool:
        """Say whether a fitted attribute may have a value; undeclared ones may have any."""
        return attribute not in self._saved or self.matches(value, self._saved[attribute])

    def check_entries(self, fitted: Mapping[str, Any]) -> None:
        """Raise unless fitted attributes have the axes and entries that are declared."""
        check_entries(fitted, self._saved, d=int(fitted["n_features_in_"]))

    def matches(self, value: Any, hint: Hint) -> bool:
        """Say whether a value is of a type, looking into containers."""
        return matches(value, hint, self._variants)

    def _collect(self, hint: Hint) -> None:
        """Enter the classes of an annotation, and of the fields of those classes."""
        hint = self._variants.get(hint, hint)
        origin: Any = get_origin(hint)
        if origin is Annotated:
            self._collect(get_args(hint)[0])
            return
        kind = origin or hint
        if kind in (Array, np.ndarray):
            return
        if kind not in CODECS and not is_dataclass(kind):
            if getattr(kind, "_is_protocol", False) or inspect.isabstract(hint):
                raise TypeError(f"{self.estimator}.variants does not say what {kind} is")
            for one in get_args(hint):
                self._collect(one)
            return
        known = self.codecs.get(kind.__name__)
        if known is not None and known.kind is not kind:
            raise TypeError(f"two classes of {self.estimator} are called {kind.__name__}")
        if known is None:
            codec = self.codecs[kind.__name__] = CODECS.get(kind) or _record_codec(kind)
            for one in codec.hints.values():
                self._collect(one)


def _record_codec(record: type[Any]) -> Codec:
    """Return the codec of a dataclass. Cached properties are not kept: fields determine them."""
    hints = get_type_hints(record, include_extras=True)
    return Codec(record, {field.name: hints[field.name] for field in fields(record)}, record)
