"""How a fit converged, and the codes of errors where there is nothing to draw."""

import copy
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.picture_data import NoPictureError
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


def test_pieces_have_no_steps_to_show(fitted):
    X, _ = im.datasets.make_spherical_mixture(42_000, 2, 2, radius=5.0, random_state=0)
    model = im.SphericalMixture(2, random_state=0).partial_fit(X[:21_000])
    assert im.plot.convergence(model, new_axes()).lines
    with refuses("steps_of_pieces"):
        im.plot.convergence(model.partial_fit(X[21_000:]), new_axes())


def ticks_on(ax):
    ax.figure.canvas.draw()
    assert ax.yaxis.get_offset_text().get_text() == ""
    assert ax.xaxis.get_offset_text().get_text() == ""
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("level", [-2.8, -2.8e9])
def test_a_flat_course_has_a_scale(fitted, level):
    model = copy.copy(fitted["SphericalMixture"].model)
    model.stats_ = model.stats_ | {"mean_log_likelihood_history": (level,) * 5}
    ax = im.plot.convergence(model, new_axes())
    assert ax.get_yscale() == "log"
    assert ticks_on(ax)


@pytest.mark.parametrize("size", [1e-9, 1.0, 2.5e9])
def test_losses_that_hardly_fall_begin_at_zero(fitted, size):
    model = copy.copy(fitted["ActivationSumRegressor"].model)
    flat = {"loss_history": (2.0 * size, 1.999999 * size), "polynomial_error": 1.5 * size}
    model.stats_ = model.stats_ | flat | {"hypothesis": "polynomial"}
    ax = im.plot.convergence(model, new_axes())
    assert ax.get_yscale() == "linear"
    assert ax.get_ylim()[0] == 0
    ticks = ticks_on(ax)
    assert ticks[0] == "0"
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


def why_not(picture, model):
    with pytest.raises(NoPictureError) as refused:
        picture(model, new_axes())
    assert refused.value.values["name"] == type(model).__name__
    return refused.value.code


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
def test_why_there_are_no_spectra(fitted):
    X = fitted["SphericalMixture"].X
    alone = im.SphericalMixture(1, random_state=0).fit(X)
    assert why_not(im.plot.spectra, alone) == "spectra_of_one_component"
    many = im.SphericalMixture(50, n_moves=0, tol=1e-3, order=6, random_state=0).fit(X[:, :2])
    assert why_not(im.plot.spectra, many) == "spectra_unreadable"
    sure = im.SphericalMixture(4, random_state=0).fit(X)
    assert why_not(im.plot.spectra, sure) == "spectra_not_decoded"
    column = im.SphericalMixture(2, random_state=0).fit(X[:, :1])
    assert why_not(im.plot.spectra, column) == "spectra_of_one_column"
    lines = fitted["RegressionMixture"].model
    assert why_not(im.plot.spectra, lines) == "spectra_of_likelihood"


def test_why_there_are_no_steps(fitted, tmp_path):
    near, X, _ = fitted["SphericalMixtureClusterer"]
    np.save(tmp_path / "rows.npy", X)
    clusters = clone(near).fit(tmp_path / "rows.npy")  # without labels_
    assert why_not(im.plot.convergence, clusters) == "steps_of_pairwise_test"
    given = im.SphericalMixtureDensity(3, degree=2).fit(fitted["SphericalMixtureDensity"].X)
    assert why_not(im.plot.convergence, given) == "steps_without_comparison"
