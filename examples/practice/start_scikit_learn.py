"""
Starts for scikit-learn
=======================

:func:`~implicitmoments.start` returns means, weights and precisions from which
``GaussianMixture`` and ``KMeans`` of scikit-learn can start. From their own starts they merge some
groups and split others.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import implicitmoments as im

K, D, KIND = 40, 20, "spherical"
X, truth = im.datasets.make_spherical_mixture(
    9_000, K, D, radius=5.0, separation=5.0, random_state=0
)
means, weights, precisions = im.start(X, K, covariance_type=KIND, random_state=0)

begun = GaussianMixture(
    K, covariance_type=KIND, means_init=means, weights_init=weights, precisions_init=precisions
).fit(X)
own = [GaussianMixture(K, covariance_type=KIND, random_state=seed).fit(X) for seed in range(6)]
likelihoods = [model.score(X) for model in own]
print(f"log-likelihood per row from im.start: {begun.score(X):.2f}")
print("from its own starts:", *(f"{level:.2f}" for level in likelihoods))

# %%
# k-means takes the means alone.

centers = KMeans(K, init=means, n_init=1).fit(X)
others = [KMeans(K, n_init=1, random_state=seed).fit(X) for seed in range(6)]
inertias = [model.inertia_ / len(X) for model in others]
print(f"squared distance per row from im.start: {centers.inertia_ / len(X):.1f}")
print("from its own starts:", *(f"{level:.1f}" for level in inertias))

# %%
# Left: the log-likelihood of a mixture, higher is better. Right: the squared distance to the
# nearest centre, lower is better.

figure, panels = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Two panels, each with one dot for the fit from im.start and six dots for own starts. "
    "Left: log-likelihood of GaussianMixture. Right: squared distance of KMeans."
)
pairs = (
    (begun.score(X), likelihoods, "log-likelihood per row, GaussianMixture"),
    (centers.inertia_ / len(X), inertias, "squared distance per row, KMeans"),
)
for panel, (ours, theirs, label) in zip(panels, pairs, strict=True):
    panel.plot(theirs, np.zeros(len(theirs)), "o", alpha=0.5, markersize=9)
    panel.plot([ours], [1], "o", markersize=9)
    panel.set_yticks([0, 1], ["own starts", "im.start"])
    panel.set_ylim(-0.6, 1.6)
    panel.set_xlabel(label)
plt.show()
