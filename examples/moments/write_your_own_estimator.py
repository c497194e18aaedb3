r"""
Write your own estimator
========================

Write a :class:`~implicitmoments.MomentProblem` from scratch, check it against its dense
reference, then use it.

The model: every row is one object, of one of k hidden kinds, measured several times. Reading j of
a row is :math:`v_i` plus noise, with the vector :math:`v_i` of the row's kind and noise of mean
zero, independent from reading to reading; nothing else is known about its distribution. Different
readings in different slots are then unbiased, whatever the noise:

.. math:: \mathrm{E}[x_1 \otimes x_2 \otimes \cdots \otimes x_t]
    = \sum_i w_i v_i \otimes \cdots \otimes v_i = M_t

The recursion for order m asks for moments up to order 2m, so a row needs 2m readings.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np

from implicitmoments import MomentProblem, implicit_moments
from implicitmoments.circuits import Circuit, power, unit, vector
from implicitmoments.datasets import Truth, random_directions
from implicitmoments.projections import evaluate, evaluate_dense, project_dense
from implicitmoments.rows import Block, RowDraws
from implicitmoments.testing import random_projection

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

ORDER = 3
N_FEATURES = 6
N_ROWS = 60_000

# %%
# **The problem.** ``circuit`` says which tensor of one row has the mean :math:`M_t`, and ``draw``
# gives the numbers that it reads. A second class has a mistake, to show that the checks can fail:
# with the same reading in every slot the noise is multiplied with itself.


class RepeatedReadings(MomentProblem):
    """Moments of what is read, from several noisy readings of each object.

    Parameters
    ----------
    readings : array of shape (n_samples, n_readings, n_features)
    """

    def __init__(self, readings: Floats) -> None:
        self.readings = readings
        self.n_rows, self.n_readings, self.n_features = readings.shape

    def circuit(self, order: int) -> Circuit:
        """Return ``x0 ⊗ x1 ⊗ …``, one reading per slot."""
        if order > self.n_readings:
            raise ValueError(
                f"order {order} needs {order} readings per object, there are {self.n_readings}"
            )
        tensor = unit()
        for j in range(order):
            tensor = tensor.append(vector(f"x{j}"))
        return tensor

    def draw(self, order: int, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002
        """Return the first ``order`` readings of the rows; nothing random is needed."""
        read = self.readings[rows.start : rows.stop]
        return {f"x{j}": read[:, j] for j in range(order)}


class OneReading(RepeatedReadings):
    """The mistake to avoid: the same reading in every slot, noise times itself."""

    def circuit(self, order: int) -> Circuit:
        return power(vector("x0"), order)


# %%
# **Data with known truth.** The noise is uniform, because its distribution must not matter.


def make_readings(n_rows: int, n_readings: int, seed: int) -> tuple[Floats, Truth]:
    """Draw readings with uniform noise of standard deviation 0.5, and the truth behind them."""
    weights = np.array([0.5, 0.3, 0.2])
    vectors = random_directions(3, N_FEATURES, radius=1.0, random_state=seed)
    rng = RowDraws(seed, range(n_rows), (7,))
    labels = rng.categorical(weights)
    noise = math.sqrt(3) * (rng.uniform(n_readings * N_FEATURES) - 0.5)
    readings = vectors[labels][:, None, :] + noise.reshape(n_rows, n_readings, N_FEATURES)
    return readings, Truth(weights, vectors, labels)


def exact_moment(truth: Truth, order: int) -> Floats:
    """Return all entries of M_order, which is possible because the order is small."""
    powers = evaluate_dense(power(vector("v"), order), {"v": truth.vectors})
    moment: Floats = np.tensordot(truth.weights, powers, axes=1)
    return moment


def is_unbiased(problem: MomentProblem, truth: Truth, order: int) -> bool:
    """Compare the mean of the dense tensor with the exact moment, entry by entry."""
    n = problem.n_rows or N_ROWS
    rows = range(n)
    block = problem.draw(order, rows, RowDraws(0, rows))
    tensors = evaluate_dense(problem.circuit(order), block)
    standard_error = tensors.std(axis=0) / math.sqrt(n)
    return bool(
        np.all(np.abs(tensors.mean(axis=0) - exact_moment(truth, order)) < 5 * standard_error)
    )


readings, truth = make_readings(N_ROWS, 2 * ORDER, seed=0)
problem = RepeatedReadings(readings)

# %%
# **1. The circuit is correct:** through any projection it equals its dense reference.

circuit, few = problem.circuit(ORDER), range(10)
block = problem.draw(ORDER, few, RowDraws(0, few))
projection = random_projection(np.random.default_rng(0), N_FEATURES, ORDER, width=4)
dense = project_dense(projection, evaluate_dense(circuit, block))
gap = np.abs(evaluate(circuit, block, projection) - dense).max()
print(f"1. evaluate against the dense reference: largest difference {gap:.0e}")

# %%
# **2. Its mean is the moment.** The check can fail, as it does for the mistaken circuit.

for order in (2, ORDER):
    good = is_unbiased(problem, truth, order)
    bad = is_unbiased(OneReading(readings), truth, order)
    print(f"2. order {order} unbiased: {good}; with the same reading in every slot: {bad}")

# %%
# **3. Run the recursion.** Nothing else has to be implemented: it accepts any problem.

points = np.random.default_rng(1).normal(size=(500, N_FEATURES))
exact = truth.power(points, ORDER)
answers = {}
for name, tried in (("one reading per slot", problem), ("one for all", OneReading(readings))):
    m = implicit_moments(tried, n_components=3, order=ORDER, random_state=0)
    answers[name] = m.inner(power(vector("x"), ORDER), {"x": points})
    error = np.sqrt(np.mean((answers[name] - exact) ** 2) / np.mean(exact**2))
    print(f"3. {name}: relative error {error:.2f} of <x ⊗ x ⊗ x, M_3>")

# %%
# The results of the correct problem lie on the diagonal. Those of the mistaken one do not: its
# noise looks like signal. Check 2 detects this.

figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Answers against exact values, twice. Those of the correct problem lie on the diagonal, "
    "and those of the mistaken problem do not."
)
for panel, (name, values) in zip(panels, answers.items(), strict=True):
    panel.plot(exact, values, ".", markersize=4)
    panel.axline((0, 0), slope=1, color="black", linewidth=0.8)
    panel.set_title(name)
    panel.set_xlabel("exact ⟨x ⊗ x ⊗ x, M_3⟩")
panels[0].set_ylabel("answer")
plt.show()
