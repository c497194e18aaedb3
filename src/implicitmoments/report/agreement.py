"""Whether rows look like rows drawn from the model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import chi2, ks_2samp

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.density import RegressionMixtureDensity, SphericalMixtureDensity
from implicitmoments.estimator import sentences_of
from implicitmoments.mixture import SphericalMixture
from implicitmoments.plot.canvas import NoPictureError
from implicitmoments.plot.data_comparison import compared
from implicitmoments.plot.plotted_rows import Some, asked
from implicitmoments.regression import RegressionMixture

__all__ = ["agreement_of", "wald"]

CHANCE = 2.0  # the statistic of Kolmogorov and Smirnov passes this once in 1,500
RARE = 1 / 1_500
DRAWN = (SphericalMixture, SphericalMixtureDensity, RegressionMixture, RegressionMixtureDensity)
DRAWS = 4  # labels that are drawn for each row
ROWS_PER_FEATURE = 20
FEWEST = 50  # rows, below which chance makes all there is
LEAST_NOISE = 1e-5  # of the spread of the rows


def agreement_of(model: Any, some: Some) -> list[tuple[bool, str]]:
    """Compare rows with as many that are drawn from the model.

    Parameters
    ----------
    model : fitted estimator
    some : Some

    Returns
    -------
    list of tuple of bool and str
        Whether they agree up to chance, and a sentence. Empty for models from which nothing is
        drawn, for few rows, for rows without noise, and for rows that have weights, which
        pictures do not look at.
    """
    if not isinstance(model, DRAWN) or len(some.x) < FEWEST:
        return []
    if _weighted(model) or _exact(model, some):
        return []
    twin = asked(model)
    try:
        facts: list[tuple[bool, str] | None] = [_same_law(twin, some)]
    except NoPictureError:
        return [(False, "No rows can be drawn from the density: hardly any proposal is accepted.")]
    if isinstance(model, RegressionMixture):
        facts.append(_everywhere(twin, some))
    return [fact for fact in facts if fact is not None]


def _weighted(model: Any) -> bool:
    """Say whether rows counted differently, as far as the model knows."""
    stats = model.stats_
    if isinstance(model, RegressionMixture):
        return not math.isclose(model._standard.mass, stats["n_rows"])
    counted = stats.get("rows_counted", 1), stats.get("rows_used", 1)
    return "weight" in getattr(model, "columns_", {}) or not math.isclose(*counted)


def _exact(model: Any, some: Some) -> bool:
    """Say whether the noise is the least that a fit assumes, whatever that of the rows is."""
    if isinstance(model, RegressionMixture):
        return float(np.max(to_numpy(model.noise_))) <= LEAST_NOISE * float(some.y.std() or 1.0)
    variance = float(np.max(to_numpy(getattr(model, "variance_", np.inf))))
    return variance <= LEAST_NOISE * float(some.x.var(axis=0).sum())


def _same_law(model: Any, some: Some) -> tuple[bool, str]:
    """Compare what the picture of the fit shows."""
    rows, drawn = compared(model, some)
    gap = float(ks_2samp(rows, drawn, method="asymp").statistic)
    chance = CHANCE * math.sqrt(1 / len(rows) + 1 / len(drawn))
    lines = isinstance(model, RegressionMixture)
    what = "Residuals of the rows and of labels" if lines else "Log densities of rows and of rows"
    differ = f"{what} drawn from the model differ by {gap:.2g} (Kolmogorov and Smirnov)"
    if gap <= chance:
        return True, f"{differ}, no more than chance makes ({chance:.2g})."
    return False, f"{differ}, and chance makes {chance:.2g}: see how, under Fit against data."


def _everywhere(model: RegressionMixture, some: Some) -> tuple[bool, str] | None:
    """Ask whether labels are as likely as those of the model wherever the inputs are.

    Where one line stands for two, rows between which the two part are less likely than labels
    drawn there, and rows where they meet are likelier: the difference is no constant of x. None
    where a note says so.
    """
    drawn = [
        model.score_samples(some.given, model.sample(X=some.given, random_state=seed)[1])
        for seed in range(DRAWS)
    ]
    usual = np.mean([to_numpy(logs) for logs in drawn], axis=0)
    excess = np.asarray(
        to_numpy(model.score_samples(some.given, some.y)) - usual, dtype=np.float64
    )
    statistic, freedom = wald(excess, _features(some.x))
    by_chance = f"(χ² {statistic:.0f}, about {freedom} by chance)"
    if chi2.sf(statistic, freedom) >= RARE:
        words = "Labels are as likely as ones drawn from the model, wherever the inputs are"
        return True, f"{words} {by_chance}."
    if any("a line may be missing" in note for note in sentences_of(model)):
        return None
    words = f"How likely labels are, beside ones drawn from the model, depends on x {by_chance}"
    return False, f"{words}: a line may be missing, or the relation is not linear."


def wald(values: Floats, features: Floats) -> tuple[float, int]:
    r"""Test whether values have mean 0 whatever the features are.

    :math:`g^T S^+ g` with :math:`g = \sum_i u_i \phi_i` and
    :math:`S = \sum_i u_i^2 \phi_i \phi_i^T`, which is about :math:`\chi^2` if they do, whether or
    not the variance of u depends on the features (White 1980).

    Returns
    -------
    statistic : float
    degrees of freedom : int
    """
    moments = features * values[:, None]
    g, S = moments.sum(axis=0), moments.T @ moments
    return float(g @ np.linalg.pinv(S, hermitian=True) @ g), int(np.linalg.matrix_rank(S))


def _features(x: Floats) -> Floats:
    """Return 1, standardised columns and their products; fewer where rows are few."""
    n, d = x.shape
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    i, j = np.triu_indices(d)
    one = np.ones((n, 1))
    for kept in ([one, z, z[:, i] * z[:, j]], [one, z, z**2], [one, z]):
        if ROWS_PER_FEATURE * sum(part.shape[1] for part in kept) <= n:
            return np.hstack(kept)
    return one
