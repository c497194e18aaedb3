"""Several files of rows, and patterns that stand for them."""

import csv
import io
import json

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import implicitmoments as im

NAMES = ["height", "width", "depth"]


def write(path, X):
    table = pyarrow.table(dict(zip(NAMES, X.T, strict=True)))
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        np.save(path, X)


@pytest.fixture
def parts(data, tmp_path, monkeypatch):
    """The rows of rows.npy in parts of each format, and in the current folder."""
    X = np.load(data / "rows.npy")
    monkeypatch.chdir(tmp_path)
    for kind in ("csv", "parquet", "npy"):
        for i, rows in enumerate((X[:700], X[700:701], X[701:])):
            write(tmp_path / f"part-{i}.{kind}", rows)
        write(tmp_path / f"whole.{kind}", X)
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
@pytest.mark.parametrize("typed", [["part-*.KIND"], ["part-0.KIND", "part-[12].KIND"]])
def test_a_fit_to_parts_is_that_to_the_whole(kind, typed, parts, call):
    words = [word.replace("KIND", kind) for word in typed]
    result = call("fit", "mixture", *words, "-k", "3", "-o", "parts.im", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == 2_000
    assert call("fit", "mixture", f"whole.{kind}", "-k", "3", "-o", "whole.im").exit_code == 0
    one, other = im.load("parts.im"), im.load("whole.im")
    np.testing.assert_array_equal(one.means_, other.means_)
    assert getattr(one, "columns_in_", {}) == getattr(other, "columns_in_", {})


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
@pytest.mark.parametrize("command", ["predict", "score", "evaluate", "compare"])
def test_answers_for_parts_are_those_for_the_whole(command, kind, parts, call, models):
    used = [models["mixture"], models["gaussian-mixture"]][: 1 + (command == "compare")]
    plain = call(command, *used, f"whole.{kind}")
    result = call(command, *used, f"part-*.{kind}")
    assert (plain.exit_code, result.exit_code) == (0, 0), result.stderr
    assert result.stdout == plain.stdout


def test_a_report_names_the_number_of_files(parts, call, models):
    result = call("report", models["mixture"], "part-*.csv", "-o", "page.html")
    assert result.exit_code == 0, result.stderr
    page = (parts / "page.html").read_text()
    assert "Rows of 3 files" in page


def test_formats_may_differ(parts, call, models):
    plain = call("predict", models["mixture"], "whole.csv").stdout
    mixed = call("predict", models["mixture"], "part-0.csv", "part-1.parquet", "part-2.csv")
    assert mixed.stdout == plain


def test_copied_columns_follow_their_rows(parts, call, models):
    plain = call("predict", models["mixture"], "whole.csv", "--keep", "width").stdout
    result = call("predict", models["mixture"], "part-*.csv", "--keep", "width")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == plain
    assert len(list(csv.DictReader(io.StringIO(plain)))) == 2_000


def test_standard_input_is_one_of_the_files(parts, call, models, refused):
    text = (parts / "part-1.csv").read_text()
    plain = call("predict", models["mixture"], "whole.csv").stdout
    mixed = ("predict", models["mixture"], "part-0.csv", "-", "part-2.csv")
    assert call(*mixed, input=text).stdout == plain
    keep = ("--keep", "height")
    kept = call("predict", models["mixture"], "whole.csv", *keep).stdout
    assert call(*mixed, *keep, input=text).stdout == kept
    refused("file_twice", *mixed, "-", piped=text)
    asked = ("compare", models["mixture"], models["mixture"], "part-0.csv", "-")
    refused("rows_read_twice", *asked, piped=text)


def test_columns_that_differ_are_named_with_their_file(parts, refused):
    text = (parts / "part-1.csv").read_text()
    (parts / "part-1.csv").write_text(text.replace("width", "breadth"))
    named = {"file": "part-1.csv", "other_file": "part-0.csv", "column": "width"}
    refused("columns_differ", "fit", "mixture", "part-*.csv", "-k", "3", **named)
    typed = ("--columns", "height,width")
    refused("no_such_column", "fit", "mixture", "part-*.csv", *typed, file="part-1.csv")
    named = {"file": "standard input", "other_file": "part-0.csv"}
    piped = text.replace("width", "breadth")
    refused("columns_differ", "fit", "mixture", "part-0.csv", "-", piped=piped, **named)


def test_a_missing_cell_is_named_with_its_file_and_line(parts, refused, call):
    lines = (parts / "part-2.csv").read_text().splitlines()
    lines[8] = "1,,3"
    (parts / "part-2.csv").write_text("\n".join(lines))
    fit = ("fit", "mixture", "part-*.csv", "-k", "3")
    refused("not_finite", *fit, file="part-2.csv", unit="line", first=9)
    assert json.loads(call(*fit, "--drop-missing", "--json").stdout)["dropped"] == 1


def test_a_file_whose_name_has_marks_of_a_pattern(parts, call, models):
    (parts / "part-0.csv").rename(parts / "part[0].csv")
    assert call("predict", models["mixture"], "part[0].csv").exit_code == 0


def test_the_output_is_none_of_the_files(parts, call, models, refused):
    asked = ("predict", models["mixture"], "part-*.csv", "-o", "part-3.csv")
    assert call(*asked).exit_code == 0
    refused("output_is_input", *asked)  # it matches the pattern now


def test_numbers_of_rows_in_each_file_are_noted(parts, call, noted):
    for i in range(2):
        rows = "\n".join(f"{j},{(7 * j) % 11},{(5 * j) % 13}" for j in range(40))
        (parts / f"numbered-{i}.csv").write_text(f"nr,a,b\n{rows}\n")
    result = call("fit", "mixture", "numbered-*.csv", "-k", "1", "-o", "m.im")
    values = {"column": "nr", "first": 0, "last": 39, "option": "--columns a,b"}
    assert result.stderr == noted(("column_counts_rows", values))


def test_patterns_progress_and_missing_cells_on_a_terminal(parts, models, on_terminal, noted):
    X = np.load(parts / "part-2.npy")
    X[[3, 5], 1] = np.nan
    np.save(parts / "part-2.npy", X)
    status, shown = on_terminal("predict", models["mixture"], "part-*.npy", "-o", "labels.csv")
    assert status == 0, shown
    note = noted(("rows_unanswered", {"n": 2, "rows": 2_000})).strip()
    assert shown.replace("\r\n", "\n").strip().endswith(note)  # after the progress
    assert "predicting" in shown
    assert len((parts / "labels.csv").read_text().splitlines()) == 2_001
    status, shown = on_terminal("predict", models["mixture"], "no-*.npy")
    assert status == 2
    assert "no-*.npy" in shown
