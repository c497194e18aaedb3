"""Separators, decimals and missing numbers of text files."""

import numpy as np
import pandas as pd
import pytest

from implicitmoments.rows import RowDraws, open_file
from implicitmoments.rows.files.columns import counts_rows
from support import refuses

FRAME = pd.DataFrame({"a": np.arange(40) + 0.25, "b": np.arange(40) ** 2 - 7.5})
TEXTS = [f"Doe, {'Jane' if i % 3 else 'John, Jr.'}" for i in range(40)]


def values(path, **how):
    with open_file(path, **how) as source:
        rows = range(source.n_rows)
        return source.read(rows, RowDraws(0, rows))["x"]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_separators_are_found(sep, decimal, named, tmp_path):
    if sep == decimal:
        return
    path = tmp_path / "x.csv"
    FRAME.to_csv(path, sep=sep, decimal=decimal, index=False, header=named)
    np.testing.assert_array_equal(values(path), FRAME)
    np.testing.assert_array_equal(values(path, sep=sep, decimal=decimal), FRAME)


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("head", ["name", "last name, first name"])
def test_commas_in_a_column_of_text_between_semicolons(head, quoted, tmp_path):
    mark = '"' if quoted else ""
    lines = [f"{mark}{head}{mark};a;b"]
    rows = zip(TEXTS, FRAME.to_numpy().tolist(), strict=True)
    lines += [f"{mark}{text}{mark};{a};{b}" for text, (a, b) in rows]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    np.testing.assert_array_equal(values(tmp_path / "x.csv", columns=["a", "b"]), FRAME)


def test_semicolons_in_a_column_of_text_between_commas(tmp_path):
    texts = [text.replace(",", ";") for text in TEXTS]
    FRAME.assign(name=texts).to_csv(tmp_path / "x.csv", index=False)
    np.testing.assert_array_equal(values(tmp_path / "x.csv", columns=["a", "b"]), FRAME)


def test_decimals_that_come_late_are_found(tmp_path):
    for n_rows in (5_000, 300_000):  # in the first megabyte, and beyond
        (tmp_path / "x.csv").write_text("a;b\n" + "1;2\n" * n_rows + "1,5;2,5\n")
        if n_rows == 5_000:
            np.testing.assert_array_equal(values(tmp_path / "x.csv")[-1], [1.5, 2.5])
    with refuses("cell_not_a_number", cell="1,5") as caught:
        open_file(tmp_path / "x.csv")
    assert "decimal=','" in str(caught.error)
    np.testing.assert_array_equal(values(tmp_path / "x.csv", decimal=",")[-1], [1.5, 2.5])


def test_one_column_of_decimal_commas(tmp_path):
    (tmp_path / "x.csv").write_text("a\n1,5\n2,5\n")
    with refuses("wrong_number_of_cells"):
        open_file(tmp_path / "x.csv")
    np.testing.assert_array_equal(values(tmp_path / "x.csv", decimal=","), [[1.5], [2.5]])


def test_other_separators_are_given(tmp_path):
    FRAME.to_csv(tmp_path / "x.csv", sep=" ", index=False)
    np.testing.assert_array_equal(values(tmp_path / "x.csv", sep=" "), FRAME)
    FRAME.to_csv(tmp_path / "x.tsv", sep=":", index=False)
    np.testing.assert_array_equal(values(tmp_path / "x.tsv", sep=":"), FRAME)


PANDAS = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "<NA>"]
PANDAS += ["1.#QNAN", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"]


@pytest.mark.parametrize("marker", PANDAS)
def test_what_pandas_takes_for_missing_is(marker, tmp_path):
    (tmp_path / "x.csv").write_text(f"a,b\n1,2\n3,{marker}\n4,5\n")
    assert pd.read_csv(tmp_path / "x.csv")["b"].isna().tolist() == [False, True, False]
    np.testing.assert_array_equal(values(tmp_path / "x.csv", drop_missing=True), [[1, 2], [4, 5]])
    with refuses("not_finite", kind="NaN", first=3):
        open_file(tmp_path / "x.csv")


@pytest.mark.parametrize("marker", ["-", ".", "?", "missing"])
def test_other_markers_are_proposed_and_given(marker, tmp_path):
    (tmp_path / "x.csv").write_text(f"a,b\n1,2\n3,{marker}\n4,5\n")
    text = {"column": "b", "cell": marker, "line": 3, "markers": [marker]}
    with refuses("column_not_numeric", **text) as caught:
        open_file(tmp_path / "x.csv")
    assert f"na_values=['{marker}']" in str(caught.error)
    kept = values(tmp_path / "x.csv", na_values=[marker], keep_missing=True)
    np.testing.assert_array_equal(kept, [[1, 2], [3, np.nan], [4, 5]])


def test_a_marker_beyond_the_first_megabyte(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 300_000 + "3,-\n")
    with refuses("cell_not_a_number", line=300_002, cell="-", markers=["-"]) as caught:
        open_file(tmp_path / "x.csv")
    assert "na_values=['-']" in str(caught.error)
    assert np.isnan(values(tmp_path / "x.csv", na_values=["-"], keep_missing=True)[-1, 1])


def test_long_texts_and_words_are_no_markers(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3," + "-" * 21 + "\n4,5\n")
    with refuses("column_not_numeric", column="b", markers=[]):
        open_file(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,red\n4,blue\n5,green\n6,white\n")
    with refuses("column_not_numeric", column="b", markers=[]):
        open_file(tmp_path / "x.csv")


def test_a_number_stands_for_missing_however_it_is_written(tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n-999\n-999.0\n2\n")
    assert values(tmp_path / "x.csv", na_values=["-999"], drop_missing=True).ravel().tolist() == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"sep": ""}, "not_one_character"),
        ({"sep": "::"}, "not_one_character"),
        ({"sep": "a"}, "not_one_character"),
        ({"sep": "\n"}, "not_one_character"),
        ({"decimal": "·"}, "not_one_character"),
        ({"sep": ",", "decimal": ","}, "separators_equal"),
        ({"na_values": "-"}, "markers_not_a_list"),
        ({"na_values": [0]}, "markers_not_a_list"),
    ],
)
def test_formats_that_are_none(given, code, tmp_path):
    FRAME.to_csv(tmp_path / "x.csv", index=False)
    with refuses(code):
        open_file(tmp_path / "x.csv", **given)


@pytest.mark.parametrize("given", [{"sep": ";"}, {"decimal": ","}, {"na_values": ["-"]}])
def test_formats_are_for_text_files(given, tmp_path):
    np.save(tmp_path / "x.npy", FRAME)
    with refuses("not_a_text_file", name=next(iter(given))):
        open_file(tmp_path / "x.npy", **given)


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_numbers_of_rows_are_not_suggested(end, tmp_path):
    frame = FRAME.assign(id=np.arange(40), nr=np.arange(1, 41), town="Ulm")
    frame["a"] = frame["a"].where(frame["a"] > 3)  # some are missing
    if end == "csv":
        frame.to_csv(tmp_path / "x.csv")  # with an unnamed column of row numbers
        with refuses("column_without_name", column="x0", numeric=["a", "b"]):
            open_file(tmp_path / "x.csv")
        frame.to_csv(tmp_path / "x.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "x.parquet")
    with refuses("column_not_numeric", column="town", numeric=["a", "b"]):
        open_file(tmp_path / f"x.{end}")


def test_columns_without_names_are_called_as_in_scikit_learn(tmp_path):
    np.save(tmp_path / "x.npy", FRAME)
    FRAME.to_csv(tmp_path / "x.csv", index=False, header=False)
    for name in ("x.npy", "x.csv"):
        with open_file(tmp_path / name, columns=["x1"], y="x0") as source:
            rows = range(source.n_rows)
            block = source.read(rows, RowDraws(0, rows))
            np.testing.assert_array_equal(block["x"][:, 0], FRAME["b"])
            np.testing.assert_array_equal(block["y"], FRAME["a"])
            assert source.columns == {"target": "x0", "features": "x1"}


@pytest.mark.filterwarnings("error")
def test_infinite_numbers_do_not_count_rows():
    assert counts_rows(np.arange(3.0, 30.0))
    for numbers in (np.full(27, np.inf), np.r_[np.inf, np.arange(26.0)], np.full(27, -np.inf)):
        assert not counts_rows(numbers)
