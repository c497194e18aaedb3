"""Input that arithmetic cannot hold, or that means something else than its numbers."""

import numpy as np
import pytest

import implicitmoments as im
from support import refuses

X, _ = im.datasets.make_spherical_mixture(300, 3, 3, radius=6.0, separation=6.0, random_state=0)
U, u, _ = im.datasets.make_regression_mixture(400, 2, 3, noise=0.3, random_state=0)
UNLABELLED = [
    im.SphericalMixture(3, random_state=0),
    im.GaussianMixture(3, random_state=0),
    im.SphericalMixtureClusterer(3, random_state=0),
    im.SphericalMixtureDensity(3, degree=2, random_state=0),
]
LABELLED = [
    im.RegressionMixture(2, random_state=0),
    im.RegressionMixtureDensity(2, degree=2, random_state=0),
    im.ActivationSumRegressor("relu", 2, random_state=0),
]
EVERY = [(model, (X,)) for model in UNLABELLED] + [(model, (U, u)) for model in LABELLED]
every = pytest.mark.parametrize(
    ("model", "rows"), EVERY, ids=[type(model).__name__ for model, _ in EVERY]
)


@every
@pytest.mark.parametrize("scale", [1e-160, 1e-200, 1e-300])
def test_columns_whose_squares_underflow(model, rows, scale):
    with refuses("entries_too_small", name="X", column="x0"):
        model.fit(rows[0] * scale, *rows[1:])
    with refuses("entries_too_small", name="X", column="x1"):
        model.fit(rows[0] * [1.0, scale, 1.0], *rows[1:])
    if len(rows) == 2:
        with refuses("entries_too_small", name="y"):
            model.fit(rows[0], rows[1] * scale)


@pytest.mark.parametrize(("scale", "code"), [(1e-25, "small"), (1e22, "large")])
def test_limits_of_single_precision(scale, code):
    with refuses(f"entries_too_{code}", name="X"):
        im.GaussianMixture(3, random_state=0).fit((X * scale).astype(np.float32))


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_sizes_that_arithmetic_holds(scale):
    model = im.GaussianMixture(3, random_state=0).fit(X * scale)
    assert sorted(np.bincount(model.predict(X * scale))) == sorted(
        np.bincount(im.GaussianMixture(3, random_state=0).fit(X).predict(X))
    )


def test_a_few_small_entries_are_entries_like_others():
    rows = X.copy()
    rows[0] = 1e-200
    im.SphericalMixture(3, random_state=0).fit(rows)
    rows[0] = 0.0
    im.SphericalMixture(3, random_state=0).fit(rows)


@every
def test_weights_that_overflow_are_not_blamed_on_other_input(model, rows):
    with refuses("weights_too_large"):
        model.fit(*rows, sample_weight=np.full(len(rows[0]), 1e308))


def test_weights_that_cannot_be_counted_are_proportions():
    one = im.SphericalMixture(3, random_state=0).fit(X, sample_weight=np.ones(len(X)))
    many = im.SphericalMixture(3, random_state=0).fit(X, sample_weight=np.full(len(X), 2.0**450))
    np.testing.assert_array_equal(one.means_, many.means_)
    assert one.notes_.codes == many.notes_.codes


@pytest.mark.parametrize("value", [1e160, -1e300])
def test_predictions_refuse_what_fits_refuse(value):
    far = X[:5].copy()
    far[2, 0] = value
    for model in (im.SphericalMixture(3, random_state=0), im.GaussianMixture(3, random_state=0)):
        model.fit(X)
        for answer in (model.predict, model.predict_proba, model.score_samples):
            with refuses("entries_too_large", name="X"):
                answer(far)
    model = im.RegressionMixture(2, random_state=0).fit(U, u)
    with refuses("entries_too_large", name="X"):
        model.predict(far)
    with refuses("entries_too_large", name="y"):
        model.score_samples(U[:5], far[:, 0])


@every
def test_masked_entries_are_no_numbers(model, rows):
    mask = np.zeros(rows[0].shape, dtype=bool)
    mask[[3, 7], 1] = True
    with refuses("entries_masked", name="X", n_rows=2, first=3):
        model.fit(np.ma.array(rows[0], mask=mask), *rows[1:])
    if len(rows) == 2:
        with refuses("entries_masked", name="y", first=3):
            model.fit(rows[0], np.ma.array(rows[1], mask=mask[:, 1]))


def test_masked_entries_in_predictions_and_weights():
    mask = np.zeros(X.shape, dtype=bool)
    mask[3, 1] = True
    model = im.SphericalMixture(3, random_state=0)
    with refuses("entries_masked", name="sample_weight", first=3):
        model.fit(X, sample_weight=np.ma.array(np.ones(len(X)), mask=mask[:, 1]))
    model.fit(np.ma.array(X, mask=False))
    np.testing.assert_array_equal(
        model.means_, im.SphericalMixture(3, random_state=0).fit(X).means_
    )
    with refuses("entries_masked", name="X"):
        model.predict(np.ma.array(X, mask=mask))
    with refuses("entries_masked"):
        im.SphericalMixture(3).fit(iter([X, np.ma.array(X, mask=mask)]))


def test_random_states_are_those_of_scikit_learn():
    def drawn(state):
        np.random.seed(7)  # noqa: NPY002
        return im.datasets.make_spherical_mixture(4, 2, 2, random_state=state)[0]

    np.testing.assert_array_equal(drawn(None), drawn(None))
    np.testing.assert_array_equal(drawn(None), drawn(np.random))
    assert (drawn(None) != im.datasets.make_spherical_mixture(4, 2, 2, random_state=None)[0]).any()
    np.random.seed(3)  # noqa: NPY002
    one = im.SphericalMixture(3).fit(X).sample(5)[0]
    np.random.seed(3)  # noqa: NPY002
    np.testing.assert_array_equal(
        one, im.SphericalMixture(3, random_state=np.random).fit(X).sample(5)[0]
    )


def test_components_that_are_the_same_are_noted():
    rows = 0.1 * (1 + 1e-12 * np.random.default_rng(0).normal(size=(500, 3)))  # all but equal
    model = im.SphericalMixture(3, variance=1.0, random_state=0)
    with pytest.warns(im.FitWarning):
        model.fit(rows)
    assert "components_are_one" in model.notes_.codes
    assert "components_are_one" not in im.SphericalMixture(3, random_state=0).fit(X).notes_.codes
