"""By what a checkpoint knows the parameters of its fit."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.moments import cosine
from implicitmoments.rows.fingerprint import describe_value
from support import refuses


def shift(u, by=0.0):
    return abs(u) + by


class Power:
    def __init__(self, exponent):
        self.exponent = exponent

    def __call__(self, u):
        return abs(u) ** self.exponent


def later(rng):
    rng.random()
    return rng


# each makes a value from a number: another number gives another value
KINDS = {
    "lambda": lambda c: lambda u: abs(u) + c,
    "partial": lambda c: partial(shift, by=c),
    "partial of a lambda": lambda c: partial(lambda u, by: abs(u) + by, by=c),
    "callable": Power,
    "far away": lambda c: lambda u: c * (u > 500.0),
    "activation": cosine,
    "function of an activation": lambda c: replace(cosine(1.0), function=lambda u: u + c),
    "array": lambda c: np.array([[1.0, c]]),
    "list": lambda c: [1.0, [c]],
    "mapping": lambda c: {"a": np.float64(c)},
    "generator": np.random.default_rng,
    "generator of arrays": lambda c: np.random.Generator(np.random.Philox(c)),
    "legacy generator": np.random.RandomState,
}


@pytest.mark.parametrize("kind", KINDS)
def test_equal_values_are_described_alike_and_others_are_not(kind):
    make, like = KINDS[kind], np.ones(1)
    one, same, other = (describe_value(make(c), like) for c in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_generator_that_was_drawn_from_is_another():
    described = [describe_value(np.random.default_rng(0), np.ones(1))]
    described.append(describe_value(later(np.random.default_rng(0)), np.ones(1)))
    assert described[0] != described[1]


def test_the_global_generator_is_known_by_its_state():
    before = np.random.get_state()  # noqa: NPY002
    try:
        described = []
        for seed in (1, 1, 2):
            np.random.seed(seed)  # noqa: NPY002
            described.append(describe_value(np.random, np.ones(1)))
    finally:
        np.random.set_state(before)  # noqa: NPY002
    assert described[0] == described[1] != described[2]


def test_functions_are_called_with_arrays_of_the_rows(xp):
    seen = []
    describe_value(lambda u: seen.append(u) or u, xp.ones(1))
    assert type(seen[0]) is type(xp.ones(1))


def test_a_function_that_fails_is_described():
    def fail(u):
        raise OSError

    assert describe_value(fail, np.ones(1)) != describe_value(len, np.ones(1))


class StoppedError(Exception):
    pass


def interrupt(what, done, total):
    raise StoppedError


@pytest.mark.parametrize("kind", ["lambda", "partial", "generator"])
def test_another_function_does_not_continue_a_checkpoint(kind, tmp_path):
    X, y, _ = im.datasets.make_activation_sum(300, 1, 2, random_state=0)
    name = "random_state" if kind == "generator" else "activation"

    def model(number):
        given = {"random_state": 0, name: KINDS[kind](number)}
        return im.ActivationSumRegressor(n_components=1, **given)

    with pytest.raises(StoppedError):
        model(1).fit(X, y, checkpoint=tmp_path / "j", progress=interrupt)
    with refuses("checkpoint_of_another_fit") as caught:
        model(2).fit(X, y, checkpoint=tmp_path / "j")
    assert list(caught.error.values["differences"]) == [name]
    with pytest.raises(StoppedError):  # the same continues
        model(1).fit(X, y, checkpoint=tmp_path / "j", progress=interrupt)
