"""Densities and clusters of rows from anywhere: sources, other libraries, other devices."""

import array_api_strict
import cloudpickle
import numpy as np
import pytest

from implicitmoments import (
    RegressionMixtureDensity,
    SphericalMixtureClusterer,
    SphericalMixtureDensity,
)
from implicitmoments.arrays import to_numpy
from implicitmoments.clustering import pairwise_test
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture
from implicitmoments.density import clipped_density
from implicitmoments.rows import ArraySource, CallableSource, Source
from implicitmoments.rows import sampling as some_rows

quiet = pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")


def density(**options):
    return SphericalMixtureDensity(3, random_state=0, **options)


def clusterer(**options):
    return SphericalMixtureClusterer(3, random_state=0, **options)


def regression(**options):
    return RegressionMixtureDensity(3, random_state=0, **options)


def rows_of(model, n=1_500):
    """Return columns that suit a model."""
    if isinstance(model, RegressionMixtureDensity):
        x, y, _ = make_regression_mixture(n, 3, 4, noise=1.0, random_state=0)
        return {"x": x, "y": y}
    radius = 8.0 if isinstance(model, SphericalMixtureClusterer) else 1.2
    separation = radius if radius > 2 else 0.0
    x, _ = make_spherical_mixture(n, 3, 5, radius=radius, separation=separation, random_state=0)
    return {"x": x}


def fitted(model, columns, **options):
    return model.fit(columns["x"], columns.get("y"), **options)


def answers(model, columns):
    """Return all that a model says of rows."""
    if isinstance(model, SphericalMixtureClusterer):
        return [model.means_, model.weights_, model.predict(columns["x"])]
    if isinstance(model, SphericalMixtureDensity):
        return [model.center_, model.score_samples(columns["x"]), model.sample(7)]
    x, y = columns["x"], columns["y"]
    said = [model.slope_, model.score_samples(x, y), model.score_samples(x[:50, :])]
    return [*said, model.sample_y(x[:50, :], 3), *model.sample(7)]


MODELS = {
    "density": lambda: density(degree=4),
    "density, cv": lambda: density(max_degree=4),
    "density, paper": lambda: density(degree=2, method="paper", n_draws=5),
    "clusterer": lambda: clusterer(order=4),
    "clusterer, paper": lambda: clusterer(order=2, method="paper", n_draws=5, n_landmarks=30),
    "regression": lambda: regression(degree=4),
    "regression, cv": lambda: regression(max_degree=4),
    "regression, contracted": lambda: regression(
        degree=4, method="contracted", fit_intercept=False
    ),
    "regression, paper": lambda: regression(
        degree=2, method="paper", n_draws=5, fit_intercept=False
    ),
}
PLAIN = ["density, cv", "clusterer", "regression, cv"]


@quiet
@pytest.mark.parametrize("name", PLAIN)
def test_a_source_is_as_good_as_arrays(name):
    columns = rows_of(MODELS[name]())
    arrays = fitted(MODELS[name](), columns)
    source = MODELS[name]().fit(ArraySource(**columns))
    for one, other in zip(answers(arrays, columns), answers(source, columns), strict=True):
        np.testing.assert_array_equal(one, other)
    rows = ArraySource(**columns)
    if name == "clusterer":
        np.testing.assert_array_equal(arrays.labels_, source.predict(rows))
    else:
        expected = arrays.score_samples(*columns.values())
        np.testing.assert_array_equal(source.score_samples(rows), expected)


@quiet
@pytest.mark.parametrize("device", ["CPU_DEVICE", "device1"])
@pytest.mark.parametrize("name", MODELS)
def test_arrays_of_another_library_and_device(name, device):
    columns = rows_of(MODELS[name](), 800)
    where = array_api_strict.Device(device)
    strict = {
        name: array_api_strict.asarray(column, device=where) for name, column in columns.items()
    }
    here, there = fitted(MODELS[name](), columns), fitted(MODELS[name](), strict)
    for expected, found in zip(answers(here, columns), answers(there, strict), strict=True):
        assert found.device == where
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-9, atol=1e-12)
    if name.startswith("clusterer"):
        assert there.labels_.device == where
    # a model answers rows of either library, in that library
    for model, given in ((here, strict), (there, columns)):
        answer = answers(model, given)[2 if name.startswith("clusterer") else 1]
        assert type(answer) is type(given["x"])


@quiet
@pytest.mark.parametrize(("precision", "error"), [("float64", 1e-9), ("float32", 2e-3)])
@pytest.mark.parametrize("name", ["density", "clusterer", "regression"])
def test_torch(name, precision, error):
    torch = pytest.importorskip("torch")
    columns = rows_of(MODELS[name]())
    tensors = {n: torch.asarray(c.astype(precision)) for n, c in columns.items()}
    here, there = fitted(MODELS[name](), columns), fitted(MODELS[name](), tensors)
    for expected, found in zip(answers(here, columns), answers(there, tensors), strict=True):
        assert isinstance(found, torch.Tensor)
        assert found.dtype in (tensors["x"].dtype, torch.int64)
        np.testing.assert_allclose(to_numpy(found), expected, atol=error)


@quiet
@pytest.mark.parametrize("name", PLAIN)
def test_rows_that_count_nothing_do_not_matter(name, rng):
    columns = rows_of(MODELS[name]())
    n, d = columns["x"].shape
    junk = {"x": 3 * rng.normal(size=(200, d)), "y": 3 * rng.normal(size=200)}
    places = np.sort(rng.choice(n + 200, 200, replace=False))
    mixed, counts = {}, np.ones(n + 200)
    counts[places] = 0.0
    for column, values in columns.items():
        mixed[column] = np.empty((n + 200, *values.shape[1:]))
        mixed[column][counts > 0], mixed[column][places] = values, junk[column]
    model = MODELS[name]().fit(ArraySource(**mixed, counts=counts))
    expected = answers(fitted(MODELS[name](), columns), columns)
    for one, other in zip(answers(model, columns), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


class Far(Source):
    """Rows that are read a few at a time, and that are not sent to where they are measured."""

    most = 65_536

    def __init__(self, **columns):
        self._rows = ArraySource(**columns)
        self.n_rows, self.n_features = self._rows.n_rows, self._rows.n_features
        self.sizes, self.passes, self.picked = [], [], 0

    def read(self, rows, rng):
        assert len(rows) <= self.most
        return self._rows.read(rows, rng)

    def fold(self, measure, rows, block_rows, **how):
        self.sizes.append(len(cloudpickle.dumps(measure)))
        self.passes.append(how.get("what", ""))
        assert block_rows <= self.most
        return super().fold(measure, rows, block_rows, **how)

    def pick(self, rows, *, what=""):
        assert len(rows) <= self.n_rows // 2
        self.picked += len(rows)
        return super().pick(rows, what=what)

    def __reduce__(self):
        return (str, ("rows that stay where they are",))


@pytest.fixture
def little_memory(monkeypatch):
    """Hold as little of 150,000 rows as if they were as many millions."""
    monkeypatch.setattr(some_rows, "HELD_NUMBERS", 0)
    monkeypatch.setattr(clipped_density, "RATED", 20_000)
    for name in ("MOST_ROWS", "FEWEST_ROWS"):
        monkeypatch.setattr(pairwise_test, name, 20_000)


@quiet
@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", PLAIN)
def test_nothing_holds_all_rows_and_measures_are_small(name):
    columns = rows_of(MODELS[name](), 150_000)
    source = Far(**columns)
    model = MODELS[name]().fit(source)
    assert max(source.sizes) < 100_000  # the rows are 5 MB
    assert all(source.passes)
    some = {column: values[:1_000] for column, values in columns.items()}
    if name == "clusterer":
        assert len(source.passes) == 5
        assert source.picked < 60_000
        labels = fitted(MODELS[name](), columns).predict(some["x"])
        overlap = np.zeros((3, 3))
        np.add.at(overlap, (labels, model.predict(some["x"])), 1)
        assert np.count_nonzero(overlap) == 3  # the same clusters, in some order
    else:
        expected = fitted(MODELS[name](), columns)
        assert model.degree_ == expected.degree_
        logs = expected.score_samples(*some.values())
        np.testing.assert_allclose(model.score_samples(*some.values()), logs, atol=0.01)


@quiet
@pytest.mark.parametrize("make", [density, regression])
def test_parts_in_memory_and_elsewhere_choose_alike(make, monkeypatch):
    columns = rows_of(make(), 4_000)
    held = fitted(make(max_degree=6), columns).stats_["scores"]
    monkeypatch.setattr(some_rows, "HELD_NUMBERS", 0)
    found = fitted(make(max_degree=6), columns).stats_["scores"]
    assert list(held) == list(found)
    np.testing.assert_allclose(list(found.values()), list(held.values()), rtol=1e-9)


def test_ratios_at_some_rows_are_near_those_at_all(monkeypatch):
    columns = rows_of(density(), 100_000)
    exact = fitted(density(degree=4), columns)
    monkeypatch.setattr(clipped_density, "RATED", 20_000)
    found = fitted(density(degree=4), columns)
    assert found.clip_ != exact.clip_
    assert found.clip_ == pytest.approx(exact.clip_, rel=0.15)
    assert abs(found.stats_["distance"] - exact.stats_["distance"]) < 0.015
    # all else is known from all rows; densities differ at the few that are clipped
    np.testing.assert_array_equal(found.center_, exact.center_)
    some = columns["x"][:500]
    apart = np.abs(found.score_samples(some) - exact.score_samples(some))
    assert np.median(apart) < 1e-3
    assert np.max(apart) < 0.15


def test_labels_are_kept_for_rows_in_memory():
    columns = rows_of(clusterer())
    model = clusterer(order=2)
    with pytest.raises(AttributeError, match="no attribute 'labels_'"):
        _ = model.labels_
    assert fitted(model, columns).labels_.shape == (1_500,)
    model.fit(ArraySource(**columns))
    with pytest.raises(AttributeError, match=r"rows in memory alone.*predict\(X\)"):
        _ = model.labels_
    weights = np.where(np.arange(1_500) % 3 == 0, 0.0, 2.0)
    model.fit(columns["x"], sample_weight=weights)  # also those that do not count have one
    np.testing.assert_array_equal(model.labels_, model.predict(columns["x"]))


def test_a_source_without_an_end_or_labels_is_refused():
    endless = CallableSource(lambda rows, rng: rng.normal(3))
    with pytest.raises(ValueError, match="give it n_rows"):
        density().fit(endless)
    with pytest.raises(ValueError, match="have no labels"):
        regression().fit(ArraySource(np.ones((5, 2))))
    with pytest.raises(ValueError, match="n_components=3 and n_samples=2"):
        density().fit(ArraySource(np.eye(5), counts=np.array([1.0, 0, 0, 1, 0])))


@quiet
def test_draws_at_rows_do_not_depend_on_blocks(monkeypatch):
    columns = rows_of(regression())
    model = fitted(regression(degree=2), columns)
    whole = model.sample_y(columns["x"], 2)
    monkeypatch.setattr("implicitmoments.rows.answers.ANSWERED_ROWS", 100)
    np.testing.assert_allclose(model.sample_y(columns["x"], 2), whole, rtol=1e-9)
