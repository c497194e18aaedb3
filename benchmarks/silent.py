"""Error rates of notes: notes on right fits, and wrong fits without a note.

    python benchmarks/silent.py [right] [wrong] [others] [--seeds N] [--old SRC] [--quick] ...

Mixtures of 3 to 15 spheres in 2 to 12 features, with 50 rows and more in the lightest; a setting
is the least distance of two means in deviations. ``right`` fits spheres of one variance and full
covariances: a fit is right if its log-likelihood is at most 2 nats below that of EM from the
truth, and a note on it is a false alarm. ``wrong`` fits one component too few and one too many,
and counts the notes that say so. ``others`` has a pair of data sets for each other note: one that
the fitted model describes, and one with the defect of which the note tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from common import (
    RIGHT,
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    above,
    both_editions,
    draw_weights,
    em_of_spheres,
    main,
    names,
    nearest_distances,
    print_table,
    select,
    spread,
    timed,
    values,
)

TRUTH = "EM from the truth"
LAWS = ("equal", "1/i", "Dirichlet")
FEWEST, MOST = 50, 20_000  # rows of the lightest component, and of a data set


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, and the weights (k,) and means (k, d) of the spheres they were drawn from."""

    X: Floats
    weights: Floats
    means: Floats


@cache
def draw(case: Case) -> Data:
    """Draw mixtures until the lightest component has enough rows."""
    rng = np.random.default_rng([case.seed, 21])
    while True:
        k, d = int(rng.integers(3, 16)), int(rng.integers(2, 13))
        weights = draw_weights(rng, str(rng.choice(LAWS)), k)
        means = rng.normal(size=(k, d))
        means *= separation(case) / nearest_distances(means).min()
        n = min(int(np.ceil(rng.integers(FEWEST, 200) / weights.min())), MOST)
        labels = rng.choice(k, n, p=weights)
        if np.bincount(labels, minlength=k).min() >= FEWEST:
            return Data(means[labels] + rng.normal(size=(n, d)), weights, means)


def separation(case: Case) -> float:
    """Return the least distance of two means."""
    return float(case.setting.split()[-1])


def fit_shape(case: Case) -> Figures:
    """Fit as many components as there are."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    data = draw(case)
    kind = "full" if "full" in case.setting else "tied_spherical"
    model: Any = im.GaussianMixture(
        len(data.means), covariance_type=kind, drop_outliers=False, random_state=case.seed
    )
    model, seconds = timed(lambda: model.fit(data.X))
    level = model.score(data.X) * len(data.X)
    return {"level": level, "notes": " ".join(model.notes_.codes), "seconds": seconds}


def fit_number(case: Case) -> Figures:
    """Fit one component less or more than there are."""
    import implicitmoments as im  # noqa: PLC0415

    data = draw(case)
    k = len(data.means) + (1 if case.setting.startswith("k + 1") else -1)
    model: Any = im.SphericalMixture(k, drop_outliers=False, random_state=case.seed)
    model, seconds = timed(lambda: model.fit(data.X))
    return {"notes": " ".join(model.notes_.codes), "seconds": seconds}


def fit_truth(case: Case) -> Figures:
    """Run plain EM of spheres from the truth."""
    data = draw(case)
    return {"level": em_of_spheres(data.X, data.weights, data.means, 1.0)}


def warm_up() -> None:
    """Fit a few rows."""
    import implicitmoments as im  # noqa: PLC0415

    im.SphericalMixture(2, random_state=0).fit(np.random.default_rng(0).normal(size=(200, 2)))


def show_right(rows: list[Row]) -> None:
    """Print how many right fits carry a note, and which."""
    lines = []
    for setting in names(rows, "setting"):
        for method in names(rows, "method"):
            own = select(rows, setting=setting)
            found = select(own, method=method)
            if method == TRUTH or not found:
                continue
            gaps = above(own, method, TRUTH)
            right = [row for row, gap in zip(found, gaps, strict=True) if gap > -RIGHT]
            noted = [row["notes"] for row in right if row["notes"]]
            codes = Counter(code for notes in noted for code in notes.split())
            words = ", ".join(f"{code} {count}" for code, count in codes.most_common())
            share = f"{len(noted)} of {len(right)} ({len(noted) / max(len(right), 1):.1%})"
            lines.append([setting, method, share, words or "–"])
    print_table(("separation", "method", "right fits with a note", "notes"), lines)


def show_wrong(rows: list[Row]) -> None:
    """Print how often a wrong number of components is named, and how often it is silent."""
    lines = []
    for setting in names(rows, "setting"):
        code = "components_are_one" if setting.startswith("k + 1") else "component_missing"
        for method in names(rows, "method"):
            found = select(rows, setting=setting, method=method)
            named = sum(code in row["notes"].split() for row in found)
            silent = sum(not row["notes"] for row in found)
            cells = [f"{named} of {len(found)}", silent, spread(values(found, "seconds"))]
            lines.append([setting, method, *cells])
    print_table(("fitted, separation", "method", "named", "without a note", "s"), lines)


# ---- a function for each of the other notes, which fits data with its defect, or without


def spheres(seed: int, k: int = 4, *, separation: float = 6.0, radius: float = 9.0) -> Floats:
    """Draw 1,000 to 8,000 rows of round groups in six columns."""
    import implicitmoments as im  # noqa: PLC0415

    n = int(np.random.default_rng([seed, 22]).integers(1_000, 8_000))
    X, _ = im.datasets.make_spherical_mixture(
        n, k, 6, radius=radius, separation=separation, random_state=seed
    )
    return np.asarray(X)


def network(seed: int, activation: Any = "relu") -> tuple[Floats, Floats]:
    """Draw 4,000 to 8,000 rows with a sum of three activations and noise as labels."""
    import implicitmoments as im  # noqa: PLC0415

    n = int(np.random.default_rng([seed, 23]).integers(4_000, 8_000))
    X, y, _ = im.datasets.make_activation_sum(
        n, 3, 6, activation=activation, noise=0.1, random_state=seed
    )
    return np.asarray(X), np.asarray(y)


def fit(name: str, *rows: Any, **parameters: Any) -> Any:
    """Fit an estimator of the edition of this process."""
    import implicitmoments as im  # noqa: PLC0415

    return getattr(im, name)(**parameters, random_state=0).fit(*rows)


def outliers(seed: int, wrong: bool) -> Any:
    """Fit groups, with five rows far away."""
    X = spheres(seed)
    X[: 5 if wrong else 0] *= 1e3
    return fit("SphericalMixture", X, n_components=4)


def heavy_tails(seed: int, wrong: bool) -> Any:
    """Fit Gaussians to groups, with noise of four degrees of freedom."""
    X = spheres(seed)
    noise = np.random.default_rng(seed).standard_t(4, size=X.shape)
    return fit("GaussianMixture", X + wrong * noise, n_components=4, covariance_type="diag")


def not_round(seed: int, wrong: bool) -> Any:
    """Fit spheres to groups, of which one column is twice as wide."""
    X = spheres(seed)
    X[:, 0] *= 1 + wrong
    return fit("SphericalMixture", X, n_components=4)


def at_floor(seed: int, wrong: bool) -> Any:
    """Fit groups, with equal values in one column."""
    X = spheres(seed)
    X[: len(X) // 6 * wrong, 0] = 25.0
    return fit("GaussianMixture", X, n_components=4 + wrong)


def flat_direction(seed: int, wrong: bool) -> Any:
    """Fit a density, with one column that is nearly another."""
    X = spheres(seed, 3, separation=0.0, radius=1.2)
    if wrong:
        X[:, 0] = X[:, 1] + 1e-4 * X[:, 0]
    return fit("SphericalMixtureDensity", X, n_components=3, degree=2)


def density_far_from_rows(seed: int, wrong: bool) -> Any:
    """Fit a density of low degree, with means far apart."""
    X = spheres(seed, 3, separation=0.0, radius=8.0 if wrong else 1.2)
    return fit("SphericalMixtureDensity", X, n_components=3, max_degree=8)


def separation_too_small(seed: int, wrong: bool) -> Any:
    """Cluster by pairs, with groups that overlap."""
    X = spheres(seed, separation=2.0 if wrong else 10.0, radius=3.0 if wrong else 16.0)
    return fit("SphericalMixtureClusterer", X, n_components=4)


def cluster_wide(seed: int, wrong: bool) -> Any:
    """Cluster by pairs, with one cluster too few."""
    X = spheres(seed, separation=10.0, radius=16.0)
    return fit("SphericalMixtureClusterer", X, n_components=4 - wrong)


def fewer_components(seed: int, wrong: bool) -> Any:
    """Cluster by pairs, with two clusters too many."""
    X = spheres(seed, separation=10.0, radius=16.0)
    return fit("SphericalMixtureClusterer", X, n_components=4 + 2 * wrong)


def inputs_not_gaussian(seed: int, wrong: bool) -> Any:
    """Fit a network to Gaussian inputs, or to exponential ones."""
    X, y = network(seed)
    if wrong:
        X = np.asarray(np.random.default_rng(seed).exponential(size=X.shape))
        y = np.maximum(X[:, :3], 0).sum(axis=1)
    return fit("ActivationSumRegressor", X, y, n_components=3, refine=False)


def inputs_not_standard(seed: int, wrong: bool) -> Any:
    """Fit a polynomial to standard inputs, or to shifted ones."""
    X, y = network(seed)
    X = np.asarray(1.5 * X + 0.3) if wrong else X
    return fit("ActivationSumRegressor", X, y, n_components=3, whiten=False, refine=False)


def residuals_explained(seed: int, wrong: bool) -> Any:
    """Fit a network, with one direction too few."""
    return fit("ActivationSumRegressor", *network(seed), n_components=3 - wrong)


def directions_not_identified(seed: int, wrong: bool) -> Any:
    """Fit absolute values, or squares."""
    name = "square" if wrong else "abs"
    return fit("ActivationSumRegressor", *network(seed, name), activation=name, n_components=3)


def polynomial_predicts(seed: int, wrong: bool) -> Any:
    """Fit positive weights to positive or negative labels."""
    X, y = network(seed)
    return fit("ActivationSumRegressor", X, -y if wrong else y, n_components=3)


def nearly_symmetric(seed: int, wrong: bool) -> Any:
    """Fit a cosine, with a phase near 0."""
    from implicitmoments.moments.activations import cosine  # noqa: PLC0415

    wave = cosine(1.0, 0.02 if wrong else 0.7)
    return fit("ActivationSumRegressor", *network(seed, wave), activation=wave, n_components=3)


def negative_eigenvalue(seed: int, wrong: bool) -> Any:
    """Compute moments of a network, with one negative weight."""
    import implicitmoments as im  # noqa: PLC0415

    X, _, truth = im.datasets.make_activation_sum(20_000, 3, 6, random_state=seed)
    y = np.maximum(X @ truth.vectors.T, 0) @ [0.6, -0.5 if wrong else 0.5, 0.3]
    problem = im.moments.ActivationSumProblem(X, y, "relu")
    return im.implicit_moments(problem, n_components=3, order=2)


def more_components_likely(seed: int, wrong: bool) -> Any:
    """Decode components, with one too few."""
    import implicitmoments as im  # noqa: PLC0415

    problem = im.moments.SphericalMixtureProblem(spheres(seed), variance=1.0)
    return im.implicit_moments(problem, n_components=4 - wrong, order=4).components()


def components_unresolved(seed: int, wrong: bool) -> Any:
    """Decode components, with one too many."""
    import implicitmoments as im  # noqa: PLC0415

    problem = im.moments.SphericalMixtureProblem(spheres(seed), variance=1.0)
    return im.implicit_moments(problem, n_components=4 + wrong, order=4).components()


def fit_pair(case: Case) -> Figures:
    """Fit data without the defect of a note, and with it; return the notes of both fits."""
    models = [OTHERS[case.setting](case.seed, wrong) for wrong in (False, True)]
    found = [model.notes_ if hasattr(model, "notes_") else model.notes for model in models]
    right, wrong = (" ".join(notes.codes) for notes in found)
    return {"right": right, "wrong": wrong}


def show_others(rows: list[Row]) -> None:
    """Print how often each note is on the fit without its defect, and missing on the other."""
    lines = []
    for code in names(rows, "setting"):
        for method in names(rows, "method"):
            found = select(rows, setting=code, method=method)
            done = [row for row in found if "error" not in row]
            alarms = sum(code in row["right"].split() for row in done)
            others = sum(bool({*row["right"].split()} - {code}) for row in done)
            misses = sum(code not in row["wrong"].split() for row in done)
            silent = sum(not row["wrong"] for row in done)
            failed = len(found) - len(done)
            lines.append([code, method, len(done), alarms, others, misses, silent, failed])
    heads = ("alarms", "other notes on right fits", "misses", "without any note", "errors")
    print_table(("note", "method", "pairs", *heads), lines)


OTHERS: dict[str, Callable[[int, bool], Any]] = {
    function.__name__: function
    for function in (
        *(outliers, heavy_tails, not_round, at_floor, flat_direction, density_far_from_rows),
        *(separation_too_small, cluster_wide, fewer_components, inputs_not_gaussian),
        *(inputs_not_standard, residuals_explained, directions_not_identified),
        *(polynomial_predicts, nearly_symmetric, negative_eigenvalue),
        *(more_components_likely, components_unresolved),
    )
}
SHAPES = [f"{kind} {apart}" for kind in ("spheres", "full") for apart in (3, 4, 5)]
NUMBERS = [f"{change} {apart}" for change in ("k - 1,", "k + 1,") for apart in (3, 4, 5)]
TABLES = {
    "right": Table(
        SHAPES,
        [Method(TRUTH, fit_truth), *both_editions(fit_shape)],
        show_right,
        warm_up,
        40,
        SHAPES[1:2],
    ),
    "wrong": Table(NUMBERS, both_editions(fit_number), show_wrong, warm_up, 40, NUMBERS[:1]),
    "others": Table([*OTHERS], both_editions(fit_pair), show_others, warm_up, 20, [*OTHERS][:3]),
}

if __name__ == "__main__":
    main("silent", __doc__, TABLES)
