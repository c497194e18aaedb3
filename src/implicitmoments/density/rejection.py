"""Rejection sampling of an exact number of draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.notes import InputError
from implicitmoments.rows import RowDraws, Stream

BATCH = (2_048, 65_536)  # fewest and most proposals made at a time
PROPOSALS = (Stream.ROWS, 1)  # random stream
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Accepted:
    """Draws, and the number of proposals they took."""

    points: Floats  # (n_samples, width)
    n_proposals: int  # proposals up to the last accepted one
    acceptance_rate: float


def rejection_sample(
    propose: Callable[[RowDraws], Floats],
    ratio: Callable[[Floats], Floats],
    bound: float,
    n_samples: int,
    *,
    seed: int,
    max_proposals: int,
    batch: tuple[int, int] = BATCH,
) -> Accepted:
    r"""Draw from the density proportional to ``ratio`` times the density of proposals.

    End of the proof of Theorem 4.16: x is proposed and accepted with probability ratio(x) / bound.
    Random numbers are keyed by the number of the proposal, so draws do not depend on the size of
    batches, and fewer draws are the beginning of more.

    Parameters
    ----------
    propose : callable
        ``propose(rng)`` returns one row per proposal, (len(rng.rows), width).
    ratio : callable
        Ratios of proposals, from 0 to ``bound``.
    max_proposals : int
        An error is raised if more are needed.
    batch : tuple of int
        The fewest and the most proposals made at a time.

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
        size = min(max(wanted, batch[0]), batch[1], max_proposals - made)
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
            raise InputError(
                "too_few_accepted",
                "{accepted} of {n} draws were accepted among `max_proposals={max_proposals}` (a "
                "rate of {rate:.2g}); ask for fewer draws, increase `max_proposals`, or set a "
                "smaller `clip` at the cost of a larger error",
                accepted=accepted,
                n=n_samples,
                max_proposals=max_proposals,
                rate=accepted / made,
            )


def _checked(values: Floats, bound: float) -> Floats:
    if not np.all((values >= 0) & (values <= bound * (1 + ROUNDING))):
        raise InputError(
            "ratio_out_of_bounds",
            "ratios must be between 0 and the bound {bound:.6g}, got values from {least:.6g} to "
            "{most:.6g}",
            bound=bound,
            least=float(np.min(values)),
            most=float(np.max(values)),
        )
    return values
