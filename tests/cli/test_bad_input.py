"""Bad input ends with one line that names it, exit status 2, and no output file."""

import subprocess
import sys

import numpy as np
import pytest


@pytest.fixture
def folder(tmp_path, data, monkeypatch):
    """The working folder: rows.csv and lines.csv, and files that are none."""
    monkeypatch.chdir(tmp_path)
    for name in ("rows.csv", "lines.csv"):
        (tmp_path / name).symlink_to(data / name)
    (tmp_path / "text.csv").write_text("height,width\n1,2\n3,four\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "escape.csv").write_text("a\x1b[2J,b\n1,2\n3,x\n")
    (tmp_path / "rows.xlsx").write_bytes(b"PK\x03\x04")
    (tmp_path / "damaged.im").write_bytes(b"nothing")
    np.save(tmp_path / "two.npy", np.zeros((5, 2)))
    return tmp_path


REFUSED = {  # words of the command, and what the error names
    "fit groups rows.csv": "mixture",
    "fit mixture none.csv": "file none.csv",
    "fit mixture rows.xlsx": "rows.xlsx",
    "fit mixture empty.csv": "empty.csv",
    "fit mixture text.csv": "four",
    "fit mixture rows.csv --columns height,weight": "weight",
    "fit mixture rows.csv --sample-weight w": "'w'",
    "fit mixture rows.csv rows.csv lines.csv": "lines.csv",
    "fit mixture rows.csv -k 0": "n_components",
    "fit mixture rows.csv -k few": "few",
    "fit mixture rows.csv -k 2000": "2000",
    "fit mixture rows.csv --covariance-type round": "round",
    "fit mixture rows.csv --set iterations=3": "iterations",
    "fit mixture rows.csv --set tol=small": "tol",
    "fit mixture rows.csv --sep ;;": "sep",
    "fit mixture rows.csv -o no/model.im": "no",
    "fit mixture rows.csv -o .": ".",
    "fit mixture rows.csv -o rows.csv": "rows.csv",
    "fit mixture rows.csv -o m.im --checkpoint rows.csv": "rows.csv",
    "fit regressions lines.csv -k 2": "y=",
    "fit density rows.csv -k auto": "n_components",
    "fit clusters rows.csv -k 2-4": "clusters",
    "fit activations lines.csv --y price --activation rely": "rely",
    "predict damaged.im rows.csv": "damaged.im",
    "predict MIXTURE lines.csv": "height",
    "predict MIXTURE two.npy": "height",
    "predict MIXTURE two.npy --columns x0,x1": "2 features",
    "predict MIXTURE rows.csv --component": "predict_component",
    "predict DENSITY rows.csv": "predict",
    "predict MIXTURE rows.csv -o MIXTURE": "mixture.im",
    "score CLUSTERS rows.csv": "SphericalMixtureClusterer",
    "score REGRESSIONS rows.csv": "price",
    "sample CLUSTERS": "sample",
    "compare MIXTURE REGRESSIONS rows.csv": "RegressionMixture",
    "compare REGRESSIONS OTHER lines.csv": "RegressionMixture",
    "compare REGRESSION-DENSITY DENSITY lines.csv": "SphericalMixtureDensity",
    "report MIXTURE none.csv": "none.csv",
}


@pytest.mark.parametrize("words", REFUSED)
def test_an_error_names_what_was_wrong(words, folder, models, run):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    places = {kind.upper(): path for kind, path in models.items()}
    done = run(*(places.get(word, word) for word in words.split()))
    assert done.status == 2, done
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("implicitmoments: error: ")
    assert REFUSED[words] in line
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "words", ["fti", "fit mixture", "fit --kk 3", "predict none.im rows.csv", "sample"]
)
def test_usage_errors(words, folder, run):
    done = run(*words.split())
    assert done.status == 2
    assert done.out == ""
    assert "Usage:" in done.err


def test_control_characters_of_a_file_do_not_reach_the_terminal(folder, run):
    done = run("fit", "mixture", "escape.csv")
    assert done.status == 2
    assert "\x1b" not in done.err
    (folder / "escape.csv").write_text("a\x1b[2J,b\n" + "1,2\n3,4\n5,6\n2,1\n0,9\n" * 9)
    done = run("fit", "mixture", "escape.csv", "-k", "1")
    assert done.status == 0
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize("words", ["--help", "fit --help", "compare -h", "--version"])
def test_help_is_printed(words, run):
    done = run(*words.split())
    assert (done.status, done.err) == (0, "")
    assert done.out


def test_a_missing_library_is_named(tmp_path):
    code = "import sys; sys.modules['typer'] = None; import implicitmoments.__main__"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "implicitmoments[cli]" in done.stderr
