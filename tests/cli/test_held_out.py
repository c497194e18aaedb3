"""``evaluate`` and ``compare``: models on rows of a file."""

import json

import numpy as np
import pytest

import implicitmoments as im

LINES = ("--target", "price")


def plain(path):
    """Load a model that takes arrays without names."""
    model = im.load(path)
    del model.feature_names_in_
    return model


@pytest.fixture(scope="module")
def two(call, data, tmp_path_factory):
    """A model with a component too few, and other rows of the same law and of another."""
    folder = tmp_path_factory.mktemp("two")
    how = ("-k", "2", "-o", folder / "few.im")
    assert call("fit", "mixture", data / "rows.csv", *how).exit_code == 0
    model = im.load(folder / "few.im")
    X = np.load(data / "rows.npy")
    np.save(folder / "same.npy", X[::2])
    np.save(folder / "other.npy", X[::2] * 1.5)
    assert model.n_components_ == 2
    return folder


def test_evaluate_is_the_score_with_its_error(call, data, models):
    found = json.loads(call("evaluate", models["mixture"], data / "rows.npy", "--json").stdout)
    model, X = plain(models["mixture"]), np.load(data / "rows.npy")
    densities = model.score_samples(X)
    assert found["rows"] == len(X)
    assert found["mean_log_density"] == pytest.approx(densities.mean())
    error = densities.std() / np.sqrt(len(X) - 1)
    assert found["mean_log_density_error"] == pytest.approx(error)
    assert found["mean_log_density_of_fit"] == pytest.approx(model.lower_bound_)
    assert found["bic"] == pytest.approx(model.bic(X))
    assert found["rows_by_component"] == np.bincount(model.predict(X), minlength=3).tolist()


def test_far_rows_count_for_one_model_and_not_between_two(call, models, two):
    """As in ``score``; a choice between models is not that of one row."""
    X = np.load(two / "same.npy")
    np.save(two / "wild.npy", np.vstack([X, np.full(X.shape[1], 1e4)]))
    found = json.loads(call("evaluate", models["mixture"], two / "wild.npy", "--json").stdout)
    score = json.loads(call("score", models["mixture"], two / "wild.npy", "--json").stdout)
    assert (found["rows"], found["outliers"], score["outliers"]) == (len(X) + 1, 1, 1)
    densities = plain(models["mixture"]).score_samples(np.load(two / "wild.npy"))
    assert found["mean_log_density"] == pytest.approx(densities.mean())
    assert score["score"] == pytest.approx(densities.mean())
    both = (models["mixture"], two / "few.im")
    near, all_rows = (
        json.loads(call("compare", *both, two / f"{name}.npy", "--json").stdout)
        for name in ("same", "wild")
    )
    assert (near["outliers"], all_rows["outliers"]) == (0, 1)
    assert all_rows["difference"] == pytest.approx(near["difference"])


def test_a_fit_says_how_it_describes_the_rows_that_were_fitted(call, two):
    """``score`` counts the row that the fit left out."""
    X = np.vstack([np.load(two / "same.npy"), np.full(3, 1e4)])
    np.save(two / "one_wild.npy", X)
    how = ("-k", "3", "-o", two / "wild.im", "--json")
    found = json.loads(call("fit", "mixture", two / "one_wild.npy", *how).stdout)
    model = im.load(two / "wild.im")
    assert model.stats_["outliers"] == 1
    assert found["score"] == pytest.approx(model.lower_bound_)
    all_rows = json.loads(call("score", two / "wild.im", two / "one_wild.npy", "--json").stdout)
    assert all_rows["score"] == pytest.approx(model.score_samples(X).mean())
    assert all_rows["score"] < found["score"] - 1


def test_evaluate_regressions(call, data, models):
    file = data / "lines.csv"
    found = json.loads(call("evaluate", models["activations"], file, *LINES, "--json").stdout)
    rows = np.load(data / "lines.npy")
    model = plain(models["activations"])
    X, y = np.round(rows[:, :2], 6), np.round(rows[:, 2], 6)
    assert found["r2"] == pytest.approx(model.score(X, y), abs=1e-6)
    assert found["mean_squared_error"] == pytest.approx(np.mean((y - model.predict(X)) ** 2))


@pytest.mark.parametrize(("rows", "worse"), [("same", False), ("other", True)])
def test_rows_of_another_law_are_noted(rows, worse, call, models, two, noted):
    result = call("evaluate", models["mixture"], two / f"{rows}.npy")
    assert result.exit_code == 0
    if not worse:
        assert result.stderr == ""
        return
    found = json.loads(call("evaluate", models["mixture"], two / "other.npy", "--json").stdout)
    names = {"found": "", "trained": "_of_fit", "error": "_error"}
    values = {name: found[f"mean_log_density{end}"] for name, end in names.items()}
    assert result.stderr == noted(("rows_described_worse", values))


def test_compare_names_the_better_model(call, data, models, two):
    arguments = (models["mixture"], two / "few.im", data / "rows.npy", "--json")
    found = json.loads(call("compare", *arguments).stdout)
    X = np.load(data / "rows.npy")
    one, other = (plain(path).score_samples(X) for path in arguments[:2])
    assert found["better"] == str(models["mixture"])
    assert found["difference"] == pytest.approx(np.mean(one - other))
    error = np.std(one - other) / np.sqrt(len(X) - 1)
    assert found["difference_error"] == pytest.approx(error)
    assert [each["model"] for each in found["models"]] == ["mixture", "mixture"]
    shown = call("compare", *arguments[:3])
    assert shown.exit_code == 0
    assert "few.im" in shown.stdout


def test_a_model_is_not_better_than_itself(call, data, models):
    arguments = (models["regressions"], models["regressions"], data / "lines.csv", *LINES)
    found = json.loads(call("compare", *arguments, "--json").stdout)
    assert found["better"] is None
    assert found["difference"] == 0.0


def test_models_of_other_quantities_are_not_compared(refused, data, models):
    rows = data / "rows.csv"
    refused("models_not_comparable", "compare", models["mixture"], models["clusters"], rows)
    refused("rows_read_twice", "compare", models["mixture"], models["mixture"], "-", piped="")


def test_parameters_as_a_table(call, models, tmp_path):
    lines = call("describe", models["mixture"], "--format", "csv").stdout.splitlines()
    model = im.load(models["mixture"])
    assert lines[0] == "component,weight,variance,height,width,depth"
    found = np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]])
    np.testing.assert_array_equal(found[:, 1], model.weights_)
    np.testing.assert_array_equal(found[:, 3:], model.means_)
    out = tmp_path / "parameters.csv"
    assert str(out) in call("describe", models["mixture"], "-o", out).stdout
    assert out.read_text().splitlines() == lines
    shaped = call("describe", models["gaussian-mixture"], "--format", "csv").stdout
    assert "standard deviation of height" in shaped.splitlines()[0].split(",")
    density = call("describe", models["density"], "--format", "csv").stdout
    assert density.splitlines()[0] == "parameter,value"


def test_a_dash_is_standard_output(call, data, models, tmp_path, refused):
    plain = call("predict", models["mixture"], data / "rows.csv").stdout
    assert call("predict", models["mixture"], data / "rows.csv", "-o", "-").stdout == plain
    page = call("report", models["mixture"], data / "rows.csv", "-o", "-")
    assert page.stdout.startswith("<!DOCTYPE html>")
    dash = ("report", models["mixture"], data / "rows.csv", "-o", "-", "--open")
    refused("page_not_a_file", *dash)
    refused("output_not_a_file", "fit", "mixture", data / "rows.csv", "-k", "2", "-o", "-")


def test_commands_say_what_they_wrote(call, data, models, tmp_path):
    for command, *more in (
        ("predict", data / "rows.csv"),
        ("score", data / "rows.csv", "--rows"),
        ("sample", "-n", "5"),
    ):
        out = tmp_path / f"{command}.csv"
        result = call(command, models["mixture"], *more, "-o", out)
        assert str(out) in result.stdout
        assert call(command, models["mixture"], *more, "-o", out, "-q").stdout == ""
