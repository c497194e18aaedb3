"""What a step of the recursion saw, as numbers."""

from __future__ import annotations

from dataclasses import dataclass

from implicitmoments.arrays import Floats

__all__ = ["StepReport"]


@dataclass(frozen=True)
class StepReport:
    """What one step of the recursion saw.

    Attributes
    ----------
    order : int
        Order 2r of the moment that was averaged.
    rows : range or pair of int
        The rows it was averaged over: a range of row numbers, or (i, q) for the i-th of q
        parts into which rows are shared by what their points hold.
    asked : int
        Directions asked for, the number of components.
    rank : int
        Directions kept: fewer than asked for where there are no more, or where the closed form
        found the others below the noise.
    spectrum : array
        All eigenvalues of the averaged matrix, from the largest down.
    floor : float
        Size of the noise: below it an eigenvalue says nothing.
    delta : float or None
        Frobenius distance of the average from its mean, when the truth is known.
    seconds : float

    Examples
    --------
    >>> from implicitmoments import implicit_moments
    >>> from implicitmoments.datasets import make_spherical_mixture
    >>> from implicitmoments.problems import SphericalMixtureProblem
    >>> X, _ = make_spherical_mixture(5_000, 2, 4, radius=3.0, random_state=0)
    >>> moments = implicit_moments(SphericalMixtureProblem(X), n_components=2, order=4)
    >>> [(step.order, step.rank, bool(step.gap > 1.5)) for step in moments.steps]
    [(2, 2, True), (4, 2, True)]
    """

    order: int
    rows: range | tuple[int, int]
    asked: int
    rank: int
    spectrum: Floats
    floor: float
    delta: float | None
    seconds: float

    @property
    def dropped(self) -> int:
        """Directions asked for and not kept."""
        return self.asked - self.rank

    @property
    def next_value(self) -> float:
        """The (k+1)-st eigenvalue, zero in the population: the measure of delta in Lemma 3.9."""
        return float(self.spectrum[self.asked]) if self.asked < len(self.spectrum) else 0.0

    @property
    def gap(self) -> float:
        """The k-th eigenvalue over the floor; above about 1.5 the last direction is real."""
        last = float(self.spectrum[min(self.asked, len(self.spectrum)) - 1])
        return last / self.floor if self.floor > 0 else float("inf")
