import io
import json

import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest

import implicitmoments as im


def table(text):
    return np.genfromtxt(io.StringIO(text), delimiter=",", names=True)


def read(data, name):
    return np.loadtxt(data / name, delimiter=",", skiprows=1)


def test_predict_gives_what_the_model_predicts(call, data, models):
    rows, lines = read(data, "rows.csv"), read(data, "lines.csv")[:, :2]
    for word, X, name in (
        ("mixture", rows, "component"),
        ("clusters", rows, "component"),
        ("regressions", lines, "prediction"),
        ("activations", lines, "prediction"),
    ):
        model = im.load(models[word])
        del model.feature_names_in_
        file = data / ("rows.csv" if X is rows else "lines.csv")
        result = call("predict", models[word], file)
        assert result.exit_code == 0, result.stderr
        np.testing.assert_array_equal(table(result.stdout)[name], model.predict(X))


def test_columns_are_found_by_name_in_any_order(call, data, models, tmp_path):
    X = read(data, "rows.csv")[:50]
    lines = [f"Ulm,{c},{a},{b}" for a, b, c in X.tolist()]
    (tmp_path / "other.csv").write_text("\n".join(["town,depth,height,width", *lines]) + "\n")
    whole = call("predict", models["mixture"], data / "rows.csv").stdout.splitlines()[:51]
    assert call("predict", models["mixture"], tmp_path / "other.csv").stdout.splitlines() == whole


def test_chances_of_components(call, data, models):
    model = im.load(models["mixture"])
    del model.feature_names_in_
    found = table(call("predict", models["mixture"], data / "rows.csv", "--proba").stdout)
    assert found.dtype.names == ("p0", "p1", "p2")
    expected = model.predict_proba(read(data, "rows.csv"))
    np.testing.assert_array_equal(np.column_stack([found[n] for n in found.dtype.names]), expected)


def test_chances_of_lines_take_the_label_that_the_fit_had(call, data, models):
    found = table(call("predict", models["regressions"], data / "lines.csv", "--proba").stdout)
    assert np.maximum(found["p0"], found["p1"]).mean() > 0.95
    np.testing.assert_allclose(found["p0"] + found["p1"], 1)


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "npy", "parquet", "arrow"])
def test_output_by_the_end_of_its_name(kind, call, data, models, tmp_path):
    printed = call("predict", models["mixture"], data / "rows.npy", "--proba").stdout
    expected = np.genfromtxt(io.StringIO(printed), delimiter=",", skip_header=1)
    out = tmp_path / f"out.{kind}"
    result = call("predict", models["mixture"], data / "rows.npy", "--proba", "-o", out)
    assert (result.exit_code, result.output) == (0, f"wrote {out}, 2,000 rows\n")
    if kind == "npy":
        found = np.load(out)
    elif kind == "json":
        found = np.array([list(row.values()) for row in json.loads(out.read_text())])
    elif kind in ("csv", "tsv"):
        delimiter = "," if kind == "csv" else "\t"
        found = np.genfromtxt(out, delimiter=delimiter, skip_header=1)
    else:
        reader = {"parquet": pyarrow.parquet.read_table, "arrow": pyarrow.feather.read_table}
        found = np.column_stack([c.to_numpy() for c in reader[kind](out).columns])
    np.testing.assert_array_equal(found, expected)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_many_blocks_are_one_table(call, models, tmp_path):
    X = np.random.default_rng(0).normal(size=(40_000, 3)) * 4
    np.save(tmp_path / "rows.npy", X)
    result = call("predict", models["mixture"], tmp_path / "rows.npy", "-o", tmp_path / "out.npy")
    assert result.exit_code == 0, result.stderr
    model = im.load(models["mixture"])
    del model.feature_names_in_
    found = np.load(tmp_path / "out.npy")
    assert found.shape == (40_000,)
    np.testing.assert_array_equal(found, model.predict(X))


def test_score_is_that_of_the_library(call, data, models):
    for word in ("mixture", "density", "regressions", "regression-density", "activations"):
        labelled = word not in ("mixture", "density")
        whole = read(data, "lines.csv" if labelled else "rows.csv")
        given = (whole[:, :2], whole[:, 2]) if labelled else (whole,)
        model = im.load(models[word])
        del model.feature_names_in_
        file = data / ("lines.csv" if labelled else "rows.csv")
        result = call("score", models[word], file, "--json")
        document = json.loads(result.stdout)
        assert document["rows"] == 2_000
        assert document["score"] == pytest.approx(model.score(*given), rel=1e-9)
        assert float(call("score", models[word], file).stdout) == document["score"]
        if word != "activations":
            each = table(call("score", models[word], file, "--rows").stdout)["log_density"]
            assert each.mean() == pytest.approx(document["score"], rel=1e-9)


def test_score_counts_rows_by_their_weights(call, data, models, tmp_path):
    rows = (data / "lines.csv").read_text().splitlines()
    weighted = [rows[0] + ",n", *(f"{row},{3 * (i % 2)}" for i, row in enumerate(rows[1:]))]
    (tmp_path / "weighted.csv").write_text("\n".join(weighted) + "\n")
    (tmp_path / "half.csv").write_text("\n".join([rows[0], *rows[2::2]]) + "\n")
    for word in ("regressions", "regression-density", "activations"):
        one = call("score", models[word], tmp_path / "weighted.csv", "--weight", "n")
        other = call("score", models[word], tmp_path / "half.csv")
        assert float(one.stdout) == pytest.approx(float(other.stdout), rel=1e-9)


def test_sample_has_the_names_of_the_columns(call, models):
    for word, names in (
        ("mixture", ("height", "width", "depth", "component")),
        ("density", ("height", "width", "depth")),
        ("regressions", ("a", "b", "price", "component")),
        ("regression-density", ("a", "b", "price")),
    ):
        result = call("sample", models[word], "-n", "50", "--seed", "1")
        assert result.exit_code == 0, result.stderr
        drawn = table(result.stdout)
        assert drawn.dtype.names == names
        assert len(drawn) == 50


def test_sample_repeats_with_a_seed_and_draws_anew_without(call, models):
    drawn = [call("sample", models["mixture"], "-n", "5", "--seed", s).stdout for s in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    free = [call("sample", models["mixture"], "-n", "5").stdout for _ in range(2)]
    assert free[0] != free[1]


def test_sample_draws_many_in_pieces_that_differ(call, models, tmp_path):
    out = tmp_path / "drawn.npy"
    result = call("sample", models["mixture"], "-n", "100000", "--seed", "1", "-o", out, "--json")
    assert json.loads(result.stdout) == {"rows": 100_000, "output": str(out)}
    drawn = np.load(out)
    assert drawn.shape == (100_000, 4)
    assert len(np.unique(drawn[:, 0])) == 100_000
    mean = im.load(models["mixture"])
    expected = mean.weights_ @ mean.means_
    np.testing.assert_allclose(drawn[:, :3].mean(axis=0), expected, atol=0.1)  # 7 errors


def test_json_on_standard_output_is_a_list_of_rows(call, data, models):
    rows = json.loads(call("predict", models["mixture"], data / "rows.csv", "--json").stdout)
    assert len(rows) == 2_000
    assert set(rows[0]) == {"component"}
    drawn = json.loads(call("sample", models["mixture"], "-n", "2", "--json").stdout)
    assert set(drawn[0]) == {"height", "width", "depth", "component"}
