"""Larger models that fit clearly better: biases, weights of both signs, a further component."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from implicitmoments.activation.least_squares import fit_network, measure_loss
from implicitmoments.activation.moves import (
    GROWTH_ROWS,
    HOPE,
    QUICK_STEPS,
    QUICK_TOL,
    add_component,
    criterion,
    inside_span,
    some_of,
)
from implicitmoments.activation.network import FittedNetwork
from implicitmoments.notes import Note, Notes
from implicitmoments.rows import Rows

# By which the criterion must decrease: "very strong" evidence (Kass and Raftery, 1995).
CLEAR = 10.0
SURE = 5.0  # standard errors of a mean


def note_alternative(
    rows: Rows, best: FittedNetwork, rng: np.random.Generator, *, whitened: bool
) -> Notes:
    """Note the larger model with the smallest criterion after a few steps, if it is clearly so.

    Where inputs are ``whitened`` the error of their estimated mean acts as small biases do, which
    are then allowed.
    """
    network = best.network
    if best.loss <= best.rounding * best.size or not _promising(rows, best, rng):
        return Notes()
    some = some_of(rows, (network.k + 1) * (network.rows.shape[1] + 2), rng, GROWTH_ROWS)
    start = best if some is rows else measure_loss(some, network)
    tried: dict[str, FittedNetwork] = {}
    if network.biases is None and start.loss > start.rounding * start.size:
        given = replace(network, biases=np.zeros(network.k))
        biased = fit_network(some, given, max_iter=QUICK_STEPS, tol=QUICK_TOL)
        largest = float(np.max(np.abs(biased.network.rows[:, -1])))
        if whitened and largest < SURE / math.sqrt(rows.total):
            start = biased
        else:
            tried["biases_likely"] = biased
    if start.loss > start.rounding * start.size:
        free = replace(start, network=replace(start.network, positive=False))
        grown = add_component(some, free, rng)
        if grown is not None:
            negative = network.positive and bool(np.any(grown.network.weights < 0))
            tried["negative_component" if negative else "neuron_missing"] = grown
    clear = criterion(start, some.total) - CLEAR
    found = {code: criterion(fitted, some.total) for code, fitted in tried.items()}
    code = min(found, key=lambda each: found[each], default="")
    if not code or found[code] > clear:
        return Notes()
    values = {"share": 1 - tried[code].loss / start.loss, "k": tried[code].network.k}
    return Notes([Note(code, values)])


def _promising(rows: Rows, best: FittedNetwork, rng: np.random.Generator) -> bool:
    """Say whether a larger model helps in the span of what the network and its residuals know.

    There are few unknowns there; only then is it fitted in all features.
    """
    some, start, _ = inside_span(rows, best, rng)
    if start.network.biases is None:
        given = replace(start.network, biases=np.zeros(start.network.k))
        biased = fit_network(some, given, max_iter=QUICK_STEPS, tol=QUICK_TOL)
        gain = some.total * math.log(start.resolved_loss / biased.resolved_loss)
        if gain > HOPE * start.network.k * math.log(some.total):
            return True
    free = replace(start, network=replace(start.network, positive=False))
    charged = best.network.rows.shape[1]
    return add_component(some, free, rng, charged) is not None
