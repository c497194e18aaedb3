"""Columns that are typed, beside those of the model."""

import json

import numpy as np
import pytest

import implicitmoments as im


@pytest.mark.parametrize("typed", ["a,b", "b,a", "1,0", "0,1"])
def test_names_of_the_model_are_matched_in_any_order(typed, call, data, models):
    plain = call("score", models["regressions"], data / "lines.csv")
    result = call("score", models["regressions"], data / "lines.csv", "--columns", typed)
    assert (result.stdout, result.stderr) == (plain.stdout, "")


def test_other_names_are_taken_in_the_order_given_and_noted(call, noted, data, models, tmp_path):
    text = (data / "lines.csv").read_text().replace("a,b,price", "length,breadth,price", 1)
    (tmp_path / "renamed.csv").write_text(text)
    how = (models["regressions"], tmp_path / "renamed.csv", "--columns")
    plain = call("score", models["regressions"], data / "lines.csv").stdout
    result = call("score", *how, "length,breadth")
    assert result.stdout == plain
    pairs = ["length for a", "breadth for b"]
    assert result.stderr == noted(("columns_by_position", {"pairs": pairs}))
    assert call("score", *how, "breadth,length").stdout != plain
    assert call("score", *how, "length,breadth", "-q").stderr == ""


def test_numbers_of_a_model_without_names_are_matched(call, data, tmp_path):
    how = ("--target", "2", "-k", "2", "-o", tmp_path / "m.im")
    assert call("fit", "regressions", data / "lines.npy", *how).exit_code == 0
    asked = ("score", tmp_path / "m.im", data / "lines.npy", "--target", "2")
    plain = call(*asked, "--columns", "0,1").stdout
    result = call(*asked, "--columns", "1,0")
    assert (result.stdout, result.stderr) == (plain, "")


def test_numbers_of_an_array_stand_for_names_of_a_model(call, noted, data, models):
    how = (models["regressions"], data / "lines.npy", "--target", "2", "--columns")
    result = call("score", *how, "1,0")
    pairs = ["x1 for a", "x0 for b"]
    assert result.stderr == noted(("columns_by_position", {"pairs": pairs}))
    assert result.stdout != call("score", *how, "0,1").stdout


def test_answers_for_each_row_match_columns_too(call, data, models):
    how = ("predict", models["mixture"], data / "rows.csv")
    assert call(*how, "--columns", "depth,height,width").stdout == call(*how).stdout


def test_the_table_of_a_fit_says_which_columns_were_used(call, data, tmp_path):
    result = call("fit", "mixture", data / "rows.csv", "-k", "3", "-o", tmp_path / "m.im")
    assert "height, width, depth" in result.stdout
    X = np.random.default_rng(0).normal(size=(300, 9))
    np.save(tmp_path / "wide.npy", X)
    result = call("fit", "mixture", tmp_path / "wide.npy", "-k", "1", "-o", tmp_path / "m.im")
    assert "x0, x1, x2, x3, …, x8 (9)" in result.stdout


def counted(data, path, first, name="customer"):
    """Write rows.csv with a column that counts."""
    head, *rows = (data / "rows.csv").read_text().splitlines()
    lines = [f"{name},{head}", *(f"{first + i},{row}" for i, row in enumerate(rows))]
    path.write_text("\n".join(lines) + "\n")


def test_a_column_that_numbers_the_rows_is_noted(call, noted, data, tmp_path):
    counted(data, tmp_path / "rows.csv", 2)
    how = ("fit", "mixture", tmp_path / "rows.csv", "-k", "2", "-o", tmp_path / "m.im")
    result = call(*how)
    assert result.exit_code == 0
    values = {"column": "customer", "first": 2, "last": 2001}
    option = "--columns height,width,depth"
    assert result.stderr == noted(("column_counts_rows", {**values, "option": option}))
    quiet = call(*how, "-q").stderr
    assert not quiet.startswith(noted(("column_counts_rows", {**values, "option": option})))
    assert call(*how, "--columns", "height,customer").stderr == ""  # who types it, means it


def test_columns_that_count_to_some_row_only_are_not_noted(call, data, tmp_path):
    counted(data, tmp_path / "rows.csv", 1)
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    lines[-1] = "7," + lines[-1].split(",", 1)[1]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    how = ("fit", "mixture", tmp_path / "rows.csv", "-k", "2", "-o", tmp_path / "m.im")
    assert call(*how).stderr == ""


def test_what_sample_writes_beside_the_features_is_noted(call, noted, models, tmp_path):
    out = tmp_path / "drawn.csv"
    assert call("sample", models["mixture"], "-n", "500", "--seed", "1", "-o", out).exit_code == 0
    result = call("fit", "mixture", out, "-k", "3", "-o", tmp_path / "m.im")
    values = {"column": "component", "option": "--columns height,width,depth"}
    assert result.stderr == noted(("column_of_answers", values))


@pytest.mark.parametrize("kind", ["npy", "csv"])
@pytest.mark.parametrize("typed", [["2,0", "1"], ["x2,x0", "x1"]])
def test_columns_without_names_have_one_name_everywhere(kind, typed, call, refused, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    X[:, 1] = np.where(rng.random(500) < 0.5, 1 + X[:, 0], -1 - X[:, 2]) + 0.1 * X[:, 1]
    rows, model, page = tmp_path / f"x.{kind}", tmp_path / "m.im", tmp_path / "page.html"
    np.save(rows, X) if kind == "npy" else np.savetxt(rows, X, delimiter=",")
    columns = ("--columns", typed[0], "--target", typed[1])
    result = call("fit", "regressions", rows, *columns, "-k", "2", "-o", model)
    assert result.exit_code == 0, result.stderr
    assert "x2, x0" in result.stdout
    document = json.loads(call("describe", model, "--json").stdout)
    assert document["features"] == ["x2", "x0"]
    assert document["columns"] == {"target": "x1", "features": "x2,x0"}
    header = call("describe", model, "--format", "csv").stdout.splitlines()[0]
    assert {"x2", "x0"} <= set(header.split(","))
    assert call("sample", model, "-n", "5").exit_code in (0, 2)
    plain = call("predict", model, rows).stdout
    for same in ("x2,x0", "2,0", "x0,x2"):
        assert call("predict", model, rows, "--columns", same).stdout == plain
    assert call("report", model, rows, "-o", page).exit_code == 0
    assert "labels: x1" in page.read_text()
    X[7, 2] = np.nan
    np.save(rows, X) if kind == "npy" else np.savetxt(rows, X, delimiter=",")
    refused("not_finite", "score", model, rows, name="feature 'x2'")


def test_numbers_in_older_model_files_are_these_names(call, models, data, tmp_path):
    old = im.load(models["regressions"])
    del old.feature_names_in_
    old.columns_in_ = {"target": "2", "features": "0,1"}
    im.save(old, tmp_path / "old.im")
    document = json.loads(call("describe", tmp_path / "old.im", "--json").stdout)
    assert document["columns"] == {"target": "x2", "features": "x0,x1"}
    for name in ("lines.npy", "lines.csv"):  # the latter has names, and columns by their places
        typed = ("--columns", "0,1", "--target", "2")
        plain = call("score", models["regressions"], data / name, *typed).stdout
        assert call("score", tmp_path / "old.im", data / name).stdout == plain


def test_names_of_unnamed_columns_are_no_places_among_names(call, refused, data, tmp_path):
    fit = ("fit", "mixture", data / "rows.csv", "-k", "2", "-o", tmp_path / "m.im")
    refused("no_such_column", *fit, "--columns", "x0,x1", wanted="x0")
    assert call(*fit, "--columns", "0,1").exit_code == 0
    assert im.load(tmp_path / "m.im").feature_names_in_.tolist() == ["height", "width"]
