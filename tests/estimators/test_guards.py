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
