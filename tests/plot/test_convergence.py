"""How a fit converged, and the codes of errors where there is nothing to draw."""

import copy
import warnings

import matplotlib as mpl
import numpy as np
import pytest

import implicitmoments as im
from support import refuses

mpl.use("Agg")
from matplotlib.figure import Figure


def new_axes():
    return Figure(layout="constrained").add_subplot()


def test_convergence_shows_what_is_left_to_gain():
    X, _ = im.datasets.make_spherical_mixture(1500, 3, 2, radius=2.0, random_state=0)
    model = im.SphericalMixture(3, n_moves=0, random_state=0, tol=1e-9).fit(X)
    history = np.array(model.stats_["mean_log_likelihood_history"])
    assert len(history) > 2
    assert history[-1] == pytest.approx(model.lower_bound_)
    ax = im.plot.convergence(model, new_axes())
    assert ax.get_yscale() == "log"
    left = ax.lines[0].get_ydata()
    seen = history.max() - history > 1e-12
    np.testing.assert_allclose(left[seen], (history.max() - history)[seen])


def ticks_on(ax):
    ax.figure.draw_without_rendering()
    assert ax.yaxis.get_offset_text().get_text() == ""
    assert ax.xaxis.get_offset_text().get_text() == ""
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("size", [1e-9, 1.0, 2.5e9])
def test_losses_that_hardly_fall_begin_at_zero(fitted, size):
    model = copy.copy(fitted["ActivationSumRegressor"].model)
    flat = {"loss_history": (2.0 * size, 1.999999 * size), "polynomial_error": 1.5 * size}
    model.stats_ = model.stats_ | flat | {"hypothesis": "polynomial"}
    ax = im.plot.convergence(model, new_axes())
    assert ax.get_yscale() == "linear"
    assert ax.get_ylim()[0] == 0
    ticks = ticks_on(ax)
    assert float(ticks[0]) == 0
    assert len(set(ticks)) == len(ticks)


def test_held_out_scores_that_differ_little_have_ticks_that_differ(fitted):
    model = copy.copy(fitted["SphericalMixtureDensity"].model)
    model.stats_ = model.stats_ | {"scores": {2: -5.92221, 4: -5.92219, 6: -5.9222}}
    ax = im.plot.convergence(model, new_axes())
    ticks = ticks_on(ax)
    assert len(set(ticks)) == len(ticks)
    assert ax.get_xticks().tolist() == [2, 4, 6]


def test_a_fit_that_stopped_early_says_so(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).normal(size=(500, 2))
        model = im.SphericalMixture(4, max_iter=2, tol=1e-15, random_state=0).fit(X)
    assert not model.converged_
    stopped, finished = (
        im.plot.convergence(each, new_axes()).texts[0].get_text()
        for each in (model, fitted["SphericalMixture"].model)
    )
    assert stopped.split(";")[0] != finished.split(";")[0]
    assert len(stopped.split(";")) == len(finished.split(";")) + 1


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_pictures_of_what_a_fit_did_not_store_are_refused(fitted):
    X = fitted["SphericalMixture"].X
    model = im.SphericalMixture(1, random_state=0).fit(X)
    pieces = im.SphericalMixture(2, random_state=0).partial_fit(X[:700]).partial_fit(X[700:])
    given = im.SphericalMixtureDensity(3, degree=2).fit(X)
    for picture, unfit in (
        (im.plot.spectra, model),
        (im.plot.spectra, fitted["RegressionMixture"].model),
        (im.plot.convergence, pieces),
        (im.plot.convergence, given),
        (im.plot.convergence, fitted["SphericalMixtureClusterer"].model),
    ):
        with refuses("no_picture", name=type(unfit).__name__):
            picture(unfit, new_axes())
