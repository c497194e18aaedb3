"""
A mixture of regressions compared with EM from random starts
============================================================

Every row belongs to one of ten linear functions, and it is unknown to which.
:class:`~implicitmoments.RegressionMixture` grows them by splits of one line, and exchanges lines
by split and merge moves. The result of plain EM, implemented below, depends on its initialisation.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from implicitmoments import RegressionMixture
from implicitmoments.datasets import make_regression_mixture

K, D = 10, 8
X, y, truth = make_regression_mixture(8_000, K, D, noise=0.3, random_state=1)


def run_em(seed: int, n_iter: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return the lines and the mean log-likelihood by iteration, from random lines."""
    lines = np.random.default_rng(seed).normal(size=(K, D)) / np.sqrt(D)
    weights, variance, climbed = np.full(K, 1 / K), float(np.var(y)), []
    for _ in range(n_iter):
        joint = np.log(weights) - 0.5 * (
            (y[:, None] - X @ lines.T) ** 2 / variance + np.log(2 * np.pi * variance)
        )
        total = np.logaddexp.reduce(joint, axis=1)
        climbed.append(total.mean())
        shares = np.exp(joint - total[:, None])
        lines = np.stack([np.linalg.solve((X.T * s) @ X, (X.T * s) @ y) for s in shares.T])
        weights = shares.mean(axis=0)
        variance = float((shares * (y[:, None] - X @ lines.T) ** 2).sum() / len(y))
    return lines, np.array(climbed)


model = RegressionMixture(K, fit_intercept=False, random_state=0).fit(X, y)
runs = [run_em(seed) for seed in range(5)]

# %%
# The likelihood shows which runs failed only if there is a better run to compare with. Here the
# truth is known: count the true lines that have an estimate within 0.2.


def n_found(lines: np.ndarray) -> int:
    apart = np.linalg.norm(truth.vectors[:, None] - lines, axis=2).min(axis=1)
    return int(np.sum(apart < 0.2))


print(f"RegressionMixture: {n_found(model.coef_)} of {K} lines")
print("EM, five starts:", ", ".join(str(n_found(lines)) for lines, _ in runs))

# %%
# Each curve reaches a plateau. Those below the dashed line, the fit of this library, are local
# optima: more iterations do not help.

figure, panel = plt.subplots(figsize=(7, 4), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Mean log-likelihood against iterations of EM from five random starts. Some curves end "
    "below a dashed line, the fit of RegressionMixture, and miss lines."
)
for lines, climbed in runs:
    lost = K - n_found(lines)
    panel.plot(climbed, color="C3" if lost else "C0", alpha=0.8)
panel.axhline(model.score(X, y), color="black", linestyle="--", label="RegressionMixture")
panel.set(xlim=(0, 100), ylim=(-1.4, -1.2))
panel.plot([], color="C0", label="EM that found all lines")
panel.plot([], color="C3", label="EM that missed some")
panel.set_xlabel("iteration of EM")
panel.set_ylabel("mean log-likelihood per row")
panel.legend(loc="lower right")
plt.show()
