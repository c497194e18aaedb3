"""
A start for k-means on a GPU
============================

k-means of cuVS runs on a GPU and takes initial centres. This script needs ``cuvs`` and ``cupy``.
Where they are not installed it says so, and runs k-means of scikit-learn from the same centres.
"""

from __future__ import annotations

from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import implicitmoments as im

K, D = 40, 20
X, truth = im.datasets.make_spherical_mixture(
    9_000, K, D, radius=5.0, separation=5.0, random_state=0
)
start = im.start(X, K, covariance_type="spherical", random_state=0)
means = np.asarray(start.means)

if find_spec("cuvs") and find_spec("cupy"):
    import cupy
    from cuvs.cluster import kmeans

    options = kmeans.KMeansParams(init_method="Array", n_clusters=K)
    rows = cupy.asarray(X, dtype=cupy.float32)
    found = kmeans.fit(options, rows, centroids=cupy.asarray(means, dtype=cupy.float32))
    centers, inertia, iterations = cupy.asnumpy(found[0]), float(found[1]), int(found[2])
    print(f"cuVS: squared distance per row {inertia / len(X):.1f}, {iterations} iterations")
else:
    print("cuVS is not installed: this is k-means of scikit-learn from the same centres")
    model = KMeans(K, init=means, n_init=1).fit(X)
    centers = model.cluster_centers_
    print(f"squared distance per row {model.inertia_ / len(X):.1f}, {model.n_iter_} iterations")

# %%
# Centres that were found (circles) and true means (crosses), in the plane of the largest variance
# of the means.

vectors = np.asarray(truth.vectors)
axes = np.linalg.svd(vectors - vectors.mean(axis=0))[2][:2]
figure, panel = plt.subplots(figsize=(5, 4.5), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Forty circles, the centres that k-means found, each close to a cross, a true mean, in the "
    "plane of the largest variance of the means."
)
panel.plot(*(centers @ axes.T).T, "o", markersize=9, fillstyle="none", label="centre")
panel.plot(*(vectors @ axes.T).T, "x", label="true mean")
panel.legend()
plt.show()
