import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import implicitmoments as im
from implicitmoments.cli.console import as_typed
from implicitmoments.cli.model_options import build_model
from implicitmoments.registry import ESTIMATORS


def test_every_model_is_fitted_and_loads(models):
    loaded = {word: type(im.load(path)).__name__ for word, path in models.items()}
    assert loaded == ESTIMATORS


def test_the_command_line_fits_what_the_library_fits(data, models):
    X = np.loadtxt(data / "rows.csv", delimiter=",", skiprows=1)
    mine = im.SphericalMixture(3, random_state=0).fit(X)
    np.testing.assert_allclose(im.load(models["mixture"]).means_, mine.means_, rtol=1e-10)


def test_json_has_what_was_found(call, data, tmp_path):
    out = tmp_path / "m.im"
    result = call("fit", "mixture", data / "rows.csv", "-k", "3", "--json", "-o", out)
    document = json.loads(result.stdout)
    assert document["model"] == "mixture"
    assert document["features"] == ["height", "width", "depth"]
    assert document["parameters"]["n_components"] == 3
    assert np.shape(document["found"]["means"]) == (3, 3)
    assert document["rows"] == 2_000
    assert document["score"] == pytest.approx(document["found"]["lower_bound"])
    assert document["output"] == str(out)


def test_quiet_prints_nothing(call, data, tmp_path):
    how = ("-k", "3", "-q", "-o", tmp_path / "m.im")
    result = call("fit", "SphericalMixture", data / "rows.csv", *how)
    assert (result.exit_code, result.output) == (0, "")


def test_components_are_counted_where_the_number_is_left_out(call, data, tmp_path):
    result = call("fit", "mixture", data / "rows.csv", "--json", "-o", tmp_path / "m.im")
    assert json.loads(result.stdout)["found"]["n_components"] == 3


def test_table_shows_components_and_notes(call, data, tmp_path):
    lines = (data / "rows.csv").read_text().splitlines()
    (tmp_path / "far.csv").write_text("\n".join([*lines, "900,900,900", "-900,1,1"]) + "\n")
    result = call("fit", "mixture", tmp_path / "far.csv", "-k", "3", "-o", tmp_path / "m.im")
    model = im.load(tmp_path / "m.im")
    assert "height" in result.stdout
    assert model.score_name in result.stdout
    assert model.notes_
    for note in model.notes_:
        assert f"note: {note.sentence(as_typed)}\n" in result.stdout


def test_settings_are_read_by_their_annotations():
    texts = ["max_iter=7", "tol=1e-3", "variance=none", "drop_outliers=no", "order=4"]
    model = build_model("mixture", {"n_components": "auto"}, texts, 4)
    given = {"max_iter": 7, "tol": 1e-3, "variance": None, "drop_outliers": False, "order": 4}
    assert model.get_params() == im.SphericalMixture("auto", random_state=4, **given).get_params()


def test_weights_count_rows(call, data, tmp_path):
    rows = (data / "rows.csv").read_text().splitlines()
    weighted = [rows[0] + ",n", *(f"{row},{i % 2}" for i, row in enumerate(rows[1:]))]
    (tmp_path / "weighted.csv").write_text("\n".join(weighted) + "\n")
    (tmp_path / "half.csv").write_text("\n".join([rows[0], *rows[2::2]]) + "\n")
    found = []
    for name, *how in (("weighted.csv", "--weight", "n"), ("half.csv",)):
        out = tmp_path / "m.im"
        assert call("fit", "mixture", tmp_path / name, "-k", "3", "-o", out, *how).exit_code == 0
        found.append(im.load(out))
    np.testing.assert_allclose(found[0].means_, found[1].means_, atol=1e-3)
    assert found[0].columns_in_ == {"weight": "n"}
    assert list(found[0].feature_names_in_) == ["height", "width", "depth"]


def test_columns_of_arrays_and_of_files_without_names_go_by_number(call, data, tmp_path):
    text = (data / "lines.csv").read_text().split("\n", 1)[1]
    (tmp_path / "bare.csv").write_text(text)
    for file in (data / "lines.npy", tmp_path / "bare.csv"):
        out = tmp_path / "m.im"
        how = ("--target", "2", "--columns", "0,1", "-k", "2", "-o", out)
        result = call("fit", "regressions", file, *how)
        assert result.exit_code == 0, result.stderr
        scored = call("score", out, file)
        assert scored.exit_code == 0, scored.stderr
        assert float(scored.stdout) > -1


def test_parquet_and_standard_input_give_the_same_model(call, data, tmp_path):
    table = pyarrow.csv.read_csv(data / "rows.csv")
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    text = (data / "rows.csv").read_bytes()
    found = []
    for file, how in ((tmp_path / "rows.parquet", {}), ("-", {"input": text})):
        result = call("fit", "mixture", file, "-k", "3", "-o", tmp_path / "m.im", **how)
        assert result.exit_code == 0, result.stderr
        found.append(im.load(tmp_path / "m.im").means_)
    np.testing.assert_array_equal(*found)


def test_a_checkpoint_is_kept_and_answers_again(call, data, tmp_path):
    journal = tmp_path / "fit.journal"
    how = ("-k", "3", "--checkpoint", journal, "-o", tmp_path / "m.im")
    assert call("fit", "mixture", data / "rows.csv", *how).exit_code == 0
    first = im.load(tmp_path / "m.im").means_
    assert journal.exists()
    assert call("fit", "mixture", data / "rows.csv", *how).exit_code == 0
    np.testing.assert_array_equal(im.load(tmp_path / "m.im").means_, first)
