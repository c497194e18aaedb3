"""Rows without all numbers, and files whose names say nothing or too much."""

import csv
import gzip
import io
import json
import shutil

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

import implicitmoments as im
from implicitmoments.cli.console import as_typed


@pytest.fixture
def holes(data, tmp_path):
    """Rows in three formats, of which two lack a number; and the others in a file."""
    X = np.loadtxt(data / "rows.csv", delimiter=",", skiprows=1)
    names = ["height", "width", "depth"]
    X[8, 1] = X[1_500, 2] = np.nan
    lines = [",".join("" if np.isnan(v) else repr(v) for v in row) for row in X.tolist()]
    (tmp_path / "holes.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    np.save(tmp_path / "holes.npy", X)
    table = pyarrow.table(dict(zip(names, X.T, strict=True)))
    pyarrow.parquet.write_table(table, tmp_path / "holes.parquet")
    np.save(tmp_path / "whole.npy", X[np.isfinite(X).all(axis=1)])
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "npy", "parquet"])
def test_incomplete_rows_are_dropped_when_asked(kind, holes, call, noted, refused):
    rows, out = holes / f"holes.{kind}", holes / "m.im"
    where = {"unit": "line", "first": 10} if kind == "csv" else {"unit": "row", "first": 8}
    how = ("fit", "mixture", rows, "-k", "3", "-o", out)
    error = refused("not_finite", *how, **where)
    assert "--drop-missing" in error.sentence(as_typed)
    result = call(*how, "--drop-missing")
    assert result.exit_code == 0, result.stderr
    assert (
        call("fit", "mixture", holes / "whole.npy", "-k", "3", "-o", holes / "w.im").exit_code == 0
    )
    np.testing.assert_array_equal(im.load(out).means_, im.load(holes / "w.im").means_)
    scored = call("score", out, rows, "--drop-missing")
    assert scored.stdout == call("score", holes / "w.im", holes / "whole.npy").stdout
    assert scored.stderr == noted(("incomplete_rows_dropped", {"n": 2}))
    page = call("report", out, rows, "--drop-missing", "-q", "-o", holes / "page.html")
    assert (page.exit_code, page.output) == (0, "")


def test_the_number_of_dropped_rows_is_in_json(holes, call):
    how = ("-k", "3", "--drop-missing", "--json", "-o", holes / "m.im")
    document = json.loads(call("fit", "mixture", holes / "holes.csv", *how).stdout)
    assert (document["rows"], document["dropped"]) == (1_998, 2)


def test_answers_for_each_row_drop_none(holes, models, refused):
    asked = ("score", models["mixture"], holes / "holes.csv", "--rows", "--drop-missing")
    refused("rows_not_dropped", *asked)


QUESTIONS = {
    "labels": ("predict", "mixture", []),
    "probabilities": ("predict", "mixture", ["--proba"]),
    "densities": ("score", "mixture", ["--rows"]),
    "clusters": ("predict", "clusters", []),
    "responses": ("predict", "regressions", []),
    "lines": ("predict", "regressions", ["--component"]),
    "probabilities of lines": ("predict", "regressions", ["--proba"]),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", ["csv", "npy", "parquet"])
def test_rows_with_missing_cells_have_empty_answers(
    question, kind, call, noted, data, models, tmp_path
):
    command, word, options = QUESTIONS[question]
    file = "lines" if word == "regressions" else "rows"
    X = pd.read_csv(data / f"{file}.csv")
    if "--proba" in options or "--component" in options or word != "regressions":
        X.iloc[1_500, 2] = np.nan  # a feature, or the label that is needed then
    X.iloc[[8, 30], 1] = np.nan
    if kind == "csv":
        X.to_csv(tmp_path / "x.csv", index=False)
    elif kind == "npy":
        np.save(tmp_path / "x.npy", X)
        options = [*options, *(["--target", "2", "--columns", "0,1"] if file == "lines" else [])]
    else:
        X.to_parquet(tmp_path / "x.parquet")
    gaps = sorted({8, 30, *np.flatnonzero(X.isna().any(axis=1))})
    plain = call(command, models[word], data / f"{file}.csv", *QUESTIONS[question][2])
    result = call(command, models[word], tmp_path / f"x.{kind}", *options)
    assert result.exit_code == 0, result.stderr
    assert noted(("rows_unanswered", {"n": len(gaps), "rows": 2_000})) in result.stderr
    found, expected = (list(csv.reader(io.StringIO(r.stdout))) for r in (result, plain))
    assert len(found) == len(expected) == 2_001
    for i, (row, whole) in enumerate(zip(found[1:], expected[1:], strict=True)):
        assert row == ([""] * len(whole) if i in gaps else whole)


@pytest.mark.parametrize("end", ["csv", "json", "npy", "parquet", "arrow", "tsv"])
@pytest.mark.parametrize("options", [[], ["--proba"]])
def test_empty_answers_in_files(end, options, call, noted, holes, models):
    out = holes / f"out.{end}"
    asked = ("predict", models["mixture"], holes / "holes.csv", *options, "-o", out)
    result = call(*asked, "--json")
    assert json.loads(result.stdout) == {"rows": 2_000, "incomplete": 2, "output": str(out)}
    read = {
        "csv": pd.read_csv,
        "tsv": lambda path: pd.read_csv(path, sep="\t"),
        "json": pd.read_json,
        "npy": lambda path: pd.DataFrame(np.load(path)),
        "parquet": pd.read_parquet,
        "arrow": lambda path: pyarrow.ipc.open_file(path).read_pandas(),
    }
    found = read[end](out)
    assert len(found) == 2_000
    for name in found:
        assert np.flatnonzero(found[name].isna()).tolist() == [8, 1_500]
    if end in ("parquet", "arrow") and not options:
        table = pyarrow.parquet.read_table(out) if end == "parquet" else None
        assert table is None or table["component"].type == pyarrow.int64()
    whole = call(*asked, "-q")
    assert whole.stderr.startswith("implicitmoments: warning: ")


def test_a_file_without_missing_cells_keeps_whole_numbers(call, holes, models):
    out = holes / "out.npy"
    assert call("predict", models["mixture"], holes / "whole.npy", "-o", out).stderr == ""
    assert np.load(out).dtype.kind == "i"


def test_blocks_without_any_whole_row(call, models, tmp_path):
    X = np.full((40_000, 3), np.nan)
    X[39_999] = 0.0
    np.save(tmp_path / "x.npy", X)
    result = call("predict", models["mixture"], tmp_path / "x.npy")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.split("\n")
    assert set(lines[1:40_000]) <= {"", '""'}
    assert lines[40_000].isdecimal()


def test_copied_columns_stay_beside_empty_answers(call, holes, models):
    asked = ("predict", models["mixture"], holes / "holes.csv", "--keep", "height")
    rows = list(csv.DictReader(io.StringIO(call(*asked).stdout)))
    kept = pd.read_csv(holes / "holes.csv")["height"]
    np.testing.assert_allclose([float(row["height"]) for row in rows], kept)
    assert [i for i, row in enumerate(rows) if not row["component"]] == [8, 1_500]


def test_a_file_without_any_whole_row(refused, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,\n,2\n")
    asked = ("fit", "mixture", tmp_path / "rows.csv", "-k", "1", "--drop-missing")
    refused("all_rows_incomplete", *asked)


@pytest.mark.parametrize("name", ["rows.txt", "rows", "rows.dat"])
@pytest.mark.parametrize("packed", [False, True])
def test_names_that_say_nothing_are_read_as_csv(name, packed, call, data, models, tmp_path):
    text = (data / "rows.csv").read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(text) if packed else text)
    result = call("score", models["mixture"], tmp_path / name)
    assert result.stdout == call("score", models["mixture"], data / "rows.csv").stdout


def test_errors_in_them_have_their_own_name(refused, tmp_path):
    (tmp_path / "rows.txt").write_text("a,b\n1,wide\n")
    named = {"column": "b", "file": str(tmp_path / "rows.txt")}
    refused("column_not_numeric", "fit", "mixture", tmp_path / "rows.txt", "-k", "1", **named)


@pytest.mark.parametrize("end", ["xlsx", "npz", "json", "zip", "mat"])
def test_files_of_other_kinds(end, refused, data, tmp_path):
    shutil.copy(data / "rows.csv", tmp_path / f"rows.{end}")
    code = "unknown_kind" if end == "mat" else "not_rows"
    refused(code, "fit", "mixture", tmp_path / f"rows.{end}", "-k", "1", suffix=f".{end}")


def test_a_page_without_a_browser_says_so(call, noted, data, models, tmp_path, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda page: False)
    out = tmp_path / "page.html"
    result = call("report", models["mixture"], data / "rows.csv", "-o", out, "--open")
    assert result.exit_code == 0
    assert result.stderr == noted(("no_browser", {"path": str(out)}))
