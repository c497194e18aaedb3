"""How densities are expanded and clipped."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ExpansionOptions"]

CLIP_LOSS = 0.02  # the part of epsilon that clipping may cost


@dataclass(frozen=True, kw_only=True)
class ExpansionOptions:
    """How F/G is expanded and clipped, whatever F and G are.

    Attributes
    ----------
    k : int
    degree : int, "auto" or "cv"
    epsilon : float
    max_degree : int
    clip : float or None
        None to choose it from the rows.
    floor : float
    method : str
    n_draws, seed : int
    """

    k: int
    degree: int | str
    epsilon: float
    max_degree: int
    clip: float | None
    floor: float
    method: str
    n_draws: int
    seed: int = 0

    @property
    def clip_loss(self) -> float:
        """Total variation that clipping may cost."""
        return CLIP_LOSS * self.epsilon
