"""
Density estimation and sampling without components
==================================================

Three Gaussians in the plane, two of them almost coincident.
:class:`~implicitmoments.SphericalMixtureDensity` does not estimate their means: it estimates the
density as a truncated and clipped Hermite expansion around one Gaussian, and samples from it by
rejection.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from implicitmoments import SphericalMixtureDensity
from implicitmoments.datasets import make_spherical_mixture

X, truth = make_spherical_mixture(
    30_000, 3, 2, radius=1.4, weights=[0.5, 0.3, 0.2], random_state=3
)
# with more components than features the variance is required
model = SphericalMixtureDensity(3, variance=1.0, max_degree=8, random_state=0).fit(X)
drawn = model.sample(3_000)
print(f"degree {model.degree_}, one of {1 / model.acceptance_rate_:.0f} proposals is accepted")

# %%
# The truth is known here, so the two densities can be compared on a grid.

axis = np.linspace(-4.5, 4.5, 91)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2) + X.mean(axis=0)
found = np.exp(model.score_samples(grid))
squared = ((grid[:, None] - truth.vectors) ** 2).sum(axis=2)
exact = np.exp(-squared / 2) @ truth.weights / (2 * np.pi)
cell = (axis[1] - axis[0]) ** 2
print(f"total variation distance {np.abs(found - exact).sum() * cell / 2:.3f}")

# %%
# The contours of the estimate agree with those of the truth. On the right, samples of the model
# and the three true means, which were not estimated.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.3), sharey=True, layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Left: contours of the estimated density over dashed contours of the truth, which agree. "
    "Right: 3,000 samples of the model as dots around three crosses, the true means."
)
levels = np.linspace(0.01, exact.max() * 0.95, 6)
places = [grid[:, i].reshape(91, 91) for i in range(2)]
left.contour(*places, exact.reshape(91, 91), levels, colors="black", linestyles="dashed")
left.contour(*places, found.reshape(91, 91), levels, cmap="viridis")
left.set_title("estimate (colours) and truth (dashed)")
right.plot(*drawn.T, ".", markersize=2, color="0.5")
right.plot(*truth.vectors.T, "x", color="C3", markersize=9, markeredgewidth=2)
right.set_title("3,000 samples by rejection, and the true means")
plt.show()
