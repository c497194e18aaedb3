"""Density estimation with bounded means, from rows to hypothesis (Theorem 4.16)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from implicitmoments.density.clipped_density import (
    ClippedDensity,
    choose_clip,
    evaluate_rows,
    probe_gaussian,
)
from implicitmoments.density.degree import (
    NOT_COMPARED,
    Compared,
    cross_validated_scores,
    degree_for,
    describe_climb,
    truncation_error,
)
from implicitmoments.density.hermite_expansion import expand
from implicitmoments.density.options import ExpansionOptions
from implicitmoments.mixture.mean_span import SphericalSpan, find_span, flat_directions
from implicitmoments.moments.spectra import account_of_span, second_moment_floor
from implicitmoments.rows import Source
from implicitmoments.rows.outliers import check_enough, near_rows

__all__ = ["DensityOptions", "fit_density"]

FAR_OFF = 0.05  # total variation from which the hypothesis is said to be wrong
NEGATIVE = 0.01  # and the part of the rows at which the expansion is negative
CHANCE = 2.0  # the distance of two distribution functions passes this / √n once in 1,500


@dataclass(frozen=True, kw_only=True)
class DensityOptions(ExpansionOptions):
    """How a density is fitted.

    Attributes
    ----------
    variance : float or None
        None to estimate it.
    """

    variance: float | None


def fit_density(
    source: Source, how: DensityOptions
) -> tuple[ClippedDensity[SphericalSpan], dict[str, Any]]:
    """Return the hypothesis, and what was measured on the way.

    ``stats["notes"]`` holds sentences about what does not look like the assumptions.
    """
    found = near_rows(source)
    check_enough(found, how.k)
    rows = found.rows
    span = find_span(rows, how.k, how.variance, found.center)
    degree, compared = _choose_degree(rows, span, how)
    options: dict[str, Any] = {"method": how.method, "n_draws": how.n_draws, "seed": how.seed}
    expansion = expand(rows, span, how.k, degree, **options)
    ratios = evaluate_rows(expansion, span, rows, how.seed)
    loss = how.clip_loss
    clip = choose_clip(ratios, loss) if how.clip is None else how.clip
    clip = max(clip, how.floor)
    probe = probe_gaussian(expansion, span.spectrum[: span.p], seed=how.seed)
    mass, error = probe.mass(how.floor, clip)
    stats: dict[str, Any] = {
        "method": how.method,
        "degree": degree,
        "radius": math.sqrt(span.squared_radius),
        "truncation_error": truncation_error(span.squared_radius, degree),
        "normalizer_error": error,
        "negative_rows": ratios.negative,
        "distance": probe.distance(ratios, how.floor, clip),
        "rows_used": found.n_rows,
        "rows_counted": found.n_rows * ratios.evenness,
        "outliers": found.n_far,
        "scores": compared.scores,
        "still_rising": compared.rising,
        "last_rise": compared.rise,
    }
    floor = second_moment_floor(len(span.spectrum), stats["rows_used"])
    stats |= account_of_span(span.spectrum - 1, span.p, floor)
    stats["notes"] = _warnings(stats, span, how)
    return ClippedDensity(span, expansion, how.floor, clip, mass), stats


def _choose_degree(rows: Source, span: SphericalSpan, how: DensityOptions) -> tuple[int, Compared]:
    if isinstance(how.degree, int):
        return how.degree, NOT_COMPARED
    enough = degree_for(span.squared_radius, how.epsilon, how.max_degree)
    if how.degree == "auto" or span.p == 0:
        return enough, NOT_COMPARED
    degrees = list(range(2, min(enough + 2, how.max_degree) + 1, 2))
    loss, seed, highest = how.clip_loss, how.seed, how.max_degree
    compared = cross_validated_scores(
        rows, how.k, how.variance, degrees, loss=loss, seed=seed, highest=highest
    )
    return compared.best, compared


def _warnings(stats: dict[str, Any], span: SphericalSpan, how: DensityOptions) -> list[str]:
    said, n = [], stats["rows_counted"]
    if stats["outliers"]:
        said.append(
            f"{stats['outliers']} row(s) lie so far from the others that they would own every "
            "high moment, and were left out; remove or check them"
        )
    flat = flat_directions(span, round(n))
    if flat is not None:
        said.append(
            f"the rows have {flat:.2g} of the noise variance {span.variance:.3g} along some "
            "direction; remove constant or dependent columns, scale the columns alike, or give "
            "another variance"
        )
    distance, negative = stats["distance"], stats["negative_rows"]
    clipped = ""
    if negative > NEGATIVE:
        clipped = f", and its expansion of degree {stats['degree']} is negative at {negative:.1%}"
        clipped += " of them"
    if clipped or distance > FAR_OFF + CHANCE / math.sqrt(n):
        said.append(
            f"the density is at least {distance:.2f} from the rows in total variation{clipped}: "
            f"the means are too long (norm {stats['radius']:.1f} in units of the noise, √log k is "
            f"{math.sqrt(math.log(max(how.k, 2))):.1f}), the rows too few for the degree, or the "
            "mixture is not spherical; use more rows, degree='cv' and a larger max_degree, or "
            "SphericalMixture or SphericalMixtureClusterer"
        )
    else:
        said += describe_climb(stats, how.max_degree)
    return said
