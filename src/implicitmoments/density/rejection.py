"""Rejection sampling: from proposals and a bounded ratio to an exact number of draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.rows import RowDraws, Stream

__all__ = ["Accepted", "rejection_sample"]

FEWEST, MOST = 2_048, 65_536  # proposals made at a time
PROPOSALS = (Stream.ROWS, 1)  # stream of the random numbers
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Accepted:
    """Draws, and what they cost.

    Attributes
    ----------
    points : array of shape (n_samples, width)
    n_proposals : int
        Proposals up to the one that was accepted last.
    acceptance_rate : float
    """

    points: Floats
    n_proposals: int
    acceptance_rate: float


def rejection_sample(
    propose: Callable[[RowDraws], Floats],
    ratio: Callable[[Floats], Floats],
    bound: float,
    n_samples: int,
    *,
    seed: int,
    max_proposals: int,
) -> Accepted:
    r"""Draw from the density proportional to ``ratio`` times the density of proposals.

    End of the proof of Theorem 4.16: x is proposed and kept with probability ratio(x) / bound.
    Proposals are numbered and their random numbers keyed by the number, so that the draws do not
    depend on how many are made at a time, and fewer draws are the beginning of more.

    Parameters
    ----------
    propose : callable
        ``propose(rng)`` returns one row (len(rng.rows), width) a proposal.
    ratio : callable
        Of proposals, with values from 0 to ``bound``.
    bound : float
    n_samples : int
    seed : int
    max_proposals : int
        The most that are made before giving up.

    Returns
    -------
    Accepted
        With exactly ``n_samples`` points.
    """
    kept: list[Floats] = []
    accepted, made = 0, 0
    while True:
        rate = (accepted + 1) / (made + 1) if made else 1.0
        wanted = int(1.1 * (n_samples - accepted) / rate)
        size = min(max(wanted, FEWEST), MOST, max_proposals - made)
        rng = RowDraws(seed, range(made, made + size), PROPOSALS)
        points = propose(rng)
        values = _checked(ratio(points), bound)
        (chosen,) = np.nonzero(rng.uniform() * bound < values)
        chosen = chosen[: n_samples - accepted]
        kept.append(points[chosen])
        accepted += len(chosen)
        if accepted == n_samples:
            made += int(chosen[-1]) + 1 if len(chosen) else 0
            return Accepted(np.concatenate(kept), made, accepted / max(made, 1))
        made += size
        if made >= max_proposals:
            raise ValueError(
                f"{accepted} of {n_samples} draws were accepted among max_proposals="
                f"{max_proposals} (a rate of {accepted / made:.2g}); ask for fewer draws, raise "
                "max_proposals, or lower the bound (clip) at the cost of a larger error"
            )


def _checked(values: Floats, bound: float) -> Floats:
    if not np.all((values >= 0) & (values <= bound * (1 + ROUNDING))):
        raise ValueError(
            f"ratios lie between 0 and the bound {bound:.6g}, got values from "
            f"{np.min(values):.6g} to {np.max(values):.6g}"
        )
    return values
