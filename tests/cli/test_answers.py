"""``predict``, ``score``, ``sample``, ``describe``, ``compare``, ``report`` and ``demo``."""

import io
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from pyarrow import csv

import implicitmoments as im
from implicitmoments.rows import FileTable


def table(text):
    """Return CSV as a frame; Arrow reads numbers exactly."""
    return csv.read_csv(io.BytesIO(text.encode())).to_pandas()


def frame_of(path):
    return csv.read_csv(path).to_pandas()


@pytest.mark.parametrize("kind", ["mixture", "spherical-mixture", "clusters", "activations"])
def test_predictions_are_those_of_the_model(kind, data, models, run):
    file = data / ("lines.csv" if kind == "activations" else "rows.csv")
    model, frame = im.load(models[kind]), frame_of(file)
    found = table(run("predict", models[kind], file).out)
    (column,) = found
    assert column == ("prediction" if kind == "activations" else "component")
    expected = model.predict(frame[list(model.feature_names_in_)])
    np.testing.assert_allclose(found[column], expected, rtol=1e-9, atol=1e-9)


def test_probabilities_and_components_of_regressions(data, models, run):
    file, path = data / "lines.csv", models["regressions"]
    model, frame = im.load(path), frame_of(file)
    X, y = frame[["a", "b"]], frame["price"]
    proba = table(run("predict", path, file, "--proba").out)
    np.testing.assert_allclose(proba, model.predict_proba(X, y), rtol=1e-9, atol=1e-12)
    assert list(proba) == ["p0", "p1"]
    component = table(run("predict", path, file, "--component").out)
    np.testing.assert_array_equal(component["component"], model.predict_component(X, y))
    prediction = table(run("predict", path, file).out)
    np.testing.assert_allclose(prediction["prediction"], model.predict(X), rtol=1e-9)


def test_parquet_has_the_same_answers_as_csv(data, models, run, tmp_path):
    for name in ("p.csv", "p.parquet"):
        done = run(
            "predict", models["mixture"], data / "rows.csv", "--proba", "-o", tmp_path / name
        )
        assert done == (0, "", "")
    text = frame_of(tmp_path / "p.csv")
    pd.testing.assert_frame_equal(text, pd.read_parquet(tmp_path / "p.parquet"))
    assert len(text) == 1_500


def test_columns_are_found_by_name_and_others_are_not_read(data, models, run, tmp_path):
    frame = frame_of(data / "rows.csv")
    frame.insert(0, "name", "text")
    frame[["depth", "name", "width", "height"]].to_csv(tmp_path / "rows.csv", index=False)
    one = run("predict", models["mixture"], data / "rows.csv")
    assert run("predict", models["mixture"], tmp_path / "rows.csv") == one
    frame.columns = ["name", "c0", "c1", "c2"]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    named = ("--columns", "c0,c1,c2")
    assert run("predict", models["mixture"], tmp_path / "rows.csv", *named) == one
    unnamed = ("predict", models["mixture"], data / "rows.npy", "--columns", "x0,x1,x2")
    assert run(*unnamed) == one


def test_rows_with_missing_numbers_have_empty_answers(data, models, run, tmp_path):
    frame = frame_of(data / "rows.csv")
    full = table(run("predict", models["mixture"], data / "rows.csv").out)["component"]
    frame.iloc[5:8, 0] = np.nan
    frame.to_csv(tmp_path / "rows.csv", index=False)
    done = run("predict", models["mixture"], tmp_path / "rows.csv", "-o", tmp_path / "p.parquet")
    found = pd.read_parquet(tmp_path / "p.parquet")["component"]
    assert found.isna().to_numpy().nonzero()[0].tolist() == [5, 6, 7]
    np.testing.assert_array_equal(found.dropna(), full.drop([5, 6, 7]))
    assert len(done.err.splitlines()) == 1
    quiet = run("predict", models["mixture"], tmp_path / "rows.csv", "-q")
    assert quiet.err == ""
    frame.iloc[:, 0] = np.nan
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert (
        table(run("predict", models["mixture"], tmp_path / "rows.csv").out).isna().all(axis=None)
    )


@pytest.mark.parametrize("command", ["predict", "score"])
def test_a_file_is_read_once(command, data, models, run, monkeypatch):
    n_read, read = [], FileTable.blocks

    def counted(self, size):
        for block in read(self, size):
            n_read.append(len(block["x"]))
            yield block

    monkeypatch.setattr(FileTable, "blocks", counted)
    assert run(command, models["mixture"], data / "rows.csv").status == 0
    assert sum(n_read) == 1_500


def printed_numbers(text):
    words = text.replace(",", "").split()
    return float(words[words.index("row:") + 1]), float(words[words.index("error") + 1])


@pytest.mark.parametrize("kind", ["mixture", "density", "regressions", "regression-density"])
def test_the_score_is_the_mean_with_its_standard_error(kind, data, models, run, tmp_path):
    file = data / ("lines.csv" if "regression" in kind else "rows.csv")
    model, frame = im.load(models[kind]), frame_of(file)
    X = frame[list(model.feature_names_in_)].to_numpy()
    del model.feature_names_in_
    expected = model.score_samples(X, frame["price"].to_numpy() if "price" in frame else None)
    done = run("score", models[kind], file, "-o", tmp_path / "rows.csv")
    mean, error = printed_numbers(done.out)
    assert mean == pytest.approx(np.mean(expected), rel=1e-5)
    assert error == pytest.approx(np.std(expected) / np.sqrt(len(X)), rel=0.05)
    found = frame_of(tmp_path / "rows.csv")["log_likelihood"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_row_of_density_zero_and_weights_do_not_raise(run, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[:, 2] = 4.0
    np.save(tmp_path / "rows.npy", X)
    out = tmp_path / "m.im"
    assert run("fit", "mixture", tmp_path / "rows.npy", "-k", "1", "-o", out).status == 0
    X[0, 2] = 5.0
    np.save(tmp_path / "rows.npy", X)
    assert "-inf" in run("score", out, tmp_path / "rows.npy").out


def test_activations_are_scored_by_squared_error(data, models, run):
    model, frame = im.load(models["activations"]), frame_of(data / "lines.csv")
    expected = np.mean((model.predict(frame[["a", "b"]]) - frame["price"]) ** 2)
    assert f"{expected:.6g}" in run("score", models["activations"], data / "lines.csv").out


def test_the_better_of_two_models_is_named(data, run, tmp_path):
    for k in (1, 3, 4):
        fit = ("fit", "spherical-mixture", data / "rows.csv", "-k", k, "-o", tmp_path / f"k{k}.im")
        assert run(*fit, "-q").status == 0
    new = tmp_path / "new.csv"
    assert run("sample", tmp_path / "k3.im", "-n", "800", "--random-state", 5, "-o", new) == (
        *(0, "", ""),
    )
    last = run("compare", tmp_path / "k1.im", tmp_path / "k3.im", new).out.splitlines()[-1]
    assert last.startswith("k3.im")
    equal = run("compare", tmp_path / "k3.im", tmp_path / "k4.im", new).out.splitlines()[-1]
    assert not equal.startswith("k")
    one, other = (im.load(tmp_path / f"k{k}.im") for k in (1, 3))
    frame = frame_of(new)[["height", "width", "depth"]]
    gain = other.score_samples(frame) - one.score_samples(frame)
    assert f"{np.mean(gain):.4g}" in last


def test_regressions_on_different_columns_are_compared(data, run, tmp_path):
    for name, columns in (("one.im", "a"), ("two.im", "a,b")):
        roles = ("--y", "price", "--columns", columns)
        fit = ("fit", "regressions", data / "lines.csv", *roles, "-k", "2")
        assert run(*fit, "-o", tmp_path / name, "-q").status == 0
    done = run("compare", tmp_path / "one.im", tmp_path / "two.im", data / "lines.csv")
    assert done.out.splitlines()[-1].startswith("two.im")


@pytest.mark.parametrize("kind", ["mixture", "regressions", "density", "regression-density"])
def test_samples_have_the_names_of_the_columns(kind, models, run):
    draw = ("sample", models[kind], "-n", "50", "--random-state", "3")
    found = table(run(*draw).out)
    names = ["a", "b", "price"] if "regression" in kind else ["height", "width", "depth"]
    assert list(found)[:3] == names
    assert ("component" in found) == (kind in ("mixture", "regressions"))
    assert len(found) == 50
    assert run(*draw) == run(*draw)


def test_parameters_are_written_as_a_table(models, run, tmp_path):
    assert run("describe", models["mixture"], "-o", tmp_path / "p.parquet").status == 0
    found, model = pd.read_parquet(tmp_path / "p.parquet"), im.load(models["mixture"])
    np.testing.assert_array_equal(found["weight"], model.weights_)
    np.testing.assert_array_equal(found[["height", "width", "depth"]], model.means_)


def test_features_with_the_names_of_results_are_kept(run, tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 2))
    pd.DataFrame(X, columns=["weight", "component"]).to_csv(tmp_path / "rows.csv", index=False)
    model = tmp_path / "m.im"
    assert run("fit", "mixture", tmp_path / "rows.csv", "-k", "1", "-o", model).status == 0
    assert list(table(run("sample", model, "-n", "2").out)) == [
        "weight",
        "component",
        "component_",
    ]
    assert run("describe", model, "-o", tmp_path / "p.csv").status == 0
    names = list(frame_of(tmp_path / "p.csv"))
    assert names[:4] == ["component", "weight", "weight_", "component_"]


def test_the_report_names_files_and_labels(data, models, run, tmp_path):
    page = tmp_path / "page.html"
    done = run("report", models["regressions"], data / "lines.csv", "-o", page, "--title", "Mine")
    assert done.status == 0
    text = page.read_text("utf-8")
    assert "Mine</h1>" in text
    assert "Rows of lines.csv, model regressions.im" in text
    assert "price" in text


@pytest.mark.slow
def test_the_demonstration_runs(run, tmp_path):
    done = run("demo", "-o", tmp_path / "demo")
    assert done.status == 0
    assert im.load(tmp_path / "demo/mixture.im").n_components_ == 60
    assert (tmp_path / "demo/report.html").stat().st_size > 10_000
    problems = ("60 groups", "density", "8 lines", "4 ReLUs")
    assert all(problem in done.out for problem in problems)


def test_a_closed_pipe_ends_a_command(models):
    command = [
        sys.executable,
        "-m",
        "implicitmoments",
        "sample",
        models["mixture"],
        "-n",
        "300000",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


ENDED = """
import os, signal
from implicitmoments.cli import files, main
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
files.write_pieces = lambda file, *_: file.write(b"half") and os.kill(os.getpid(), signal.{name})
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_command_that_is_ended_leaves_no_file(name, data, models, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("before")
    words = ["predict", models["mixture"], data / "rows.csv", "-o", out]
    done = subprocess.run([sys.executable, "-c", ENDED.format(name=name), *words], check=False)
    assert done.returncode == 128 + getattr(signal, name)
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]
    assert out.read_text() == "before"


def test_a_full_disk_leaves_no_file(data, models, run, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device", "p.csv")

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "p.csv").write_text("before")
    done = run("predict", models["mixture"], data / "rows.csv", "-o", tmp_path / "p.csv")
    assert done.status == 1
    assert len(done.err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]
    assert (tmp_path / "p.csv").read_text() == "before"
