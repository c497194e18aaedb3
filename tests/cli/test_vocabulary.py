"""Sentences of the library name options of the command line."""

import json

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.cli.console import as_typed
from implicitmoments.notes import InputError, Note, Notes
from implicitmoments.registry import ESTIMATORS, estimator_class


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("n_components=3", "-k 3"),
        ("n_components", "-k"),
        ("random_state", "--seed"),
        ("degree='cv'", "--degree cv"),
        ("degree=4, method='paper'", "--degree 4 --set method=paper"),
        ("max_iter=7", "--set max_iter=7"),
        ("max_iter", "--set max_iter=…"),
        ("tol=1e-06", "--set tol=1e-06"),
        ("refine=True", "--set refine=true"),
        ("variance=None", "--set variance=none"),
        ("variance=...", "--set variance=…"),
        ("columns=['a', 'b c', 'd, e']", "--columns 'a,b c,\"d, e\"'"),
        ("sep=';', na_values=['-', '?']", "--sep ';' --na-values '-,?'"),
        ("implicitmoments.save", "fit"),
        ("columns=[0, 2]", "--columns 0,2"),
        ("columns=...", "--columns …"),
        ("y='price'", "--target price"),
        ("y", "--target"),
        ("sample_weight", "--weight"),
        ("drop_missing=True", "--drop-missing"),
        ("lower_bound_", "the mean log-likelihood"),
        ("means_", "means"),
        ("score_samples", "implicitmoments score --rows"),
        ("SphericalMixture", "mixture"),
        ("RegressionMixtureDensity", "regression-density"),
        # what is neither a parameter nor a class stays
        ("X", "X"),
        ("--keep", "--keep"),
        ("open_file(path)", "open_file(path)"),
        ("SphericalMixtureProblem", "SphericalMixtureProblem"),
        ("not an expression", "not an expression"),
        ("", ""),
    ],
)
def test_options_stand_for_parameters(python, typed):
    assert as_typed(python) == typed


def test_every_parameter_has_an_option():
    for kind in ESTIMATORS:
        for name in estimator_class(kind)().get_params():
            option = as_typed(f"{name}=1")
            assert option.startswith(("-k", "--"))


def test_errors_are_printed_with_options():
    error = InputError("out_of_range", "`{name}={k}` is too large", name="n_components", k=7)
    assert "-k 7" in error.sentence(as_typed)


@pytest.mark.parametrize("scaled", [False, True])
def test_notes_about_unlike_columns_mention_the_scale(scaled, call, models, tmp_path):
    model = im.load(models["clusters"])
    model.notes_ = Notes([Note("flat_direction", {"ratio": 1e-9, "variance": 1.0})])
    if scaled:
        model.columns_in_ = {"scale": np.ones(3)}
    im.save(model, tmp_path / "m.im")
    document = json.loads(call("describe", tmp_path / "m.im", "--json").stdout)
    advice = ["columns_were_scaled", "found_is_scaled"] if scaled else ["scale_columns"]
    assert [note["code"] for note in document["notes"]] == ["flat_direction", *advice]
