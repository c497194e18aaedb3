"""
Eigenvalues and the noise floor
===============================

How many hidden vectors can be detected? Each pass of the closed form estimates its own noise from
two halves of the rows. Eigenvalues of the moment above this noise floor are signal; those below
cannot be distinguished from noise. With more rows the floor decreases and more components become
visible.
"""

from __future__ import annotations

import matplotlib.pyplot as plt

from implicitmoments import implicit_moments
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.problems import SphericalMixtureProblem

K, D = 12, 8
X, truth = make_spherical_mixture(20_000, K, D, radius=2.0, separation=1.5, random_state=0)

sizes = (1_000, 5_000, 20_000)
results = {
    n: implicit_moments(SphericalMixtureProblem(X[:n]), n_components=K, order=4, drop_noise=False)
    for n in sizes
}
clear = {}
for n, moments in results.items():
    step = moments.steps[-1]
    clear[n] = int((step.spectrum > step.floor).sum())
    print(f"{n:,} rows: {clear[n]} eigenvalues of M_4 above the floor, {K} components")

# %%
# Twelve components have twelve eigenvalues. With few rows the floor (dashed) hides some of them;
# with many it lies just below the twelfth. The settings were chosen to show this. The floor itself
# is an estimate: with 100,000 rows of this mixture the thirteenth eigenvalue is just above it, so
# an eigenvalue counts as signal only from about 1.5 times the floor on.

figure, panels = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Eigenvalues in decreasing order from 1,000, 5,000 and 20,000 rows, with a dashed noise "
    "floor. The floor falls with more rows, until all twelve eigenvalues of the signal are "
    "above it."
)
for panel, (n, moments) in zip(panels, results.items(), strict=True):
    step = moments.steps[-1]
    values = [float(v) for v in step.spectrum]
    panel.semilogy(range(1, len(values) + 1), [max(v, 0.01) for v in values], "o-", markersize=4)
    panel.axhline(float(step.floor), color="C3", linestyle="--", label="noise floor")
    panel.axvline(K + 0.5, color="0.7", linewidth=0.8)
    panel.set_title(f"{n:,} rows: {clear[n]} clear")
    panel.set_xlabel("eigenvalue of M_4")
panels[0].set(ylabel="size", ylim=(0.1, 8))
panels[0].legend()
plt.show()
