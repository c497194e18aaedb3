"""
Conditional density of labels with large noise
==============================================

Two lines with noise as large as the distance between them: rows cannot be assigned to lines.
:class:`~implicitmoments.RegressionMixtureDensity` does not estimate the lines. It estimates the
density of (x, y), and samples labels at given points.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from implicitmoments import RegressionMixtureDensity

SLOPES, WEIGHTS, NOISE = np.array([1.0, -0.7]), np.array([0.4, 0.6]), 1.0
rng = np.random.default_rng(0)
X = rng.normal(size=(60_000, 1))
lines = rng.choice(2, size=len(X), p=WEIGHTS)
y = X[:, 0] * SLOPES[lines] + NOISE * rng.normal(size=len(X))

model = RegressionMixtureDensity(2, degree=8, random_state=0).fit(X, y)
print(f"noise {model.noise_:.2f}, share of the variance {model.stats_['noise_share']:.2f}")

# %%
# The truth is known here, so the two densities can be compared on a grid of (x, y).

axis = np.linspace(-4, 4, 81)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
found = np.exp(model.score_samples(grid[:, :1], grid[:, 1])).reshape(81, 81)
apart = (grid[:, 1:] - grid[:, :1] * SLOPES) / NOISE
given = np.exp(-(apart**2) / 2) @ WEIGHTS / (NOISE * np.sqrt(2 * np.pi))
exact = (given * np.exp(-(grid[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi)).reshape(81, 81)
cell = (axis[1] - axis[0]) ** 2
print(f"total variation distance {np.abs(found - exact).sum() * cell / 2:.3f}")

# %%
# Left: the contours of the estimate agree with those of the truth. Right: labels sampled at
# :math:`x = 2` and their true distribution. It is bimodal, with one mode per line, and least
# squares would predict a value between them. There are few rows so far from the centre, and the
# polynomial is less accurate there: it makes the valley too deep.

drawn = model.sample_y(np.full((1, 1), 2.0), 4_000)[0]
wide = np.linspace(-6, 6, 121)
law = np.exp(-((wide[:, None] - 2.0 * SLOPES) ** 2) / (2 * NOISE**2)) @ WEIGHTS
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Left: contours of the estimated density of x and y over dashed contours of the truth, which "
    "nearly agree; the outer ones have four lobes. Right: a histogram of labels at x = 2 with two "
    "modes, and the curve of their true distribution."
)
levels = np.linspace(0.005, exact.max() * 0.95, 6)
left.contour(axis, axis, exact, levels, colors="black", linestyles="dashed")
left.contour(axis, axis, found, levels, cmap="viridis")
left.set(xlabel="x", ylabel="y", title="estimate (colours) and truth (dashed)")
right.hist(drawn, 50, density=True, color="0.8", label="4,000 samples")
right.plot(wide, law / (NOISE * np.sqrt(2 * np.pi)), color="C3", label="truth")
right.set(xlabel="y at x = 2")
right.legend()
plt.show()
