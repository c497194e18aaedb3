"""Coverage of intervals of 1.96 standard errors: how often they hold the true parameter.

Regressions: lines far apart, overlapping lines, few rows, a light line, many columns, noise of
t with 3 degrees of freedom, and noise of unequal size that is fitted as if it was shared. The
sandwich is about the parameters that the fit has in the limit of many rows; where lines overlap
and the noise is of another law than the model's, these differ from the true ones, so coverage
of both is shown. A fit that is nowhere near the truth (with heavy tails, a line of its own for
outliers may be the most likely one) or has no standard errors is left out and counted.

Gaussian mixtures: all six types of covariance, and rows of t with 6 degrees of freedom.

The negative control are intervals of half the length, which cover 67 % if errors are right.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import implicitmoments as im
from implicitmoments.testing import match_rows
from silence.rates import Run, print_table

NORMAL = 1.959964  # half the length of a 95 % interval, in standard errors
HALF = NORMAL / 2  # the control: covers 67 %
LIMIT_ROWS = 200_000  # where estimates are taken for their limit


@dataclass(frozen=True)
class Lines:
    """A law of rows (x, y) on lines."""

    name: str
    n: int = 1_000
    weights: Sequence[float] = (0.5, 0.5)
    d: int = 3
    apart: float = 1.4  # distance of coefficients
    noise: Sequence[float] = (0.3, 0.3)
    freedom: float = np.inf  # of the noise
    noise_type: str = "shared"
    law: str = "gaussian"  # that is fitted

    @property
    def truth(self) -> np.ndarray[Any, Any]:
        """Coefficients at equal distances, along no axis, (k, 1 + d)."""
        k = len(self.weights)
        basis = np.linalg.qr(np.random.default_rng(0).normal(size=(self.d, self.d)))[0]
        if k == 2:
            slopes = np.stack([basis[0], -basis[0]]) * self.apart / 2
        else:
            slopes = basis[:k] * self.apart / np.sqrt(2)
        return np.column_stack([np.zeros(k), slopes])

    def draw(self, seed: int, n: int) -> tuple[Any, Any]:
        """Return n rows."""
        rng, coef = np.random.default_rng((seed, 2)), self.truth
        labels = rng.choice(len(coef), size=n, p=self.weights)
        X, noise = rng.normal(size=(n, self.d)), rng.normal(size=n)
        if np.isfinite(self.freedom):
            noise /= np.sqrt(rng.chisquare(self.freedom, size=n) / self.freedom)
        line = coef[labels]
        mean = line[:, 0] + np.sum(line[:, 1:] * X, axis=1)
        return X, mean + np.asarray(self.noise)[labels] * noise

    def fit(self, seed: int, n: int, errors: str | None) -> Any:
        """Return the fitted model."""
        how: dict[str, Any] = {"noise_type": self.noise_type, "noise": self.law, "errors": errors}
        how["drop_outliers"] = False
        model = im.RegressionMixture(len(self.weights), **how, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(*self.draw(seed, n))

    def ratios(self, errors: str, limit: Any, seed: int) -> list[np.ndarray[Any, Any]]:
        """Return errors of coefficients over standard errors: of true ones, and of the limit."""
        model = self.fit(seed, self.n, errors)
        own = _coefficients(model)
        spread = np.column_stack([model.intercept_errors_, model.coef_errors_])
        i, away = match_rows(own, self.truth)
        if away.max() > self.apart / 2:
            spread = spread * np.nan
        return [(own[i] - goal) / spread[i] for goal in (self.truth, limit)]

    def limit(self) -> np.ndarray[Any, Any]:
        """Return what the coefficients are with many rows, (k, 1 + d)."""
        many = _coefficients(self.fit(0, LIMIT_ROWS, None))
        found: np.ndarray[Any, Any] = many[match_rows(many, self.truth)[0]]
        return found


def _coefficients(model: Any) -> np.ndarray[Any, Any]:
    return np.column_stack([model.intercept_, model.coef_])


LINES = (
    Lines("far apart", 600, apart=2.0),
    Lines("overlapping", apart=1.0, noise=(0.5, 0.5)),
    Lines("overlapping, few rows", 200, apart=1.0, noise=(0.4, 0.4)),
    Lines("12 columns, 400 rows", 400, d=12),
    Lines("weights 12:7:1", 800, weights=(0.6, 0.35, 0.05), noise=(0.2, 0.2, 0.2)),
    Lines("t3 noise", freedom=3.0),
    Lines("the same as student", freedom=3.0, law="student"),
    Lines("t3 noise, overlapping", apart=1.0, freedom=3.0),
    Lines("the same as student", apart=1.0, freedom=3.0, law="student"),
    Lines("noise .1 and .3 as shared", apart=2.0, noise=(0.1, 0.3)),
    Lines("noise .2 and .5 as shared, overlapping", apart=1.2, noise=(0.2, 0.5)),
    Lines("the same as separate", apart=1.2, noise=(0.2, 0.5), noise_type="separate"),
)


@dataclass(frozen=True)
class Components:
    """A law of rows about three means in two columns."""

    covariance_type: str
    n: int = 1_000
    freedom: float = np.inf
    about_limit: bool = False  # rather than about the truth
    law: str = "gaussian"  # that is fitted

    @property
    def name(self) -> str:
        """What it is called."""
        tail = f", rows of t{self.freedom:g}" if np.isfinite(self.freedom) else ""
        if self.law == "student":
            return self.covariance_type + tail + ", as student"
        return self.covariance_type + tail + (", about the limit" if self.about_limit else "")

    @property
    def truth(self) -> tuple[Any, Any, Any]:
        """Weights, means, and covariances as matrices."""
        rng, kind = np.random.default_rng(3), self.covariance_type
        means = np.array([[0.0, 0], [4, 0], [0, 4]]) + 0.3 * rng.normal(size=(3, 2))
        scales = rng.uniform(0.7, 1.2, size=(3, 1 if "spherical" in kind else 2))
        covariances = (scales * np.ones(2))[:, :, None] ** 2 * np.eye(2)
        if kind in ("full", "tied"):
            covariances[:, 0, 1] = covariances[:, 1, 0] = rng.uniform(-0.3, 0.3, size=3)
        if kind.startswith("tied"):
            covariances[:] = covariances[0]
        return np.array([0.5, 0.3, 0.2]), means, covariances

    def fit(self, seed: int, n: int, errors: str | None) -> Any:
        """Return the fitted model."""
        weights, means, covariances = self.truth
        rng = np.random.default_rng((seed, 4))
        labels, u = rng.choice(3, size=n, p=weights), rng.normal(size=(n, 2))
        if np.isfinite(self.freedom):  # of covariance I, or of scale I where it is fitted
            scale = self.freedom - (0 if self.law == "student" else 2)
            u *= np.sqrt(scale / rng.chisquare(self.freedom, size=(n, 1)))
        X = means[labels] + np.einsum("nab,nb->na", np.linalg.cholesky(covariances)[labels], u)
        how: dict[str, Any] = {"covariance_type": self.covariance_type, "errors": errors}
        how["noise"] = self.law
        model = im.GaussianMixture(3, **how, random_state=seed, drop_outliers=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(X)

    def limit(self) -> tuple[Any, Any, Any]:
        """Return weights, means, and covariances as the estimator has them."""
        if self.about_limit:
            return self.parts(self.fit(0, LIMIT_ROWS, None), "weights_", "means_", "covariances_")
        weights, means, covariances = self.truth
        kind = self.covariance_type
        if kind not in ("full", "tied"):
            covariances = np.diagonal(covariances, axis1=1, axis2=2)
        if "spherical" in kind:
            covariances = covariances[:, 0]
        return weights, means, covariances[0] if kind.startswith("tied") else covariances

    def parts(self, model: Any, *names: str) -> tuple[Any, Any, Any]:
        """Return weights, means and covariances, or what is like them, in the true order."""
        i, _ = match_rows(model.means_, self.truth[1])
        weights, means, shape = (np.asarray(getattr(model, name)) for name in names)
        return weights[i], means[i], shape if self.covariance_type.startswith("tied") else shape[i]

    def ratios(self, errors: str, limit: Any, seed: int) -> list[np.ndarray[Any, Any]]:
        """Return errors of weights, means and covariances over their standard errors, and all."""
        model = self.fit(seed, self.n, errors)
        own = self.parts(model, "weights_", "means_", "covariances_")
        spread = self.parts(model, "weight_errors_", "mean_errors_", "covariance_errors_")
        every = zip(own, limit, spread, strict=True)
        found = [np.ravel((one - goal) / error) for one, goal, error in every]
        return [*found, np.concatenate(found)]


COMPONENTS = (
    *map(Components, ("tied_spherical", "spherical", "tied_diag", "diag", "tied", "full")),
    Components("full", freedom=6.0),
    Components("full", freedom=6.0, about_limit=True),
    Components("full", freedom=6.0, law="student"),
)


def _covered(ratios: Sequence[np.ndarray[Any, Any]], half: float = NORMAL) -> str:
    """Return the share of intervals that hold the truth, in percent, with its standard error.

    Intervals of one data set depend on one another, so the error is that of means per set.
    """
    means = [100 * np.mean(np.abs(each) < half) for each in ratios if np.all(np.isfinite(each))]
    return f"{np.mean(means):.1f} ± {np.std(means) / np.sqrt(len(means)):.1f}"


def _rows(
    run: Run, laws: Sequence[Lines | Components], heads: Sequence[str]
) -> Iterator[list[object]]:
    pooled: dict[str, list[list[np.ndarray[Any, Any]]]] = {}
    limits = run.map(_limit, laws)
    asked = [
        (law, errors, run.map(partial(law.ratios, errors, limit), run.seeds))
        for law, limit in zip(laws, limits, strict=True)
        for errors in ("observed", "robust")
    ]
    for law, errors, fits in asked:
        found = list(fits)
        parts = [[each[j] for each in found] for j in range(len(heads))]
        pooled.setdefault(errors, []).extend(found)
        yield [law.name, law.n, errors, *map(_covered, parts), _left_out(found)]
    for errors, found in pooled.items():
        parts = [[each[j] for each in found] for j in range(len(heads))]
        halves = (_covered(part, HALF) for part in parts)
        yield ["all", "", errors, *map(_covered, parts), _left_out(found)]
        yield ["all", "", f"half of {errors}", *halves, ""]


def _limit(law: Lines | Components) -> Any:
    return law.limit()


def _table(run: Run, laws: Sequence[Lines | Components], heads: Sequence[str]) -> None:
    print_table(["law", "rows", "errors", *heads, "left out"], _rows(run, laws, heads))


def _left_out(found: Sequence[Sequence[np.ndarray[Any, Any]]]) -> str:
    n = sum(not all(np.all(np.isfinite(part)) for part in each) for each in found)
    return f"{n} of {len(found)}"


def coverage(run: Run) -> None:
    """Print the coverage of 95 % intervals, in percent, by law."""
    print("Coefficients of regressions\n")
    _table(run, LINES, ("true", "limit"))
    print()
    coverage_of_mixtures(run)


def coverage_of_mixtures(run: Run) -> None:
    """Print the coverage of intervals of mixtures alone."""
    print("Gaussian mixtures\n")
    _table(run, COMPONENTS, ("weights", "means", "covariances", "all"))
