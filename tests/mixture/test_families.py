"""The laws of the family protocol, for every family in one test each."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from implicitmoments.mixture.cells import Counts, Numbers
from implicitmoments.mixture.em import Sample, Stream, run_em, take_steps
from implicitmoments.mixture.family import Family, coefficients_of
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES, Gaussians
from implicitmoments.mixture.lines import Lines
from implicitmoments.mixture.poissons import Poissons
from implicitmoments.mixture.standard_errors import standard_errors
from implicitmoments.mixture.starts import find_optimum
from implicitmoments.mixture.students import Students
from implicitmoments.mixture.tables import Tables
from implicitmoments.rows import DaskTable, Rows

K, D, N = 3, 2, 900


def normal(rng, shape):
    return rng.normal(size=shape)


def heavy(rng, shape):
    """Student's t with four degrees of freedom."""
    return rng.normal(size=shape) / np.sqrt(rng.chisquare(4, size=(shape[0], 1)) / 4)


def points(noise=normal):
    """Rows of three clear groups, of different shapes."""
    rng, n = np.random.default_rng(0), N
    labels = rng.integers(K, size=n)
    means = np.array([[0.0, 0.0], [9.0, 1.0], [2.0, 10.0]])
    scales = np.array([[1.0, 1.0], [1.5, 0.7], [0.6, 1.2]])
    return {"x": means[labels] + scales[labels] * noise(rng, (n, D))}, labels


def lines(noise=normal):
    """Rows on three clear lines."""
    rng, n = np.random.default_rng(0), N
    labels, x = rng.integers(K, size=n), rng.normal(size=(n, D)) + np.array([1.0, -2.0])
    coef = np.array([[2.0, 1.0], [-2.0, 0.5], [0.0, -3.0]])
    y = np.array([0.0, 3.0, -1.0])[labels] + (x * coef[labels]).sum(1)
    return {"x": x, "y": y + 0.3 * noise(rng, (n, 1))[:, 0]}, labels


def counts(noise=normal):
    """Rows of counts with three clear sets of rates."""
    rng, n = np.random.default_rng(0), N
    labels = rng.integers(K, size=n)
    rates = np.array([[1.0, 20.0], [15.0, 2.0], [40.0, 45.0]])
    return {"x": rng.poisson(rates[labels]).astype(float)}, labels


@dataclass(eq=False)
class Case:
    """A family, and data that it describes."""

    family: Family
    draw: Any

    @cached_property
    def data(self):
        return self.draw(heavy if isinstance(self.family, Students) else normal)

    @property
    def block(self):
        return self.data[0]

    def rows(self, weights=None, take=slice(None)):
        columns = {name: column[take] for name, column in self.block.items()}
        return Rows.of(columns.pop("x"), counts=weights, **columns)

    @cached_property
    def prepared(self):
        return self.family.prepare(self.rows())

    @cached_property
    def sample(self):
        return Sample.of(self.prepared, self.rows())

    @cached_property
    def sums(self):
        """Sums of a fitted mixture."""
        found = find_optimum(self.sample, K, np.random.default_rng(0)).sums
        return run_em(self.sample, found[None], tol=1e-12, max_iter=2_000).sums[0]

    def random_shares(self, seed=1):
        """An assignment of the rows that is half random."""
        shares = np.random.default_rng(seed).dirichlet(np.ones(K), size=N)
        return (0.5 * shares + 0.5 * np.eye(K)[self.data[1]]).T

    def random_sums(self, seed=1):
        """Sums of that assignment."""
        return self.random_shares(seed) @ self.sample.own


TABLE = (Numbers(np.array([0]), np.zeros(1, bool)), Counts(np.array([1]), np.array([-1])))
CASES = {
    **{kind: Case(Gaussians(kind), points) for kind in COVARIANCE_TYPES},
    "known variance": Case(Gaussians("tied_spherical", variance=1.0), points),
    "student full": Case(Students.of(Gaussians("full")), points),
    "student tied": Case(Students.of(Gaussians("tied")), points),
    "lines": Case(Lines(), lines),
    "lines, separate noise": Case(Lines(separate_noise=True), lines),
    "lines through the origin": Case(Lines(fit_intercept=False), lines),
    "student lines": Case(Students.of(Lines()), lines),
    "counts": Case(Poissons(), counts),
    "table": Case(Tables(kinds=TABLE), counts),
}
GAUSSIAN_NOISE = [name for name in CASES if not name.startswith("student")]


@pytest.fixture(params=list(CASES))
def case(request):
    return CASES[request.param]


@pytest.fixture(params=GAUSSIAN_NOISE)
def exponential(request):
    """Families whose log density is linear in the features."""
    return CASES[request.param]


def likelihood(case, sums):
    return float(case.sample.e_step(sums[None]).levels[0])


def test_features_of_stacked_blocks_are_stacked(case):
    first = {name: column[:300] for name, column in case.block.items()}
    second = {name: column[300:] for name, column in case.block.items()}
    parts = [case.prepared.features(part) for part in (first, second)]
    np.testing.assert_allclose(np.vstack(parts), case.prepared.features(case.block), rtol=1e-12)
    assert case.sample.features.shape == (N, case.prepared.n_features)
    np.testing.assert_array_equal(case.sample.features[:, 0], 1.0)


def test_a_fit_finds_the_components(case):
    shares = case.sample.shares(case.sums).shares
    labels, truth = shares.argmax(0), case.data[1]
    agreement = np.array(
        [[np.mean((labels == i) & (truth == j)) for j in range(K)] for i in range(K)]
    )
    if case.family is CASES["lines through the origin"].family:
        return  # the data have intercepts
    assert agreement.max(axis=1).sum() > 0.85


def test_likelihood_rises_with_every_step(case):
    sums, levels = case.random_sums(), []
    for _ in range(30):
        level, new, _ = case.sample.e_step(sums[None])
        levels.append(float(level[0]))
        sums = new[0]
    assert np.diff(levels).min() > -1e-7 * abs(levels[0])
    assert levels[-1] > levels[0] + 1


def test_accelerated_steps_end_near_plain_steps():
    """With more components than the rows have, some vanish: an extrapolation may overshoot."""
    for seed in (0, 1, 48):  # at the last, one without a bound reached a level of 2e8
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(600, 4)) + 4 * rng.normal(size=(5, 4))[rng.integers(5, size=600)]
        rows = Rows.of(X)
        sample = Sample.of(Gaussians("full").prepare(rows), rows)
        sums = rng.dirichlet(np.full(12, 0.05), size=600).T @ sample.own
        fast, slow = run_em(sample, sums[None], max_iter=60), take_steps(sample, sums[None], 60)
        assert abs(fast.levels[0] - slow.levels[0]) < 600


def parameters_of(case, sums):
    return case.prepared.estimate(sums, case.prepared.pool(sums, case.sample.rest))


def test_estimates_maximise_the_product_with_the_sums(exponential):
    """The gradient of S·η in the parameters is zero at the estimate; elsewhere it is not."""
    case, family = exponential, exponential.prepared.unshared()
    found = parameters_of(case, case.random_sums())
    whole = case.random_shares() @ case.sample.features[:, : family.n_own]

    def slopes(parameters):
        changes = []
        for name, steps in family.steps(parameters).items():
            flat = steps.reshape(-1, *parameters[name].shape[1:])
            for step, i in zip(
                flat, np.repeat(np.arange(len(steps)), steps.shape[1]), strict=True
            ):
                moved = [parameters[name].copy() for _ in range(2)]
                moved[0][i] += 1e-5 * step
                moved[1][i] -= 1e-5 * step
                levels = [
                    family.complete_level(whole, parameters | {name: part}).sum() for part in moved
                ]
                changes.append((levels[0] - levels[1]) / 2e-5)
        return np.array(changes)

    elsewhere = {name: 1.1 * part + 0.1 * (part != 0) for name, part in found.items()}
    assert np.abs(slopes(found)).max() < 1e-3 * N
    assert np.abs(slopes(elsewhere)).max() > 1e-2 * N


def test_a_loop_over_components_gives_the_same_estimates(case):
    sums = case.random_sums()
    shared = case.prepared.pool(sums, case.sample.rest)
    together = case.prepared.natural(sums, shared)
    alone = [case.prepared.natural(sums[i : i + 1], shared)[0] for i in range(K)]
    np.testing.assert_allclose(together, np.stack(alone), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.draw is points])
def test_sums_have_the_parameters_they_were_made_from(name):
    """Parameters in the user's units: of the families that take a start."""
    case, family = CASES[name], CASES[name].prepared.unshared()
    found = family.to_user(parameters_of(case, case.sums))
    sums = family.sums_of(found, np.full(K, N / K))
    again = family.to_user(family.estimate(sums, family.pool(sums, np.zeros(0))))
    for each, part in found.items():
        np.testing.assert_allclose(again[each], part, rtol=2e-3, atol=2e-3)


def test_merged_sums_are_those_of_the_union(case):
    labels = np.random.default_rng(2).integers(4, size=N)
    weights = np.eye(4)[labels].T
    sums = weights @ case.sample.own
    union = np.vstack([weights[0] + weights[1], weights[2:]]) @ case.sample.own
    merged = np.vstack([sums[0] + sums[1], sums[2:]])
    np.testing.assert_allclose(merged, union, rtol=1e-10, atol=1e-8)
    rest = case.sample.rest
    np.testing.assert_allclose(
        coefficients_of(case.prepared, merged, rest)[0],
        coefficients_of(case.prepared, union, rest)[0],
        rtol=1e-6,
        atol=1e-8,
    )


def test_a_batch_equals_a_loop(case):
    batch = np.stack([case.random_sums(seed=seed) for seed in range(4)])
    together = case.sample.e_step(batch)
    for i, sums in enumerate(batch):
        alone = case.sample.e_step(sums[None])
        np.testing.assert_allclose(together.levels[i], alone.levels[0], rtol=1e-10)
        np.testing.assert_allclose(together.sums[i], alone.sums[0], rtol=1e-8, atol=1e-8)


def test_groups_of_rows_equal_samples_of_their_own(case):
    places = np.arange(N).reshape(3, 300)
    features = case.sample.features[places]
    local = replace(case.sample, features=features, weights=np.ones((3, 300)))
    sums = np.stack([case.random_sums(seed=seed) for seed in range(3)])[:, None] / 3
    together = local.e_step(sums)
    for i, rows in enumerate(places):
        alone = Sample(case.prepared, case.sample.features[rows], np.ones(300)).e_step(sums[i])
        np.testing.assert_allclose(together.levels[i], alone.levels, rtol=1e-10)
        np.testing.assert_allclose(together.sums[i], alone.sums, rtol=1e-8, atol=1e-8)


def test_weights_equal_repetition(case):
    times = 1 + np.arange(N) % 3
    repeated = np.repeat(np.arange(N), times)
    weighted = Sample(case.prepared, case.sample.features, times.astype(float))
    whole = Sample(case.prepared, case.sample.features[repeated], np.ones(len(repeated)))
    sums = 2 * case.random_sums()[None]
    one, other = weighted.e_step(sums), whole.e_step(sums)
    np.testing.assert_allclose(one.levels, other.levels, rtol=1e-12)
    np.testing.assert_allclose(one.sums, other.sums, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("size", [1, 77, N])
def test_blocks_of_a_stream_equal_the_whole(case, size):
    rows = replace(case.rows(), rows_per_block=max(size, 7))
    sums = case.random_sums()[None]
    one = Stream(case.prepared, rows, case.sample.rest).e_step(sums)
    other = case.sample.e_step(sums)
    np.testing.assert_allclose(one.rest, case.sample.rest, rtol=1e-11)
    np.testing.assert_allclose(one.levels, other.levels, rtol=1e-11)
    np.testing.assert_allclose(one.sums, other.sums, rtol=1e-9, atol=1e-8)


def test_dask_equals_the_whole(case):
    array = pytest.importorskip("dask.array")
    lazy = array.from_array(case.block["x"], chunks=(250, D))
    labels = case.block.get("y")
    source = DaskTable(lazy, y=None if labels is None else array.from_array(labels, chunks=250))
    stream = Stream(case.prepared, Rows.of(source), case.sample.rest)
    sums = case.random_sums()[None]
    one, other = stream.e_step(sums), case.sample.e_step(sums)
    np.testing.assert_allclose(one.levels, other.levels, rtol=1e-11)
    np.testing.assert_allclose(one.sums, other.sums, rtol=1e-9, atol=1e-8)


def test_accelerated_em_ends_where_plain_em_ends(case):
    start = case.random_sums()
    plain = take_steps(case.sample, case.sums[None], 50)
    fast = run_em(case.sample, case.sums[None], tol=1e-10)
    assert abs(float(plain.levels[0] - fast.levels[0])) < 1e-3
    assert likelihood(case, case.sums) > likelihood(case, start)


def test_standard_errors_cover_the_spread_of_fits(case):
    """Errors of the observed information agree with those of the sandwich in the model."""
    parameters, weights = parameters_of(case, case.sums), case.sums[:, 0] / N
    if case.family is CASES["lines through the origin"].family:
        return  # the model is wrong, so the two differ

    def errors(n, *, robust):
        return standard_errors(case.sample, weights, parameters, n, robust=robust)

    observed, robust = (errors(float(N), robust=robust) for robust in (False, True))
    np.testing.assert_allclose(observed["weights"], robust["weights"], rtol=0.2)
    binomial = np.sqrt(weights * (1 - weights) / N)
    np.testing.assert_allclose(observed["weights"], binomial, rtol=0.15)
    half = errors(4.0 * N, robust=False)
    for name, part in observed.items():
        np.testing.assert_allclose(half[name], part / 2, rtol=1e-6)
