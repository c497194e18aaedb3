"""How often right fits carry a note, and how often a wrong number of components is named.

    python benchmarks/note_rates.py [--seeds 40] [--first 0]

Mixtures of 3 to 15 spherical components in 2 to 12 features at separations of 3, 4 and 5 noise
deviations, with 50 rows and more in the lightest. A fit is right if its log-likelihood is at most
2 nats below that of EM from the truth. Right fits are of spheres of one variance and of full
covariances; fits with one component too few and one too many are of spheres.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections import Counter

import numpy as np

from duel import Floats, Rows, Spheres, draw_means, draw_weights, em, nearest_distances
from implicitmoments import AssumptionWarning, GaussianMixture, SphericalMixture

SEPARATIONS = (3.0, 4.0, 5.0)
LAWS = ("equal", "1/i", "Dirichlet")
FEWEST = 50  # rows of the lightest component
RIGHT = 2.0  # nats below EM from the truth
MOST_ROWS = 20_000


def draw(seed: int, separation: float) -> tuple[Floats, Spheres] | None:
    """Return rows and the mixture they were drawn from; None if a component has few rows."""
    rng = np.random.default_rng([seed, round(10 * separation)])
    k, d = int(rng.integers(3, 16)), int(rng.integers(2, 13))
    weights = draw_weights(rng, str(rng.choice(LAWS)), k)
    means = draw_means(rng, "cloud", k, d)
    means *= separation / nearest_distances(means).min()
    n = min(int(np.ceil(rng.integers(FEWEST, 200) / weights.min())), MOST_ROWS)
    labels = rng.choice(k, n, p=weights)
    if np.bincount(labels, minlength=k).min() < FEWEST:
        return None
    return means[labels] + rng.normal(size=(n, d)), Spheres(weights, means, 1.0)


def measure(separation: float, seeds: range) -> list[str]:
    """Return the cells of one row of the table."""
    right, alarms, tried = 0, 0, 0
    codes: Counter[str] = Counter()
    missing, superfluous = 0, 0
    for seed in seeds:
        drawn = draw(seed, separation)
        if drawn is None:
            continue
        X, truth = drawn
        k, n, tried = len(truth.weights), len(X), tried + 1
        level = em(Rows(X, np.zeros(n)), truth)
        for kind in ("tied_spherical", "full"):
            model = GaussianMixture(k, covariance_type=kind, random_state=seed).fit(X)
            if n * model.lower_bound_ > level - RIGHT:
                right, alarms = right + 1, alarms + bool(model.notes_)
                codes.update(model.notes_.codes)
        for change in (-1, 1):
            found = SphericalMixture(k + change, random_state=seed).fit(X).notes_.codes
            missing += change < 0 and "component_missing" in found
            superfluous += change > 0 and "components_are_one" in found
    names = ", ".join(f"{code} {count}" for code, count in codes.most_common())
    return [
        f"{separation:g}",
        f"{alarms} of {right}",
        names or "–",
        f"{missing} of {tried}",
        f"{superfluous} of {tried}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Error rates of the notes of mixtures.")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore", AssumptionWarning)
    print(f"{platform.machine()}, seeds {args.first} to {args.first + args.seeds - 1}\n")
    print("| separation | right fits with a note | which | k − 1: missing | k + 1: are one |")
    print("|---|---|---|---|---|")
    for separation in SEPARATIONS:
        cells = measure(separation, range(args.first, args.first + args.seeds))
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
