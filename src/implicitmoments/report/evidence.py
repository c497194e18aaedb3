"""What was measured in a fit that speaks for it, and what speaks against it.

Every estimator rests on something else. A weak eigenvalue is told of a mixture whose EM began from
the moments, and not of lines, which the likelihood finds, nor of densities and clusters, whose
means may well lie in fewer dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from implicitmoments.activation import ActivationSumRegressor
from implicitmoments.arrays import to_numpy
from implicitmoments.clustering import SphericalMixtureClusterer
from implicitmoments.density import RegressionMixtureDensity, SphericalMixtureDensity
from implicitmoments.estimator import counted
from implicitmoments.mixture import SphericalMixture
from implicitmoments.regression import RegressionMixture
from implicitmoments.report.model_names import number_of

__all__ = ["Evidence", "evidence_of"]

NEAR = 1.5  # times the noise: less is not clear of it
CHANCE = 2.0  # a distance of distributions passes this / √n by chance once in 1,500
LOOKED_AT = 262_144  # rows at which a distance is measured, at most
UNSURE, DOUBTFUL, WIDE = 0.2, 0.05, 1.5  # of clusters: errors of the test, rows, variance
HIGH = 1.2  # times what noise makes, from which a peak is one of a line
EXACT = 1e-5  # of the scale of labels: less is no noise, but the least that a fit assumes
ROUND, IN_DOUBT = 1.3, 0.1  # of components: variance over the noise's, and part of the rows
BARELY = 2.0  # of BIC: a smaller difference tells nothing


@dataclass(frozen=True)
class Evidence:
    """Sentences for and against a fit."""

    pro: tuple[str, ...] = ()
    con: tuple[str, ...] = ()

    @classmethod
    def told(cls, facts: Iterable[tuple[bool, str]]) -> Evidence:
        """Sort sentences that come with whether they speak for the fit."""
        told = list(facts)
        return cls(tuple(s for good, s in told if good), tuple(s for good, s in told if not good))

    def joined(self, facts: Iterable[tuple[bool, str]]) -> Evidence:
        """Return the same with further sentences."""
        more = Evidence.told(facts)
        return Evidence(self.pro + more.pro, self.con + more.con)


@singledispatch
def evidence_of(model: Any) -> Evidence:  # noqa: ARG001 (of a model without numbers of its own)
    """Return what speaks for a fitted model, and against it beyond what its notes say."""
    return Evidence()


@evidence_of.register
def _of_mixture(model: SphericalMixture) -> Evidence:
    stats, k = model.stats_, number_of(model)
    facts = []
    if k > 1 and stats.get("start") == "moments":
        # of a number that BIC chose the moments told another
        if stats.get("spectra") and stats.get("ranks") == [k]:
            facts += _standing(stats, k)
        words = "EM started from what the moments told, and a start from scattered rows was no "
        facts.append((True, words + "better."))
    widths = [width for width in stats.get("width_by_component", []) if math.isfinite(width)]
    if len(widths) == k and max(widths) <= ROUND and not _said(stats, "one variance"):
        words = "No component is wider along any direction than the noise of the model makes it."
        facts.append((True, words))
    if k > 1 and stats.get("doubt", 1.0) <= IN_DOUBT:
        words = (
            f"Of the rows, {_percent(stats['doubt'])} may be of another component than they are "
        )
        facts.append((True, words + "given to."))
    facts += _by_bic(stats.get("sample_bic", {}), k, "component", model.max_components)
    if stats.get("groups", 1) > 1:
        words = f"The rows fall into {stats['groups']} groups so far apart that each was fitted "
        facts.append((True, words + "on its own."))
    return Evidence.told(facts)


@evidence_of.register
def _of_lines(model: RegressionMixture) -> Evidence:
    stats, k = model.stats_, number_of(model)
    facts = []
    left, usual = stats.get("highest_peak_left"), stats.get("noise_maximum", math.inf)
    exact = float(np.max(to_numpy(model.noise_))) <= EXACT * model._standard.scale
    if left is not None and math.isfinite(left) and not exact:
        lines = "the line is" if k == 1 else f"the {k} lines are"
        if left <= usual:
            words = f"no peak is left that noise does not make ({left:.1f} standard errors)."
            facts.append((True, f"Once {lines} taken away, {words}"))
        elif left > HIGH * usual and not _said(stats, "a line may be missing"):
            words = f"a peak of {left:.1f} standard errors is left, more than noise makes "
            more = f"({usual:.1f}): a line may be missing, or the noise is not what is assumed."
            facts.append((False, f"Once {lines} taken away, {words}{more}"))
    if k > 1 and stats.get("n_peaks") == k:
        lines = "Both lines" if k == 2 else f"All {k} lines"
        facts.append((True, f"{lines} stood out from the noise before EM began."))
    facts += _by_bic(stats.get("bic_by_n_components", {}), k, "line", model.max_components)
    return Evidence.told(facts)


@evidence_of.register
def _of_clusters(model: SphericalMixtureClusterer) -> Evidence:
    stats, facts = model.stats_, []
    if number_of(model) == 1:
        return Evidence()
    if stats["within_variance"] > WIDE:  # what is in units of the noise means nothing then
        if not _said(stats, "variance of the noise"):
            words = f"A cluster has {stats['within_variance']:.1f} times the variance of the noise"
            facts.append((False, words + ": it may hold more than one."))
        return Evidence.told(facts)
    facts.append((True, "No cluster is wider along any direction than its noise makes it."))
    small = _said(stats, "separation is too small")
    doubt, good = stats["doubt"], stats["doubt"] <= DOUBTFUL
    if good or not small:
        where = f"The nearest means lie {stats['separation']:.1f} noise deviations apart: "
        facts.append((good, f"{where}{_percent(doubt)} of the rows may be in the wrong cluster."))
    if "split_rate" in stats:
        split, merge = stats["split_rate"], stats["merge_rate"]
        good = split + merge <= UNSURE
        words = f"The test of a pair errs on {_percent(split)} of pairs of one cluster and "
        if good or not small:
            facts.append((good, f"{words}{_percent(merge)} of pairs of two."))
    return Evidence.told(facts)


@evidence_of.register(SphericalMixtureDensity)
@evidence_of.register(RegressionMixtureDensity)
def _of_density(model: Any) -> Evidence:
    stats, facts = model.stats_, []
    if model.n_components == 1:  # a Gaussian, whatever the rows are
        return Evidence()
    n = min(stats.get("rows_counted", stats.get("rows_used", 1)), LOOKED_AT)
    distance, chance = stats["distance"], CHANCE / math.sqrt(max(n, 1))
    far = f"The density is at least {distance:.2g} from the rows in total variation"
    if distance <= chance:
        facts.append((True, f"{far}; chance alone makes up to {chance:.2g}."))
    elif distance <= model.epsilon:
        facts.append((True, f"{far}, less than epsilon={model.epsilon:g} asks for."))
    elif not _said(stats, "total variation"):
        words = f"; chance alone makes up to {chance:.2g}: it is not the density of these rows."
        facts.append((False, far + words))
    bound = stats.get("truncation_error", math.inf)
    if bound <= model.epsilon / 2:
        words = f"Degrees above {model.degree_} can add no more than {_percent(bound)} to it."
        facts.append((True, words))
    elif _ends_at(stats, model) and not _said(stats, "total variation"):
        words = f"Degree {model.degree_} is the best on held-out rows, and the highest that was "
        facts.append((False, words + "tried: a larger max_degree may be better."))
    return Evidence.told(facts)


@evidence_of.register
def _of_sum(model: ActivationSumRegressor) -> Evidence:
    stats = model.stats_
    polynomial, network = stats.get("polynomial_error"), stats.get("network_error")
    if polynomial is None or not math.isfinite(polynomial):
        return Evidence()
    if network is None:
        words = (
            f"The polynomial's squared error on new rows is expected to be {_size(polynomial)}."
        )
        return Evidence((words,))
    errors = f"expected squared error on new rows is {_size(network)}, the polynomial's "
    errors += _size(polynomial)
    if stats["hypothesis"] == "network":
        return Evidence((f"The network's {errors}.",))
    if _said(stats, "polynomial is expected"):
        return Evidence()
    return Evidence((), (f"The polynomial predicts, not the network, whose {errors}.",))


def _ends_at(stats: Mapping[str, Any], model: Any) -> bool:
    """Say whether the best degree is the highest that might have been tried."""
    tried = stats.get("scores") or {0: 0.0}
    return bool(model.degree_ == max(tried) == model.max_degree)


def _standing(stats: Mapping[str, Any], k: int) -> list[tuple[bool, str]]:
    """Tell the weakest of k directions, and the one after them, beside the noise."""
    values, floor = stats["spectra"][0], float(stats["noise_floor"][0])
    weakest, further = float(values[k - 1]), float(values[k]) if len(values) > k else 0.0
    if weakest <= NEAR * floor:
        if _said(stats, "at the noise floor"):
            return []
        times = f", {_times(weakest / floor)} times as large" if weakest > 0 else ""
        words = f"The moments alone do not tell the {k} components apart: the weakest is not "
        return [(False, f"{words}clear of the noise{times}.")]
    if further > NEAR * floor > 0:
        if _said(stats, "more than") or _said(stats, "one variance"):
            return []
        words = f"The moments show more than {k} components, or they are not spherical: "
        return [(False, f"{words}one more is {_times(further / floor)} times the noise.")]
    if stats.get("resolved", k) < k:
        return []
    times = f", {_times(weakest / floor)} times the noise" if floor > 0 else ""
    return [
        (True, f"The moments alone tell the {k} components apart: the weakest is clear{times}.")
    ]


def _by_bic(bics: Mapping[int, float], k: int, what: str, most: int) -> list[tuple[bool, str]]:
    """Tell how clearly the criterion chose k."""
    others = {number: bic - bics[k] for number, bic in bics.items() if k in bics and number != k}
    if not others:
        return []
    near = min(others, key=others.__getitem__)
    if k == max(bics) == most:
        words = f"The criterion (BIC) still falls at {counted(k, what)}, the most that is allowed"
        return [(False, words + ": a larger max_components may be better.")]
    if others[near] < BARELY:
        words = f"The criterion (BIC) hardly tells {k} from {counted(near, what)}."
        return [(False, words)]
    best = f"{counted(k, what)} {'is' if k == 1 else 'are'} best by BIC"
    words = f"{best} of the {min(bics)} to {max(bics)} compared; "
    return [(True, f"{words}the next, {near}, has {others[near]:,.3g} more.")]


def _said(stats: Mapping[str, Any], words: str) -> bool:
    """Say whether a note has it already."""
    return any(words in note for note in stats.get("notes", ()))


def _percent(part: float) -> str:
    return f"{part:.2g}" if part > 1 else "under 0.01%" if part < 1e-4 else f"{part:.2%}"


def _times(ratio: float) -> str:
    """Write two digits, and no powers of ten."""
    return f"{float(f'{ratio:.2g}'):,.{0 if ratio >= 10 else 1}f}"


def _size(value: float) -> str:
    """Write three digits, with powers of ten where they are shorter."""
    return f"{value:,.0f}" if 1e3 <= value < 1e7 else f"{value:.3g}"
