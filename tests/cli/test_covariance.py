"""Mixtures of elongated components on the command line, by ``--covariance``."""

import csv
import json

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.cli.model_options import build_model

TYPES = ("full", "tied", "diag", "spherical", "tied_diag", "tied_spherical")
MEANS = np.array([[0.0, 0.0], [6.0, 50.0], [-3.0, 70.0]])
ROOTS = np.array([[[3.0, 0.0], [8.0, 4.0]], [[0.4, 0.0], [5.0, 30.0]], [[2.5, 0.0], [-20.0, 4.0]]])


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A CSV file with three elongated groups, and their rows."""
    rng = np.random.default_rng(0)
    side = rng.integers(3, size=1_200)
    X = MEANS[side] + np.einsum("nij,nj->ni", ROOTS[side], rng.normal(size=(1_200, 2)))
    path = tmp_path_factory.mktemp("long") / "long.csv"
    np.savetxt(path, X, delimiter=",", header="length,width", comments="", fmt="%.17g")
    return path, X


@pytest.fixture(scope="module", params=[(), ("--scale",)], ids=["as given", "scaled"])
def fitted(request, call, long, tmp_path_factory):
    """A model file, the document of the fit, and the same fit in Python."""
    path, X = long
    out = tmp_path_factory.mktemp("fitted") / "model.im"
    how = ("-k", "3", "--covariance", "full", "--json", "-o", out, *request.param)
    result = call("fit", "mixture", path, *how)
    assert result.exit_code == 0, result.stderr
    return out, json.loads(result.stdout), im.GaussianMixture(3, random_state=0).fit(X)


def test_the_option_fits_what_the_library_fits(fitted):
    out, document, mine = fitted
    assert document["estimator"] == "GaussianMixture"
    assert document["found"]["covariance_type"] == "full"
    found = document.get("in_file_units", document["found"])
    np.testing.assert_allclose(found["means"], mine.means_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found["covariances"], mine.covariances_, rtol=1e-2, atol=1e-2)
    assert isinstance(im.load(out), im.GaussianMixture)


def test_answers_are_in_the_units_of_the_file(call, fitted, long, tmp_path):
    out, document, mine = fitted
    path, X = long
    score = float(call("score", out, path).stdout)
    assert score == pytest.approx(document["score"]) == pytest.approx(mine.score(X), abs=1e-5)
    labels = call("predict", out, path).stdout.split()[1:]
    np.testing.assert_array_equal(np.array(labels, int), mine.predict(X))
    chances = list(csv.reader(call("predict", out, path, "--proba").stdout.splitlines()))
    np.testing.assert_allclose(
        np.array(chances[1:], float), mine.predict_proba(X), rtol=0, atol=1e-3
    )
    drawn = list(csv.reader(call("sample", out, "-n", "4000", "--seed", "1").stdout.splitlines()))
    assert drawn[0] == ["length", "width", "component"]
    rows = np.array(drawn[1:], float)
    own = rows[rows[:, 2] == 0, :2]
    np.testing.assert_allclose(np.cov(own.T), mine.covariances_[0], rtol=0.3, atol=2)
    page = tmp_path / "page.html"
    assert call("report", out, path, "-o", page).exit_code == 0
    assert page.stat().st_size > 10_000


def test_describe_has_means_and_deviations_in_the_units_of_the_file(call, fitted):
    out, _, mine = fitted
    result = call("describe", out)
    assert result.exit_code == 0
    deviations = np.sqrt(np.diagonal(mine.covariances_, axis1=1, axis2=2))
    shown = [line.split() for line in result.stdout.splitlines()]
    tables = [[float(v) for v in row] for row in shown if row and row[0] in ("0", "1", "2")]
    np.testing.assert_allclose([row[2:] for row in tables[:3]], mine.means_, rtol=2e-3, atol=0.01)
    np.testing.assert_allclose([row[1:] for row in tables[3:]], deviations, rtol=1e-2)


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_fitted_and_answers_in_the_units_of_the_file(call, long, tmp_path, name):
    path, _ = long
    how = ("-k", "3", "--covariance", name, "--scale", "--set", "errors=observed")
    how = (*how, "--json", "-o", tmp_path / "m.im")
    document = json.loads(call("fit", "mixture", path, *how).stdout)
    assert document["found"]["covariance_type"] == name
    units, scale = document["in_file_units"], np.array([*document["scale"].values()])
    matrices = name in ("full", "tied")
    factors = np.outer(scale, scale) if matrices else scale**2
    for attribute in ("covariances", "covariance_errors"):
        found = np.array(document["found"][attribute])
        wide = found[..., None] if "spherical" in name else found
        np.testing.assert_allclose(units[attribute], wide * factors)
    assert units["covariance_type"] == name.replace("spherical", "diag")
    assert call("describe", tmp_path / "m.im").exit_code == 0


def test_type_and_number_are_chosen(call, long, tmp_path):
    how = ("--covariance", "auto", "--json", "-o", tmp_path / "m.im")
    found = json.loads(call("fit", "mixture", long[0], *how).stdout)["found"]
    assert (found["n_components"], found["covariance_type"]) == (3, "full")


BAD_ROWS = {
    "too_few_distinct_rows": "1,2\n3,4\n5,7\n" * 99,
    "too_few_rows": "1,2\n3,4\n5,7\n",
    "rows_all_equal": "1,2\n" * 99,
    "column_not_numeric": "1,2\n3,x\n5,7\n8,2\n",
    "not_finite": "1,2\n3,nan\n5,7\n8,2\n",
}


@pytest.mark.parametrize("code", BAD_ROWS)
@pytest.mark.parametrize("name", [*TYPES, "auto", None])
def test_rows_that_cannot_be_fitted(refused, tmp_path, name, code):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + BAD_ROWS[code])
    how = ["--covariance", name] if name else []
    refused(code, "fit", "mixture", path, "-k", "4", *how, "-o", tmp_path / "m.im")
    assert not (tmp_path / "m.im").exists()


@pytest.mark.parametrize("name", [*TYPES, None])
def test_few_rows_and_columns_without_use_are_noted(call, tmp_path, name):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(8, 2)), np.ones(8)])
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b,c", comments="")
    how = ["--set", f"covariance_type={name}"] if name else []
    out = ("--json", "-o", tmp_path / "m.im")
    document = json.loads(
        call("fit", "mixture", tmp_path / "rows.csv", "-k", "4", *how, *out).stdout
    )
    codes = {note["code"] for note in document["notes"]}
    assert "columns_left_out" in codes
    assert {"components_borrow", "few_rows"} & codes


@pytest.mark.parametrize(
    ("kind", "covariance", "settings", "expected"),
    [
        ("mixture", None, [], im.SphericalMixture),
        ("mixture", "spherical", [], im.GaussianMixture),
        ("mixture", None, ["covariance_type=diag"], im.GaussianMixture),
        ("gaussian-mixture", None, [], im.GaussianMixture),
        ("gaussian-mixture", "tied", [], im.GaussianMixture),
        ("SphericalMixture", "spherical", [], im.SphericalMixture),
    ],
)
def test_which_class_is_fitted(kind, covariance, settings, expected):
    model = build_model(kind, {"covariance_type": covariance}, settings, 0)
    assert type(model) is expected
    if covariance:
        assert model.covariance_type == covariance


@pytest.mark.parametrize(
    ("arguments", "code", "values"),
    [
        (["mixture", "--covariance", "oval"], "unknown_option", {"name": "covariance_type"}),
        (["SphericalMixture", "--covariance", "full"], "unknown_option", {}),
        (["mixture", "--covariance", "full", "-k", "2000"], "too_few_rows", {}),
        (
            ["mixture", "--covariance", "full", "--set", "covariance_type=diag"],
            "parameter_twice",
            {"name": "covariance_type"},
        ),
        (
            ["mixture", "--covariance", "full", "--set", "means_init=0"],
            "unknown_parameter",
            {"name": "means_init"},
        ),
        (
            ["mixture", "--covariance", "full", "--set", "variance=1"],
            "unknown_parameter",
            {"kind": "gaussian-mixture"},
        ),
        (
            ["mixture", "--covariance", "full", "--set", "init_params=moments"],
            "no_moments_of_type",
            {"kind": "full"},
        ),
        (
            ["density", "-k", "2", "--covariance", "full"],
            "unknown_parameter",
            {"option": "--covariance"},
        ),
        (
            ["mixture", "--covariance", "full", "--target", "width"],
            "target_not_used",
            {"kind": "gaussian-mixture"},
        ),
        (["mixture", "--covariance"], "BadOptionUsage", {}),
    ],
)
def test_what_is_refused(refused, long, tmp_path, arguments, code, values):
    kind, *options = arguments
    options = options if options[-1] == "--covariance" else [*options, "-o", tmp_path / "m.im"]
    refused(code, "fit", kind, long[0], *options, **values)
    assert not (tmp_path / "m.im").exists()
