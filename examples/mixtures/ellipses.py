"""
Elongated groups
================

``SphericalMixture`` covers an elongated group by several round components. ``GaussianMixture``
gives each component a covariance of its own, or a simpler one: ``covariance_type="auto"`` chooses
among six types by the Bayesian information criterion, and ``n_components="auto"`` the number of
components.
"""

from __future__ import annotations

import warnings

import matplotlib.pyplot as plt
import numpy as np

import implicitmoments as im

# Five groups, three to six times as long as they are wide.
rng = np.random.default_rng(0)
GROUPS = [  # centre, standard deviations, angle in degrees
    ((0, 0), (3.0, 0.5), 20),
    ((1, 5), (2.5, 0.6), -35),
    ((7, 1), (0.5, 2.5), 0),
    ((9, 6), (2.0, 0.5), 60),
    ((-4, 6), (1.5, 0.5), 80),
]
pieces = []
for center, deviations, degrees in GROUPS:
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    pieces.append(np.array(center) + rng.normal(size=(250, 2)) * deviations @ turn.T)
X = np.vstack(pieces)

ellipses = im.GaussianMixture("auto", covariance_type="auto", random_state=0).fit(X)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", im.AssumptionWarning)  # the groups are not spherical
    circles = im.SphericalMixture("auto", random_state=0).fit(X)
print(f"GaussianMixture: {ellipses.n_components_} components, {ellipses.covariance_type_}")
print(f"SphericalMixture: {circles.n_components_} components; {circles.notes_}")

# %%
# The criterion of each type, less that of the best, on the rows searched:

scores = ellipses.stats_["bic_by_covariance_type"]
for name, score in sorted(scores.items(), key=lambda pair: pair[1]):
    print(f"{name:15s} {score - min(scores.values()):7.0f}")

# %%
# Ellipses and circles are one standard deviation from the means.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "The same elongated groups of rows twice. Left: many circles cover each group. Right: one "
    "ellipse per group."
)
im.plot.components(circles, X, ax=left)
im.plot.components(ellipses, X, ax=right)
plt.show()
