r"""
Write your own estimator
========================

Every row is one object, of one of three hidden kinds, measured several times. Reading j of a row
is the vector :math:`v_i` of its kind plus noise of mean zero, independent from reading to reading;
nothing else is known about the noise. Different readings in different slots are then unbiased:

.. math:: \mathrm{E}[x_1 \otimes x_2 \otimes \cdots \otimes x_t]
    = \sum_i w_i v_i \otimes \cdots \otimes v_i = M_t

``implicitmoments.paper`` takes such a rule as a circuit, and Proposition 3.2 of the paper then
answers questions about :math:`M_3`. Order m needs 2m readings of a row.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np

from implicitmoments import paper
from implicitmoments.paper.circuits import Circuit

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
ORDER, N_FEATURES, N_SAMPLES = 3, 6, 50_000

rng = np.random.default_rng(0)
weights = np.array([0.5, 0.3, 0.2])
vectors = rng.normal(size=(3, N_FEATURES))
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

# %%
# A problem consists of a circuit for each order, and of a function that draws its inputs.


def separate_readings(order: int) -> Circuit:
    """Return ``x0 ⊗ x1 ⊗ …``, one reading per slot."""
    tensor = paper.number(1.0)
    for j in range(order):
        tensor = tensor.append(paper.vector(f"x{j}"))
    return tensor


def one_reading(order: int) -> Circuit:
    """Return the mistake to avoid: the same reading in every slot, noise times itself."""
    return paper.power(paper.vector("x0"), order)


def draw(order: int, n: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Return readings of n objects; the noise is uniform, with standard deviation 0.5."""
    centers = vectors[rng.choice(3, size=n, p=weights)]
    half = 0.5 * np.sqrt(3)
    return {f"x{j}": centers + rng.uniform(-half, half, centers.shape) for j in range(order)}


# %%
# The query :math:`\langle x \otimes x \otimes x, M_3 \rangle` at 500 points, for which the exact
# value is known here: :math:`\sum_i w_i (v_i \cdot x)^3`.

points = rng.normal(size=(500, N_FEATURES))
exact = (points @ vectors.T) ** ORDER @ weights
cube, no_draws = paper.power(paper.vector("x"), ORDER), {"y": np.zeros((1, N_FEATURES))}
answers = {}
for name, circuit in (("one reading per slot", separate_readings), ("one for all", one_reading)):
    problem = paper.Problem(N_FEATURES, circuit, draw)
    moment = paper.implicit_moment_estimation(problem, 3, ORDER, N_SAMPLES, rng)
    answers[name] = paper.answer(moment, cube, {"x": points}, no_draws)
    error = np.sqrt(np.mean((answers[name] - exact) ** 2) / np.mean(exact**2))
    print(f"{name}: relative error {error:.2f}")

# %%
# Answers of the correct circuit lie on the diagonal. Those of the mistaken one do not: its noise
# looks like signal. Data of which the truth is known reveal such a mistake.

figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Answers against exact values, twice. Those of the correct circuit lie on the diagonal, "
    "and those of the mistaken circuit do not."
)
for panel, (name, values) in zip(panels, answers.items(), strict=True):
    panel.plot(exact, values, ".", markersize=4)
    panel.axline((0, 0), slope=1, color="black", linewidth=0.8)
    panel.set_title(name)
    panel.set_xlabel("exact ⟨x ⊗ x ⊗ x, M_3⟩")
panels[0].set_ylabel("answer")
plt.show()
