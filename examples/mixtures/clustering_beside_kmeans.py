"""
Clustering by a pairwise test, compared with k-means
====================================================

:class:`~implicitmoments.SphericalMixtureClusterer` tests whether two rows belong to the same
component, and derives the clusters from these tests. It needs no initialisation. k-means merges
two groups in some runs and splits another, depending on its initialisation.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from implicitmoments import SphericalMixtureClusterer
from implicitmoments.datasets import make_spherical_mixture

K, D = 12, 20
X, truth = make_spherical_mixture(6_000, K, D, radius=7.0, separation=7.0, random_state=0)
labels = np.asarray(truth.labels)

seeds = range(8)
pairs = SphericalMixtureClusterer(K, random_state=0).fit(X)
means = [KMeans(K, n_init=1, random_state=seed).fit(X) for seed in seeds]
scores = {
    "pairwise test": [adjusted_rand_score(labels, pairs.labels_)],
    "k-means, one start": [adjusted_rand_score(labels, model.labels_) for model in means],
}
for name, values in scores.items():
    print(f"{name}: adjusted Rand index", *(f"{value:.2f}" for value in values))

# %%
# The clusterer also estimates the error rates of its test: ``split_rate`` for pairs from the same
# component, ``merge_rate`` for pairs from different ones.

stats = pairs.stats_
print(f"split rate {stats['split_rate']:.3f}, merge rate {stats['merge_rate']:.3f}")

# %%
# Left: the adjusted Rand index of the pairwise test and of eight k-means starts; 1 is a perfect
# clustering. Right: for the worst run of k-means, the number of rows of each component (row)
# assigned to each cluster (column). A row with two dark cells is a component that was split, a
# column with two is a cluster that contains two components.

worst = int(np.argmin(scores["k-means, one start"]))
table = np.zeros((K, K))
for component, cluster in zip(labels, means[worst].labels_, strict=True):
    table[component, cluster] += 1
order = np.argsort(table.argmax(axis=0))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Left: adjusted Rand index of the pairwise test, 1, and of eight k-means starts, several of "
    "them near 0.9. Right: a table of components against the clusters of the worst k-means "
    "start, in which one component is split between two clusters."
)
for place, (name, values) in enumerate(scores.items()):
    left.plot(values, np.full(len(values), place), "o", alpha=0.5, markersize=9, label=name)
left.set_yticks(range(len(scores)), list(scores))
left.set_ylim(-0.6, len(scores) - 0.4)
left.set_xlabel("adjusted Rand index")
right.imshow(table[:, order], cmap="Blues", aspect="auto")
right.set_xlabel("cluster of k-means")
right.set_ylabel("component")
right.set_title(f"k-means, seed {worst}")
plt.show()
