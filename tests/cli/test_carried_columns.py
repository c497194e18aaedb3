"""Columns that go along with answers, and the likeliest line of a row."""

import csv
import io
import json

import numpy as np
import pyarrow.parquet
import pytest

import implicitmoments as im


@pytest.fixture
def people(data, tmp_path):
    """rows.csv with an id that begins with zeros and a name that holds a comma."""
    head, *rows = (data / "rows.csv").read_text().splitlines()
    named = [f'{i:06d},"Doe, {i}",{row}' for i, row in enumerate(rows)]
    (tmp_path / "people.csv").write_text("\n".join([f"id,name,{head}", *named]) + "\n")
    return tmp_path / "people.csv"


def listed(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("piped", [False, True])
def test_columns_go_along_as_they_stand(piped, call, people, data, models):
    plain = listed(call("predict", models["mixture"], data / "rows.csv").stdout)
    how = {"input": people.read_bytes()} if piped else {}
    file = "-" if piped else people
    result = call("predict", models["mixture"], file, "--keep", "id,name", **how)
    assert result.exit_code == 0, result.stderr
    rows = listed(result.stdout)
    assert list(rows[0]) == ["id", "name", "component"]
    assert [row["component"] for row in rows] == [row["component"] for row in plain]
    assert (rows[7]["id"], rows[7]["name"]) == ("000007", "Doe, 7")


def test_many_blocks_stay_side_by_side(call, models, tmp_path):
    X = np.random.default_rng(0).normal(size=(40_000, 3)) * 4
    lines = [f"r{i},{a},{b},{c}" for i, (a, b, c) in enumerate(X.tolist())]
    (tmp_path / "many.csv").write_text("\n".join(["id,height,width,depth", *lines]) + "\n")
    out = tmp_path / "out.parquet"
    asked = ("predict", models["mixture"], tmp_path / "many.csv", "--keep", "id")
    assert call(*asked, "-o", out).exit_code == 0
    table = pyarrow.parquet.read_table(out)
    assert table["id"].to_pylist() == [f"r{i}" for i in range(len(X))]
    model = im.load(models["mixture"])
    del model.feature_names_in_
    np.testing.assert_array_equal(table["component"].to_numpy(), model.predict(X))


def test_columns_of_parquet_keep_their_types(call, models, data, tmp_path):
    X = np.load(data / "rows.npy")
    columns = dict(zip(("height", "width", "depth"), X.T, strict=True))
    table = pyarrow.table({**columns, "id": range(len(X)), "town": ["Ulm"] * len(X)})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
    asked = ("predict", models["mixture"], tmp_path / "rows.parquet", "--keep", "town,id")
    rows = json.loads(call(*asked, "--json").stdout)
    assert list(rows[5]) == ["town", "id", "component"]
    assert [row["id"] for row in rows] == list(range(len(X)))


def test_an_answer_whose_name_is_taken_has_another(call, people, models):
    text = people.read_text().replace("id,name", "id,component", 1)
    people.write_text(text)
    rows = listed(call("predict", models["mixture"], people, "--keep", "component").stdout)
    assert list(rows[0]) == ["component", "component_found"]


def test_the_likeliest_line_of_each_row(call, data, models):
    asked = ("predict", models["regressions"], data / "lines.csv")
    rows = listed(call(*asked, "--component", "--keep", "price").stdout)
    assert list(rows[0]) == ["price", "prediction", "component"]
    chances = listed(call(*asked, "--proba").stdout)
    likeliest = [str(int(float(row["p1"]) > float(row["p0"]))) for row in chances]
    assert [row["component"] for row in rows] == likeliest


def test_what_does_not_go_along(refused, people, data, models, tmp_path):
    asked = ("predict", models["mixture"], people)
    mistyped = {"what": "--keep", "wanted": "idd", "near": ["id"]}
    refused("no_such_column", *asked, "--keep", "idd", **mistyped)
    refused("numbers_only", *asked, "--keep", "id", "-o", tmp_path / "x.npy")
    array = ("predict", models["mixture"], data / "rows.npy", "--keep", "0")
    refused("keeps_tables_only", *array)
    refused("no_names", *asked, "--keep", "", option="--keep")
