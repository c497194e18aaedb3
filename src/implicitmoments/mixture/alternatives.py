"""Mixtures with another number or shape of components that BIC prefers, and the notes on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from implicitmoments.arrays import softmax_rows
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, CovarianceType, Gaussians
from implicitmoments.mixture.view import View
from implicitmoments.notes import Note
from implicitmoments.rows import Rows
from implicitmoments.rows.draws import Integers
from implicitmoments.search import Ranking, bic, choose_k, merge_note, one_less, one_more

MOST_PRODUCTS = 2e9  # multiplications for the covariances of all components: about a second
LOADED = 0.5  # of the largest entry of a direction: columns with less are not named
Better = tuple[float, Note]  # by how much BIC is lower, and what to say


def other_number(
    family: GaussianFamily,
    state: Gaussians,
    ranking: Ranking[Gaussians],
    parts: Sequence[tuple[Rows, float]],
) -> Iterator[Better]:
    """Yield notes on two components that are one, and on those that are missing.

    Parameters
    ----------
    ranking : Ranking
        Of the moves from the state, on the first part.
    parts : sequence of (Rows, float)
        A sample, and all rows, and the mean log-likelihood of the fit. One component less has to
        be better on all of them; one more on the sample, and then it is on all rows.
    """
    less = one_less(family, state, ranking.merges, parts)
    if less is not None:
        yield less.gain, merge_note(less)
    more = one_more(family, state, ranking, *parts[0])
    if more is not None:
        values = {"which": list(more.components), "more": more.state.k, "gain": more.gain}
        yield more.gain, Note("component_missing", values)


def other_shape(
    view: View,
    sample: Rows,
    state: Gaussians,
    *,
    fewer: bool = False,
) -> Iterator[Better]:
    """Yield a note where BIC of another type of covariance is lower, for spherical components.

    Parameters
    ----------
    sample : Rows
        In the coordinates of the view, held in double precision.
    fewer : bool
        Whether the other type may have fewer components, as where their number was chosen.
    """
    family, found = view.family, dict[str, tuple[float, Gaussians]]()
    shares = softmax_rows(family.log_joint(sample, state))[0]
    level = family.e_step(sample, state).level
    own = bic(level * sample.total, family.n_parameters(state), sample.total)
    for name in COVARIANCE_TYPES[COVARIANCE_TYPES.index(family.kind.name) + 1 :]:
        kind = CovarianceType(name)
        if sample.n * state.k * kind.n_numbers(state.d) > MOST_PRODUCTS:
            continue
        # an M-step alone: EM would only raise the likelihood
        other = GaussianFamily(kind, family.least)
        start = other.from_shares(sample, shares)
        level = other.e_step(sample, start).level
        score = bic(level * sample.total, other.n_parameters(start), sample.total)
        if fewer and state.k > 1:
            rng = np.random.default_rng(0)
            chosen = choose_k(other, sample, start, state.k, 0, rng)
            if (least := min(chosen.scores.values())) < score:
                score, start = least, chosen.searched.state
        if score < own:
            found[name] = own - score, start
    if found:
        best = max(found, key=lambda name: found[name][0])
        if CovarianceType(best).shape == "full" and "full" in found:
            best = "full"  # which contains the tied ones
        gain, start = found[best]
        yield gain, _shape_note(best, gain, view.outside(start))


def _shape_note(kind: str, gain: float, mixture: Gaussians) -> Note:
    """Return the note on a better type of covariance; columns by their numbers."""
    shape, values = CovarianceType(kind).shape, {"gain": gain, "kind": kind}
    if shape == "full":
        return Note("components_not_round", values | _longest_direction(mixture))
    of_columns = shape == "diag"
    means = mixture.weights @ mixture.variances if of_columns else mixture.variances.mean(axis=1)
    deviations = np.sqrt(means)
    least, most = int(deviations.argmin()), int(deviations.argmax())
    values |= {"least": least, "least_spread": float(deviations[least])}
    values |= {"most": most, "most_spread": float(deviations[most])}
    code = "columns_differ_in_spread" if of_columns else "components_differ_in_variance"
    return Note(code, values)


def _longest_direction(mixture: Gaussians) -> dict[str, Any]:
    """Return the component that is most elongated, its ratio, and the direction by column."""
    spectra, vectors = np.linalg.eigh(mixture.covariances)
    across = np.maximum(spectra[:, :-1].mean(axis=1), np.finfo(float).tiny)
    ratios = np.sqrt(spectra[:, -1] / across)
    # a small component may have any shape by chance
    longest = int((mixture.weights * np.log(ratios)).argmax())
    direction = vectors[longest, :, -1]
    order = np.argsort(-np.abs(direction), kind="stable")
    named = order[np.abs(direction[order]) >= LOADED * np.abs(direction).max()]
    sign = math.copysign(1.0, direction[named[0]])
    return {
        "component": longest,
        "ratio": float(ratios[longest]),
        "columns": named.tolist(),
        "loadings": (sign * direction[named]).tolist(),
    }


def renumbered(note: Note, places: Integers) -> Note:
    """Return a note on components with other numbers."""
    values = dict(note.values)
    if "which" in values:
        values["which"] = sorted(int(places[c]) for c in values["which"])
    if note.code == "components_differ_in_variance":
        values |= {name: int(places[values[name]]) for name in ("least", "most")}
    if note.code == "components_not_round":
        values["component"] = int(places[values["component"]])
    return Note(note.code, values)


def with_names(note: Note, names: Sequence[str]) -> Note:
    """Return a note with the names of columns instead of their numbers."""
    values = dict(note.values)
    if note.code == "columns_differ_in_spread":
        values |= {name: names[values[name]] for name in ("least", "most")}
    if note.code == "components_not_round":
        columns = [names[j] for j in values["columns"]]
        terms = (
            f"{load:+.2f} {name}"
            for load, name in zip(values.pop("loadings"), columns, strict=True)
        )
        values |= {"columns": columns, "direction": " ".join(terms).removeprefix("+")}
    return Note(note.code, values)
