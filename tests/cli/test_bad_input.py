import os
import shutil

import numpy as np
import pytest

import implicitmoments


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in that must hold nothing new in the end but what a test lists."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def left(folder):
    return sorted(path.name for path in folder.iterdir())


BAD_FITS = {
    "a model that is none": (
        ["mixtures", "DATA/rows.csv"],
        "no model 'mixtures', expected one of",
    ),
    "no file": (["mixture", "nowhere.csv"], "there is no file nowhere.csv"),
    "another ending": (["mixture", "DATA/models"], "holds no file that ends in"),
    "a wrong column": (
        ["mixture", "DATA/rows.csv", "--columns", "height,with"],
        "--columns names column 'with', which DATA/rows.csv does not have; "
        "it has ['height', 'width', 'depth']",
    ),
    "a wrong target": (
        ["regressions", "DATA/lines.csv", "--target", "prize"],
        "--target names column 'prize', which DATA/lines.csv does not have; "
        "it has ['a', 'b', 'price']",
    ),
    "a wrong weight": (
        ["mixture", "DATA/rows.csv", "--weight", "n"],
        "--weight names column 'n'",
    ),
    "no target": (["regressions", "DATA/lines.csv"], "name their column by --target"),
    "a target too many": (
        ["mixture", "DATA/rows.csv", "--target", "depth"],
        "mixture has no labels, so --target does not apply",
    ),
    "a number too large": (
        ["mixture", "DATA/rows.csv", "-k", "3000"],
        "-k 3000 is more than the 2000 rows",
    ),
    "more clusters than features": (
        ["clusters", "DATA/rows.csv", "-k", "5"],
        "give --set variance=…, or -k of at most 3",
    ),
    "no number": (["density", "DATA/rows.csv"], "takes the number of components; give -k N"),
    "a number that is none": (["mixture", "DATA/rows.csv", "-k", "many"], "-k is a whole"),
    "an option of another model": (
        ["mixture", "DATA/rows.csv", "--degree", "3"],
        "mixture has no parameter 'degree', given by --degree",
    ),
    "a parameter that is none": (
        ["mixture", "DATA/rows.csv", "--set", "steps=3"],
        "has no parameter 'steps', given by --set steps=…; by --set it takes variance",
    ),
    "a value of another type": (
        ["mixture", "DATA/rows.csv", "--set", "max_iter=many"],
        "--set max_iter=… takes a whole number, got 'many'",
    ),
    "a setting without a value": (
        ["mixture", "DATA/rows.csv", "--set", "max_iter"],
        "--set takes name=value, got 'max_iter'",
    ),
    "an activation that is none": (
        ["activations", "DATA/lines.csv", "--target", "price", "--activation", "rule"],
        "--activation rule is not known; expected one of 'relu'",
    ),
    "a number below one": (["mixture", "DATA/rows.csv", "-k", "0"], "-k is at least 1, got 0"),
    "a negative number": (["mixture", "DATA/rows.csv", "-k", "-1"], "-k is at least 1, got -1"),
    "half a component": (["density", "DATA/rows.csv", "-k", "1.5"], "whole number, got '1.5'"),
    "more unknowns than rows": (
        ["regressions", "DATA/lines.csv", "--target", "price", "-k", "1000"],
        "3,000 unknowns, and 2,000 rows do not determine them; use at most -k 666",
    ),
    "a column twice": (
        ["mixture", "DATA/rows.csv", "--columns", "height,height"],
        "column 'height' of DATA/rows.csv is there or asked for more than once",
    ),
    "labels among the features": (
        ["regressions", "DATA/lines.csv", "--columns", "a,price", "--target", "price"],
        "column 'price' of DATA/lines.csv is asked for as a feature and by --target; leave it out",
    ),
    "no columns": (["mixture", "DATA/rows.csv", "--columns", ""], "separated by commas, got ''"),
    "a weight below zero": (
        ["mixture", "DATA/rows.csv", "--weight", "height"],
        "expected at least 0",
    ),
    "a model mistyped": (["Mixtur", "DATA/rows.csv"], "; did you mean mixture?"),
    "a parameter mistyped": (
        ["mixture", "DATA/rows.csv", "--set", "max_itr=3"],
        "; did you mean max_iter?",
    ),
    "an option mistyped": (["mixture", "DATA/rows.csv", "--colums", "a"], "--columns"),
    "a number given twice": (
        ["mixture", "DATA/rows.csv", "-k", "3", "--set", "n_components=3"],
        "given twice, by -k and by --set; give it once",
    ),
    "a parameter given twice": (
        ["mixture", "DATA/rows.csv", "--set", "tol=1", "--set", "tol=2"],
        "'tol' was given twice, by --set; give it once",
    ),
    "a seed among the settings": (
        ["mixture", "DATA/rows.csv", "--set", "random_state=1"],
        "the random state is given by --seed, and not by --set",
    ),
    "a model for rows": (["mixture", "DATA/models/mixture.im"], "is a model, expected a file of"),
    "a column mistyped": (
        ["mixture", "DATA/rows.csv", "--columns", "heigth,width"],
        "it has ['height', 'width', 'depth']; did you mean height?",
    ),
    "a target mistyped": (
        ["regressions", "DATA/lines.csv", "--target", "prize"],
        "--target names column 'prize', which DATA/lines.csv does not have",
    ),
    "weights among the features": (
        ["mixture", "DATA/rows.csv", "--columns", "height,width", "--weight", "width"],
        "is asked for as a feature and by --weight; leave it out of --columns",
    ),
    "no kind": (["DATA/rows.csv"], "DATA/rows.csv is no KIND; did you forget mixture?"),
    "a file for a kind": (["DATA/rows.csv", "mixture"], "DATA/rows.csv is no KIND"),
    "a number that clusters do not choose": (
        ["clusters", "DATA/rows.csv", "-k", "auto"],
        "clusters cannot choose -k, and mixture can; give -k N",
    ),
    "a number that the density does not choose": (
        ["regression-density", "DATA/lines.csv", "--target", "price", "-k", "auto"],
        "regression-density cannot choose -k, and regressions can; give -k N",
    ),
    "rows for a checkpoint": (
        ["mixture", "DATA/rows.csv", "--checkpoint", "DATA/rows.csv"],
        "DATA/rows.csv is the file that is read; give --checkpoint another name",
    ),
    "a file too many": (["mixture", "DATA/rows.csv", "-"], "unexpected extra argument"),
    "an option that is none": (["mixture", "DATA/rows.csv", "--clusters", "3"], "--clusters"),
}


@pytest.mark.parametrize("name", BAD_FITS)
def test_bad_usage_is_one_line_and_leaves_nothing(name, refused, data, models, here):
    arguments, says = (
        [part.replace("DATA", str(data)) for part in BAD_FITS[name][0]],
        BAD_FITS[name][1].replace("DATA", str(data)),
    )
    assert says in refused("fit", *arguments)
    assert left(here) == []


BAD_FILES = {
    "text": ("a,b\n1,wide\n", "column 'b' of rows.csv holds text, such as 'wide' in line 2"),
    "text among numbers": (
        "a,b\n1,2\n3,wide\n4,5\n",
        "column 'b' of rows.csv holds text in 1 of the first 3 cells, such as 'wide' in line 3",
    ),
    "nothing": ("", "rows.csv cannot be read as CSV (Empty CSV file)"),
    "names alone": ("a,b\n", "rows.csv has no rows"),
    "a missing number": (
        "a,b\n1,2\n3,\n",
        "rows.csv: feature 'b' contains NaN in 1 row, the first is line 3; fill",
    ),
    "an infinite number": ("a,b\n1,2\n3,inf\n", "'b'"),
    "a short line": ("a,b\n1,2\n3\n", "rows.csv, line 3: expected 2 columns, got 1"),
    "bytes": ("\x00\x01\x02", ""),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("piped", [False, True])
def test_bad_rows_are_one_line_and_leave_nothing(name, piped, refused, here):
    text, says = BAD_FILES[name]
    (here / "rows.csv").write_text(text)
    if piped:
        said = refused("fit", "mixture", "-", "-k", "1", input=text)
        assert says.replace("rows.csv", "standard input") in said
    else:
        assert says in refused("fit", "mixture", "rows.csv", "-k", "1")
    assert left(here) == ["rows.csv"]


def test_nan_in_a_late_block_of_an_array_leaves_no_output(refused, models, here):
    X = np.zeros((40_000, 3))
    X[39_000, 1] = np.nan
    np.save("rows.npy", X)
    for out in ("out.csv", "out.npy", "out.parquet"):
        said = refused("predict", models["mixture"], "rows.npy", "-o", out)
        assert "rows.npy: feature 1 contains NaN in 1 row, the first is row 39000" in said
    assert "NaN" in refused("fit", "mixture", "rows.npy", "-k", "2")
    assert left(here) == ["rows.npy"]


def test_output_that_cannot_be_written_is_said_before_any_work(refused, data, models, here):
    (here / "folder").mkdir()
    absent = here / "none" / "m.im"
    fit = ("fit", "mixture", here / "nowhere.csv", "-k", "3", "-o")  # not even looked for
    assert "there is no folder" in refused(*fit, absent)
    assert "is a folder, expected a file" in refused(*fit, "folder")
    for place in ("/dev/null", "/dev/full", "/dev/stdout", "-"):
        assert "is no plain file; give -o a file" in refused(*fit, place)
    told = refused("fit", "mixture", data / "rows.csv", "-k", "3", "-o", data / "rows.csv")
    assert "is the file that is read" in told
    both = ("--checkpoint", "m.im", "-o", "m.im")
    told = refused("fit", "mixture", data / "rows.csv", *both)
    assert "m.im is named by -o and by --checkpoint" in told
    ask = (models["mixture"], data / "rows.csv", "-o")
    assert "expected one of .csv, .tsv" in refused("predict", *ask, "labels.xlsx")
    assert "leave -o out for standard output" in refused("predict", *ask, "-")
    assert "there is no folder" in refused("report", *ask, here / "none" / "page.html")
    assert "expected one of .html" in refused("report", *ask, "model.im")
    assert "there is no folder" in refused("sample", models["mixture"], "-o", "none/out.csv")
    assert left(here) == ["folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(refused, data, here):
    (here / "closed").mkdir(mode=0o500)
    told = refused("fit", "mixture", data / "rows.csv", "-o", "closed/m.im")
    assert "it is not permitted" in told


def test_a_model_is_not_overwritten_by_its_answers(refused, data, models, here):
    shutil.copy(models["mixture"], "model.csv")
    for command in (["predict", "model.csv", data / "rows.csv"], ["sample", "model.csv"]):
        assert "is the file that is read" in refused(*command, "-o", "model.csv")
    assert implicitmoments.load("model.csv").n_components_ == 3


def test_model_files_that_are_none(refused, data, here):
    (here / "text.im").write_text("no model")
    assert "cannot be opened" in refused("describe", "nowhere.im")
    assert "a model has to be a file" in refused("predict", "-", "-")
    assert "give a file that fit wrote" in refused("describe", data / "rows.csv")
    for command in (["describe"], ["predict"], ["score"], ["report"], ["sample"]):
        more = [] if command[0] in ("describe", "sample") else [data / "rows.csv"]
        assert "text.im" in refused(*command, "text.im", *more)
    assert left(here) == ["text.im"]


def test_rows_of_another_shape(refused, data, models):
    said = refused("predict", models["mixture"], data / "lines.csv")
    assert "the model was fitted to column 'height', which" in said
    assert "it has ['a', 'b', 'price']; name others by --columns" in said
    said = refused("score", models["regressions"], data / "rows.csv")
    assert "the model was fitted to column 'price', which" in said
    assert said.endswith("; name others by --target")
    how = ("--columns", "height,wide")
    said = refused("predict", models["mixture"], data / "rows.csv", *how)
    assert "--columns names column 'wide', which" in said
    said = refused("predict", models["regressions"], data / "lines.npy")
    assert "the rows have 3 features and the model takes 2; choose them by --columns" in said


@pytest.mark.parametrize(
    ("word", "command", "says"),
    [
        ("density", ["predict", "ROWS"], "score --rows gives it at each row"),
        ("clusters", ["predict", "ROWS", "--proba"], "leave --proba out"),
        ("clusters", ["score", "ROWS"], "it has no density"),
        ("clusters", ["sample"], "it has no law of the features"),
        ("activations", ["sample"], "it has no law of the features"),
        ("mixture", ["score", "ROWS", "-o", "out.csv"], "-o is for --rows"),
    ],
)
def test_what_a_model_does_not_do(word, command, says, refused, data, models, here):
    name, *rest = command
    file = data / ("lines.csv" if word == "activations" else "rows.csv")
    more = [file if part == "ROWS" else part for part in rest]
    assert says in refused(name, models[word], *more)
    assert left(here) == []


def test_a_failure_within_the_fit_ends_with_1(refused, call, data, here, monkeypatch):
    def fail(*_, **__):
        raise np.linalg.LinAlgError("no convergence")

    monkeypatch.setattr(implicitmoments.SphericalMixture, "fit", fail)
    said = refused("fit", "mixture", data / "rows.csv", code=1)
    assert said == "LinAlgError: no convergence; --debug shows where"
    told = call("fit", "mixture", data / "rows.csv", "--debug")
    assert told.exit_code == 1
    assert "Traceback" in told.stderr
    assert left(here) == []


def test_a_disk_that_is_full_ends_with_1(refused, data, here, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("implicitmoments.saving.atomic_file.os.replace", full)
    assert "No space left" in refused("fit", "mixture", data / "rows.csv", "-k", "3", code=1)
    assert left(here) == []


def test_many_components_are_noted_before_the_work(call, data, here):
    (here / "rows.csv").write_text("\n".join((data / "rows.csv").read_text().split("\n")[:41]))
    result = call("fit", "mixture", "rows.csv", "-k", "4")
    assert result.exit_code == 0
    assert result.stderr == (
        "implicitmoments: note: -k 4 leaves 10.0 rows a component, which may take long and tell "
        "little; try fewer\n"
    )
    assert call("fit", "mixture", "rows.csv", "-k", "4", "--quiet").stderr == ""
    assert call("fit", "mixture", "rows.csv", "-k", "2").stderr == ""
