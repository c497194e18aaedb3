"""The verdict on a fit, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from implicitmoments.learners.summary import findings_of

__all__ = ["Verdict", "verdict_of"]

NEAR = 1.5  # times the noise: less is not clear of it

KINDS = {
    "SphericalMixture": "a mixture of {k} spherical Gaussians",
    "SphericalMixtureClusterer": "{k} spherical clusters",
    "SphericalMixtureDensity": "the density of a spherical mixture, of degree {degree}",
    "RegressionMixture": "a mixture of {k} linear regressions",
    "RegressionMixtureDensity": "the density of a mixture of regressions, of degree {degree}",
    "ActivationSumRegressor": "a positive sum of {k} activations",
}


@dataclass(frozen=True)
class Verdict:
    """What to think of a fit.

    Attributes
    ----------
    found : str
        What the model is, as a sentence.
    good : bool
        Whether there is nothing to look at.
    judgement : str
        In a sentence.
    facts : tuple of str
        What speaks for the fit, or against it.
    words : tuple of str
        What the fit said itself.
    """

    found: str
    good: bool
    judgement: str
    facts: tuple[str, ...]
    words: tuple[str, ...]


def verdict_of(model: Any, n_rows: int) -> Verdict:
    """Judge a fitted model by what it measured and said."""
    kind = KINDS.get(type(model).__name__, type(model).__name__)
    k = findings_of(model).get("components", getattr(model, "n_components", ""))
    what = kind.format(k=k, degree=getattr(model, "degree_", ""))
    d = model.n_features_in_
    columns = f"{d:,} column{'s' if d != 1 else ''}"
    found = f"The fit found {what} in {n_rows:,} rows of {columns}."
    words = tuple(model.stats_["notes"])
    if words:
        things = "one thing" if len(words) == 1 else f"{len(words)} things"
        judgement = f"There {'is' if len(words) == 1 else 'are'} {things} to look at:"
    else:
        judgement = "Nothing that was measured speaks against it."
    return Verdict(found, not words, judgement, _facts(model), words)


def _facts(model: Any) -> tuple[str, ...]:
    stats, said = model.stats_, []
    if stats.get("spectra") and "ranks" in stats:
        said.append(_standing(stats["spectra"][-1], stats["noise_floor"][-1], stats["ranks"][-1]))
    if stats.get("start") == "moments":
        said.append("EM started from what the moments told, and no start was better.")
    if stats.get("highest_peak_left") is not None:
        left, usual = stats["highest_peak_left"], stats["noise_maximum"]
        more = "no more than noise makes" if left <= usual else "more than noise makes"
        said.append(f"What the lines leave peaks at {left:.1f} standard errors, {more}.")
    if "doubt" in stats:
        said.append(f"About {stats['doubt']:.1%} of the rows may be in the wrong cluster.")
    if "distance" in stats:
        said.append(
            f"The density is at least {stats['distance']:.2g} from the rows in total variation; "
            f"chance alone makes about {1 / max(stats.get('rows_used', 1), 1) ** 0.5:.2g}."
        )
    if "hypothesis" in stats:
        said.append(f"Predictions are those of the {stats['hypothesis']}.")
    return tuple(fact for fact in said if fact)


def _standing(values: Any, floor: float, rank: int) -> str:
    if not 0 < rank <= len(values) or not floor > 0:
        return ""
    ratio = float(values[rank - 1]) / floor
    if ratio < NEAR:
        return (
            f"The weakest of {rank} directions that were kept is {ratio:.2g} times the noise: "
            "it is not clear of it."
        )
    return f"The weakest of {rank} directions that were kept is {ratio:.2g} times the noise."
