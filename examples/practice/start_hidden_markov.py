"""
A start for a hidden Markov model
=================================

The rows of a hidden Markov model, taken without their order, are those of a mixture. Its
components are a start for the states, and pairs of consecutive rows for the transitions. hmmlearn
goes on from there. Its own start is k-means, with one covariance for all states and random
transitions.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from hmmlearn.hmm import GaussianHMM

import implicitmoments as im

K, D, N = 10, 5, 3_000
rng = np.random.default_rng(0)
truth = GaussianHMM(K, "diag")
truth.startprob_ = np.full(K, 1 / K)
truth.transmat_ = 0.7 * np.eye(K) + 0.3 * rng.dirichlet(np.ones(K), size=K)
truth.means_ = 2.0 * rng.normal(size=(K, D))
truth.covars_ = np.ones((K, D))
X, states = truth.sample(2 * N, random_state=0)
X, held_out = X[:N], X[N:]

# %%
# Transitions that are the same in all states make the model a mixture. The states that it predicts
# are counted in pairs.

found = im.start(X, K, covariance_type="diag", random_state=0)
means, weights, precisions = map(np.asarray, found)
model = GaussianHMM(K, "diag", init_params="", n_iter=50)
model.startprob_, model.transmat_ = weights, np.tile(weights, (K, 1))
model.means_, model.covars_ = means, 1 / precisions
labels = model.predict(X)
counts = np.ones((K, K))
np.add.at(counts, (labels[:-1], labels[1:]), 1.0)
model.transmat_ = counts / counts.sum(axis=1, keepdims=True)
model.fit(X)

own = [GaussianHMM(K, "diag", n_iter=50, random_state=seed).fit(X) for seed in range(4)]
scores = [each.score(held_out) / N for each in own]
print(f"held-out log-likelihood per row from im.start: {model.score(held_out) / N:.2f}")
print("from hmmlearn's own starts:", *(f"{score:.2f}" for score in scores))
print(f"of the true model: {truth.score(held_out) / N:.2f}")

# %%
# The held-out log-likelihood per row; the line is that of the true model.

figure, panel = plt.subplots(figsize=(6.5, 2.4), layout="constrained")
figure.set_label(  # what the picture shows, for readers who do not see it
    "Held-out log-likelihood per row of a hidden Markov model: a dot for the fit from "
    "im.start, four dots for own starts of hmmlearn, and a line for the true model."
)
panel.plot(scores, np.zeros(len(scores)), "o", alpha=0.5, markersize=9)
panel.plot([model.score(held_out) / N], [1], "o", markersize=9)
panel.axvline(truth.score(held_out) / N, color="0.5")
panel.set_yticks([0, 1], ["own starts", "im.start"])
panel.set_ylim(-0.6, 1.6)
panel.set_xlabel("held-out log-likelihood per row")
plt.show()
