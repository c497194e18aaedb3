"""Densities and clusters of rows from sources, other libraries and other devices."""

from functools import cache

import array_api_strict
import numpy as np
import pytest

from implicitmoments import (
    RegressionMixtureDensity,
    SphericalMixtureClusterer,
    SphericalMixtureDensity,
)
from implicitmoments.arrays import to_numpy
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture
from implicitmoments.rows import ArrayTable
from support import Watched, refuses

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
    """Return all answers of a model about rows."""
    if isinstance(model, SphericalMixtureClusterer):
        return [model.means_, model.weights_, model.predict(columns["x"])]
    if isinstance(model, SphericalMixtureDensity):
        return [model.center_, model.score_samples(columns["x"]), model.sample(7)]
    x, y = columns["x"], columns["y"]
    said = [model.coef_, model.score_samples(x, y), model.score_samples(x[:50, :])]
    return [*said, model.sample_y(x[:50, :], 3), *model.sample(7)]


MODELS = {
    "density": lambda: density(degree=4),
    "density, auto": lambda: density(max_degree=4),
    "clusterer": lambda: clusterer(order=4),
    "regression": lambda: regression(degree=4),
    "regression, auto": lambda: regression(max_degree=4),
}
PLAIN = ["density, auto", "clusterer", "regression, auto"]
# On a device of its own an array that was made elsewhere is an error, for each of the models.
DEVICES = [*((name, "device1") for name in MODELS), *((name, "CPU_DEVICE") for name in PLAIN)]


@cache
def example(name, n):
    """Return columns that suit a model, the model fitted to these arrays, and its answers."""
    columns = rows_of(MODELS[name](), n)
    model = fitted(MODELS[name](), columns)
    return columns, model, answers(model, columns)


@quiet
@pytest.mark.parametrize("name", PLAIN)
def test_a_source_is_as_good_as_arrays(name):
    columns, arrays, expected = example(name, 800)
    source = MODELS[name]().fit(ArrayTable(**columns))
    for one, other in zip(expected, answers(source, columns), strict=True):
        np.testing.assert_array_equal(one, other)
    rows = ArrayTable(**columns)
    if name == "clusterer":
        np.testing.assert_array_equal(arrays.labels_, source.predict(rows))
    else:
        scores = arrays.score_samples(*columns.values())
        np.testing.assert_array_equal(source.score_samples(rows), scores)


@quiet
@pytest.mark.parametrize(("name", "device"), DEVICES)
def test_arrays_of_another_library_and_device(name, device):
    columns, here, asked = example(name, 800)
    where = array_api_strict.Device(device)
    strict = {
        name: array_api_strict.asarray(column, device=where) for name, column in columns.items()
    }
    there = fitted(MODELS[name](), strict)
    for expected, found in zip(asked, answers(there, strict), strict=True):
        assert found.device == where
        np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-9, atol=1e-12)
    if name.startswith("clusterer"):
        assert there.labels_.device == where
    # a model answers rows of either library, in that library
    method = "predict" if name.startswith("clusterer") else "score_samples"
    for model, given in ((here, strict), (there, columns)):
        answer = getattr(model, method)(*given.values())
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
    columns, _, expected = example(name, 800)
    n, d = columns["x"].shape
    junk = {"x": 3 * rng.normal(size=(200, d)), "y": 3 * rng.normal(size=200)}
    places = np.sort(rng.choice(n + 200, 200, replace=False))
    mixed, counts = {}, np.ones(n + 200)
    counts[places] = 0.0
    for column, values in columns.items():
        mixed[column] = np.empty((n + 200, *values.shape[1:]))
        mixed[column][counts > 0], mixed[column][places] = values, junk[column]
    model = MODELS[name]().fit(ArrayTable(**mixed, counts=counts))
    for one, other in zip(answers(model, columns), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


@quiet
@pytest.mark.parametrize("name", PLAIN)
def test_rows_are_read_in_blocks_and_measures_are_small(name):
    columns = rows_of(MODELS[name](), 80_000)
    source = Watched(**columns)
    model = MODELS[name]().fit(source)
    assert max(source.sizes) < 100_000  # the rows are more than 2 MB
    some = {column: values[:1_000] for column, values in columns.items()}
    expected = fitted(MODELS[name](), columns)
    if name == "clusterer":
        assert len(source.sizes) <= 5
        np.testing.assert_array_equal(model.predict(some["x"]), expected.predict(some["x"]))
    else:
        assert model.degree_ == expected.degree_
        logs = expected.score_samples(*some.values())
        np.testing.assert_allclose(model.score_samples(*some.values()), logs, rtol=1e-9)


def test_a_source_without_labels_is_refused():
    with pytest.raises(ValueError):  # noqa: PT011
        regression().fit(ArrayTable(np.ones((5, 2))))
    with refuses("too_few_rows", k=3, n=2):
        density().fit(ArrayTable(np.eye(5), counts=np.array([1.0, 0, 0, 1, 0])))


@quiet
def test_draws_at_rows_do_not_depend_on_blocks():
    columns = rows_of(regression(), 500)
    x, model = columns["x"], fitted(regression(degree=2), columns)
    whole = model.sample_y(x, 2)
    part = model.hypothesis_.sample_labels(x[100:], 2, seed=0, first=100)
    np.testing.assert_allclose(part, whole[100:], rtol=1e-9)
