"""Fixtures shared by all tests."""

import random
import sys
import warnings
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import array_api_strict
import numpy as np
import pytest
from hypothesis import settings

import implicitmoments as im

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")


def pytest_addoption(parser):
    parser.addoption("--order", type=int, metavar="SEED", help="run tests in this random order")


def pytest_report_header(config):
    seed = config.getoption("order")
    return None if seed is None else f"order: random, repeat it with --order {seed}"


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config, items):
    """Mark tests that take long; shuffle files, and the tests of each, where that is asked for."""
    mark_slow(items)
    shuffle(items, config.getoption("order"))


def mark_slow(items):
    """Mark the tests of ``slow.txt``: each takes more than about two seconds of a core."""
    slow = set((Path(__file__).parent / "slow.txt").read_text().splitlines())
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)


def shuffle(items, seed):
    """Shuffle files, and the tests of each: those that share a fixture stay together."""
    if seed is None:
        return
    order = random.Random(seed)
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    order.shuffle(files)
    for tests in files:
        order.shuffle(tests)
    items[:] = [test for tests in files for test in tests]


@pytest.fixture(scope="module")
def benchmark():
    """Return modules of the benchmarks by name."""
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    yield import_module
    sys.path.remove(folder)


@pytest.fixture(params=["numpy", "array_api_strict"])
def xp(request):
    return {"numpy": np, "array_api_strict": array_api_strict}[request.param]


@pytest.fixture
def rng():
    return np.random.default_rng(20_240_607)


class Fitted(NamedTuple):
    model: object
    X: np.ndarray
    y: np.ndarray | None


@pytest.fixture(scope="session")
def fitted():
    """One small fitted model of every estimator, by name, with its rows."""
    made = im.datasets
    X, _ = made.make_spherical_mixture(1500, 4, 4, radius=6.0, separation=6.0, random_state=0)
    close, _ = made.make_spherical_mixture(1500, 3, 4, radius=1.2, random_state=0)
    A, a, _ = made.make_regression_mixture(1500, 3, 4, noise=0.2, random_state=0)
    B, b, _ = made.make_regression_mixture(1500, 3, 3, noise=1.0, random_state=0)
    C, c, _ = made.make_activation_sum(1500, 3, 5, random_state=0)
    density = im.RegressionMixtureDensity(3, max_degree=4, random_state=0)
    models = [
        Fitted(im.SphericalMixture(4, order=4, random_state=0), X, None),
        Fitted(im.GaussianMixture(4, random_state=0), X, None),
        Fitted(im.SphericalMixtureClusterer(4, variance=1.0, random_state=0), X, None),
        Fitted(im.SphericalMixtureDensity(3, max_degree=4, random_state=0), close, None),
        Fitted(im.TableMixture(4, random_state=0), X, None),
        Fitted(im.RegressionMixture(3, random_state=0), A, a),
        Fitted(density, B, b),
        Fitted(im.ActivationSumRegressor(n_components=3, random_state=0), C, c),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", im.AssumptionWarning)
        for model, rows, labels in models:
            model.fit(rows, labels)
    return {type(each.model).__name__: each for each in models}
