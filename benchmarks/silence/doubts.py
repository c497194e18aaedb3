"""Rates of notes that no other module of this folder measures: alarms and misses of each.

Every case draws rows by a seed, fits them, and says whether the fit is wrong. By construction:
rows that the model does not allow, beside rows that it does. Or by a reference: a fit is wrong
where its likelihood is more than 2 nats below that of EM from the truth or from 20 random starts,
where BIC of a fit of another number is lower, or where a density is 0.1 from the true one.
``alarms`` counts right fits with the note, ``misses`` wrong fits without it, and ``silent`` those
that have no note at all that warns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit
from sklearn.metrics import adjusted_rand_score

import gaussian_mixtures
import implicitmoments as im
from freezing.truth import mixture_logs, n_close, regression_logs, total_variation
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture
from implicitmoments.notes import QUIET
from implicitmoments.problems import ActivationSumProblem, SphericalMixtureProblem
from silence import activations, small
from silence.lines import ENOUGH, PlainEM
from silence.rates import Run, print_table

FAR_DENSITY = 0.1  # total variation distance of a density that is wrong
FRESH = 4_000  # rows with which a density is compared
QUANTILES: dict[str, Callable[[Any], Any]] = {  # of the laws of inputs
    "normal": ndtri,
    "uniform": np.asarray,
    "t5": partial(stdtrit, 5),
    "exponential": np.log,
}
Judged = tuple[bool, Collection[str]]  # whether a fit is wrong, and its notes


def codes_of(model: Any) -> list[str]:
    """Return the codes of the notes of a fit."""
    return list(model.notes_.codes)


def lines(seed: int, noise: tuple[float, ...], n: int = 600) -> tuple[Any, Any]:
    """Draw rows of lines with standard normal coefficients, in three columns."""
    rng, k = np.random.default_rng([seed, 20]), len(noise)
    coef, line, X = rng.normal(size=(k, 4)), rng.integers(k, size=n), rng.normal(size=(n, 3))
    y = coef[line, 0] + np.sum(X * coef[line, 1:], axis=1)
    return X, y + np.array(noise)[line] * rng.normal(size=n)


def groups(seed: int, apart: float, k: int = 4, d: int = 5, n: int = 2_000) -> tuple[Any, Any]:
    """Draw spherical groups at equal distances of neighbours, and their labels."""
    rng = np.random.default_rng([seed, 21])
    means = apart * np.sqrt(0.5) * np.eye(max(k, d))[:k, :d] if k <= d else None
    if means is None:
        means = apart * np.arange(k)[:, None] * np.eye(1, d)
    labels = rng.integers(k, size=n)
    return means[labels] + rng.normal(size=(n, d)), labels


def outliers_kept(seed: int, wild: bool) -> Iterator[Judged]:
    """Yield fits of labels of which three may be 100 to 200 deviations away, and not left out."""
    rng, (X, y) = np.random.default_rng([seed, 22]), lines(seed, (0.3, 0.3))
    y[: 3 * wild] += 100 * rng.uniform(1, 2, 3 * wild)
    model = im.RegressionMixture(2, drop_outliers=False, random_state=seed).fit(X, y)
    yield wild, codes_of(model)
    yield wild, codes_of(im.ActivationSumRegressor("relu", 2, random_state=seed).fit(X, y))


def value_stands_apart(seed: int, coded: bool) -> Iterator[Judged]:
    """Yield fits of rows of which a tenth may have -999 in a column, beside skewed columns."""
    rng, (X, y) = np.random.default_rng([seed, 31]), lines(seed, (0.3, 0.3))
    X[:, 1], X[:, 2] = np.exp(X[:, 1]), rng.poisson(2.0, len(X))
    X[rng.uniform(size=len(X)) < 0.1 * coded, 0] = -999.0
    yield coded, codes_of(im.ActivationSumRegressor("relu", 2, random_state=seed).fit(X, y))


def flat_direction(seed: int, flat: bool) -> Iterator[Judged]:
    """Yield fits of groups, of which one column may have a tenth of the noise of the others."""
    X, _ = groups(seed, 6.0)
    X[:, 4] *= 0.1 if flat else 1.0
    yield flat, codes_of(im.SphericalMixtureClusterer(4, random_state=seed).fit(X))
    X, _ = groups(seed, 1.5)
    X[:, 4] *= 0.1 if flat else 1.0
    yield flat, codes_of(im.SphericalMixtureDensity(4, random_state=seed).fit(X))


def near_components(seed: int, moves: int | None) -> Iterator[Judged]:
    """Yield fits of components that overlap, with as many moves as usual, or fewer."""
    rng = np.random.default_rng([seed, 24])
    for kind in ("tied_spherical", "full"):
        k, d = int(rng.integers(3, 9)), int(rng.integers(2, 6))
        setting = gaussian_mixtures.Setting("", kind, k, d, 120 * k, rng.uniform(2.0, 3.0))
        X, truth = gaussian_mixtures.draw(setting, seed)
        goal = gaussian_mixtures.from_truth(X, setting, truth).score(X)
        how: dict[str, Any] = (
            {} if moves is None else {"n_moves": moves, "init_params": "k-means++"}
        )
        model = im.GaussianMixture(k, covariance_type=kind, random_state=seed, **how)
        model.set_params(drop_outliers=False).fit(X)
        yield (goal - model.score(X)) * len(X) > ENOUGH, codes_of(model)


def noise_differs(seed: int, unequal: bool) -> Iterator[Judged]:
    """Yield fits with one noise for all lines."""
    for n in (300, 2_000):
        X, y = lines(seed, (0.1, 0.4) if unequal else (0.3, 0.3), n)
        yield unequal, codes_of(im.RegressionMixture(2, random_state=seed).fit(X, y))


def few_rows(seed: int, _: object) -> Iterator[Judged]:
    """Yield fits of few rows, wrong where EM from 20 random starts is above them."""
    for name in small.KINDS:
        data = small.draw(name, seed)
        goal = PlainEM(data).from_random(np.random.default_rng(seed))
        noise = "shared" if data.shared else "separate"
        model = im.RegressionMixture(data.k, noise_type=noise, drop_outliers=False)
        model.set_params(random_state=seed).fit(data.X, data.y)
        yield goal - model.lower_bound_ * len(data.y) > ENOUGH, codes_of(model)


def noise_at_floor(seed: int, ties: bool) -> Iterator[Judged]:
    """Yield fits of a noise for each line, where a tenth of the labels may be the same number."""
    X, y = lines(seed, (0.2, 0.4))
    y[: 60 * ties] = 0.0
    model = im.RegressionMixture(2 + ties, noise_type="separate", random_state=seed)
    yield ties, codes_of(model.fit(X, y))


def activation_case(seed: int, case: activations.Case) -> Iterator[Judged]:
    """Yield fits of sums of activations, with negative weights or without."""
    for noise in (0.05, 0.3):
        X, y, *_, k = activations.draw(case, 3_000, noise, seed)
        model = im.ActivationSumRegressor(case.activation, k, random_state=seed)
        yield bool(case.option), codes_of(model.fit(X, y))


def directions_not_identified(seed: int, activation: str) -> Iterator[Judged]:
    """Yield fits of three orthogonal directions, which squares do not identify."""
    rng = np.random.default_rng([seed, 25])
    X, V = rng.normal(size=(3_000, 6)), np.linalg.qr(rng.normal(size=(6, 6)))[0][:3]
    u = X @ V.T
    y = np.sum(u**2 if activation == "square" else np.maximum(u, 0), axis=1)
    y += 0.1 * rng.normal(size=len(y))
    model = im.ActivationSumRegressor(activation, 3, random_state=seed).fit(X, y)
    yield activation == "square", codes_of(model)


def polynomial_predicts(seed: int, waves: bool) -> Iterator[Judged]:
    """Yield fits of ReLUs and of sines as ReLUs, wrong where the polynomial predicts better."""
    rng = np.random.default_rng([seed, 26])
    V = np.linalg.qr(rng.normal(size=(6, 6)))[0][:3]

    def draw(n: int) -> tuple[Any, Any]:
        X = rng.normal(size=(n, 6))
        u = X @ V.T
        return X, np.sum(np.sin(1.5 * u) + 0.5 * u**2 if waves else np.maximum(u, 0), axis=1)

    (X, y), (fresh, truth) = draw(3_000), draw(FRESH)
    y = y + 0.1 * y.std() * rng.normal(size=len(y))
    fits = [
        im.ActivationSumRegressor("relu", 3, refine=refine, random_state=seed).fit(X, y)
        for refine in (True, False)
    ]
    network, polynomial = (float(np.mean((fit.predict(fresh) - truth) ** 2)) for fit in fits)
    noted = codes_of(fits[0])
    # with the note, it is the polynomial that the fit predicts by
    yield ("polynomial_predicts" in noted and waves) or polynomial < 0.9 * network, noted


def inputs_not_gaussian(seed: int, law: str) -> Iterator[Judged]:
    """Yield fits of sums of ReLUs of inputs of several laws."""
    rng = np.random.default_rng([seed, 27])
    V, u = np.linalg.qr(rng.normal(size=(6, 6)))[0][:3], rng.uniform(size=(3_000, 6))
    X = QUANTILES[law](u)
    y = np.maximum((X - X.mean()) @ V.T, 0).sum(axis=1) + 0.1 * rng.normal(size=len(X))
    model = im.ActivationSumRegressor("relu", 3, random_state=seed).fit(X, y)
    yield law != "normal", codes_of(model)


def densities(seed: int, labelled: bool) -> Iterator[Judged]:
    """Yield densities at norms from those that are easy to those that are not."""
    rng = np.random.default_rng([seed, 28])
    if labelled:
        X, y, truth = make_regression_mixture(
            4_000 + FRESH, 3, 4, radius=rng.uniform(0.3, 4.0), noise=1.0, random_state=seed
        )
        model: Any = im.RegressionMixtureDensity(3, random_state=seed).fit(X[FRESH:], y[FRESH:])
        new = X[:FRESH], y[:FRESH]
        logs = regression_logs(*new, truth.weights, truth.vectors, 1.0)
        distance = total_variation(model.score_samples(*new), logs)
    else:
        X, truth = make_spherical_mixture(
            4_000 + FRESH, 4, 5, radius=rng.uniform(1.0, 4.0), random_state=seed
        )
        model = im.SphericalMixtureDensity(4, random_state=seed).fit(X[FRESH:])
        logs = mixture_logs(X[:FRESH], truth.weights, truth.vectors)
        distance = total_variation(model.score_samples(X[:FRESH]), logs)
    yield distance > FAR_DENSITY, codes_of(model)


def inputs_not_standard(seed: int, change: str) -> Iterator[Judged]:
    """Yield densities with ``whiten=False`` of inputs that are standard, or not."""
    X, y, _ = make_regression_mixture(3_000, 2, 4, radius=1.0, noise=1.0, random_state=seed)
    X = X + 0.3 if change == "shifted" else X * (1.2 if change == "wider" else 1.0)
    model = im.RegressionMixtureDensity(2, whiten=False, random_state=seed)
    yield change != "standard", codes_of(model.fit(X, y))


def near_clusters(seed: int, _: object) -> Iterator[Judged]:
    """Yield clusters of groups at distances from 2 to 7, wrong where labels are."""
    X, labels = groups(seed, 2.0 + seed % 6, n=3_000)
    model = im.SphericalMixtureClusterer(4, random_state=seed).fit(X)
    yield adjusted_rand_score(labels, model.labels_) < 0.9, codes_of(model)


def clusters(seed: int, fewer: bool) -> Iterator[Judged]:
    """Yield clusters of four groups far apart, of which three may be asked for."""
    X, _ = groups(seed, float(np.random.default_rng([seed, 29]).uniform(5, 8)), n=3_000)
    yield fewer, codes_of(im.SphericalMixtureClusterer(4 - fewer, random_state=seed).fit(X))


def negative_eigenvalue(seed: int, case: activations.Case) -> Iterator[Judged]:
    """Yield moments of sums of activations, with negative weights or without."""
    X, y, *_, k = activations.draw(case, 10_000, 0.05, seed)
    m = im.implicit_moments(ActivationSumProblem(X, y, case.activation), n_components=k, order=2)
    yield bool(case.option), [note.code for note in m.notes]


def decoded(seed: int, missing: bool) -> Iterator[Judged]:
    """Yield decoded components, wrong where one is far from its mean, or fewer were asked for."""
    rng = np.random.default_rng([seed, 30])
    n, radius = int(np.exp(rng.uniform(*np.log([1_000, 60_000])))), rng.uniform(1.5, 4.0)
    X, truth = make_spherical_mixture(n, 5, 6, radius=radius, random_state=seed)
    m = im.implicit_moments(SphericalMixtureProblem(X), n_components=5 - missing, order=1)
    found = m.components()
    guesses = np.nan_to_num(np.asarray(found.guesses), nan=np.inf, posinf=1e6)
    yield missing or n_close(guesses, truth.vectors) < 5, found.notes.codes


RIGHT, SIGNS = activations.RIGHT[0], activations.WRONG[:2]
UNRESOLVED = frozenset(
    {f"components_{word}" for word in ("mixed", "blurred", "faint")}
    | {"directions_at_noise_floor", "directions_near_noise_floor", "decompositions_differ"}
)
# notes, of which one is expected; how rows are drawn and fitted; and what it is given
CASES: list[tuple[Collection[str], Callable[..., Iterable[Judged]], tuple[Any, ...]]] = [
    (["outliers_kept"], outliers_kept, (False, True)),
    (["value_stands_apart"], value_stands_apart, (False, True)),
    (["flat_direction"], flat_direction, (False, True)),
    (["search_doubtful"], near_components, (None, 1, 2)),
    (["noise_differs"], noise_differs, (False, True)),
    (["search_doubtful"], few_rows, (None,)),
    (["at_floor"], noise_at_floor, (False, True)),
    (["negative_weights_likely", "negative_component"], activation_case, (RIGHT, *SIGNS)),
    (["directions_not_identified"], directions_not_identified, ("relu", "square")),
    (["polynomial_predicts"], polynomial_predicts, (False, True)),
    (
        ["moments_of_inputs_not_gaussian"],
        inputs_not_gaussian,
        ("normal", "uniform", "t5", "exponential"),
    ),
    (["density_far_from_rows"], densities, (False, True)),
    (["inputs_not_standard"], inputs_not_standard, ("standard", "shifted", "wider")),
    (["separation_too_small"], near_clusters, (None,)),
    (["cluster_wide"], clusters, (False, True)),
    (["negative_eigenvalue"], negative_eigenvalue, (RIGHT, *SIGNS)),
    (UNRESOLVED, decoded, (False,)),
    (["more_components_likely"], decoded, (False, True)),
]


def judge(given: tuple[int, int]) -> list[Judged]:
    """Return the fits of one case and seed."""
    which, seed = given
    _, fit, kinds = CASES[which]
    return [judged for kind in kinds for judged in fit(seed, kind)]


def rates(run: Run) -> Iterator[list[object]]:
    """Yield the row of each case."""
    asked = [run.map(judge, [(which, seed) for seed in run.seeds]) for which in range(len(CASES))]
    for (codes, fit, _), fits in zip(CASES, asked, strict=True):
        found = [(wrong, set(noted)) for each in fits for wrong, noted in each]
        right = [noted for wrong, noted in found if not wrong]
        bad = [noted for wrong, noted in found if wrong]
        yield [
            ", ".join(sorted(codes)),
            (fit.__doc__ or "").removeprefix("Yield ").rstrip("."),
            f"{sum(not noted.isdisjoint(codes) for noted in right)} of {len(right)}",
            f"{sum(noted.isdisjoint(codes) for noted in bad)} of {len(bad)}",
            sum(not noted - QUIET for noted in bad),
        ]


def doubts(run: Run) -> None:
    """Print how often each note is on right fits, and how often it is not on wrong ones."""
    print_table(["notes", "fits", "alarms", "misses", "silent"], rates(run))
