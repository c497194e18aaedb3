"""Mixtures with another number or shape of components that BIC prefers, and the notes on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from implicitmoments.arrays import softmax_rows, to_numpy
from implicitmoments.mixture.family import GaussianFamily
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, CovarianceType, Gaussians
from implicitmoments.mixture.initialisation import merged_state, sum_groups
from implicitmoments.mixture.shape_gains import Assigned, within_reach, worth_comparing
from implicitmoments.mixture.starts import Options, with_poorer
from implicitmoments.mixture.view import View
from implicitmoments.notes import Note
from implicitmoments.rows import Rows
from implicitmoments.rows.draws import Integers
from implicitmoments.search import (
    LOCAL,
    Ranking,
    add_components,
    bic,
    merge_note,
    one_less,
    rank_moves,
    run_em,
)
from implicitmoments.search.alternatives import QUICK
from implicitmoments.search.tails import compare_laws, suspicious, tails_note

MOST_PRODUCTS = 2e9  # multiplications for the covariances of all components: about a second
ROWS_PER_PARAMETER = 4  # with which laws are compared: gains by chance are half a nat for each
# Of a sample of which one is looked at first. As many times q/2 nats are just below the penalty of
# q parameters in BIC from 5,000 rows on.
PARTS = 4
LOADED = 0.5  # of the largest entry of a direction: columns with less are not named
Better = tuple[float, Note]  # by how much BIC is lower, and what to say


def find_better(
    view: View,
    state: Gaussians,
    parts: list[tuple[Rows, float]],
    ranking: Ranking[Gaussians] | None,
    given: Rows,
    options: Options,
    rng: np.random.Generator,
    shaped: tuple[View, Gaussians, Rows] | None = None,
) -> Note | None:
    """Return a note on the number or the shape of components that has the least BIC, if another.

    Parameters
    ----------
    parts, ranking
        As in :func:`other_number`; without a ranking, moves are ranked.
    given : Rows
        A sample in the user's units.
    shaped : tuple of View, Gaussians and Rows, optional
        The fit in all columns and the sample, where the number was searched in a span.
    """
    found, (whole, shape, sample) = list[Better](), shaped or (view, state, parts[0][0])
    if len(options.types) == 1:
        some = given.sample(given.n, width=shape.k)  # whose responsibilities fit into memory
        found += other_shape(whole, some, shape, fewer=options.k is None)
    if options.k is not None or state.k >= options.most:
        if ranking is None:
            ranking = rank_moves(view.family, parts[0][0], state, rng)
        found += other_number(view.family, state, ranking, parts, rng, _most_gained(found))
    chosen = options.k is None  # otherwise tails are left within components
    known, rival = ranking if chosen else None, _most_gained(found)
    found += other_law(whole.family, shape, known, sample, fewer=chosen, rival=rival)
    if not found:
        return None
    _, best = max(found, key=lambda each: each[0])
    shapes = [each for each in found if "kind" in each[1].values]
    if shapes and best.code == "component_missing" and len(best.values["which"]) == state.k > 1:
        # all of several components look like two: it is their shape, and spheres cover ellipsoids
        _, best = max(shapes, key=lambda each: each[0])
    return best


def _most_gained(found: Iterable[tuple[float, object]]) -> float:
    return max((gain for gain, _ in found), default=0.0)


def bounded_note(note: Note | None, options: Options) -> Note | None:
    """Return a note on a missing component where the number was chosen: it was the largest."""
    if options.k is None and note is not None and note.code == "component_missing":
        return Note("stopped_at_max_components", {"most": options.most})
    return note


def other_number(
    family: GaussianFamily,
    state: Gaussians,
    ranking: Ranking[Gaussians],
    parts: Sequence[tuple[Rows, float]],
    rng: np.random.Generator,
    rival: float = 0.0,
) -> Iterator[Better]:
    """Yield notes on two components that are one, and on those that are missing.

    Parameters
    ----------
    ranking : Ranking
        Of the moves from the state, on the first part.
    parts : sequence of (Rows, float)
        A sample, and all rows, and the mean log-likelihood of the fit. One component less has to
        be better on all of them; one more on the sample, and then it is on all rows.
    rival : float
        By how much BIC is lower in another way: where several components are missing, more are
        added until it is surpassed.
    """
    less = one_less(family, state, ranking.merges, parts)
    if less is not None:
        yield less.gain, merge_note(less)
    more = add_components(family, state, ranking, *parts[0], rng, rival)
    if more is not None:
        values = {"which": list(more.components), "more": more.state.k, "gain": more.gain}
        yield more.gain, Note("component_missing", values)


def other_law(
    family: GaussianFamily,
    state: Gaussians,
    ranking: Ranking[Gaussians] | None,
    sample: Rows,
    *,
    fewer: bool,
    rival: float = 0.0,
) -> Iterator[Better]:
    """Yield a note where BIC of multivariate t distributions, perhaps of fewer, is lower.

    Parameters
    ----------
    ranking : Ranking or None
        Of the moves from the state, if known.
    sample : Rows
        Held, in the coordinates of the view.
    fewer : bool
        Whether the other law may have fewer components, as where their number was chosen.
    rival : float
        By how much BIC is lower in another way, which this one has to surpass.
    """
    if family.student or family.known is not None:
        return
    n = max(LOCAL.rows, ROWS_PER_PARAMETER * family.n_parameters(state))
    some = sample.sample(n, width=state.k)
    if suspicious(family, some, state, state.d, ranking):
        heavier = replace(family, student=True)
        sampled, times = some is not sample, sample.total / some.total
        compare = partial(compare_laws, family, heavier, some, state, state.d)
        found = compare(sampled=sampled, fewer=fewer, needed=rival / times)
        if found.clear:  # as often as in the sample
            gain = found.gain * times
            yield gain, tails_note(found.state.freedom, state.k, found.state.k, found.gain)


def other_shape(
    view: View, given: Rows, state: Gaussians, *, fewer: bool = False
) -> Iterator[Better]:
    """Yield a note where BIC of a type of covariance that contains that of the fit is lower.

    Parameters
    ----------
    given : Rows
        A sample in the user's units.
    fewer : bool
        Whether the other type may have fewer components, as where their number was chosen.
    """
    others = list(_richer_families(view.family, given, state))
    if not others:
        return
    in_part = not fewer and given.n >= PARTS * LOCAL.rows
    some = given.sample(given.n // PARTS, 0) if in_part else given
    if not fewer:
        others = within_reach(view.family, others, view.rows(some), state, given.total)
    if not others:
        return
    rows = _assign(view, some, state)
    if in_part:
        others = worth_comparing(view.family, others, rows, state, given.total)
    found = _compare_shapes(view.family, others, rows, state, fewer=fewer)
    if in_part and len(found) < len(others):
        others = within_reach(view.family, others, view.rows(given), state, given.total)
        rows = _assign(view, given, state) if others else rows
        found = _compare_shapes(view.family, others, rows, state, fewer=fewer)
    if found:
        name = max(found, key=lambda name: found[name][0])
        if CovarianceType(name).shape == "full" and "full" in found:
            name = "full"  # which contains the tied ones
        gain, better = found[name]
        # what is lower on a part is lower on all, since gains grow with the rows
        gain *= given.total / rows.sample.total
        values = {"gain": gain, "kind": name, "k": better.k, "own": view.family.kind.name}
        above = better.variances.min(axis=0) > view.family.least
        varying = np.flatnonzero(above if above.any() else ~above)
        yield gain, _shape_note(view, better, varying, values)


def _assign(view: View, given: Rows, state: Gaussians) -> Assigned:
    sample = view.rows(given).hold()
    return Assigned(sample, softmax_rows(view.family.log_joint(sample, state))[0])


def _compare_shapes(
    family: GaussianFamily,
    others: list[GaussianFamily],
    rows: Assigned,
    state: Gaussians,
    *,
    fewer: bool,
) -> dict[str, tuple[float, Gaussians]]:
    """Return the types whose BIC is lower on some rows: by how much, and the mixtures."""
    found, k, (sample, shares) = dict[str, tuple[float, Gaussians]](), state.k, rows
    if not others:
        return found
    # the fit, and where rows are a part of those fitted, with the means and weights of the part
    states, assigned = (state, family.from_shares(sample, shares)), [shares]
    own = min(_score(family, sample, each) for each in states)
    for other in others:  # simpler types start from richer ones, too
        kind, products = other.kind, _n_products(other.kind, sample, state)
        starts = [other.from_shares(sample, each) for each in assigned]
        if fewer and k > 1:
            labels = to_numpy(shares).argmax(axis=1)
            starts.append(merged_state(other, sum_groups(sample, kind, labels), None, k))
        # The M-step alone says whether BIC is lower, since EM only raises the likelihood.
        score, best = min(((_score(other, sample, start), start) for start in starts), key=_first)
        if score < own:
            budget = replace(QUICK, steps=min(QUICK.steps, int(MOST_PRODUCTS / products)))
            least = bic(0.0, other.n_parameters(best), sample.total) - own
            level = least + _most_gained(found.values())
            best = run_em(other, sample, best, budget, level / (2 * sample.total)).state
            found[kind.name] = own - _score(other, sample, best), best
            assigned = [shares, softmax_rows(other.log_joint(sample, best))[0]]
    return found


def _n_products(kind: CovarianceType, sample: Rows, state: Gaussians) -> int:
    return sample.n * state.k * kind.n_numbers(state.d)


def _richer_families(
    family: GaussianFamily, sample: Rows, state: Gaussians
) -> Iterator[GaussianFamily]:
    """Yield families of the types that contain that of a fit, from the most parameters on."""
    k, d = state.k, state.d
    richer = [name for name in COVARIANCE_TYPES if family.kind.name in with_poorer(name)[:-1]]
    # of those that are the same, as in one column, the first
    kinds = {family.kind.n_parameters(k, d): family.kind}
    for kind in map(CovarianceType, richer):
        kinds.setdefault(kind.n_parameters(k, d), kind)
    for kind in list(kinds.values())[:0:-1]:
        if _n_products(kind, sample, state) <= MOST_PRODUCTS:
            yield replace(family, kind=kind, known=None)


def _score(family: GaussianFamily, sample: Rows, state: Gaussians) -> float:
    level = family.e_step(sample, state).level
    return bic(level * sample.total, family.n_parameters(state), sample.total)


def _first(scored: tuple[float, Gaussians]) -> float:
    return scored[0]


def _shape_note(view: View, better: Gaussians, varying: Integers, values: dict[str, Any]) -> Note:
    """Return the note on a better type of covariance; columns by their numbers.

    Parameters
    ----------
    varying : array of int
        Columns whose variance is not at its floor.
    """
    own, shape = view.family.kind.shape, CovarianceType(values["kind"]).shape
    mixture = view.outside(better)
    if shape == own:
        deviations = np.exp(0.5 * np.log(mixture.variances[:, varying]).mean(axis=1))
        values |= {"least_spread": float(deviations.min()), "most_spread": float(deviations.max())}
        return Note("components_differ_in_covariance", values)
    if shape == "diag":
        deviations = np.sqrt(mixture.weights @ mixture.variances)
        ends = varying[np.argsort(deviations[varying])[[0, -1]]]
        values |= dict(zip(("least", "most"), ends.tolist(), strict=True))
        spreads = deviations[ends].tolist()
        values |= dict(zip(("least_spread", "most_spread"), spreads, strict=True))
        return Note("columns_differ_in_spread", values)
    if own == "diag":
        return Note("columns_correlated", values | _most_correlated(better, varying))
    return Note("components_not_round", values | _longest_direction(mixture))


def _most_correlated(mixture: Gaussians, varying: Integers) -> dict[str, Any]:
    """Return the two columns with the largest correlation within components, on average."""
    roots = np.sqrt(mixture.variances)
    pairs = mixture.covariances / (roots[:, :, None] * roots[:, None, :])
    size = np.triu(
        np.tensordot(mixture.weights, np.abs(pairs), axes=1)[np.ix_(varying, varying)], 1
    )
    i, j = np.unravel_index(size.argmax(), size.shape)
    columns = [int(varying[i]), int(varying[j])]
    return {"columns": columns, "correlation": float(size[i, j])}


def _longest_direction(mixture: Gaussians) -> dict[str, Any]:
    """Return the ratio of the most elongated component, and its direction by column."""
    spectra, vectors = np.linalg.eigh(mixture.covariances)
    across = np.maximum(spectra[:, :-1].mean(axis=1), np.finfo(float).tiny)
    ratios = np.sqrt(spectra[:, -1] / across)
    # a small component may have any shape by chance
    longest = int((mixture.weights * np.log(ratios)).argmax())
    direction = vectors[longest, :, -1]
    order = np.argsort(-np.abs(direction), kind="stable")
    named = order[np.abs(direction[order]) >= LOADED * np.abs(direction).max()]
    sign = math.copysign(1.0, direction[named[0]])
    values = {"ratio": float(ratios[longest]), "columns": named.tolist()}
    return values | {"loadings": (sign * direction[named]).tolist()}


def renumbered(note: Note, places: Integers) -> Note:
    """Return a note on components with other numbers."""
    if "which" not in note.values:
        return note
    which = sorted({int(places[c]) for c in note.values["which"]})
    return Note(note.code, {**note.values, "which": which})


def with_names(note: Note, names: Sequence[str], *, scaled: bool = False) -> Note:
    """Return a note with the names of columns instead of their numbers.

    Spreads and directions of columns that were divided by a scale are those of scaled columns.
    """
    values, of = dict(note.values), "scaled " if scaled else ""
    if note.code == "columns_differ_in_spread":
        values |= {name: of + names[values[name]] for name in ("least", "most")}
    if note.code == "columns_correlated":
        values["columns"] = [names[j] for j in values["columns"]]
    if note.code == "components_not_round":
        columns = [names[j] for j in values["columns"]]
        terms = (
            f"{load:+.2f} {of}{name}"
            for load, name in zip(values.pop("loadings"), columns, strict=True)
        )
        values |= {"columns": columns, "direction": " ".join(terms).removeprefix("+")}
    return Note(note.code, values)
