"""Sizes of the data sets of speed.py, and their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Size:
    """Components, features, rows, and the shape of the covariances."""

    k: int
    d: int
    n: int
    shape: str = "spherical"

    @property
    def name(self) -> str:
        """Components and features."""
        return f"{self.k}x{self.d}"

    @property
    def close(self) -> float:
        """Distance within which a mean is found."""
        return max(0.5, 1.5 * float(np.sqrt(2 * self.d * self.k / self.n)))

    def draw(self, seed: int) -> tuple[Floats, Floats]:
        """Return rows and means."""
        if self.shape == "sphere":
            return draw_sphere(self, seed)
        rng = np.random.default_rng([seed, self.k, self.d, self.n])
        means = separated(self.k, self.d, 4.0 if self.d < 3 else 5.0, rng)
        weights = rng.uniform(1, 3, self.k)
        labels = rng.choice(self.k, self.n, p=weights / weights.sum())
        rows = rng.normal(size=(self.n, self.d))
        if self.shape == "full":  # deviations between 1/2 and 1, so that means stay apart
            for i in range(self.k):
                axes = np.linalg.qr(rng.normal(size=(self.d, self.d)))[0]
                own = labels == i
                rows[own] = rows[own] * rng.uniform(0.5, 1.0, self.d) @ axes
        rows += means[labels]
        return rows, means


def draw_sphere(size: Size, seed: int) -> tuple[Floats, Floats]:
    """Return the rows and means of the example of the README: means on a sphere."""
    from implicitmoments.datasets import make_spherical_mixture  # noqa: PLC0415

    X, truth = make_spherical_mixture(
        size.n, size.k, size.d, radius=5.0, separation=6.0, random_state=seed
    )
    return np.asarray(X), np.asarray(truth.vectors)


def separated(k: int, d: int, apart: float, rng: np.random.Generator) -> Floats:
    """Draw Gaussian means that are at least ``apart`` from one another."""
    scale, means = apart / np.sqrt(2 * d), np.empty((0, d))
    while len(means) < k:
        for _ in range(100):
            new = scale * rng.normal(size=d)
            if len(means) == 0 or np.min(np.sum((means - new) ** 2, axis=1)) >= apart**2:
                means = np.vstack([means, new])
                break
        else:
            scale, means = 1.05 * scale, 1.05 * means
    return means


MIXTURES = [
    Size(25, 10, 30_000),
    Size(45, 25, 50_000),
    Size(80, 40, 80_000),
    Size(150, 30, 100_000),
    Size(200, 64, 200_000),
    Size(400, 50, 200_000),
    Size(100, 256, 40_000),
    Size(20, 768, 20_000),
    Size(64, 3, 40_000),
    Size(30, 2, 20_000),
]
FULL = [Size(30, 10, 60_000, "full"), Size(15, 30, 60_000, "full"), Size(50, 20, 100_000, "full")]
FEW = [Size(200, 64, 13_400)]  # 67 rows per component
LARGE = [Size(650, 64, 260_000), Size(1_000, 64, 400_000)]
README = [Size(60, 30, n, "sphere") for n in (24_000, 60_000)]
GROWTH = {
    "N": [Size(60, 30, n) for n in (60_000, 120_000, 240_000, 480_000)],
    "d": [Size(60, d, 60_000) for d in (64, 128, 256, 512)],
    "k": [Size(k, 30, 100_000) for k in (60, 120, 240, 480)],
}
