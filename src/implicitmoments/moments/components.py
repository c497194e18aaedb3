"""Resolved components, and notes on those that are not resolved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, comb, sqrt
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.moments.circuit_rows import CircuitRows
from implicitmoments.moments.closed_form import ClosedForm, estimate_closed_form
from implicitmoments.moments.decode import Decoded, decode
from implicitmoments.moments.decoding_frame import DecodingFrame, choose_frame
from implicitmoments.moments.hermite_problem import FramedRows
from implicitmoments.notes import Note, Notes

LARGEST_RATIO = 0.15  # of second to first singular value; more is no power of one vector
LARGEST_ERROR = 0.3  # of a standard error to the distance to the nearest other component
AT_THE_FLOOR = 1.05  # noise floors below which an eigenvalue is noise
LARGEST_EXCESS = 1.25  # of the sum of weights over the mean of c_0
DISAGREEMENT = 1e-3  # relative, of the objectives of random starts; rounding is far below
ORDERS = (1, 2, 3)  # orders r of the pairs M_2r and M_3r: r = 3 already needs order 9
LARGEST_PAIRS = 4_200  # side of M_4 on symmetric matrices; beyond it r = 1 if possible
LARGEST_CUBES = 700  # dimension up to which r = 3 is tried if r = 2 fails
ENOUGH_GAP = 1.5  # of the k-th eigenvalue over the noise floor: decoding rarely fails above it
# the length of an error in d features, from G groups of rows, has (G − 1) d degrees of freedom;
# with 16 it is known to within 1/√32, some 20 percent
DEGREES_OF_FREEDOM = 16
LOWER_ORDERS = 4  # removed from weights of higher orders, by problems that support it


@dataclass(frozen=True, eq=False)
class Components:
    """Weights and vectors of the resolved components.

    Attributes
    ----------
    weights : array of shape (k,)
    vectors : array of shape (k, n_features)
        In the user's coordinates. Unresolved components hold NaN in both.
    resolved : array of bool of shape (k,)
    errors : array of shape (k,)
        Standard error of each vector, as a length, from groups of the rows.
    notes : Notes
        Reasons for unresolved components, and other findings.
    guesses : array of shape (k, n_features)
        All vectors as estimated, resolved or not: starting values for a local search only.
    decoded : Decoded or None
        Measurements that decide which components are resolved; None if nothing was decoded.

    See Also
    --------
    ClosedFormMoments : The result of the closed form.

    Examples
    --------
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(
    ...     10_000, 4, 3, radius=5.0, separation=4.0, random_state=0
    ... )
    >>> problem = im.problems.SphericalMixtureProblem(X)
    >>> moments = im.implicit_moments(problem, n_components=4, order=1)
    >>> found = moments.components()
    >>> found.identified, round(float(found.weights.sum()), 1)
    (True, 1.0)
    """

    weights: Floats
    vectors: Floats
    resolved: np.ndarray[Any, np.dtype[np.bool_]]
    errors: Floats
    notes: Notes
    guesses: Floats
    decoded: Decoded | None

    @property
    def identified(self) -> bool:
        """Whether every component is resolved."""
        return bool(self.resolved.all())

    @property
    def r(self) -> int | None:
        """Slots of a component: moments of orders 2r and 3r were used."""
        return None if self.decoded is None else self.decoded.r

    @property
    def gap(self) -> float:
        """The k-th eigenvalue over the noise floor; 0 if nothing was decoded.

        Infinite for a single component, the mean.
        """
        if self.decoded is None:
            return float("inf") if self.identified else 0.0
        return self.decoded.gap

    def __repr__(self) -> str:
        k = len(self.resolved)
        how = "" if self.r is None else f" from orders {2 * self.r} and {3 * self.r}"
        head = f"<{int(self.resolved.sum())} of {k} components resolved{how}>"
        return "\n".join((head, *map(str, self.notes)))


def spectrum_stats(*moments: tuple[Floats, float, int, int]) -> dict[str, Any]:
    """Return what fits report of moments given as (spectrum, noise floor, rank, order)."""
    return {
        "spectra": [to_numpy(spectrum) for spectrum, _, _, _ in moments],
        "noise_floor": [float(floor) for _, floor, _, _ in moments],
        "ranks": [int(rank) for _, _, rank, _ in moments],
        "moment_orders": [int(order) for _, _, _, order in moments],
    }


def second_moment_floor(n_features: int, n_rows: float) -> float:
    r"""Return the largest eigenvalue of :math:`E[x x^T] - I` due to noise of variance 1.

    The edge of the Marchenko–Pastur law, :math:`(1 + \sqrt{d/n})^2 - 1`.
    """
    return (1 + sqrt(n_features / max(n_rows, 1.0))) ** 2 - 1


def component_stats(components: Components | None) -> dict[str, Any]:
    """Return what fits report of the moment that components were decoded from, if any."""
    if components is None or components.decoded is None:
        return {}
    d = components.decoded
    return spectrum_stats((d.spectrum, d.floor, len(d.weights), 2 * d.r))


def resolve_components(
    decoded: Decoded, view: FramedRows | CircuitRows, standard: DecodingFrame
) -> Components:
    """Separate the components above the noise from the others."""
    vectors = view.problem.original_vectors(decoded.vectors)
    errors = _lengths(view, decoded.vectors, decoded.deviations)
    nearest = np.linalg.norm(vectors, axis=1)  # for a single component its length
    if len(vectors) > 1:
        apart = np.linalg.norm(vectors[:, None, :] - vectors[None, :, :], axis=2)
        np.fill_diagonal(apart, np.inf)
        nearest = apart.min(axis=1)
    mixed = decoded.ratios >= LARGEST_RATIO
    blurred = (errors >= LARGEST_ERROR * nearest) & ~mixed
    faint = (decoded.strengths <= AT_THE_FLOOR * decoded.floor) & ~mixed & ~blurred
    resolved = ~(mixed | blurred | faint)
    total, mass = float(np.sum(decoded.weights[resolved])), standard.mass
    notes = []
    if mass is not None and total > LARGEST_EXCESS * abs(mass):
        notes.append(Note("weights_exceed_total", {"total": total, "expected": float(mass)}))
    uniform, d = view.problem.uniform, view.problem.n_features
    room = standard.room(decoded.r, second_moment_floor(d, view.n_rows) if uniform else 0.0)
    if len(vectors) > room:  # the powers are linearly dependent, as those of collinear vectors
        values = {"k": len(vectors), "r": [decoded.r], "capacities": [room]}
        notes.append(Note("too_many_components_to_decode", values))
    if notes:
        resolved = np.zeros_like(resolved)
    unsigned = ~decoded.signs_known & resolved
    listed = {"mixed": mixed, "blurred": blurred, "faint": faint, "unsigned": unsigned}
    for name, chosen in listed.items():
        if chosen.any():
            notes.append(Note(f"components_{name}", {"which": np.flatnonzero(chosen).tolist()}))
    if decoded.spread > DISAGREEMENT and not resolved.all():
        notes.append(Note("decompositions_differ"))
    return Components(
        weights=np.where(resolved, decoded.weights, np.nan),
        vectors=np.where(resolved[:, None], vectors, np.nan),
        resolved=resolved,
        errors=errors,
        notes=Notes([*_spectrum_notes(decoded, view.n_rows, bool(resolved.all())), *notes]),
        guesses=vectors,
        decoded=decoded,
    )


def _spectrum_notes(decoded: Decoded, n_rows: int, resolved: bool) -> list[Note]:
    """Return notes on the eigenvalues beside the noise floor."""
    k, order = len(decoded.weights), 2 * decoded.r
    if decoded.crowded:
        ratio = float(decoded.spectrum[k] / decoded.floor)
        return [Note("more_components_likely", {"k": k, "order": order, "ratio": ratio})]
    if resolved:
        return []
    low = int(np.sum(decoded.spectrum[:k] < AT_THE_FLOOR * decoded.floor))
    values = {
        **{"k": k, "order": order, "low": low, "gap": float(decoded.gap)},
        **{"eigenvalue": float(decoded.spectrum[k - 1]), "floor": float(decoded.floor)},
        "n_rows": n_rows,
    }
    return [Note("directions_at_noise_floor" if low else "directions_near_noise_floor", values)]


def mean_component(standard: DecodingFrame, view: FramedRows | CircuitRows) -> Components:
    """Return the mean, the only component of a mixture of one."""
    mean, mass = standard.mean, standard.mass or 1.0
    if mean is None:
        raise ValueError("the mean is a component only if all orders have the same weights")
    center = to_numpy(mean.value)[None] / mass
    left_out = np.stack([to_numpy(mean.without(g))[None] for g in range(len(mean.groups))])
    vector = view.problem.original_vectors(center)
    error = _lengths(view, center, mean.deviate(left_out / mass))
    there = np.ones(1, dtype=bool)
    return Components(np.full(1, mass), vector, there, error, Notes(), vector, None)


def _lengths(view: FramedRows | CircuitRows, vectors: Floats, deviations: Floats) -> Floats:
    """Return the standard errors (k,) of vectors in the user's coordinates, as lengths."""
    center = view.problem.original_vectors(vectors)
    moved = [view.problem.original_vectors(vectors + one) - center for one in deviations]
    return np.asarray(np.sqrt(np.sum(np.square(moved), axis=(0, 2))))


def unresolved(k: int, d: int, notes: list[Note]) -> Components:
    """Return k unresolved components with notes."""
    nan = np.full((k, d), np.nan)
    return Components(nan[:, 0], nan, np.zeros(k, dtype=bool), nan[:, 0], Notes(notes), nan, None)


def find_components(
    view: FramedRows | CircuitRows, k: int, r: int | None = None, seed: int = 0
) -> Components:
    r"""Resolve k components by :math:`M_{2r}` and :math:`M_{3r}`.

    r = 2 by default: squares of directions are better conditioned than directions, and more
    than d of them can be independent. r = 3 if order 2 has fewer than k dimensions, or if its
    k-th eigenvalue is near the noise floor and order 3 is affordable; of the two results the one
    that resolves more components is returned. Non-uniform weights are too noisy for that at
    order 9. r = 1 if order 2 is too large. A single component of a problem with uniform weights
    is the mean. The rows are given in an identity frame; with r, only that order is used.
    """
    problem, d = view.problem, view.problem.n_features
    if not problem.has_order(2):
        return unresolved(k, d, [Note("orders_missing", {"orders": [2]})])
    known = [n for n in ORDERS if problem.has_order(2 * n) and problem.has_order(3 * n)]
    # The part of the weights due to lower orders is noise.
    if known and isinstance(view, FramedRows) and problem.reduces:
        fold = estimate_closed_form(ClosedForm(k, LOWER_ORDERS), [view])
        view = replace(view, lower=fold.moments.evaluator())
    view = replace(view, n_groups=2 * ceil((DEGREES_OF_FREEDOM / d + 1) / 2))
    standard = choose_frame(view, k)
    if k == 1 and standard.mean is not None:
        return mean_component(standard, view)
    room = {n: comb(standard.frame.p + n - 1, n) for n in ORDERS}
    possible = [n for n in known if room[n] >= k and r in (None, n)]
    if not possible:
        return unresolved(k, d, _why_none(k, room, known, ORDERS if r is None else (r,)))
    if 2 in possible and room[2] <= LARGEST_PAIRS and (room[2] > k or 3 not in possible):
        first = 2
    else:
        first = 3 if 3 in possible and room[3] <= LARGEST_CUBES else possible[0]
    found = _decode(view, k, first, seed, standard)
    doubtful = not found.identified or found.gap < ENOUGH_GAP
    affordable = 3 in possible and room[3] <= LARGEST_CUBES
    crowded = found.decoded is not None and found.decoded.crowded
    if first == 2 and doubtful and affordable and problem.uniform and not crowded:
        other = _decode(view, k, 3, seed, standard)
        clear = other.decoded is not None and other.decoded.separated
        if clear and other.resolved.sum() > found.resolved.sum():
            return other
    return found


def _decode(
    view: FramedRows | CircuitRows, k: int, r: int, seed: int, standard: DecodingFrame
) -> Components:
    decoded = decode(view, k, r, standard, seed)
    if decoded is None:
        note = Note("no_positive_eigenvalue", {"order": 2 * r})
        return unresolved(k, view.problem.n_features, [note])
    return resolve_components(decoded, view, standard)


def _why_none(
    k: int, room: dict[int, int], known: list[int], asked: tuple[int, ...]
) -> list[Note]:
    """Say why none of the orders asked for can be decoded."""
    tight = {n: room[n] for n in asked if n in known}
    orders = [order for n in asked if n not in known for order in (2 * n, 3 * n)]
    notes = []
    if tight:
        values = {"k": k, "r": list(tight), "capacities": list(tight.values())}
        notes.append(Note("too_many_components_to_decode", values))
    if orders:
        notes.append(Note("orders_missing", {"orders": orders}))
    return notes
