"""Where EM starts: from the moments or from scattered rows, whichever comes to be likelier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus

from implicitmoments.mixture.em import VarianceModel, maximise, polish
from implicitmoments.mixture.likelihood import Mixture, gather
from implicitmoments.mixture.moment_start import Reading
from implicitmoments.mixture.standard_rows import Sample
from implicitmoments.moments.decode import Components

__all__ = ["Start", "choose_start", "scattered_mixture"]

SETTLING, SETTLED = 40, 2e-5  # iterations of EM before starts are compared, and its tolerance
CLEARLY = 2.0  # of the log-likelihood of the sample: nearer than that starts are equals


@dataclass(frozen=True, eq=False)
class Start:
    """A mixture at which EM on a sample of rows has settled.

    Attributes
    ----------
    mixture : Mixture
    kind : {"moments", "scattered"}
    components : Components or None
        What was read off the moments.
    words : tuple of str
        What the moments could not tell, and why.
    numbers : dict
        What was measured on the way.
    """

    mixture: Mixture
    kind: str
    components: Components | None
    words: tuple[str, ...]
    numbers: dict[str, Any]


def choose_start(
    sample: Sample,
    k: int,
    reading: Reading | None,
    model: VarianceModel,
    rng: np.random.Generator,
) -> Start:
    """Let EM settle a start from moments and one from scattered rows; return the likelier.

    Parameters
    ----------
    sample : Sample
        Rows on which the starts are compared.
    k : int
    reading : Reading or None
        What the moments say; None for one component, which is the mean.
    model : VarianceModel
    rng : Generator
    """
    if reading is None:
        return Start(_one_component(sample, model), "moments", None, (), {"start": "moments"})
    starts = {"scattered": scattered_mixture(sample, k, model, rng)}
    if reading.mixture is not None:
        starts["moments"] = reading.mixture
    settled, levels = {}, {}
    for kind, mixture in starts.items():
        settled[kind] = polish(sample, mixture, model, SETTLING, SETTLED).mixture
        levels[kind] = gather(sample, settled[kind]).log_likelihood / sample.total
    ahead = (levels["scattered"] - levels.get("moments", -np.inf)) * sample.total
    best = "scattered" if ahead > CLEARLY else "moments"
    numbers = reading.numbers | {"start": best, "start_log_likelihood": levels}
    return Start(settled[best], best, reading.components, reading.words, numbers)


def _one_component(sample: Sample, model: VarianceModel) -> Mixture:
    """Return the mean: one component is nothing to be told apart."""
    one = Mixture(np.ones(1), np.zeros((1, sample.d)), np.ones(1))
    return maximise(gather(sample, one), one, model)


def scattered_mixture(
    sample: Sample, k: int, model: VarianceModel, rng: np.random.Generator
) -> Mixture:
    """Put means on rows that lie far apart, by k-means++."""
    points, counts = sample.points, sample.counts
    n = min(k, len(points))
    seed = int(rng.integers(2**31))
    means, _ = kmeans_plusplus(points, n, sample_weight=counts, random_state=seed)
    means = means.astype(np.float64)
    apart = np.sum(means**2, axis=1) - 2 * points @ means.T
    squared = np.maximum(apart.min(axis=1) + np.einsum("ij,ij->i", points, points), 0.0)
    # A row and the mean next to it, which is a row too, both carry the noise.
    variance = 0.5 * float(np.average(squared, weights=counts)) / sample.d
    variance = model.known or max(variance, model.floor)
    if n < k:  # one component a row, and the rest on top of them
        means = np.vstack([means, means[rng.integers(n, size=k - n)]])
    return Mixture(np.full(k, 1 / k), means, np.full(k, variance))
