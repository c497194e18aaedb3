"""
Choosing the number of components
=================================

``n_components="auto"`` merges small groups of rows down to the number with the lowest Bayesian
information criterion, and then splits and merges components as long as the criterion decreases.
There is no need to fit a model for every number in a range; this example does so to show that the
result is the same.
"""

from __future__ import annotations

import warnings

import matplotlib.pyplot as plt

from implicitmoments import FitWarning, SphericalMixture
from implicitmoments.datasets import make_spherical_mixture

K, D = 14, 8
X, truth = make_spherical_mixture(8_000, K, D, radius=4.0, separation=3.5, random_state=0)

auto = SphericalMixture("auto", random_state=0).fit(X)
tried = auto.stats_["bic_by_n_components"]
print(f"{auto.n_components_} components; numbers tried: {', '.join(map(str, tried))}")

# %%
# For comparison, one fit for every number. The criterion decreases until there is a component for
# every group, and then increases slowly. The notes of each fit say whether the number is right.

numbers = range(11, 18)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FitWarning)  # of six wrong numbers; printed below
    fits = [SphericalMixture(k, random_state=0).fit(X) for k in numbers]
criteria = [model.bic(X) for model in fits]
for k, model in zip(numbers, fits, strict=True):
    print(f"{k} components: {', '.join(model.notes_.codes) or 'no notes'}")

figure, panel = plt.subplots(figsize=(6.5, 4), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "BIC against the number of components from 11 to 17. It is lowest at 14, the true number, "
    "where a star marks the choice of auto."
)
panel.plot(numbers, criteria, "o-", label="one fit per number")
panel.plot(auto.n_components_, auto.bic(X), "*", markersize=18, color="C3", label='"auto"')
panel.plot(list(tried), list(tried.values()), "x", color="C1", label='tried by "auto"')
panel.axvline(K, color="0.7", linewidth=0.8)
panel.set_xlabel("components")
panel.set_ylabel("BIC (lower is better)")
panel.set_xticks(list(numbers))
panel.legend()
plt.show()
