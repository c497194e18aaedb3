"""Find components at the order r that resolves most of them."""

from __future__ import annotations

from math import comb

from implicitmoments.moments.closed_form import ClosedForm, estimate_closed_form
from implicitmoments.moments.decode.components import (
    Components,
    mean_component,
    resolve_components,
    unresolved,
)
from implicitmoments.moments.decode.decoded import decode
from implicitmoments.moments.decode.decoding_frame import DecodingFrame, choose_frame
from implicitmoments.moments.framed_rows import FramedRows, Lower
from implicitmoments.notes import Note

ORDERS = (1, 2, 3)
LARGEST_PAIRS = 4_200  # side of M_4 on symmetric matrices; beyond it r = 1 if possible
LARGEST_CUBES = 700  # dimension up to which r = 3 is tried if r = 2 fails
ENOUGH_GAP = 1.5  # of the k-th eigenvalue over the noise floor
LOWER_ORDERS = 4  # removed from weights of higher orders, by problems that support it


def find_components(view: FramedRows, k: int, r: int | None = None, seed: int = 0) -> Components:
    r"""Resolve k components by :math:`M_{2r}` and :math:`M_{3r}`.

    r = 2 by default: squares of directions are better conditioned than directions, and more
    than d of them can be independent. r = 3 if order 2 has fewer than k dimensions, or if its
    k-th eigenvalue is near the noise floor and order 3 is affordable; of the two results the one
    that resolves more components is returned. Non-uniform weights are too noisy for that at
    order 9. r = 1 if order 2 is too large. A single component of a problem with uniform weights
    is the mean.

    Parameters
    ----------
    view : FramedRows
        The rows, in an identity frame.
    r : int, optional
        Use this order only.
    """
    problem = view.problem
    if not problem.has_order(2):
        return unresolved(k, problem.n_features, [Note("orders_missing", {"orders": [2]})])
    if any(problem.has_order(2 * n) and problem.has_order(3 * n) for n in ORDERS):
        view = view.with_lower(_lower_moments(view, k))
    standard = choose_frame(view, k)
    if k == 1 and standard.mean is not None:
        return mean_component(standard, problem)
    room = {n: comb(standard.frame.p + n - 1, n) for n in ORDERS}
    possible = [
        n for n in ORDERS if room[n] >= k and problem.has_order(2 * n) and problem.has_order(3 * n)
    ]
    if r is not None:
        possible = [n for n in possible if n == r]
    if not possible:
        return unresolved(k, problem.n_features, _why_none(view, k, room, r))
    first = _first_choice(possible, room, k)
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


def _lower_moments(view: FramedRows, k: int) -> Lower | None:
    """Estimate the lower orders, whose part of the weights is noise at orders 4 and 6."""
    if not view.problem.reduces:
        return None
    how = ClosedForm(k, LOWER_ORDERS)
    return estimate_closed_form(how, lambda _: view, view).moments.evaluator()


def _first_choice(possible: list[int], room: dict[int, int], k: int) -> int:
    if 2 in possible and room[2] <= LARGEST_PAIRS and (room[2] > k or 3 not in possible):
        return 2
    return 3 if 3 in possible and room[3] <= LARGEST_CUBES else possible[0]


def _decode(view: FramedRows, k: int, r: int, seed: int, standard: DecodingFrame) -> Components:
    decoded = decode(view, k, r, standard, seed)
    if decoded is None:
        note = Note("no_positive_eigenvalue", {"order": 2 * r})
        return unresolved(k, view.problem.n_features, [note])
    return resolve_components(decoded, view, standard)


def _why_none(view: FramedRows, k: int, room: dict[int, int], r: int | None) -> list[Note]:
    asked = ORDERS if r is None else (r,)
    silent = [
        n for n in asked if not (view.problem.has_order(2 * n) and view.problem.has_order(3 * n))
    ]
    tight = {n: room[n] for n in asked if n in room and n not in silent}
    notes = []
    if tight:
        values = {"k": k, "r": list(tight), "capacities": list(tight.values())}
        notes.append(Note("too_many_components_to_decode", values))
    if silent:
        orders = [order for n in silent for order in (2 * n, 3 * n)]
        notes.append(Note("orders_missing", {"orders": orders}))
    return notes
