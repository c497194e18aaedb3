"""Means and weights read off the moments of some of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.common_variance import guess_variance
from implicitmoments.mixture.em import VarianceModel
from implicitmoments.mixture.likelihood import Mixture
from implicitmoments.mixture.outliers import far_limit, radii
from implicitmoments.mixture.standard_rows import Rows, Sample
from implicitmoments.moments.decode import Components, find_components
from implicitmoments.moments.passes import whole_view
from implicitmoments.problems import SphericalMixtureProblem

__all__ = ["Reading", "read_moments", "trim"]

FEW_ROWS, ROWS_A_COMPONENT = 20_000, 300  # for a first look at the moments
MANY_ROWS = 200_000  # for a second, where the first could not tell components apart
CLEAR_GAP = 1.2  # k-th eigenvalue over the noise floor at which one look is enough
SMALLEST_WEIGHT = 0.1  # of 1/k, in a start


@dataclass(frozen=True, eq=False)
class Reading:
    """What the moments say.

    Attributes
    ----------
    mixture : Mixture or None
        None where they say nothing.
    components : Components or None
    words : tuple of str
        What is wrong with them.
    numbers : dict
        What was measured on the way.
    """

    mixture: Mixture | None
    components: Components | None
    words: tuple[str, ...]
    numbers: dict[str, Any]

    @property
    def clear(self) -> bool:
        """Whether all components stand clear of the noise."""
        found = self.components
        return found is not None and found.identified and found.gap >= CLEAR_GAP


def read_moments(
    rows: Rows, k: int, model: VarianceModel, order: int | None, rng: np.random.Generator
) -> Reading:
    """Decode the moments of a sample of rows, and of more rows if those are not clear.

    Parameters
    ----------
    rows : Rows
    k : int
    model : VarianceModel
    order : int or None
        Moments of orders 2r and 3r are decoded for r = ``order``.
    rng : Generator
    """
    n = max(FEW_ROWS, ROWS_A_COMPONENT * k)
    while True:
        sample = rows.sample(n, rng)
        kept, n_far = trim(sample)
        reading = _decode(kept, k, model, order, int(rng.integers(2**31)))
        reading.numbers["far_rows"] = n_far / sample.n
        if reading.clear or n >= min(rows.census.there, MANY_ROWS):
            return reading
        n = MANY_ROWS


def trim(sample: Sample) -> tuple[Sample, int]:
    """Leave out rows so far out that they would rule sixth moments; return how many."""
    radius = radii(sample)
    near = radius <= far_limit(radius)
    if near.all():
        return sample, 0
    return sample.take(np.flatnonzero(near)), int(np.sum(~near))


def _decode(kept: Sample, k: int, model: VarianceModel, order: int | None, seed: int) -> Reading:
    numbers: dict[str, Any] = {"moment_rows": kept.n}
    if kept.n < max(k, 2):
        words = f"there are {kept.n} distinct rows for {k} components: moments say nothing"
        return Reading(None, None, (words,), numbers)
    variance, how = (model.known, "known") if model.known else guess_variance(kept, k)
    variance = max(variance, model.floor)
    numbers |= {"first_variance": variance, "first_variance_from": how}
    problem = SphericalMixtureProblem(kept.X, variance=variance, sample_weight=kept.sample_weight)
    try:
        # rows of rank zero and the like divide by nothing; what comes of it is not finite
        with np.errstate(all="ignore"):
            view = whole_view(problem, block_rows=kept.block_rows)
            found = find_components(view, k, order, seed)
    except (ValueError, np.linalg.LinAlgError) as reason:
        return Reading(None, None, (f"the moments cannot be used: {reason}",), numbers)
    numbers |= {"resolved": int(found.resolved.sum()), "gap": found.gap, "r": found.r}
    if not np.isfinite(found.guesses).all():
        return Reading(None, found, tuple(map(str, found.notes)), numbers)
    mixture = Mixture(_weights(found), _inside(found.guesses, kept), np.full(k, variance))
    return Reading(mixture, found, tuple(map(str, found.notes)), numbers)


def _weights(found: Components) -> Floats:
    """Return weights that sum to 1, none so small that EM could not see its component."""
    k = len(found.resolved)
    read = np.ones(k) / k if found.decoded is None else found.decoded.weights
    weights = np.clip(np.nan_to_num(read, nan=1 / k), SMALLEST_WEIGHT / k, 1.0)
    return np.asarray(weights / weights.sum())


def _inside(means: Floats, kept: Sample) -> Floats:
    """Bring means that were read too long back to the ball that the rows fill."""
    reach = float(radii(kept).max())
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(means * np.minimum(1.0, reach / np.maximum(lengths, 1e-300)), dtype=float)
