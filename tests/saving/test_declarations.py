"""The classes that a file may hold follow from the annotations of what an estimator declares."""

from dataclasses import dataclass
from typing import Any, NotRequired, Protocol

import numpy as np
import pytest

from implicitmoments.arrays import Array, Floats
from implicitmoments.registry import ESTIMATORS
from implicitmoments.saving import Declaration, declaration_of

ALWAYS = {"Activation", "Generator", "RandomState"}  # of parameters


class Shape(Protocol):
    def area(self) -> float: ...


@dataclass(frozen=True)
class Disc:
    radius: float

    def area(self) -> float:
        return np.pi * self.radius**2


@dataclass(frozen=True)
class Pair:
    first: Disc
    rest: tuple[tuple[int, Shape], ...]


def declare(saved, **variants):
    body = {"saved": saved, "variants": {globals()[name]: v for name, v in variants.items()}}
    return Declaration(type("Own", (), body))


def test_classes_are_found_in_fields_containers_and_unions():
    declared = declare({"a_": NotRequired[Pair | None]}, Shape=Disc)
    assert set(declared.codecs) == ALWAYS | {"Disc", "Pair"}
    assert set(declare({"a_": Floats}).codecs) == ALWAYS
    assert "a_" not in declared.required
    assert {"n_features_in_", "stats_", "notes_"} == declared.required


def test_values_are_held_against_annotations():
    declared = declare({"a_": Pair, "b_": float | Floats, "c_": dict[str, int]}, Shape=Disc)
    pair = Pair(Disc(1.0), ((3, Disc(2.0)),))
    assert declared.accepts("a_", pair)
    assert declared.matches(pair.rest, tuple[tuple[int, Shape], ...])
    assert not declared.matches(((3, pair),), tuple[tuple[int, Shape], ...])
    assert declared.matches(Disc(1.0), Shape)
    assert not declared.matches(pair, Shape)
    for value, expected in [(1, True), (np.float32(1), True), (True, False), ("1", False)]:
        assert declared.accepts("b_", value) == expected
    assert declared.accepts("b_", np.ones(2))
    assert not declared.accepts("b_", np.ones(2, dtype=bool))
    assert not declared.accepts("c_", {"a": 1.5})
    assert declared.accepts("undeclared_", object())
    assert declared.matches(np.ones(2), Array)
    assert declared.matches({"x": object()}, dict[str, Any])


def test_a_protocol_and_a_name_must_mean_one_thing():
    with pytest.raises(TypeError):
        declare({"a_": Pair})
    other = dataclass(frozen=True)(type("Disc", (), {"__annotations__": {"side": float}}))
    with pytest.raises(TypeError):
        declare({"a_": Disc, "b_": other})


@pytest.mark.parametrize("name", ESTIMATORS.values())
def test_every_estimator_has_a_declaration(name):
    declared = declaration_of(name)
    assert set(declared.codecs) >= ALWAYS
    assert set(declared.parameters) == set(declared.estimator().get_params())


def test_other_names_are_no_estimators():
    assert declaration_of("mixture") is None
    assert declaration_of("Popen") is None
