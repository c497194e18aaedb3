"""Every picture of every estimator: what is on it, and what it refuses."""

import copy
import warnings
from dataclasses import replace

import array_api_strict
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import implicitmoments as im
from implicitmoments.estimator import findings_of
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES
from implicitmoments.report import write_report
from support import PICTURED, refuses

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

NAMES = list(PICTURED)
LIKELIHOOD = ("GaussianMixture", "RegressionMixture")  # fitted without moments


def new_axes():
    return Figure(layout="constrained").add_subplot()


def points_on(ax):
    """Number of rows that are drawn, by component or by value."""
    rows = [line for line in ax.lines if line.get_label().startswith("component")]
    scattered = [c for c in ax.collections if isinstance(c, PathCollection)]
    return sum(len(line.get_xdata()) for line in rows) + sum(
        len(points.get_offsets()) for points in scattered
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("picture", ["spectra", "components", "fit", "convergence"])
def test_every_picture_of_every_estimator(fitted, name, picture):
    model, X, y = fitted[name]
    given = new_axes()
    rows = (X, y) if picture in ("components", "fit") else ()
    if (name, picture) == ("SphericalMixtureClusterer", "convergence"):
        with refuses("no_picture"):
            im.plot.convergence(model, given)
        return
    if name in LIKELIHOOD and picture == "spectra":
        with refuses("no_picture"):
            im.plot.spectra(model, given)
        return
    ax = getattr(im.plot, picture)(model, *rows, ax=given)
    assert ax is given
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert ax.get_title(loc="left")
    assert ax.lines or ax.collections or ax.patches
    given.figure.canvas.draw()  # labels, ticks and formulas can be typeset


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LIKELIHOOD])
def test_spectra_show_what_was_kept_and_the_noise(fitted, name):
    model = fitted[name].model
    ax, stats = im.plot.spectra(model, new_axes()), model.stats_
    filled = [line for line in ax.lines if "kept" in line.get_label()]
    noise = [line for line in ax.lines if line.get_label() == "noise"]
    assert [len(line.get_xdata()) for line in filled] == stats["ranks"]
    for line, values, rank in zip(filled, stats["spectra"], stats["ranks"], strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values[:rank])
    assert len(noise) == sum(floor > 0 for floor in stats["noise_floor"])
    assert all(np.all(np.diff(values) <= 0) for values in stats["spectra"])


@pytest.mark.parametrize("name", ["SphericalMixture", "SphericalMixtureClusterer"])
def test_means_have_circles_of_one_deviation(fitted, name):
    model, X, _ = fitted[name]
    ax = im.plot.components(model, X, ax=new_axes(), max_rows=100)
    rows = [line for line in ax.lines if line.get_label().startswith("component")]
    assert len(rows) == 4
    assert points_on(ax) == 100
    rings = [line for line in ax.lines if len(line.get_xdata()) == 73]
    assert len(rings) == 4
    for ring in rings:
        np.testing.assert_allclose(
            np.ptp(ring.get_xdata()) / 2, np.sqrt(model.variance_), rtol=1e-6
        )


@pytest.mark.parametrize("name", COVARIANCE_TYPES)
def test_means_have_ellipses_of_their_covariance(rng, name, tmp_path):
    means = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    X = np.repeat(means, 200, axis=0) + rng.normal(size=(600, 2)) @ [[1.5, 0.4], [0.4, 0.6]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", im.AssumptionWarning)
        model = im.GaussianMixture(3, covariance_type=name, random_state=0).fit(X)
    ax = im.plot.components(model, X, ax=new_axes())
    rings = [line.get_data() for line in ax.lines if len(line.get_xdata()) == 73]
    areas = [abs(np.trapezoid(y, x)) for x, y in rings]
    covariances = model._covariances()
    if covariances.ndim == 2:  # diagonals
        covariances = covariances[:, None] * np.eye(2)
    expected = np.sqrt(np.linalg.det(covariances))
    polygon = 36 * np.sin(np.pi / 36)
    np.testing.assert_allclose(sorted(areas), sorted(polygon * expected), rtol=1e-6)
    write_report(model, X, path=tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_rows_on_lines_lie_on_them():
    """Less what other directions explain, rows without noise are on the lines drawn."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) @ np.array([[1, 0.5, 0], [0, 2, 0], [0, 0, 0.3]]) + 3.0
    coef = np.array([[1.0, 2.0, -1.0], [-1.0, 0.5, 2.0]])
    labels = rng.integers(2, size=400)
    y = np.einsum("nd,nd->n", X, coef[labels]) + np.array([1.0, -2.0])[labels]
    model = im.RegressionMixture(2, random_state=0).fit(X, y + 1e-3 * rng.normal(size=400))
    ax = im.plot.components(model, X, y, ax=new_axes())
    rows = [line for line in ax.lines if line.get_label().startswith("component")]
    drawn = {line.get_color(): line.get_data() for line in ax.lines if len(line.get_xdata()) == 2}
    assert sum(len(line.get_xdata()) for line in rows) == 400
    for line in rows:
        (x0, x1), (y0, y1) = drawn[line.get_color()]
        expected = y0 + (line.get_xdata() - x0) * (y1 - y0) / (x1 - x0)
        assert np.abs(line.get_ydata() - expected).max() < 0.02


def test_directions_have_arrows(fitted):
    model, X, y = fitted["ActivationSumRegressor"]
    ax = im.plot.components(model, X, y, ax=new_axes())
    assert sum(text.arrow_patch is not None for text in ax.texts if hasattr(text, "arrow_patch"))
    plain = im.ActivationSumRegressor(n_components=3, refine=False).fit(X, y)
    with refuses("no_picture"):
        im.plot.components(plain, X, y, ax=new_axes())
    assert im.plot.convergence(plain, new_axes()).get_xlabel() == "degree of the polynomial"


def apart(ax):
    """Half the sum of differences of the two histograms of a picture."""
    rows = np.array([patch.get_height() for patch in ax.patches[:-1]])
    outline = ax.patches[-1].get_xy()[1:-1, 1][::2]
    width = ax.patches[0].get_width()
    return 0.5 * width * np.abs(rows - outline[: len(rows)]).sum()


@pytest.mark.parametrize("name", ["SphericalMixture", "RegressionMixture"])
def test_histograms_agree_for_the_right_model_and_not_for_a_wrong_one(fitted, name):
    model, X, y = fitted[name]
    wrong, right = copy.copy(model), model._mixture.parameters
    wide = {key: 9 * part if "varian" in key else part for key, part in right.items()}
    wrong._mixture = replace(model._mixture, parameters=wide)
    assert apart(im.plot.fit(model, X, y, ax=new_axes())) < 0.15
    assert apart(im.plot.fit(wrong, X, y, ax=new_axes())) > 0.3


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_repeats_and_changes_nothing(fitted, name):
    model, X, y = fitted[name]
    model = copy.copy(model)
    model.random_state, before = None, dict(model.stats_)
    heights = []
    for _ in range(2):
        ax = im.plot.fit(model, X, y, ax=new_axes(), max_rows=300)
        heights.append([str(patch) for patch in ax.patches])
    assert heights[0] == heights[1]
    assert model.stats_ == before or list(model.stats_) == list(before)
    assert model.random_state is None


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("k", [1, 2])
def test_one_feature(k):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-5, 1, (300, 1)), rng.normal(5, 1, (300, 1))])
    model = im.SphericalMixture(k, random_state=0).fit(X)
    ax = im.plot.components(model, X, ax=new_axes())
    assert ax.get_ylabel() == "density"
    area = sum(patch.get_width() * patch.get_height() for patch in ax.patches)
    assert area == pytest.approx(1)
    at, density = ax.lines[-1].get_data()
    np.testing.assert_allclose(density, np.exp(model.score_samples(at[:, None])))
    line = im.RegressionMixture(k, random_state=0).fit(X, X[:, 0] + rng.normal(size=600))
    y = line.predict(X)
    assert im.plot.components(line, X, y, ax=new_axes()).get_ylabel() == "y"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("name", [n for n in NAMES if getattr(im, n).labelled])
def test_labels_have_their_name(fitted, name):
    model, X, y = fitted[name]
    named = pd.Series(y, name="cost in $")
    remembered = copy.copy(model)
    remembered.columns_in_ = {"target": "cost in $"}
    shown = []
    for given, labels in ((model, named), (remembered, y), (model, named.to_frame())):
        drawn = [f(given, X, labels, ax=new_axes()) for f in (im.plot.components, im.plot.fit)]
        words = [each.get_xlabel() + each.get_ylabel() for each in drawn]
        words += [ax.get_ylabel() for each in drawn for ax in each.figure.axes[1:]]
        shown.append(" ".join(words))
        drawn[0].figure.canvas.draw()
    assert all(r"cost in \$" in words for words in shown)


def test_names_of_columns_with_signs_of_formulas():
    X, _ = im.datasets.make_spherical_mixture(800, 2, 2, radius=6.0, random_state=0)
    X = X @ np.linalg.svd(X, full_matrices=False)[2].T  # means along the first column
    frame = pd.DataFrame(X, columns=["price in $", r"\frac{$"])
    model = im.SphericalMixture(2, random_state=0).fit(frame)
    ax = im.plot.components(model, frame, ax=new_axes())
    assert ax.get_xlabel() == r"price in \$"
    ax.figure.canvas.draw()


def test_rows_of_a_file(fitted, tmp_path):
    model, X, _ = fitted["SphericalMixture"]
    np.save(tmp_path / "rows.npy", X)
    ours = im.plot.components(model, X, ax=new_axes(), max_rows=60)
    theirs = im.plot.components(model, tmp_path / "rows.npy", ax=new_axes(), max_rows=60)
    for one, other in zip(ours.lines, theirs.lines, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("name", NAMES)
def test_rows_and_models_of_another_library(fitted, name):
    model, X, y = fitted[name]
    A, b = (None if a is None else array_api_strict.asarray(a[:900]) for a in (X, y))
    other = clone(model).fit(A, b)
    assert points_on(im.plot.components(other, A, b, ax=new_axes(), max_rows=100)) == 100
    assert im.plot.fit(other, A, b, ax=new_axes(), max_rows=100).get_title(loc="left")
    assert findings_of(other)


def test_what_is_refused(fitted):
    model, X, y = fitted["RegressionMixture"]
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own, of missing labels)
        im.plot.fit(model, X)
    assert plt.get_fignums() == []  # no empty figure is left
    with refuses("invalid_parameter"):
        im.plot.fit(model, X, y, ax=new_axes(), max_rows=0)
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own, of the number of features)
        im.plot.components(model, X[:, :3], y, ax=new_axes())
    with pytest.raises(NotFittedError):
        im.plot.spectra(im.SphericalMixture())
    with refuses("not_an_estimator", name="LinearRegression"):
        im.plot.spectra(LinearRegression().fit(X, y))
    means, rows, _ = fitted["SphericalMixture"]
    for picture in (im.plot.components, im.plot.fit):
        with refuses("labels_not_used", given="Axes"):
            picture(means, rows, new_axes())
        with pytest.raises(TypeError):
            picture(model, X, y, new_axes())


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
