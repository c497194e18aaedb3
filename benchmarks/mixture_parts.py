"""Parts of the fit of ``GaussianMixture``, each without the others.

Moments are decoded for tied and spherical covariances only. For diag and full ones "moments only"
is EM from merged micro-components, with which their fits begin.
"""

from __future__ import annotations

from typing import Any

MOMENTS, MOVES, NO_MOVES = "moments only", "moves only", "no moves"


def part_settings(part: str, kind: str) -> dict[str, Any]:
    """Return the parameters with which a part fits; none for the whole fit."""
    start = "merge" if kind in ("diag", "full") else "moments"
    found: dict[str, dict[str, Any]] = {
        MOMENTS: {"init_params": start, "n_moves": 0},  # beside k-means++, where it is better
        MOVES: {"init_params": "k-means++"},
        NO_MOVES: {"n_moves": 0},  # the best of all starts
    }
    return found.get(part, {})
