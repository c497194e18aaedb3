"""
Handwritten digits
==================

Cluster handwritten digits with a spherical mixture, and see whether the seed matters. The digits
included in scikit-learn, reduced to 15 principal components, are not a spherical mixture, as the
notes of the fit say. The question is how well the model does on such data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from implicitmoments import FitWarning, SphericalMixture

SEEDS = range(4)
N_COMPONENTS = 20  # several ways to write a digit

digits, labels = load_digits(return_X_y=True)
pca = PCA(15, random_state=0)
X = pca.fit_transform(digits)

warnings.simplefilter("ignore", FitWarning)  # notes are printed below
print("mean log-likelihood per row, by seed")
fits: dict[str, Callable[[int], Any]] = {
    "SphericalMixture, one variance per component": lambda seed: SphericalMixture(
        N_COMPONENTS, covariance_type="spherical", random_state=seed
    ),
    "scikit-learn, one start": lambda seed: GaussianMixture(
        N_COMPONENTS, covariance_type="spherical", random_state=seed
    ),
}
for name, make in fits.items():
    scores = [make(seed).fit(X).score(X) for seed in SEEDS]
    print(f"  {name}: " + "  ".join(f"{score:.2f}" for score in scores))

# %%
# A tied variance clusters digits better than one variance per component, which lets wide
# components absorb rows of many digits.

model = SphericalMixture(N_COMPONENTS, random_state=0).fit(X)
found = model.predict(X)
print(model.notes_)
print(f"adjusted Rand index against the digits: {adjusted_rand_score(labels, found):.2f}")

# %%
# The means, mapped back to pixels, with their weights and the most frequent digit of each
# component. Digits that are written in two ways have two components.

figure, panels = plt.subplots(4, 5, figsize=(7, 6.2), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Twenty small pictures of mean digits in grey, each titled with its most frequent digit "
    "and the share of that digit."
)
for i, panel in enumerate(panels.flat):
    counts = np.bincount(labels[found == i], minlength=10)
    pixels = pca.inverse_transform(model.means_[i : i + 1]).reshape(8, 8)
    panel.imshow(pixels, cmap="gray_r")
    panel.set_title(f"{counts.argmax()} ({counts.max() / counts.sum():.0%})", fontsize=9)
    panel.set_xlabel(f"weight {model.weights_[i]:.3f}", fontsize=8)
    panel.set(xticks=[], yticks=[])
plt.show()
