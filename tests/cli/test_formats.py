"""Tables of text as programs write them: they are read, or one line says what to do."""

import gzip
import os
import threading

import numpy as np
import pytest

from implicitmoments import load
from implicitmoments.rows import RowDraws, open_file

LINES = ["height,width", *(f"{i}.5,{(7 * i) % 11}.25" for i in range(60))]
READ = {
    "semicolons": ("rows.csv", lambda line: line.replace(",", ";")),
    "decimal commas": ("rows.csv", lambda line: line.replace(",", ";").replace(".", ",")),
    "tabs": ("rows.csv", lambda line: line.replace(",", "\t")),
    "tabs by name": ("rows.tsv", lambda line: line.replace(",", "\t")),
    "carriage returns": ("rows.csv", lambda line: f"{line}\r"),
    "a mark of the byte order": ("rows.csv", lambda line: line.replace("height", "\ufeffheight")),
    "quotes": ("rows.csv", lambda line: ",".join(f'"{cell}"' for cell in line.split(","))),
}


def values(path):
    with open_file(path) as source:
        rows = range(source.n_rows)
        return source.feature_names, source.read(rows, RowDraws(0, rows))["x"]


@pytest.mark.parametrize("kind", READ)
def test_tables_that_are_read(kind, tmp_path):
    name, change = READ[kind]
    (tmp_path / "plain.csv").write_text("\n".join(LINES))
    (tmp_path / name).write_bytes("\n".join(map(change, LINES)).encode())
    names, expected = values(tmp_path / "plain.csv")
    found = values(tmp_path / name)
    assert list(found[0]) == list(names) == ["height", "width"]
    np.testing.assert_array_equal(found[1], expected)


def test_names_with_commas_stand_between_quotes(call, refused, tmp_path):
    text = "\n".join(['"my height","in m, about",depth', *(f"{line},1" for line in LINES[1:])])
    (tmp_path / "rows.csv").write_text(text)
    fit = ("fit", "mixture", tmp_path / "rows.csv", "-k", "1", "-o", tmp_path / "m.im")
    assert call(*fit, "--columns", 'my height, "in m, about"').exit_code == 0
    names = load(tmp_path / "m.im").feature_names_in_
    assert list(names) == ["my height", "in m, about"]
    refused("no_such_column", *fit, "--columns", "my height,in m, about", wanted="in m")


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        ("höhe,width\n1,2\n".encode("latin-1"), "not_utf8", {}),
        ("a,b\n1,2\n".encode("utf-16"), "not_utf8", {}),
        (b"a b\n1 2\n", "column_not_numeric", {"column": "a b"}),
        (b"# of mine\na,b\n1,2\n", "wrong_number_of_cells", {"line": 2, "expected": 1}),
        (b'a,b\n"1,000",2\n', "column_not_numeric", {"column": "a"}),
        (b"a,b\n3%,2\n", "column_not_numeric", {"column": "a"}),
        (b",a\n0,1\n1,2\n", "column_without_name", {"column": "x0"}),
    ],
)
def test_tables_that_are_not(text, code, values, refused, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(text)
    refused(code, "fit", "mixture", path, "-o", tmp_path / "m.im", file=str(path), **values)
    assert not (tmp_path / "m.im").exists()


def test_what_is_no_gzip_is_said(refused, tmp_path):
    (tmp_path / "rows.csv.gz").write_text("\n".join(LINES))
    refused("unreadable", "fit", "mixture", tmp_path / "rows.csv.gz", kind="CSV")


def test_standard_input_may_be_compressed(call, data, models):
    text = (data / "rows.csv").read_bytes()
    plain = call("predict", models["mixture"], "-", input=text)
    packed = call("predict", models["mixture"], "-", input=gzip.compress(text))
    assert plain.exit_code == packed.exit_code == 0
    assert plain.stdout == packed.stdout


def test_a_pipe_by_name_is_read_as_standard_input_is(call, data, models, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    text = (data / "rows.csv").read_bytes()
    feeding = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(text,))
    feeding.start()
    result = call("score", models["mixture"], tmp_path / "pipe")
    feeding.join()
    assert result.exit_code == 0, result.stderr
    assert result.stdout == call("score", models["mixture"], data / "rows.csv").stdout
