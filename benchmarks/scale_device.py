"""Passes and fits on a GPU, compared with its matrix products, NumPy and scikit-learn.

Run: python benchmarks/scale_device.py fit [--rows 10000000] [--peers]
     python benchmarks/scale_device.py em
     python benchmarks/scale_device.py estimators [--library torch|cupy]

``fit`` fits SphericalMixture to k = 60 components in d = 30
on the GPU, compared with NumPy on the host and scikit-learn's GaussianMixture on the GPU.
``estimators`` fits all estimators on the GPU and compares their results with NumPy.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from implicitmoments import (
    ActivationSumRegressor,
    AssumptionWarning,
    RegressionMixture,
    RegressionMixtureDensity,
    SphericalMixture,
    SphericalMixtureClusterer,
    SphericalMixtureDensity,
)
from implicitmoments import (
    GaussianMixture as Ours,
)
from implicitmoments.arrays import Array, namespace_of, to_numpy
from implicitmoments.datasets import (
    make_activation_sum,
    make_regression_mixture,
    make_spherical_mixture,
)
from implicitmoments.mixture.em import Stream
from implicitmoments.mixture.gaussians import Gaussians
from implicitmoments.rows import Rows

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Card:
    """The library, the device, and how to wait for it."""

    def __init__(self, library: str) -> None:
        if library == "torch":
            import torch  # noqa: PLC0415 (one of several, none of them needed elsewhere)

            self.name = f"torch {torch.__version__}, {torch.cuda.get_device_name()}"
            self.wait: Any = torch.cuda.synchronize
            self._move: Any = lambda x: torch.asarray(x, device="cuda")
            self._normal: Any = lambda n, d, dtype: torch.randn(
                n, d, device="cuda", dtype=getattr(torch, dtype)
            )
        else:
            import cupy  # noqa: PLC0415

            properties = cupy.cuda.runtime.getDeviceProperties(0)
            self.name = f"CuPy {cupy.__version__}, {properties['name'].decode()}"
            self.wait = cupy.cuda.Device().synchronize
            self._move = cupy.asarray
            self._normal = lambda n, d, dtype: cupy.random.standard_normal((n, d), dtype=dtype)

    def move(self, x: Any) -> Any:
        """Move an array to the GPU."""
        return self._move(x)

    def normal(self, n: int, d: int, dtype: str) -> Any:
        """Draw normal numbers on the GPU."""
        return self._normal(n, d, dtype)

    def seconds(self, run: Callable[[], Any], repeats: int = 5) -> float:
        """Return the median time of several runs, after a warm-up run."""
        taken = []
        for _ in range(repeats + 1):
            self.wait()
            clock = perf_counter()
            run()
            self.wait()
            taken.append(perf_counter() - clock)
        return statistics.median(taken[1:])


def mixture_on(card: Card, n: int, dtype: str) -> tuple[Array, Floats]:
    """Return rows on the GPU, and their means."""
    _, truth = make_spherical_mixture(1_000, 60, 30, radius=6.0, separation=5.0, random_state=100)
    means = card.move(truth.vectors)
    labels = card.move(np.random.default_rng(0).integers(60, size=n))
    X = card.normal(n, 30, "float64") + means[labels, :]
    return namespace_of(X).astype(X, getattr(namespace_of(X), dtype)), truth.vectors


def fits(arguments: argparse.Namespace) -> None:
    """Print the time and the results of complete fits."""
    card, n = Card(arguments.library), arguments.rows
    print(f"{card.name}; scikit-learn {sklearn.__version__}; {n:,} rows, k = 60, d = 30")
    print("| fit | seconds | means found | mean log-likelihood | EM passes |")
    print("|---" * 5 + "|")
    for dtype in ("float64", "float32"):
        X, means = mixture_on(card, n, dtype)
        ours = SphericalMixture(60, random_state=0)
        SphericalMixture(3, random_state=0).fit(X[:50_000, :])  # libraries are loaded
        print_fit(f"SphericalMixture, {dtype}, on the GPU", card, ours, X, means)
        if dtype == "float64" and arguments.peers:
            for n_init in (1, 3):
                peer = GaussianMixture(
                    60,
                    covariance_type="spherical",
                    init_params="random_from_data",
                    n_init=n_init,
                    max_iter=200,
                    tol=1e-5,
                    random_state=0,
                )
                name = f"GaussianMixture, {n_init} start{'s' * (n_init > 1)}, on the GPU"
                with sklearn.config_context(array_api_dispatch=True):
                    print_fit(name, card, peer, X, means)
            with threadpool_limits(2):
                here = to_numpy(X)
                print_fit("SphericalMixture, float64, two cores", card, ours, here, means)


def print_fit(name: str, card: Card, model: Any, X: Array, means: Floats) -> None:
    """Fit and print a row."""
    card.wait()
    clock = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    card.wait()
    seconds = perf_counter() - clock
    apart = np.linalg.norm(means[:, None] - to_numpy(model.means_)[None], axis=2).min(axis=1)
    print(
        f"| {name} | {seconds:.1f} | {np.sum(apart < 0.5)} of 60 | "
        f"{float(model.lower_bound_):.5f} | {model.n_iter_} |",
        flush=True,
    )


def em_passes(arguments: argparse.Namespace) -> None:
    """Print the time of one pass of EM beside its two products, and of six steps from means.

    1,000,000 rows in 128 features, 1,024 components. The products are those of plain features,
    without the constant.
    """
    card, n, k, d = Card(arguments.library), 1_000_000, 1_024, 128
    rng = np.random.default_rng(0)
    means = 4 * rng.normal(size=(k, d)) / np.sqrt(d)
    labels = rng.integers(k, size=n)
    print(f"{card.name}; {n:,} rows, k = {k:,}, d = {d}")
    print("| type | precision | products, ms | pass, ms | ratio | six steps from means, s |")
    print("|---" * 6 + "|")
    for dtype in ("float32", "float64"):
        X = card.move((means[labels] + rng.normal(size=(n, d))).astype(dtype))
        for kind in ("spherical", "diag"):
            family = Gaussians(kind).prepare(Rows.of(X))
            stream = replace(Stream.of(family, Rows.of(X)), single=dtype == "float32")
            columns = 1 if kind == "spherical" else d
            within = np.ones((k, columns)) / family.unit[:columns] ** 2
            start = {"means": (means - family.centre) / family.unit, "covariances": within}
            sums = family.sums_of(start, np.full(k, n / k))[None]
            features = card.normal(n, d if kind == "spherical" else 2 * d, dtype)
            eta = card.normal(int(features.shape[1]), k, dtype)
            plain = card.seconds(lambda A=features, B=eta: (A @ B).T @ A)  # type: ignore[misc]
            taken = card.seconds(lambda one=stream, at=sums: one.e_step(at))  # type: ignore[misc]
            model = Ours(k, covariance_type=kind, means_init=means, max_iter=6)
            card.wait()
            clock = perf_counter()
            model.fit(X)
            fit = perf_counter() - clock
            print(
                f"| {kind} | {dtype} | {1e3 * plain:.1f} | {1e3 * taken:.1f} | "
                f"{taken / plain:.2f} | {fit:.2f} |",
                flush=True,
            )


def estimators(arguments: argparse.Namespace) -> None:
    """Print the difference between results of fits on the GPU and with NumPy."""
    card = Card(arguments.library)
    X, _ = make_spherical_mixture(100_000, 4, 6, radius=3.0, separation=4.0, random_state=0)
    R, r, _ = make_regression_mixture(100_000, 4, 8, noise=1.0, random_state=0)
    A, a, _ = make_activation_sum(50_000, 3, 8, random_state=0)
    cases: list[tuple[Any, tuple[Floats, ...], str]] = [
        (SphericalMixture(4, random_state=0), (X,), "score_samples"),
        (SphericalMixtureDensity(4, degree=4, random_state=0), (0.4 * X,), "score_samples"),
        (SphericalMixtureClusterer(4, random_state=0), (X,), "predict"),
        (RegressionMixture(4, random_state=0), (R, r), "score_samples"),
        (RegressionMixtureDensity(4, degree=4, random_state=0), (R, r), "score_samples"),
        (ActivationSumRegressor("relu", 3, random_state=0), (A, a), "predict"),
    ]
    warnings.simplefilter("ignore", AssumptionWarning)  # the clusters are close together
    print(f"{card.name}; largest difference to NumPy's answer, over the largest answer")
    print("| estimator | method | float64 | float32 |")
    print("|---" * 4 + "|")
    for model, data, method in cases:
        asked = data[:1] if method == "predict" else data
        expected = np.asarray(getattr(clone(model).fit(*data), method)(*asked), dtype=float)
        found = []
        for dtype in (np.float64, np.float32):
            there = [card.move(column.astype(dtype)) for column in data]
            fitted = clone(model).fit(*there)
            given = to_numpy(getattr(fitted, method)(*there[: len(asked)])).astype(float)
            found.append(np.abs(given - expected).max() / max(np.abs(expected).max(), 1.0))
        print(
            f"| {type(model).__name__} | {method} | {found[0]:.0e} | {found[1]:.0e} |", flush=True
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=["fit", "em", "estimators"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--library", choices=["torch", "cupy"], default="torch")
    parser.add_argument("--peers", action="store_true", help="scikit-learn, and two cores")
    arguments = parser.parse_args()
    arguments.rows = arguments.rows or 10_000_000
    {"fit": fits, "em": em_passes, "estimators": estimators}[arguments.table](arguments)


if __name__ == "__main__":
    main()
