"""Captions and tables: words that fit the model, and numbers in units that a reader has."""

import copy
import re

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.report.captions import caption_of
from implicitmoments.report.measurements import WORDS, statistics_of
from implicitmoments.report.tables import html_of, parameters_of, settings_of

JARGON = ["first variance", "start log likelihood", "turns", "n peaks", "far rows", "resolved"]


def test_statistics_are_numbers_and_words(fitted):
    for model, _, _ in fitted.values():
        table = statistics_of(model)
        assert len(table.rows) >= 5
        assert all(len(str(value)) < 200 for _, value in table.rows)
        names = [row[0] for row in table.rows]
        assert set(table.meanings) == set(names)
        assert all(len(name) > 3 and "_" not in name for name in names)
        assert not set(names) & {*JARGON, "r", "gap", "threshold", "ridge", "width"}
        page = html_of(table, "statistics")
        assert page.count(" title=") == len(names)
    assert all(words.meaning.endswith(".") for words in WORDS.values())


def test_inner_units_are_not_shown(fitted):
    shown = str(statistics_of(fitted["SphericalMixture"].model).rows)
    stats = fitted["SphericalMixture"].model.stats_
    assert stats["first_variance"] > 0
    assert f"{stats['first_variance']:.4f}" not in shown
    assert "EM started from" in shown


def test_bic_is_told_from_the_best(fitted):
    model = copy.copy(fitted["RegressionMixture"].model)
    model.stats_ = model.stats_ | {"bic_by_n_components": {2: 130.0, 3: 100.0, 4: 105.5}}
    rows = dict(statistics_of(model).rows)
    assert rows["BIC above the best"] == "3:\u00a0best; 4:\u00a0+5.5; 2:\u00a0+30"
    many = {k: 100.0 + k for k in range(1, 40)}
    model.stats_["bic_by_n_components"] = many
    assert dict(statistics_of(model).rows)["BIC above the best"].endswith("; … (39)")
    model.stats_["bic_by_n_components"] = {}
    assert "BIC above the best" not in dict(statistics_of(model).rows)


def test_settings_show_defaults_and_mark_what_was_changed(fitted):
    table = settings_of(fitted["RegressionMixture"].model)
    rows = {name: (value, default) for name, value, default in table.rows}
    assert rows["n_components"] == ("3", "2")
    assert rows["noise"] == ("'shared'", "'shared'")
    assert table.marked == {"n_components", "random_state"}
    assert [row[0] for row in table.rows[:2]] == ["n_components", "random_state"]
    page = html_of(table, "settings")
    assert page.count('<tr class="changed">') == 2
    assert "other than the default" in page
    assert "All are defaults" in html_of(settings_of(im.SphericalMixture()), "settings")


def test_the_noise_of_a_density_is_called_what_it_is(fitted):
    table = parameters_of(fitted["RegressionMixtureDensity"].model)[0]
    names = [row[0] for row in table.rows]
    assert "noise that the expansion assumes" in names
    assert "noise" not in names
    assert "not the scatter about each line" in table.meanings["noise that the expansion assumes"]


@pytest.mark.parametrize("picture", ["spectra", "components", "fit", "convergence"])
def test_every_caption_is_a_sentence(fitted, picture):
    for model, _, _ in fitted.values():
        title, words = caption_of(picture, model, "units")
        assert title
        assert words.endswith(".")
        assert "{" not in words


def test_captions_follow_the_model(fitted):
    density = fitted["SphericalMixtureDensity"].model
    title, words = caption_of("convergence", density)
    assert title == "Choice of the degree"
    assert "was not fitted to" in words
    assert caption_of("components", density).title == "Rows by density"
    assert "EM" in caption_of("convergence", fitted["SphericalMixture"].model).words
    network = fitted["ActivationSumRegressor"].model
    assert "Error of the network" in caption_of("convergence", network).words
    assert "units" in caption_of("fit", network, "units").words
    unused = copy.copy(network)
    unused.stats_ = network.stats_ | {"hypothesis": "polynomial"}
    assert "those of the polynomial" in caption_of("components", unused).words
    lines = caption_of("spectra", fitted["RegressionMixture"].model).words
    assert "rest on their likelihood" in lines


def test_one_column_and_one_component():
    X = np.random.default_rng(0).normal(size=(200, 1))
    assert (
        "Histogram of the one column"
        in caption_of("components", im.SphericalMixture(2, random_state=0).fit(X)).words
    )
    wide = np.random.default_rng(0).normal(size=(200, 3))
    one = caption_of("components", im.SphericalMixture(1).fit(wide)).words
    assert not re.search("means differ", one)
