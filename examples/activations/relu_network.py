"""
A sum of ReLUs from 3,000 noisy rows
====================================

Three models of the same labels: the polynomial of the paper, the network obtained by refinement,
and a multilayer perceptron.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor

from implicitmoments import ActivationSumRegressor
from implicitmoments.datasets import make_activation_sum

N, K, D = 3_000, 4, 10
X, y, truth = make_activation_sum(N, K, D, noise=0.1, random_state=0)
X_new = np.random.default_rng(1).normal(size=(5_000, D))
y_new = np.maximum(0, X_new @ truth.vectors.T) @ truth.weights  # without noise

models = {
    "polynomial": ActivationSumRegressor("relu", K, refine=False),
    "refined network": ActivationSumRegressor("relu", K, random_state=0),
    "MLPRegressor, 64 units": MLPRegressor(
        hidden_layer_sizes=(64,), early_stopping=True, max_iter=500, random_state=0
    ),
}
predicted = {name: model.fit(X, y).predict(X_new) for name, model in models.items()}
print(f"R² on {len(X_new):,} new rows without noise, learned from {N:,} with noise")
for name, values in predicted.items():
    print(f"  {name:23s}{r2_score(y_new, values):.3f}")

# %%
# The degree of the polynomial was chosen on held-out rows.

polynomial, network = models["polynomial"], models["refined network"]
print("held-out error of the polynomial, by degree (the noise is 0.0100)")
errors = polynomial.stats_["error_by_degree"]
print("  " + ", ".join(f"{degree}: {error:.4f}" for degree, error in errors.items()))

# %%
# Only the network has directions, which are matched with the true ones.

apart = np.linalg.norm(network.directions_[:, None] - truth.vectors[None], axis=2)
found, true = linear_sum_assignment(apart)
print("direction: weight (true 0.25), distance from the truth, standard error")
for i, j in zip(found, true, strict=True):
    error = network.direction_errors_[i]
    print(f"  {i}: {network.weights_[i]:.3f}, {apart[i, j]:.3f}, {error:.3f}")
print(network.notes_ or "every direction is identified")

# %%
# Predictions against the truth. The network lies on the diagonal. The polynomial has a few points
# far from it, where rows are rare, and the perceptron scatters everywhere: it has fitted noise.

figure, panels = plt.subplots(1, 3, figsize=(10, 3.5), sharey=True, layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Predictions against the truth for three models. Those of the refined network lie on the "
    "diagonal, those of the polynomial close to it, and those of a multilayer perceptron "
    "scatter around it."
)
for panel, (name, values) in zip(panels, predicted.items(), strict=True):
    panel.plot(y_new, values, ".", markersize=2, alpha=0.4)
    panel.axline((0, 0), slope=1, color="black", linewidth=0.8)
    panel.set_title(f"{name}: R² {r2_score(y_new, values):.3f}")
    panel.set_xlabel("truth")
panels[0].set_ylabel("predicted")
plt.show()
