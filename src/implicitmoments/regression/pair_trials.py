"""EM of pairs of lines, each pair on the rows of one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from implicitmoments.arrays import Floats, namespace_of
from implicitmoments.regression.lines import Lines, LineSums, log_joint
from implicitmoments.regression.products import as_sum, columns_of, weighted_products
from implicitmoments.rows import Rows
from implicitmoments.search import splits
from implicitmoments.search.em import concatenate
from implicitmoments.search.shares import LARGEST_LOG

if TYPE_CHECKING:
    from implicitmoments.regression.family import LineFamily


def fit_pairs(
    family: LineFamily,
    parts: Sequence[Rows],
    alone: Lines,
    pairs: Lines,
    rest: Floats,
    steps: int,
) -> tuple[Lines, Floats]:
    """Run EM of pairs of parts, as ``fit_pairs`` of the family.

    The sums of the first part of a pair are those of the line less those of the second, unless
    they have the factors of Student's law.
    """
    if not pairs.gaussian:
        return splits.fit_pairs(family, parts, alone, pairs, rest, steps)
    fitted, gains, size = list[Lines](), list[Floats](), pairs.k // len(parts)
    for c, part in enumerate(parts):
        single, own = alone.take(np.array([c])), pairs.take(np.arange(c * size, (c + 1) * size))
        own, rise = _fit_parts(family, part, single, own, rest[c], steps)
        fitted.append(own)
        gains.append(rise)
    return concatenate(fitted), np.array(gains)


def _fit_parts(
    family: LineFamily, part: Rows, alone: Lines, own: Lines, rest: Floats, steps: int
) -> tuple[Lines, Floats]:
    """Run EM of pairs of parts of one line; return the parts, and the gains."""
    u, counts = columns_of(part.block), part.block["counts"]
    xp, whole = namespace_of(u), weighted_products(counts[None, :], u)
    products = np.empty((own.k, *whole.shape[1:]))
    for _ in range(steps):
        joint = log_joint(own, u)
        odds = xp.exp(xp.clip(joint[0::2, :] - joint[1::2, :], max=LARGEST_LOG))
        products[1::2] = weighted_products(counts / (1 + odds), u)
        products[0::2] = whole - products[1::2]
        own = family.fit_trials(LineSums.of(0.0, part.total, products), own, 2, rest)
    joint = log_joint(own, u)
    one, other = joint[0::2, :], joint[1::2, :]
    levels = xp.maximum(one, other) + xp.log1p(xp.exp(-xp.abs(one - other)))
    rise = as_sum((levels - log_joint(alone, u)) @ counts)
    return own, rise + family.rest_bound(rest, own, 2) - family.rest_bound(rest, alone, 1)
