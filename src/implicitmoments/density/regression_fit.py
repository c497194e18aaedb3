"""Density estimation for mixtures of regressions, from rows to hypothesis (Theorem 4.22)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from implicitmoments.arrays import Array, Floats, namespace_of, to_numpy
from implicitmoments.density.clipped_density import (
    BLOCK_ROWS,
    ClippedDensity,
    choose_clip,
    evaluate_rows,
    probe_gaussian,
)
from implicitmoments.density.degree import (
    NOT_COMPARED,
    Compared,
    Scorer,
    clipped_on,
    held_out_scores,
    least_degree,
)
from implicitmoments.density.label_law import LabelLaw
from implicitmoments.density.options import ExpansionOptions
from implicitmoments.density.regression_contraction import expand_contracted, expand_paper
from implicitmoments.density.regression_expansion import LabelExpansion, expand_labels
from implicitmoments.density.regression_frame import (
    RegressionFrame,
    find_frame,
    frame_rows,
    intercepts_differ,
    squared_norm,
)
from implicitmoments.density.regression_regime import describe_fit
from implicitmoments.moments.spectra import account_of_span
from implicitmoments.rows import Source, blocks
from implicitmoments.rows.outliers import join_labels, near_rows

__all__ = ["RegressionDensity", "RegressionOptions", "fit_regression_density", "tail_bound"]

REACH = 2.0  # rows beyond so many times the usual reach of a Gaussian are outliers
MOST_ORDERS = 200  # degrees that are looked at for epsilon


@dataclass(frozen=True, kw_only=True)
class RegressionOptions(ExpansionOptions):
    """How a density of regressions is fitted.

    Attributes
    ----------
    noise : float or None
        Standard deviation of the noise; None to estimate it.
    fit_intercept, whiten : bool
    label_scale : float
    """

    noise: float | None
    fit_intercept: bool
    whiten: bool
    label_scale: float


@dataclass(frozen=True, eq=False)
class RegressionDensity:
    """The hypothesis, its marginal and its conditional law.

    Attributes
    ----------
    density : ClippedDensity
        Of rows (x, y), labels last.
    expansion : LabelExpansion
    """

    density: ClippedDensity[RegressionFrame]
    expansion: LabelExpansion

    @property
    def frame(self) -> RegressionFrame:
        """The coordinates, and G."""
        return self.density.span

    @property
    def law(self) -> LabelLaw:
        """The law of z at a point."""
        return LabelLaw(self.expansion, self.density.floor, self.density.clip)

    def log_density(self, X: Array, y: Array) -> Array:
        """Return the logarithm of the density at rows (n, d) with labels (n,)."""
        return self.density.log_density(join_labels({"x": X, "y": y}))

    def log_marginal(self, X: Array) -> Array:
        """Return the logarithm of the density of x alone at rows (n, d)."""
        xp, found = namespace_of(X), []
        for rows in blocks(range(int(X.shape[0])), BLOCK_ROWS):
            part = X[rows.start : rows.stop, :]
            x, _ = self.frame.standard(part, xp.zeros_like(part[:, 0]))
            mass = self.law.mass(self.frame.on_span(x)) / self.density.mass
            with np.errstate(divide="ignore"):
                found.append(xp.log(mass) + self.frame.log_density_of_points(x))
        return xp.concat(found)

    def sample_labels(self, X: Array, n_samples: int, *, seed: int, first: int = 0) -> Floats:
        """Draw labels at rows (n, d), of which the first has a number: (n, n_samples).

        In main memory, where random numbers are made.
        """
        rows = np.asarray(to_numpy(X), dtype=np.float64)
        x, _ = self.frame.standard(rows, np.zeros(len(rows)))
        z = self.law.sample(self.frame.on_span(x), n_samples, seed=seed, first=first)
        labels: Floats = self.frame.labels(x, 0.0)[:, None] + self.frame.scale * z
        return labels


def tail_bound(squared: float, noise: float, degree: int) -> float:
    r"""Bound the total variation distance that the orders above a degree make.

    For a component of covariance I + A, as in the proof of Theorem 4.22, with eigenvalues
    :math:`\gamma` of A on the plane of :math:`\beta` and the label, :math:`\sum_j \|T_{2j}\|^2 u^j
    = \prod_\gamma (1 - \gamma^2 u)^{-1/2}`. In L2(G) the tail is the root of what is left of it at
    u = 1, and the total variation distance is at most half of that. Infinite where some
    :math:`|\gamma| \ge 1`: the expansion does not converge.

    Parameters
    ----------
    squared : float
        The squared length of :math:`\beta`.
    noise : float
        The variance of the noise.
    degree : int
    """
    half = (squared + noise - 1) / 2
    root = math.sqrt(half**2 + max(squared, 0.0))
    gammas = np.array([half + root, half - root]) ** 2
    if np.max(gammas) >= 1:
        return math.inf
    j = np.arange(1, degree // 2 + 1)
    # (1 − γ² u)^(−1/2), by powers of u
    first, second = (np.cumprod(np.append(1.0, (2 * j - 1) / (2 * j) * g)) for g in gammas)
    kept = float(np.sum(np.convolve(first, second)[: degree // 2 + 1]))
    total = 1.0 / math.sqrt(float(np.prod(1 - gammas)))
    return math.sqrt(max(total - kept, 0.0)) / 2


def fit_regression_density(
    source: Source, how: RegressionOptions
) -> tuple[RegressionDensity, dict[str, Any]]:
    """Return the hypothesis, and what was measured on the way."""
    near = near_rows(source, reach=REACH, labelled=True)
    _check_enough(near.n_rows + near.n_far, source.n_features, how.k)
    rows = near.rows
    frame, spectrum = _frame(rows, how)
    share, squared = _noise(rows, frame, how)
    bound = partial(tail_bound, squared, share)
    degree, compared = _choose_degree(rows, bound, how)
    enough = least_degree(bound, how.epsilon, MOST_ORDERS)
    # the bound takes intercepts for noise, and does not hold where they differ
    apart = how.fit_intercept and how.k > 1
    apart = apart and intercepts_differ(frame_rows(rows, frame), share + squared)
    expansion = _expand(rows, frame, degree, share, how)
    ratios = evaluate_rows(expansion, frame, rows, how.seed)
    loss = how.clip_loss
    clip = choose_clip(ratios, loss) if how.clip is None else how.clip
    clip = max(clip, how.floor)
    probe = probe_gaussian(expansion, np.ones(frame.p), seed=how.seed)
    mass, error = probe.mass(how.floor, clip)
    stats: dict[str, Any] = {
        "method": how.method,
        "degree": expansion.degree,
        "noise": frame.scale * math.sqrt(share),
        "noise_share": _share(frame, share, how),
        "squared_norm": squared,
        "normalizer_error": error,
        "negative_rows": ratios.negative,
        "distance": probe.distance(ratios, how.floor, clip),
        "n_coefficients": getattr(expansion, "n_coefficients", None),
        "rows_used": near.n_rows,
        "rows_counted": near.n_rows * ratios.evenness,
        "outliers": near.n_far,
        "scores": compared.scores,
        "still_rising": compared.rising,
        "last_rise": compared.rise,
        "intercepts_differ": apart,
    }
    if not apart:
        stats["truncation_error"] = bound(expansion.degree)
        stats["degree_for_epsilon"] = enough if bound(enough) <= how.epsilon / 2 else None
    if spectrum is not None:
        floor = _floor(spectrum, stats["rows_counted"])
        stats |= account_of_span(spectrum, len(frame.basis), floor)
    stats["notes"] = describe_fit(stats, how)
    density = ClippedDensity(frame, expansion, how.floor, clip, mass)
    return RegressionDensity(density, expansion), stats


def _check_enough(n: int, d: int, k: int) -> None:
    if n < max(d + 2, k):
        raise ValueError(
            f"n_samples={n} rows with a weight, n_features={d} and n_components={k}: "
            f"expected at least {max(d + 2, k)} rows, for a line and a spread about it; use "
            "more rows, or fewer columns or components"
        )


def _floor(spectrum: Floats, n: float) -> float:
    r"""Return the noise of :math:`M_2 = E[(z^2 - 1)/2\,(x x^\top - I)]`.

    The edge of the semicircle law for Gaussian z, whose weights have a mean square of 1/2, or the
    most negative eigenvalue, since the moment itself has none.
    """
    return max(2 * math.sqrt(len(spectrum) / (2 * n)), -float(spectrum[-1]))


def _share(frame: RegressionFrame, share: float, how: RegressionOptions) -> float:
    """Return the variance of the noise over that of the labels about their line."""
    scale = how.label_scale if how.k > 1 else 1.0
    if how.noise is None:
        return share * scale**2
    return (how.noise * scale / frame.scale) ** 2


def _frame(rows: Source, how: RegressionOptions) -> tuple[RegressionFrame, Floats | None]:
    return find_frame(
        rows,
        how.k,
        whiten=how.whiten,
        centred=not (how.whiten or how.fit_intercept),
        label_scale=how.label_scale if how.k > 1 else 1.0,
    )


def _noise(rows: Source, frame: RegressionFrame, how: RegressionOptions) -> tuple[float, float]:
    r"""Return the variance of the noise and the mean of :math:`\|\beta'\|^2`, in units of s²."""
    squared, square = squared_norm(frame_rows(rows, frame))
    if how.noise is None:
        share = min(max(square - squared, 0.0), square)
    else:
        share = min((how.noise / frame.scale) ** 2, square)
    return share, square - share


def _expand(
    source: Source, frame: RegressionFrame, degree: int, share: float, how: RegressionOptions
) -> LabelExpansion:
    rows = frame_rows(source, frame)
    if how.method == "closed_form":
        return expand_labels(rows, frame.basis, how.k, degree, odd=how.fit_intercept)
    if how.method == "contracted":
        return expand_contracted(rows, frame.basis, how.k, degree, excess=share - 1)
    options: dict[str, Any] = {"n_draws": how.n_draws, "seed": how.seed}
    return expand_paper(rows, frame.basis, how.k, degree, excess=share - 1, **options)


def _choose_degree(
    rows: Source, bound: Callable[[int], float], how: RegressionOptions
) -> tuple[int, Compared]:
    if isinstance(how.degree, int):
        return how.degree, NOT_COMPARED
    enough = least_degree(bound, how.epsilon, how.max_degree)
    if how.degree == "auto" or how.k == 1:
        return enough, NOT_COMPARED
    degrees = list(range(2, min(enough + 2, how.max_degree) + 1, 2))

    def fit(kept: Source) -> Scorer:
        frame, _ = _frame(kept, how)
        share, _ = _noise(kept, frame, how)
        loss = how.clip_loss

        def scorer(degree: int) -> ClippedDensity[RegressionFrame]:
            expansion = _expand(kept, frame, degree, share, how)
            spectrum = np.ones(frame.p)
            return clipped_on(expansion, frame, spectrum, kept, loss=loss, seed=how.seed)

        return scorer

    fewest = how.k + rows.n_features + 1
    compared = held_out_scores(fit, rows, degrees, fewest=fewest, highest=how.max_degree)
    return compared.best, compared
