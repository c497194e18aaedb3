"""
Clusters by a test of pairs, beside k-means
===========================================

:class:`~implicitmoments.SphericalMixtureClusterer` asks of two rows whether they belong together,
and reads the clusters off the answers. It needs no start. k-means joins two groups in some runs
and splits another; which ones depends on its start.
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
    "test of pairs": [adjusted_rand_score(labels, pairs.labels_)],
    "k-means, one start": [adjusted_rand_score(labels, model.labels_) for model in means],
}
for name, values in scores.items():
    print(f"{name}: adjusted Rand index", *(f"{value:.2f}" for value in values))

# %%
# The clusterer also says how often its test errs: ``split_rate`` for pairs of one component,
# ``merge_rate`` for pairs of two.

stats = pairs.stats_
print(f"split rate {stats['split_rate']:.3f}, merge rate {stats['merge_rate']:.3f}")

# %%
# Left: the index of the one fit, and of eight starts; 1 is a perfect clustering. Right: for the
# worst run of k-means, how many rows of each component (row) went to each cluster (column). A row
# with two dark cells is a component that was split, a column with two is a cluster that holds two
# components.

worst = int(np.argmin(scores["k-means, one start"]))
table = np.zeros((K, K))
for component, cluster in zip(labels, means[worst].labels_, strict=True):
    table[component, cluster] += 1
order = np.argsort(table.argmax(axis=0))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
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
