"""Five planted outliers: all estimators find them by one rule, and none is silent about them.

Models of the rows leave them out. Regressions keep a far x, which is leverage and not an error,
and say so; mixtures of regressions leave out a far label.
"""

import numpy as np
import pytest

import implicitmoments as im

N, D, N_OUT = 3_000, 4, 5
DROPPED = {
    "SphericalMixture": lambda: im.SphericalMixture(3, random_state=0),
    "SphericalMixtureClusterer": lambda: im.SphericalMixtureClusterer(3, random_state=0),
    "SphericalMixtureDensity": lambda: im.SphericalMixtureDensity(3, degree=4, random_state=0),
    "RegressionMixtureDensity": lambda: im.RegressionMixtureDensity(3, degree=4, random_state=0),
}
KEPT = {
    "RegressionMixture": lambda: im.RegressionMixture(3, random_state=0),
    "ActivationSumRegressor": lambda: im.ActivationSumRegressor("relu", random_state=0),
}


def data(name):
    """Rows that the estimator is for; labels are None where it takes none."""
    if name == "ActivationSumRegressor":
        X, y, _ = im.datasets.make_activation_sum(N, 3, D, noise=0.1, random_state=0)
    elif name.startswith("Regression"):
        X, y, _ = im.datasets.make_regression_mixture(N, 3, D, noise=0.3, random_state=0)
    else:
        X, _ = im.datasets.make_spherical_mixture(N, 3, D, radius=6.0, random_state=0)
        y = None
    return X, y


def plant(X, y, where, rng):
    """Move five rows 100 deviations away, each in a direction of its own."""
    X, y = X.copy(), None if y is None else y.copy()
    if where == "x":
        away = rng.normal(size=(N_OUT, D))
        X[:N_OUT] = 100 * X.std() * away / np.linalg.norm(away, axis=1, keepdims=True)
    else:
        y[:N_OUT] = 100 * y.std() * np.array([1.0, -1.1, 1.2, -1.3, 1.4])
    return X, y


def fitted(make, X, y):
    return make().fit(X) if y is None else make().fit(X, y)


def cases():
    for name, make in {**DROPPED, **KEPT}.items():
        if name != "RegressionMixture":  # rows with a far x may be the most informative ones
            yield pytest.param(name, make, "x", id=f"{name}-x")
        if "Regress" in name:
            yield pytest.param(name, make, "y", id=f"{name}-y")


@pytest.mark.filterwarnings("ignore")  # of what the outliers do to the fit
@pytest.mark.parametrize(("name", "make", "where"), list(cases()))
def test_planted_outliers_are_counted_and_noted(name, make, where, rng):
    X, y = data(name)
    model = fitted(make, *plant(X, y, where, rng))
    dropped = name in DROPPED or name == "RegressionMixture"
    assert model.stats_["outliers" if dropped else "outliers_kept"] == N_OUT
    (note,) = (note for note in model.notes_ if note.code == "outliers")
    assert note.values["n"] == N_OUT


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*DROPPED, *KEPT])
def test_rows_without_outliers_have_none(name):
    model = fitted({**DROPPED, **KEPT}[name], *data(name))
    assert model.stats_.get("outliers", 0) == model.stats_.get("outliers_kept", 0) == 0
    assert "outliers" not in model.notes_.codes


@pytest.mark.filterwarnings("ignore")
def test_leverage_is_kept(rng):
    """Far rows on a line are the most informative ones: to leave them out would be wrong."""
    X, y, truth = im.datasets.make_regression_mixture(N, 3, D, noise=0.3, random_state=0)
    far, _ = plant(X, y, "x", rng)
    y[:N_OUT] = far[:N_OUT] @ truth.vectors[0]
    model = im.RegressionMixture(3, random_state=0).fit(far, y)
    apart = np.linalg.norm(truth.vectors[:, None] - model.coef_, axis=2).min(axis=1)
    assert apart[0] < 0.01  # without them the error is about 0.03


def wild(n, rng, far=100.0):
    """Rows of three components, the first of which is far from all."""
    X = 6.0 * np.eye(3)[rng.integers(3, size=n)] + rng.normal(size=(n, 3))
    X[0] = far
    return X


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("far", [100.0, 1e4])
def test_criteria_and_scores_count_every_row(rng, far):
    X = wild(400, rng, far)
    models = [im.SphericalMixture(k, random_state=0).fit(X) for k in (2, 3, 4)]
    for model in models:
        total = model.score_samples(X).sum()
        assert model.score(X) * len(X) == pytest.approx(total)
        p = model.n_components_ * 4  # means, weights but one, and a variance
        assert model.bic(X) == pytest.approx(p * np.log(len(X)) - 2 * total)
        assert model.aic(X) == pytest.approx(2 * p - 2 * total)
        doubt = np.log(model.predict_proba(X).max(axis=1)).sum()
        assert model.icl(X) == pytest.approx(model.bic(X) - 2 * doubt)
        assert model.score(X[1:]) == pytest.approx(model.lower_bound_)
    assert min(models, key=lambda each: each.bic(X[1:])).n_components_ == 3
    for kind in ("full", "tied_spherical"):  # all types and numbers leave out the same rows
        assert im.GaussianMixture(1, covariance_type=kind).fit(X).stats_["outliers"] == 1


def test_a_score_says_which_rows_the_fit_would_leave_out(rng):
    X = wild(400, rng)
    model = im.SphericalMixture(3, random_state=0).fit(X[1:])
    (note,) = model._log_likelihood(X).notes
    assert (note.code, note.values) == ("outliers_scored", {"n": 1, "zero": 0, "rows": 400})
    with pytest.warns(im.AssumptionWarning):
        model.score(X)
    # a score is a mean over rows: it does not depend on the batches
    halves = [model._log_likelihood(half) for half in (X[:3], X[3:])]
    assert sum(each.total for each in halves) == pytest.approx(model._log_likelihood(X).total)
    assert [len(each.notes) for each in halves] == [1, 0]
    plain = im.SphericalMixture(3, random_state=0, drop_outliers=False).fit(X[1:])
    assert plain._log_likelihood(X).notes == []
