"""
More components than features
=============================

Sixty spherical Gaussians in thirty features. EM from one start ends in a local optimum: some of
its means lie between two true ones, and others share one.
:class:`~implicitmoments.SphericalMixture` merges small groups of rows, and then splits and merges
components while the likelihood rises.
"""

from __future__ import annotations

import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from implicitmoments import SphericalMixture
from implicitmoments.datasets import make_spherical_mixture

K, D = 60, 30
X, truth = make_spherical_mixture(24_000, K, D, radius=5.0, separation=6.0, random_state=0)

ours = SphericalMixture(K, random_state=0).fit(X)
with warnings.catch_warnings():  # EM converges slowly if a mean lies between two
    warnings.simplefilter("ignore", ConvergenceWarning)
    peer = GaussianMixture(K, covariance_type="spherical", random_state=0).fit(X)

# %%
# Count the true means that have an estimate within half a standard deviation.


def distances(means: np.ndarray) -> np.ndarray:
    """Return the distance of each true mean from the nearest estimate."""
    apart: np.ndarray = np.linalg.norm(truth.vectors[:, None] - means, axis=2).min(axis=1)
    return apart


fits = {"scikit-learn, one start": peer.means_, "SphericalMixture": ours.means_}
for name, means in fits.items():
    print(f"{name}: {np.sum(distances(means) < 0.5)} of {K} means found")

# %%
# The plot shows two of thirty directions, so means that look close need not be. Crosses are true
# means, red if missed; circles are estimates. A circle without a cross lies between two
# components, and a red cross is a component that was missed.

plane = np.linalg.svd(truth.vectors - truth.vectors.mean(axis=0), full_matrices=False)[2][:2]
figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Sixty true means as crosses and estimated means as circles. Left: one start of "
    "scikit-learn misses some, in red. Right: SphericalMixture has a circle on every cross."
)
for panel, (name, means) in zip(panels, fits.items(), strict=True):
    lost = distances(means) >= 0.5
    panel.scatter(*(X[::40] @ plane.T).T, s=2, color="0.88", linewidths=0)
    panel.scatter(*(means @ plane.T).T, s=42, facecolors="none", edgecolors="C0", label="found")
    true = truth.vectors @ plane.T
    panel.scatter(*true[~lost].T, s=26, marker="x", color="black", linewidths=1, label="true")
    panel.scatter(*true[lost].T, s=46, marker="x", color="C3", linewidths=2, label="true, missed")
    panel.set_title(f"{name}: {K - lost.sum()} of {K}")
    panel.set(xticks=[], yticks=[], xlim=(-4, 4), ylim=(-3.5, 3.5))
panels[0].legend(loc="lower left")
if len(sys.argv) > 1:  # the figure on the first page of the documentation
    figure.savefig(sys.argv[1])
plt.show()
