"""Options of text files: --sep, --decimal and --na-values."""

import shlex

import numpy as np
import pandas as pd
import pytest

from implicitmoments.cli.console import as_typed


@pytest.fixture
def tables(data, tmp_path, monkeypatch):
    """The rows of rows.csv as a frame, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return pd.read_csv(data / "rows.csv")


@pytest.mark.parametrize(
    ("how", "typed"),
    [
        ({"sep": ";", "decimal": ","}, ["--sep", ";", "--decimal", ","]),
        ({"sep": "\t"}, ["--sep", "tab"]),
        ({"sep": "\t"}, ["--sep", "\\t"]),
        ({"sep": ":"}, ["--sep", ":"]),
        ({"sep": ";", "decimal": ","}, []),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_separators_are_given_or_found(how, typed, piped, tables, data, models, call, tmp_path):
    tables.to_csv("rows.csv", index=False, **how)
    given = {"input": (tmp_path / "rows.csv").read_text()} if piped else {}
    result = call("predict", models["mixture"], "-" if piped else "rows.csv", *typed, **given)
    assert result.stdout == call("predict", models["mixture"], data / "rows.csv").stdout


def test_text_with_commas_between_semicolons(tables, data, models, call):
    texts = [f"Doe, {i}, jr." if i % 2 else f"Doe, {i}" for i in range(len(tables))]
    tables.assign(name=texts).to_csv("rows.csv", index=False, sep=";")
    result = call("predict", models["mixture"], "rows.csv", "--keep", "name")
    assert result.exit_code == 0, result.stderr
    plain = call("predict", models["mixture"], data / "rows.csv").stdout.split()
    assert [line.rsplit(",")[-1] for line in result.stdout.splitlines()] == plain


@pytest.mark.parametrize("marker", ["-", ".", "missing, sorry"])
def test_the_message_about_a_marker_has_the_option_to_type(marker, tables, call, refused):
    cells = tables.astype(object)
    cells.iloc[7] = marker
    cells.to_csv("rows.csv", index=False)
    fit = ["fit", "mixture", "rows.csv", "-k", "3", "-o", "m.im"]
    error = refused("column_not_numeric", *fit, column="height", cell=marker, line=9)
    option = f"""--na-values '"{marker}"'""" if "," in marker else f"--na-values {marker}"
    assert error.sentence(as_typed).endswith(option)
    typed = shlex.split(option)
    refused("not_finite", *fit, *typed, unit="line", first=9)
    assert call(*fit, *typed, "--drop-missing").exit_code == 0


@pytest.mark.parametrize("typed", [["-,."], ["-", "--na-values", "."]])
def test_several_markers(typed, tables, call):
    cells = tables.astype(object)
    cells.iloc[3, 0], cells.iloc[4, 1], cells.iloc[5, 2] = "-", ".", "N/A"
    cells.to_csv("rows.csv", index=False)
    fit = ("fit", "mixture", "rows.csv", "-k", "3", "--drop-missing", "--na-values", *typed)
    result = call(*fit)
    assert result.exit_code == 0, result.stderr
    assert "1,997" in result.stdout


def test_options_of_text_files_that_do_not_apply(tables, refused):
    tables.to_csv("rows.csv", index=False)
    np.save("rows.npy", tables)
    fit = ("fit", "mixture")
    refused("not_a_text_file", *fit, "rows.npy", "--sep", ";", name="sep")
    refused("not_one_character", *fit, "rows.csv", "--sep", "::", name="sep")
    refused("not_one_character", *fit, "rows.csv", "--decimal", "point", name="decimal")
    refused("separators_equal", *fit, "rows.csv", "--sep", ",", "--decimal", ",")


def test_the_report_repeats_them_in_its_next_command(tables, models, call, tmp_path):
    tables.to_csv("rows.csv", index=False, sep=":")
    how = ("rows.csv", "--sep", ":", "--na-values", "-,.", "-o", "page.html")
    assert call("report", models["mixture"], *how).exit_code == 0
    assert "rows.csv --sep : --na-values -,." in (tmp_path / "page.html").read_text()


@pytest.fixture
def customers(tables):
    """A file with text, and with signs of missing numbers in two columns."""
    cells = tables.astype(object).assign(town="Ulm")
    cells.insert(0, "id", [f"C{i:04d}" for i in range(len(cells))])
    cells.loc[7, "height"], cells.loc[9, "depth"], cells.loc[11, "depth"] = "-", "?", "N/A"
    return cells


def typed_after(error, first):
    """Return the options of a message from one on, as a shell reads them."""
    sentence = error.sentence(as_typed)
    return shlex.split(sentence[sentence.rindex(first) :])


def test_the_message_about_text_has_columns_and_markers(customers, call, refused):
    customers.to_csv("rows.csv", index=False)
    fit = ["fit", "mixture", "rows.csv", "-k", "3", "-o", "m.im"]
    error = refused("column_not_numeric", *fit, column="id", cell="C0000", markers=[])
    typed = typed_after(error, "--columns")
    assert typed == ["--columns", "height,width,depth", "--na-values", "-,?"]
    refused("not_finite", *fit, *typed)
    assert call(*fit, *typed, "--drop-missing").exit_code == 0


def test_words_are_not_taken_for_missing_numbers(customers, refused):
    customers.loc[3, "width"] = "wide"
    customers.to_csv("rows.csv", index=False)
    fit = ("fit", "mixture", "rows.csv", "-k", "3")
    error = refused("column_not_numeric", *fit, numeric=["height", "depth"])
    assert typed_after(error, "--na-values") == ["--na-values", "-,?"]


@pytest.mark.parametrize("text", [False, True])
def test_the_message_about_another_decimal_separator(text, customers, call, refused):
    given = customers if text else customers[["height", "width", "depth"]].drop(index=[7, 9, 11])
    given.map(
        lambda cell: cell if isinstance(cell, str) else f"{cell:.4f}".replace(".", ",")
    ).to_csv("rows.csv", index=False, sep=";")
    fit = ["fit", "mixture", "rows.csv", "-k", "3", "-o", "m.im"]
    error = refused("column_not_numeric", *fit, "--decimal", ".")
    typed = typed_after(error, "--columns" if text else "--decimal")
    decimal = ["--decimal", ","]
    assert typed == (
        ["--columns", "height,width,depth", *decimal, "--na-values", "-,?"] if text else decimal
    )
    assert call(*fit, *typed, "--drop-missing").exit_code == 0


@pytest.mark.parametrize("decimal", [".", ","])
def test_the_message_about_another_separator(decimal, tables, call, refused):
    tables.to_csv("rows.csv", index=False, sep=";", decimal=decimal)
    fit = ["fit", "mixture", "rows.csv", "-k", "3", "-o", "m.im"]
    code = "column_not_numeric" if decimal == "." else "wrong_number_of_cells"
    error = refused(code, *fit, "--sep", ",", sep=";")
    typed = typed_after(error, "--sep")
    assert typed == ["--sep", ";"]
    assert call(*fit, *typed).exit_code == 0


def test_labels_are_offered_where_other_columns_are_text(customers, refused):
    customers.to_csv("rows.csv", index=False)
    fit = ("fit", "regressions", "rows.csv", "-k", "2", "--columns", "width")
    refused("target_required", *fit, names=["height", "depth"])
