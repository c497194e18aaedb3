"""Choose the order at which components are told apart."""

from __future__ import annotations

from math import comb

from implicitmoments.moments.closed_form import ClosedForm, estimate_closed_form
from implicitmoments.moments.decode.components import decode
from implicitmoments.moments.decode.resolution import (
    Components,
    judge,
    nothing_decoded,
    one_component,
)
from implicitmoments.moments.decode.standardise import Placing, place
from implicitmoments.moments.passes import Lower, View
from implicitmoments.notes import Note

__all__ = ["find_components"]

ORDERS = (1, 2, 3)
LARGEST_PAIRS = 4_200  # side of M_4 on symmetric matrices; beyond it r = 1 where it can
LARGEST_CUBES = 700  # dimension up to which r = 3 is tried where r = 2 did not do
ENOUGH_GAP = 1.5
LOWER_ORDERS = 4  # removed from weights of higher orders, by problems that can


def find_components(view: View, k: int, r: int | None = None, seed: int = 0) -> Components:
    r"""Tell k components apart by :math:`M_{2r}` and :math:`M_{3r}`.

    r = 2 unless the ranks ask for something else: squares of directions are better conditioned
    than directions, and there is room for more than d of them. r = 3 where order 2 has no room
    for k, or where its last eigenvalue drowns in noise and order 3 is small enough to try; of
    two the one that resolves more is returned. Weights of other laws than one grow too noisy
    for that at order 9. r = 1 where order 2 is too large. One component of a problem without
    weights is the mean.

    Parameters
    ----------
    view : View
        The rows, in an identity frame.
    k : int
    r : int, optional
        Use this order and no other.
    seed : int
    """
    problem = view.problem
    if not problem.has_order(2):
        return nothing_decoded(k, problem.n_features, [Note("orders_missing", {"orders": [2]})])
    if any(problem.has_order(2 * n) and problem.has_order(3 * n) for n in ORDERS):
        view = view.knowing(_lower_moments(view, k))
    placing = place(view, k)
    if k == 1 and placing.mean is not None:
        return one_component(placing, problem)
    room = {n: comb(placing.frame.p + n - 1, n) for n in ORDERS}
    possible = [
        n for n in ORDERS if room[n] >= k and problem.has_order(2 * n) and problem.has_order(3 * n)
    ]
    if r is not None:
        possible = [n for n in possible if n == r]
    if not possible:
        return nothing_decoded(k, problem.n_features, _why_none(view, k, room, r))
    first = _first_choice(possible, room, k)
    found = _decode(view, k, first, seed, placing)
    doubtful = not found.identified or found.gap < ENOUGH_GAP
    affordable = 3 in possible and room[3] <= LARGEST_CUBES
    crowded = found.decoded is not None and found.decoded.crowded
    if first == 2 and doubtful and affordable and problem.uniform and not crowded:
        other = _decode(view, k, 3, seed, placing)
        clear = other.decoded is not None and other.decoded.separated
        if clear and other.resolved.sum() > found.resolved.sum():
            return other
    return found


def _lower_moments(view: View, k: int) -> Lower | None:
    """Estimate the orders whose part in the weights is noise to orders 4 and 6."""
    if not view.problem.reduces:
        return None
    how = ClosedForm(k, LOWER_ORDERS)
    return estimate_closed_form(how, lambda _: view, view).moments.evaluator()


def _first_choice(possible: list[int], room: dict[int, int], k: int) -> int:
    if 2 in possible and room[2] <= LARGEST_PAIRS and (room[2] > k or 3 not in possible):
        return 2
    return 3 if 3 in possible and room[3] <= LARGEST_CUBES else possible[0]


def _decode(view: View, k: int, r: int, seed: int, placing: Placing) -> Components:
    decoded = decode(view, k, r, placing, seed)
    if decoded is None:
        note = Note("no_positive_eigenvalue", {"order": 2 * r})
        return nothing_decoded(k, view.problem.n_features, [note])
    return judge(decoded, view, placing)


def _why_none(view: View, k: int, room: dict[int, int], r: int | None) -> list[Note]:
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
