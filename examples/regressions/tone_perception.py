"""
Two lines in tone perception
============================

A musician heard a tone with overtones stretched by a ratio and tuned another to the octave above
it. In some trials the answer was the octave whatever the overtones (tuned = 2), in others it
followed them (tuned = stretch ratio): two lines. Most answers are accurate and a few are far off,
so the noise is Student's t. 150 trials of one musician, as analysed by de Veaux (1989), with the
values distributed in the R packages fpc and mixtools.

Cohen, E. (1980). Inharmonic tone perception. Dissertation, Stanford University.
De Veaux, R. D. (1989). Mixtures of linear regressions. Comput. Stat. Data Anal. 8, 227-245.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from implicitmoments import AssumptionWarning, RegressionMixture

DATA = Path(sys.argv[0]).resolve().parents[1] / "data" / "tone_perception.csv"
table = np.loadtxt(DATA, delimiter=",", skiprows=1)
X, y = table[:, :1], table[:, 1]
with warnings.catch_warnings():  # stretch ratios are nearly uniform, not Gaussian
    warnings.simplefilter("ignore", AssumptionWarning)
    model = RegressionMixture(2, noise="student", random_state=0).fit(X, y)

for i in range(2):
    print(
        f"line {i}: tuned = {model.intercept_[i]:.2f} (± {model.intercept_errors_[i]:.2f}) + "
        f"{model.coef_[i, 0]:.2f} (± {model.coef_errors_[i, 0]:.2f}) · stretch, "
        f"weight {model.weights_[i]:.2f}"
    )
print(f"log-likelihood {model.score(X, y) * len(y):.1f}, BIC {model.bic(X, y):.1f}")
trials = np.bincount(model.predict_component(X, y))
print(f"{trials[0]} trials follow the octave, {trials[1]} follow the overtones")

# %%
# Colours are the probability of the first line. It is undetermined where the lines cross.

chances = model.predict_proba(X, y)[:, 0]
figure, panel = plt.subplots(figsize=(6, 4.2), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Tuned ratio against stretch ratio of 150 trials with two fitted lines, one level and one "
    "rising. Dots are coloured by the probability of the first line."
)
dots = panel.scatter(X[:, 0], y, c=chances, cmap="coolwarm", s=18, edgecolors="none")
ends = np.array([X.min(), X.max()])
for i, colour in enumerate(("C3", "C0")):
    panel.plot(ends, model.intercept_[i] + model.coef_[i, 0] * ends, color=colour)
panel.set_xlabel("stretch ratio")
panel.set_ylabel("tuned ratio")
figure.colorbar(dots, label="probability of the first line")
if len(sys.argv) > 1:  # docs/figures/tone_perception.svg
    figure.savefig(sys.argv[1])
plt.show()
