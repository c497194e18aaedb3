r"""
A moment of order twelve
========================

In twenty features a tensor of order 12 has :math:`20^{12} = 4 \cdot 10^{15}` entries, 33 petabytes
in double precision. It is never formed: :func:`~implicitmoments.implicit_moments` stores nested
subspaces of at most k directions, and computes inner products with the tensor through them.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from implicitmoments import implicit_moments
from implicitmoments.circuits import describe, power, vector
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.problems import PopulationProblem

K, D, ORDER = 6, 20, 12
_, truth = make_spherical_mixture(1, K, D, radius=1.0, random_state=0)

# %%
# A query is a circuit. This one is :math:`x \otimes \ldots \otimes x` with twelve factors;
# ``describe`` prints its cost before anything is computed.

question = power(vector("x"), ORDER)
print(describe(question, n_features=D, width=K))

# %%
# The recursion on exact moments: a ``PopulationProblem`` knows the hidden vectors, so the only
# remaining error is that of the method. The results equal those of the tensor up to rounding.

moments = implicit_moments(PopulationProblem(truth), n_components=K, order=ORDER, n_samples=K)
points = np.random.default_rng(1).normal(size=(500, D))
answers = moments.inner(question, {"x": points})
exact = truth.power(points, ORDER)
print(f"largest relative error {np.abs(answers / exact - 1).max():.0e}")

# %%
# Left: results against the truth, :math:`\sum_i w_i (v_i \cdot x)^{12}`, over many powers of ten.
# Right: the numbers stored, compared with the entries of the tensor, for every order.

orders = np.arange(2, ORDER + 1)
steps = [(r, sum(K * (D if s == 1 else K * D) for s in range(1, r + 1))) for r in orders]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Left: answers lie on the diagonal of exact values over many powers of ten. Right: "
    "entries of the tensor grow exponentially with the order, to more than ten to the "
    "fifteenth, while the numbers stored grow slowly."
)
left.loglog(exact, answers, ".", markersize=4)
left.loglog([exact.min(), exact.max()], [exact.min(), exact.max()], color="black", linewidth=0.8)
left.set(xlabel="exact", ylabel="answer")
right.semilogy(orders, float(D) ** orders, "o-", label="entries of the tensor")
right.semilogy(*zip(*steps, strict=True), "o-", label="numbers in the projection")
right.axhline(1e9 / 8, color="0.7", linewidth=0.8)
right.text(2, 1.6e9 / 8, "1 GB")
right.set_xlabel("order")
right.legend()
plt.show()
