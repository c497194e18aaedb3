"""What a density of regressions has to say about its assumptions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from implicitmoments.density.degree import describe_climb
from implicitmoments.rows import Source, Whitening
from implicitmoments.rows.normality import looks_standard, measure_gaussianity

__all__ = ["describe_design", "describe_fit"]

FAR_OFF = 0.05  # total variation from which the hypothesis is said to be wrong
# The bound is over components of one length; mixtures come to about a fifth of it.
LOOSE = 5.0
NEGATIVE = 0.01  # the part of the rows at which the expansion is negative
CHANCE = 2.0  # the distance of two distribution functions passes this / √n once in 1,500
SLACK = 5.0  # standard errors by which the noise may pass the spread of the labels
INSTEAD = "use RegressionMixture, which fits the lines themselves"


class RegressionRegime(Protocol):
    """What was asked for."""

    @property
    def noise(self) -> float | None:
        """As given."""

    @property
    def degree(self) -> int | str:
        """As given."""

    @property
    def epsilon(self) -> float:
        """As given."""

    @property
    def max_degree(self) -> int:
        """As given."""


def describe_design(
    source: Source, *, whiten: bool, names: Sequence[str] | None = None
) -> list[str]:
    """Return sentences about points that are not from the Gaussian they are taken to be from."""
    whitening = Whitening.of(source, reduce=True)
    said = []
    measured = measure_gaussianity(source, whitening)
    words = measured.words(names)
    if words is not None:
        said.append(
            f"the columns of X are clearly not Gaussian: {words}; the moments and the density "
            "are then biased; transform the columns (sklearn.preprocessing.QuantileTransformer "
            "with output_distribution='normal'), or " + INSTEAD
        )
    if not whiten and not looks_standard(whitening, measured.n):
        said.append(
            "whiten=False takes X to be from N(0, I), and its mean and covariance are clearly "
            "others; use whiten=True"
        )
    return said


def describe_fit(stats: dict[str, Any], how: RegressionRegime) -> list[str]:
    """Return sentences about what was measured in a fit."""
    said, noise, epsilon = [], how.noise, how.epsilon
    n = stats["rows_counted"]
    if stats["outliers"]:
        said.append(
            f"{stats['outliers']} row(s) lie so far from the others that they would own every "
            "high moment, and were left out; remove or check them"
        )
    if noise is not None and stats["noise_share"] > 1 + SLACK * math.sqrt(2 / n):
        said.append(
            f"noise={noise:.3g} is more than all the spread of y about one line, "
            f"{noise / math.sqrt(stats['noise_share']):.3g}; check its unit, or give noise=None"
        )
    coefficients = stats["n_coefficients"]
    if coefficients is not None and coefficients > n:
        said.append(
            f"{n:.0f} rows for {coefficients} coefficients of degree {stats['degree']}: the "
            "density fits noise; use more rows, fewer components or a lower degree"
        )
    share = min(stats["noise_share"], 1.0)
    if stats.get("truncation_error", 0.0) > LOOSE * FAR_OFF:
        # Erratum 6: N = poly(k, d) (1/ε)^O(1/σ²)
        wanted = stats["degree_for_epsilon"]
        words = f"degree {wanted}" if wanted is not None else "no degree below 200"
        said.append(
            f"the noise is {share:.2g} of the variance of y about one line: orders above the "
            f"degree {stats['degree']} matter (tail bound {stats['truncation_error']:.2g}), a "
            f"distance of {epsilon:g} takes {words}, and the "
            "rows it takes grow as (1/epsilon)^O(1/noise²); " + INSTEAD
        )
    if stats["intercepts_differ"] and how.degree == "auto":
        said.append(
            "the intercepts differ at the mean of x, and degree='auto' takes their spread for "
            "noise: its degree may be too low; use degree='cv'"
        )
    distance, negative = stats["distance"], stats["negative_rows"]
    clipped, apart = "", ", intercepts that differ included" if stats["intercepts_differ"] else ""
    if negative > NEGATIVE:
        clipped = f", and its expansion of degree {stats['degree']} is negative at {negative:.1%}"
        clipped += " of them"
    if clipped or distance > FAR_OFF + CHANCE / math.sqrt(n):
        said.append(
            f"the density is at least {distance:.2f} from the rows in total variation{clipped}: "
            f"the noise is too small ({share:.2g} of the variance of y about one line{apart}), "
            "some lines are much steeper than others (try label_scale=1.4), the rows too few for "
            "the degree, or this is no mixture of regressions on Gaussian X; use more rows and "
            "degree='cv', or RegressionMixture"
        )
    else:
        said += describe_climb(stats, how.max_degree)
    return said
