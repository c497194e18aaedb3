"""``fit``: kinds, numbers of components, columns, parameters, and what is printed."""

import os
import pty
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import implicitmoments as im
from implicitmoments.cli.app import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_fitted_by_its_estimator(kind, models, run):
    model = im.load(models[kind])
    assert type(model).__name__ == KINDS[kind]
    assert model.feature_names_in_[0] in ("height", "a")
    described = run("describe", models[kind])
    assert described.status == 0
    assert KINDS[kind] in described.out


def test_a_file_gives_the_model_of_the_same_array(data, models):
    X = np.load(data / "rows.npy")
    expected = im.GaussianMixture(3, covariance_type="auto", random_state=0).fit(X)
    found = im.load(models["mixture"])
    assert found.covariance_type_ == expected.covariance_type_
    np.testing.assert_allclose(found.means_, expected.means_, atol=1e-9)
    assert not isinstance(found, im.SphericalMixture)


def test_the_number_of_components_is_chosen_without_k(data, run, tmp_path):
    assert run("fit", "mixture", data / "rows.csv", "-o", tmp_path / "m.im").status == 0
    model = im.load(tmp_path / "m.im")
    assert (model.n_components, model.n_components_) == ("auto", 3)


def test_a_range_keeps_the_number_of_least_bic_and_prints_all(data, run, tmp_path):
    out = tmp_path / "m.im"
    done = run("fit", "spherical-mixture", data / "rows.csv", "-k", "1-4", "-o", out)
    assert done.status == 0
    X, model = np.load(data / "rows.npy"), im.load(out)
    scores, errors = (model.stats_[f"bic_{name}by_n_components"] for name in ("", "noise_"))
    assert model.n_components_ == 3 == min(scores, key=scores.get)
    table = [line.split() for line in done.out.splitlines()]
    assert [row[0] for row in table if row and row[0] in "1234"][:4] == ["1", "2", "3", "4"]
    fits = {k: im.SphericalMixture(k, random_state=0).fit(X) for k in scores}
    for k, fit in fits.items():
        assert scores[k] == pytest.approx(fit.bic(X), rel=1e-9)
        gap = fit.score_samples(X) - fits[3].score_samples(X)
        assert errors[k] == pytest.approx(2 * np.sqrt(len(X)) * np.std(gap), rel=1e-6, abs=1e-9)


def test_outliers_do_not_decide_a_range(run, tmp_path, data):
    X = np.vstack([np.load(data / "rows.npy"), [[1e6, 0, 0]]])
    np.save(tmp_path / "rows.npy", X)
    out = tmp_path / "m.im"
    done = run("fit", "spherical-mixture", tmp_path / "rows.npy", "-k", "2-4", "-o", out)
    assert done.status == 0
    assert im.load(out).n_components_ == 3


def test_parameters_are_python_values_or_words(data, run, tmp_path):
    out = tmp_path / "m.im"
    settings = ("tol=1e-5", "drop_outliers=False", "noise=student", "means_init=None")
    options = [word for setting in settings for word in ("--set", setting)]
    options += ["--covariance-type", "diag", "--random-state", "7", "-k", "3"]
    assert run("fit", "mixture", data / "rows.csv", *options, "-o", out).status == 0
    found = im.load(out).get_params()
    expected = {"tol": 1e-5, "drop_outliers": False, "noise": "student", "means_init": None}
    expected |= {"covariance_type": "diag", "random_state": 7, "n_components": 3}
    assert {name: found[name] for name in expected} == expected


def test_columns_labels_and_weights_are_chosen_by_name(data, run, tmp_path):
    frame = pd.read_csv(data / "lines.csv")
    frame["count"] = np.random.default_rng(1).integers(1, 4, len(frame))
    frame["name"] = "text"
    frame.to_parquet(tmp_path / "lines.parquet")
    roles = ("--y", "price", "--columns", "b, a", "--sample-weight", "count")
    out = tmp_path / "l.im"
    fit = ("fit", "regressions", tmp_path / "lines.parquet", "-k", "2", *roles, "-o", out)
    assert run(*fit).status == 0
    found = im.load(out)
    assert list(found.feature_names_in_) == ["b", "a"]
    columns = frame[["b", "a"]].to_numpy(), frame["price"].to_numpy()
    expected = im.RegressionMixture(2, random_state=0).fit(
        *columns, sample_weight=frame["count"].to_numpy()
    )
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-9)


def test_several_files_are_one(data, run, tmp_path):
    frame = pd.read_csv(data / "rows.csv")
    paths = [tmp_path / name for name in ("a.csv", "b.parquet")]
    frame[:600].to_csv(paths[0], index=False)
    frame[600:][["depth", "height", "width"]].to_parquet(paths[1])  # in another order
    for name, files in (("one", [data / "rows.csv"]), ("two", paths)):
        assert run("fit", "mixture", *files, "-k", "3", "-o", tmp_path / name).status == 0
    one, two = (im.load(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_array_equal(one.means_, two.means_)


def test_text_files_of_other_countries(data, run, tmp_path):
    frame = pd.read_csv(data / "rows.csv")
    frame.iloc[::50, 1] = np.nan
    path, out = tmp_path / "rows.csv", tmp_path / "m.im"
    frame.to_csv(path, sep=";", decimal=",", index=False, na_rep="missing")
    how = ("--sep", ";", "--decimal", ",", "--na-values", "missing", "--drop-missing")
    done = run("fit", "mixture", path, "-k", "3", *how, "-o", out)
    assert done.status == 0
    assert "1,470 rows" in done.out
    assert im.load(out).stats_["rows_counted"] == 1_470


def test_rows_with_missing_numbers_are_refused_otherwise(data, run, tmp_path):
    frame = pd.read_csv(data / "rows.csv")
    frame.iloc[77, 1] = np.nan
    frame.to_csv(tmp_path / "rows.csv", index=False)
    done = run("fit", "mixture", tmp_path / "rows.csv", "-k", "3", "-o", tmp_path / "m.im")
    assert done.status == 2
    assert "width" in done.err
    assert not (tmp_path / "m.im").exists()


def test_csv_from_standard_input(data, tmp_path):
    command = [sys.executable, "-m", "implicitmoments", "fit", "mixture", "-", "-k", "3"]
    with open(data / "rows.csv", "rb") as rows:
        subprocess.run([*command, "-o", tmp_path / "m.im", "-q"], stdin=rows, check=True)
    assert im.load(tmp_path / "m.im").n_components_ == 3


def test_a_fit_that_did_not_converge_exits_with_0_and_a_note(data, run, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", rng.normal(size=(3_000, 2)) ** 3)
    fit = ("fit", "mixture", tmp_path / "rows.npy", "-k", "5", "--set", "max_iter=1")
    done = run(*fit, "--covariance-type", "full", "-o", tmp_path / "m.im")
    model = im.load(tmp_path / "m.im")
    assert done.status == 0
    assert "not_converged" in model.notes_.codes
    assert done.err.splitlines() == [f"note: {note}" for note in model.notes_]
    quiet = run(*fit, "--covariance-type", "full", "-o", tmp_path / "m.im", "--quiet")
    assert quiet == (0, "", "")


def test_an_interrupted_fit_resumes_from_its_checkpoint(data, run, tmp_path):
    for _ in range(2):
        fit = ("fit", "mixture", data / "rows.csv", "-k", "3", "-o", tmp_path / "m.im")
        assert run(*fit, "--checkpoint", tmp_path / "fit.checkpoint").status == 0
    assert (tmp_path / "fit.checkpoint").stat().st_size > 0


def test_progress_is_shown_on_a_terminal_only(data, tmp_path):
    fit = ["fit", "mixture", str(data / "rows.csv"), "-k", "3", "-o", str(tmp_path / "m.im")]
    seen, side = pty.openpty()
    command = [sys.executable, "-m", "implicitmoments", *fit]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=side) as process:
        os.close(side)
        shown = b""
        while True:
            try:
                part = os.read(seen, 4096)
            except OSError:  # a terminal whose other side is closed
                break
            shown += part
            if not part:
                break
    os.close(seen)
    assert process.returncode == 0
    assert b"reading rows" in shown
    silent = subprocess.run(command, capture_output=True, check=True)
    assert silent.stderr == b""
