"""Tables and captions of the page."""

import copy
import string

import numpy as np
import pytest
from sklearn.base import clone

import implicitmoments as im
from implicitmoments.report import STATISTICS, caption_of, settings_of, statistics_of
from implicitmoments.report.reader import PYTHON


def test_statistics_are_names_and_numbers(fitted):
    for model, _, _ in fitted.values():
        table = statistics_of(model)
        assert len(table.rows) >= 4
        assert all(len(str(value)) < 200 for _, value in table.rows)
        names = [row[0] for row in table.rows]
        assert set(table.meanings) == set(names)
        assert all(len(name) > 3 and "_" not in name for name in names)
        assert len(names) <= len(set(model.stats_) & set(STATISTICS))


def test_bic_is_shown_above_the_best(fitted):
    model = copy.copy(fitted["RegressionMixture"].model)
    name = STATISTICS["bic_by_n_components"].name

    def shown(scores):
        model.stats_ = model.stats_ | {"bic_by_n_components": scores}
        return dict(statistics_of(model).rows).get(name)

    differences = [
        entry.split("\u00a0") for entry in shown({2: 130.0, 3: 100.0, 4: 105.5}).split("; ")
    ]
    assert differences == [["3:", "best"], ["4:", "+5.5"], ["2:", "+30"]]
    assert len(shown({k: 100.0 + k for k in range(1, 40)}).split("; ")) == 9
    assert shown({}) is None


def test_settings_are_what_was_fitted_and_what_differs_from_the_default(fitted):
    model = fitted["RegressionMixture"].model
    table = settings_of(model, PYTHON.defaults(model))
    assert table.rows == [["n_components", "3", "2"], ["random_state", "0", "None"]]
    assert table.marked == {"n_components", "random_state"}
    plain = im.GaussianMixture(tol=1e-3)
    table = settings_of(plain, PYTHON.defaults(plain))
    assert [row[0] for row in table.rows] == [
        *("tol", "covariance_type", "n_components", "random_state")
    ]
    assert table.marked == {"tol"}


@pytest.mark.parametrize("picture", ["spectra", "components", "fit", "convergence"])
def test_every_picture_has_a_caption(fitted, picture):
    for model, _, _ in fitted.values():
        title, words = caption_of(picture, model, "units")
        assert title
        assert words.endswith(".") or model.captions.get(picture) == ""  # there is none
        assert not [field for _, field, _, _ in string.Formatter().parse(words) if field]


def test_captions_follow_the_model(fitted):
    def changed(name, **stats):
        model = copy.copy(fitted[name].model)
        model.stats_ = model.stats_ | stats
        return model

    network = fitted["ActivationSumRegressor"].model
    unused = changed("ActivationSumRegressor", hypothesis="polynomial")
    assert caption_of("components", unused) != caption_of("components", network)
    quiet = changed("SphericalMixture", noise_floor=[0.0])
    assert caption_of("spectra", quiet) != caption_of("spectra", fitted["SphericalMixture"].model)
    assert "units" in caption_of("fit", network, "units")[1]
    # EM, a network and degrees have captions of their own
    converged = {caption_of("convergence", model)[1] for model, _, _ in fitted.values()}
    assert len(converged) == 3


def test_one_column_and_one_component_have_captions_of_their_own(rng):
    wide, narrow = rng.normal(size=(200, 3)), rng.normal(size=(200, 1))
    model = im.SphericalMixture(2, random_state=0)
    captions = {
        caption_of("components", clone(model).set_params(n_components=k).fit(X))
        for k, X in ((2, wide), (1, wide), (2, narrow))
    }
    assert len(captions) == 3


def test_every_parameter_is_in_a_table(fitted):
    for model, _, _ in fitted.values():
        tables = model._parameter_tables()
        assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
        if model.vectors:
            vectors = np.asarray(getattr(model, model.vectors))
            shown = np.array([row[-vectors.shape[1] :] for row in tables[0].rows], dtype=float)
            np.testing.assert_array_equal(shown, vectors)
