"""Columns in other units and far from the origin: a fit says the same, or says why not.

Run: OMP_NUM_THREADS=1 python benchmarks/attack.py units [--cases 1000] [--seed 0]

Each case fits one estimator to random rows, and to the same rows with other units (powers of two
from 1e-8 to 1e8: one for each column, one for all where the law of the model depends on it) and
offsets of up to 1e8 deviations. Compared are log densities, predictions or labels of the rows. A
case is *the same* if they agree to 1e-6 in units of their deviation, labels in all rows; otherwise
it is *noted* if the notes of the two fits differ, if one says that a variance is at the bound that
the precision of the rows sets, or if an error has a code; and *silent* if nothing says so. An
offset rounds rows, by 1e-8 of a deviation at the most: the first fit has rows that are rounded so.
The law of a case is drawn too: constant columns, a sentinel value, and columns with ties are among
them.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections import Counter, defaultdict
from time import process_time
from typing import Any

import numpy as np

import implicitmoments as im
from implicitmoments.notes import CodedError

Floats = np.ndarray[Any, np.dtype[np.float64]]

TOLERANCE = 1e-6
TOL = 1e-13  # of iterations: by default they end where densities are right to about 1e-4
# This note says that the likelihood depends on the precision of the rows, which offsets take.
AT_PRECISION = "variance_at_floor"
LARGEST_UNIT = 26  # power of two: 6.7e7
LARGEST_OFFSET = 8.0  # power of ten, in deviations
TYPES = ("full", "tied", "diag", "tied_diag", "spherical", "tied_spherical")
SPHERICAL = ("SphericalMixture", "SphericalMixtureDensity", "SphericalMixtureClusterer")
LABELLED = ("RegressionMixture", "RegressionMixtureDensity", "ActivationSumRegressor")
ITERATED = ("GaussianMixture", "SphericalMixture", "RegressionMixture", "ActivationSumRegressor")
# Cases in turn: the slow ones, which compute with moments of many orders, are rarer.
FAST = (*(f"GaussianMixture {name}" for name in TYPES), "SphericalMixture", "RegressionMixture")
TURNS = (
    *(FAST * 3),
    "GaussianMixture student",
    "SphericalMixtureClusterer",
    "ActivationSumRegressor",
    "SphericalMixtureDensity",
    "SphericalMixtureClusterer",
    "RegressionMixtureDensity",
)
ODD = {"plain": 0.6, "constant": 0.15, "sentinel": 0.15, "ties": 0.1}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this attack."""
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(set(TURNS)), help="one estimator")


def attack(given: argparse.Namespace) -> int:
    """Print how many cases are the same, noted or silent by estimator; return the silent ones."""
    print(f"Python {platform.python_version()}, NumPy {np.__version__}; seed {given.seed}\n")
    found: dict[str, Counter[str]] = {}
    largest: dict[str, float] = defaultdict(float)
    turns, began = [given.only] if given.only else list(TURNS), process_time()
    for at in range(given.cases):
        name, rng = turns[at % len(turns)], np.random.default_rng([given.seed, at])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome, error, odd = compare(name, rng)
        found.setdefault(name, Counter())[outcome] += 1
        if outcome == "same":
            largest[name] = max(largest[name], error)
        else:
            print(f"<!-- case {at}: {name}, {odd}: {outcome}, {error:.1e} -->", flush=True)
    names = ("same", "noted", "silent")
    print("\n| estimator | cases | same to 1e-6 | noted | silent | largest same |")
    print("|---|---|---|---|---|---|")
    for name in sorted(found):
        counts = found[name]
        cells = [f"{value:,}" for value in (counts.total(), *(counts[word] for word in names))]
        print(f"| {name} | {' | '.join(cells)} | {largest[name]:.0e} |")
    silent = sum(counts["silent"] for counts in found.values())
    seconds = process_time() - began
    print(f"\n{given.cases:,} cases, {silent} silent; {seconds:.0f} seconds of processor time")
    return silent


def make_model(name: str) -> Any:
    """Return the estimator of a case."""
    word, _, kind = name.partition(" ")
    how: dict[str, Any] = {"n_components": 2, "random_state": 0}
    if word in ITERATED:
        how["tol"] = TOL
    if kind == "student":
        how["noise"] = kind
    elif kind:
        how["covariance_type"] = kind
    if "Density" in word:
        how["degree"] = 2
    if word == "ActivationSumRegressor":
        how |= {"activation": "relu", "whiten": True}
    return getattr(im, word)(**how)


def draw_rows(name: str, rng: np.random.Generator) -> tuple[Floats, Floats | None]:
    """Return rows, and labels if the estimator takes them."""
    n, d = int(rng.integers(80, 200)), int(rng.integers(2, 5))
    X, labels = rng.normal(size=(n, d)), rng.integers(2, size=n)
    if name in LABELLED:
        slopes = rng.normal(size=(2, d))
        if name == "ActivationSumRegressor":
            y = np.maximum(X @ slopes.T, 0).sum(axis=1)
        else:
            y = np.sum(X * slopes[labels], axis=1) + 3 * labels
        return X, y + 0.1 * rng.normal(size=n)
    if "student" in name:
        X /= np.sqrt(rng.chisquare(4, size=(n, 1)) / 4)
    apart = rng.normal(size=d)
    return X + labels[:, None] * apart * rng.uniform(5, 9) / np.linalg.norm(apart), None


def spoil(X: Floats, odd: str, rng: np.random.Generator) -> Floats:
    """Return rows with a constant column, a sentinel value, or a column with ties."""
    j = int(rng.integers(X.shape[1]))
    if odd == "constant":
        return np.insert(X, j, rng.normal(), axis=1)
    X = X.copy()
    if odd == "sentinel":
        X[rng.uniform(size=len(X)) < 0.1, j] = -999.0
    elif odd == "ties":
        X[:, j] = np.round(X[:, j], 1)
    return X


def compare(name: str, rng: np.random.Generator) -> tuple[str, float, str]:
    """Fit twice; return the outcome, the largest difference, and what is odd with the rows."""
    X, y = draw_rows(name, rng)
    odd = str(rng.choice(list(ODD), p=list(ODD.values())))
    X = spoil(X, odd, rng)
    d, word = X.shape[1], name.partition(" ")[0]
    one_unit = word in SPHERICAL or name.endswith("spherical")
    units = 2.0 ** rng.integers(-LARGEST_UNIT, LARGEST_UNIT + 1, size=1 if one_unit else d)
    units = np.broadcast_to(units, d)
    sizes = 10 ** rng.uniform(-2, LARGEST_OFFSET, size=d) * rng.choice([-1, 1], size=d)
    shift = units * np.maximum(X.std(axis=0), X.std() * (X.std(axis=0) == 0)) * sizes
    there = X * units + shift
    here = (there - shift) / units
    unit, center, labels, moved = 1.0, 0.0, None, None
    if y is not None:
        unit = float(2.0 ** rng.integers(-LARGEST_UNIT, LARGEST_UNIT + 1))
        if word != "ActivationSumRegressor":  # which has no intercept
            center = float(10 ** rng.uniform(-2, LARGEST_OFFSET) * y.std() * unit)
        moved = y * unit + center
        labels = (moved - center) / unit
    one, other = fit(name, here, labels), fit(name, there, moved)
    if isinstance(one, str) or isinstance(other, str):
        same = isinstance(one, str) and one == other
        return "same" if same else "noted", 0.0 if same else np.nan, odd
    of_rows = 0.0 if word == "RegressionMixture" else float(np.log(units).sum())
    if odd == "constant" and word not in LABELLED:  # which has no density
        of_rows -= float(np.log(units[np.flatnonzero(np.ptp(here, axis=0) == 0)]).sum())
    error = difference(
        answers(one, here, labels, 1.0, 0.0, 0.0),
        answers(other, there, moved, unit, center, of_rows),
    )
    if error <= TOLERANCE:
        return "same", error, odd
    codes = sorted(other.notes_.codes)
    told = AT_PRECISION in codes or codes != sorted(one.notes_.codes)
    return "noted" if told else "silent", error, odd


def fit(name: str, X: Floats, y: Floats | None) -> Any:
    """Return a fitted model, or the code of its error."""
    try:
        return make_model(name).fit(X, y)
    except CodedError as error:
        return error.code


def answers(
    model: Any, X: Floats, y: Floats | None, unit: float, center: float, log_unit: float
) -> list[tuple[str, Floats]]:
    """Return what a model says of rows, densities and predictions in the first units."""
    found = []
    if hasattr(model, "score_samples"):
        logs = model.score_samples(X) if y is None else model.score_samples(X, y)
        found.append(("densities", logs + log_unit + np.log(unit)))
    if isinstance(model, im.RegressionMixture | im.ActivationSumRegressor):
        found.append(("predictions", (model.predict(X) - center) / unit))
    elif hasattr(model, "predict"):
        found.append(("labels", model.predict(X)))
    return found


def difference(one: list[tuple[str, Floats]], other: list[tuple[str, Floats]]) -> float:
    """Return the largest difference of answers; infinite where a label differs."""
    largest = 0.0
    for (what, a), (_, b) in zip(one, other, strict=True):
        if what == "labels":
            largest = max(largest, 0.0 if np.array_equal(a, b) else np.inf)
        else:
            finite = np.isfinite(a) & np.isfinite(b)
            if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
                return np.inf
            spread = max(float(np.std(a[finite])), 1.0) if what == "densities" else a.std()
            largest = max(largest, float(np.max(np.abs(a - b)[finite], initial=0.0)) / spread)
    return largest
