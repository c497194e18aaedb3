"""Rows in pieces: add to the moments and to the sums of EM, and let likelihood judge between."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.fitting.spherical.em import VarianceModel, maximise, polish
from implicitmoments.fitting.spherical.likelihood import Mixture, Sums, gather
from implicitmoments.fitting.spherical.rows import Rows
from implicitmoments.fitting.spherical.stream_moments import MomentSums, begin_sums

__all__ = ["Stream", "begin_stream", "continue_stream"]

STEPS = 5  # of EM in which a piece is taken in
STILL = 1e-7  # rise of the mean log-likelihood of a piece at which fewer are enough
SETTLING, SETTLED = 30, 1e-5
CLEARLY = 10.0  # log-likelihood of a piece by which another reading of the moments must win
LATER = 2.0  # the moments are read again when there are so many times the rows of last time


@dataclass(frozen=True, eq=False)
class Stream:
    """All that is kept of the rows seen.

    Attributes
    ----------
    mixture : Mixture
    sums : Sums
        Of EM, each piece at the mixture of its time.
    moments : MomentSums
    read_at : float
        Rows at which the moments were last read.
    rereadings : int
        Times the moments led to a likelier mixture than EM had.
    """

    mixture: Mixture
    sums: Sums
    moments: MomentSums
    read_at: float
    rereadings: int = 0


def begin_stream(rows: Rows, mixture: Mixture) -> Stream:
    """Begin with rows to which a mixture has been fitted."""
    sums = gather(rows, mixture)
    moments = begin_sums(rows, mixture.k, mixture.pooled)
    return Stream(mixture, sums, moments, sums.total)


def continue_stream(
    stream: Stream, rows: Rows, model: VarianceModel, rng: np.random.Generator
) -> Stream:
    """Take in further rows.

    Incremental EM (Neal and Hinton 1998): the sums of this piece follow the mixture for a few
    steps, those of earlier pieces stay as they were. Whenever the rows have doubled, the moments
    of all rows are read again. If EM from there explains this piece clearly better, the sums
    begin anew from it, and this piece stands for the earlier ones.
    """
    moments = stream.moments.add(rows)
    mixture, level = stream.mixture, -np.inf
    sums = stream.sums
    for _ in range(STEPS):
        piece = gather(rows, mixture)
        sums = stream.sums + piece
        mixture = maximise(sums, mixture, model)
        rise, level = (
            piece.log_likelihood / piece.total - level,
            piece.log_likelihood / piece.total,
        )
        if rise < STILL:
            break
    grown = replace(stream, mixture=mixture, sums=sums, moments=moments)
    if moments.total < LATER * stream.read_at:
        return grown
    return _read_again(grown, rows, model, rng)


def _read_again(
    stream: Stream, rows: Rows, model: VarianceModel, rng: np.random.Generator
) -> Stream:
    stream = replace(stream, read_at=stream.moments.total)
    seed = int(rng.integers(2**31))
    read = stream.moments.read(stream.mixture.k, stream.mixture.pooled, seed)
    if read is None:
        return stream
    other = polish(rows, read, model, SETTLING, SETTLED).mixture
    settled = polish(rows, stream.mixture, model, SETTLING, SETTLED).mixture
    piece, own = gather(rows, other), gather(rows, settled)
    if piece.log_likelihood - own.log_likelihood < CLEARLY:
        return stream
    sums = piece.times(stream.sums.total / piece.total)
    return replace(stream, mixture=other, sums=sums, rereadings=stream.rereadings + 1)
