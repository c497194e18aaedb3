"""What code that was written for scikit-learn's GaussianMixture asks of ours."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture as OneStart

import implicitmoments as im
from support import refuses


@pytest.fixture
def rows(rng):
    return np.vstack([rng.normal(size=(60, 2)), rng.normal([6.0, 0.0], size=(60, 2))])


@pytest.mark.parametrize("name", ["kmeans", "random", "random_from_data"])
def test_names_of_starts_are_accepted(rows, name):
    model = im.GaussianMixture(2, init_params=name, random_state=0).fit(rows)
    assert model.init_params == name
    assert model.stats_["start"] == "k-means++"
    with refuses("invalid_parameter"):
        im.GaussianMixture(2, init_params="means").fit(rows)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 3])
def test_repeated_warm_starts_converge(rows, max_iter):
    rows = rows - np.repeat([[0.0, 0.0], [4.0, 0.0]], 60, axis=0)  # groups overlap: EM is slow
    options = {"warm_start": True, "n_moves": 0, "tol": 1e-9, "random_state": 0}
    model = im.GaussianMixture(2, max_iter=max_iter, **options)
    assert not model.fit(rows).converged_
    levels = [model.lower_bound_]
    while not model.converged_ and len(levels) < 200:
        levels.append(model.fit(rows).lower_bound_)
    assert model.converged_
    assert model.n_iter_ <= max_iter
    assert np.all(np.diff(levels) >= 0)
    assert "not_converged" not in model.notes_.codes


def test_a_warm_start_keeps_the_type_that_was_chosen(rows):
    model = im.GaussianMixture(2, covariance_type="auto", warm_start=True, random_state=0)
    kind = model.fit(rows).covariance_type_
    assert model.fit(rows + 0.1).covariance_type_ == kind
    assert model.stats_["start"] == "given"


def drawn_start(rng, name):
    """Parameters far from any maximum."""
    roots = rng.normal(size=(2, 2, 2))
    precisions = np.eye(2) + roots @ roots.transpose(0, 2, 1)
    given = {
        "full": precisions,
        "tied": precisions[0],
        "diag": precisions[:, 0] ** 2,
        "spherical": precisions[:, 0, 0],
    }
    means = np.array([[1.0, 2.0], [4.0, -1.0]])
    start = {"weights_init": np.array([0.3, 0.7]), "means_init": means}
    return start | {"precisions_init": given[name], "covariance_type": name}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [1, 2])  # three steps are one cycle of accelerated EM
@pytest.mark.parametrize("name", ["full", "tied", "diag", "spherical"])
def test_em_from_given_parameters_is_that_of_scikit_learn(rows, rng, name, max_iter):
    start = drawn_start(rng, name) | {"max_iter": max_iter, "tol": 1e-9}
    ours = im.GaussianMixture(2, reg_covar=0, **start).fit(rows)
    theirs = OneStart(2, reg_covar=0, **start).fit(rows)
    assert ours.n_iter_ == max_iter
    for attribute in ("weights_", "means_", "covariances_", "precisions_cholesky_"):
        np.testing.assert_allclose(getattr(ours, attribute), getattr(theirs, attribute), rtol=1e-6)
    ours.set_params(max_iter=0).fit(rows)
    for attribute in ("weights", "means", "precisions"):
        given = getattr(ours, f"{attribute}_init")
        np.testing.assert_allclose(getattr(ours, f"{attribute}_"), given, rtol=1e-9)


def test_a_warm_start_goes_before_means_that_are_given(rows):
    far = [[5.0, 0.0], [0.0, 0.0]]
    model = im.GaussianMixture(2, means_init=far, warm_start=True, random_state=0).fit(rows)
    model.means_ = model.means_[::-1].copy()
    assert model.fit(rows).means_[0, 0] < model.means_[1, 0]
    model.warm_start = False
    assert model.fit(rows).means_[0, 0] > model.means_[1, 0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_iterations_leave_what_the_search_found(rows):
    model = im.GaussianMixture(2, max_iter=0, random_state=0).fit(rows)
    assert (model.n_iter_, model.converged_) == (0, False)
    assert model.lower_bound_ == pytest.approx(model.score(rows))
    with refuses("invalid_parameter"):
        im.GaussianMixture(2, max_iter=-1).fit(rows)


def test_bounds_rise_to_the_last(rows):
    model = im.GaussianMixture(2, random_state=0).fit(rows)
    assert np.all(np.diff(model.lower_bounds_) > -1e-9)
    assert model.lower_bounds_[-1] == model.lower_bound_


@pytest.mark.parametrize(("verbose", "steps"), [(0, 0), (1, 0), (2, 1)])
def test_verbose_prints_what_a_fit_did(rows, verbose, steps, capsys):
    im.GaussianMixture(2, verbose=verbose, verbose_interval=100, random_state=0).fit(rows)
    printed = capsys.readouterr().out
    assert bool(printed) is (verbose > 0)
    assert printed.count("EM step") == steps


def test_every_parameter_and_attribute_of_scikit_learn_is_there(rows):
    theirs, ours = (kind(2, random_state=0).fit(rows) for kind in (OneStart, im.GaussianMixture))
    assert set(theirs.get_params()) <= set(ours.get_params())
    public = [name for name in dir(theirs) if not name.startswith("_")]
    assert [name for name in public if not hasattr(ours, name)] == []
    if hasattr(theirs, "lower_bounds_"):  # from scikit-learn 1.7 on
        assert type(ours.lower_bounds_) is type(theirs.lower_bounds_)
