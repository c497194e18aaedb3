import errno
import os
import shutil

import numpy as np
import pytest

import implicitmoments
from implicitmoments.notes import QUIET


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in that must hold nothing new in the end but what a test lists."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def left(folder):
    return sorted(path.name for path in folder.iterdir())


ROWS, LINES = "DATA/rows.csv", ["DATA/lines.csv", "--target", "price"]
BAD_FITS = {
    "a model that is none": (["mixtures", ROWS], "unknown_model", {"word": "mixtures"}),
    "no file": (["mixture", "nowhere.csv"], "no_such_file", {"file": "nowhere.csv"}),
    "another suffix": (["mixture", "DATA/models"], "no_tables", {}),
    "a wrong column": (
        ["mixture", ROWS, "--columns", "height,with"],
        "no_such_column",
        {"what": "columns", "wanted": "with", "file": ROWS, "names": ["height", "width", "depth"]},
    ),
    "a wrong target": (
        ["regressions", "DATA/lines.csv", "--target", "prize"],
        "no_such_column",
        {"what": "y", "wanted": "prize", "near": ["price"]},
    ),
    "a wrong weight": (
        ["mixture", ROWS, "--weight", "n"],
        "no_such_column",
        {"what": "sample_weight", "wanted": "n"},
    ),
    "no target": (
        ["regressions", "DATA/lines.csv", "--columns", "a"],
        "target_required",
        {"names": ["b", "price"]},
    ),
    "a target too many": (["mixture", ROWS, "--target", "depth"], "target_not_used", {}),
    "a number too large": (
        ["clusters", ROWS, "-k", "3000", "--set", "variance=1"],
        "too_few_rows",
        {"k": 3000, "n": 2000},
    ),
    "more components than features": (["density", ROWS, "-k", "5"], "variance_not_estimable", {}),
    "no number": (["density", ROWS], "number_required", {"kind": "density"}),
    "a number that is none": (["clusters", ROWS, "-k", "many"], "not_a_range", {"text": "many"}),
    "an option of another model": (
        ["mixture", ROWS, "--degree", "3"],
        "unknown_parameter",
        {"name": "degree", "option": "--degree"},
    ),
    "a parameter that is none": (
        ["mixture", ROWS, "--set", "steps=3"],
        "unknown_parameter",
        {"name": "steps", "near": ""},
    ),
    "a value of another type": (
        ["mixture", ROWS, "--set", "max_iter=many"],
        "value_of_another_type",
        {"text": "many", "option": "--set max_iter=…"},
    ),
    "a setting without a value": (
        ["mixture", ROWS, "--set", "max_iter"],
        "setting_without_value",
        {"text": "max_iter"},
    ),
    "an activation that is none": (
        ["activations", *LINES, "--activation", "rule"],
        "unknown_activation",
        {},
    ),
    "a number below one": (["clusters", ROWS, "-k", "0"], "out_of_range", {"value": 0}),
    "a negative number": (["clusters", ROWS, "-k", "-1"], "out_of_range", {"value": -1}),
    "half a component": (["density", ROWS, "-k", "1.5"], "not_a_range", {"text": "1.5"}),
    "more unknowns than rows": (
        ["regressions", *LINES, "-k", "1000"],
        "too_few_rows_for_unknowns",
        {"most": 666},
    ),
    "a column twice": (
        ["mixture", ROWS, "--columns", "height,height"],
        "column_twice",
        {"column": "height", "file": ROWS},
    ),
    "labels among the features": (
        ["regressions", *LINES, "--columns", "a,price"],
        "column_in_two_roles",
        {"column": "price", "what": "y"},
    ),
    "no columns": (["mixture", ROWS, "--columns", ""], "no_names", {"option": "--columns"}),
    "a weight below zero": (["mixture", ROWS, "--weight", "height"], "negative_weight", {}),
    "a model mistyped": (["Mixtur", ROWS], "unknown_model", {"near": "; did you mean mixture?"}),
    "a parameter mistyped": (
        ["mixture", ROWS, "--set", "max_itr=3"],
        "unknown_parameter",
        {"near": "; did you mean max_iter?"},
    ),
    "an option mistyped": (["mixture", ROWS, "--colums", "a"], "NoSuchOption", {}),
    "a number given twice": (
        ["mixture", ROWS, "-k", "3", "--set", "n_components=3"],
        "parameter_twice",
        {"name": "n_components"},
    ),
    "a parameter given twice": (
        ["mixture", ROWS, "--set", "tol=1", "--set", "tol=2"],
        "parameter_twice",
        {"name": "tol"},
    ),
    "a seed among the settings": (
        ["mixture", ROWS, "--set", "random_state=1"],
        "seed_by_setting",
        {},
    ),
    "a model for rows": (["mixture", "DATA/models/mixture.im"], "not_rows", {"suffix": ".im"}),
    "a column mistyped": (
        ["mixture", ROWS, "--columns", "heigth,width"],
        "no_such_column",
        {"wanted": "heigth", "near": ["height"]},
    ),
    "weights among the features": (
        ["mixture", ROWS, "--columns", "height,width", "--weight", "width"],
        "column_in_two_roles",
        {"column": "width", "what": "sample_weight"},
    ),
    "no kind": ([ROWS], "MissingParameter", {}),
    "a file for a kind": ([ROWS, "mixture"], "kind_missing", {"word": ROWS}),
    "a number that clusters do not choose": (
        ["clusters", ROWS, "-k", "auto"],
        "number_required",
        {"kind": "clusters"},
    ),
    "a number that the density does not choose": (
        ["regression-density", *LINES, "-k", "auto"],
        "number_required",
        {"kind": "regression-density"},
    ),
    "rows for a checkpoint": (
        ["mixture", ROWS, "--checkpoint", ROWS],
        "output_is_input",
        {"option": "--checkpoint"},
    ),
    "a file twice": (["mixture", ROWS, ROWS], "file_twice", {"file": ROWS}),
    "a pattern without a match": (
        ["mixture", "none-*.csv"],
        "no_match",
        {"pattern": "none-*.csv"},
    ),
    "an option that is none": (["mixture", ROWS, "--clusters", "3"], "NoSuchOption", {}),
}


@pytest.mark.parametrize("name", BAD_FITS)
def test_bad_usage_is_one_line_and_leaves_nothing(name, refused, data, models, here):
    def placed(value):
        return value.replace("DATA", str(data)) if isinstance(value, str) else value

    arguments, code, values = BAD_FITS[name]
    values = {name: placed(value) for name, value in values.items()}
    refused(code, "fit", *map(placed, arguments), **values)
    assert left(here) == []


BAD_FILES = {
    "text": ("a,b\n1,wide\n", "column_not_numeric", {"column": "b"}),
    "text among numbers": ("a,b\n1,2\n3,wide\n4,5\n", "column_not_numeric", {"column": "b"}),
    "nothing": ("", "empty_file", {}),
    "names alone": ("a,b\n", "no_rows", {}),
    "a missing number": ("a,b\n1,2\n3,\n", "not_finite", {"kind": "NaN", "first": 3}),
    "an infinite number": ("a,b\n1,2\n3,inf\n", "not_finite", {"kind": "infinity"}),
    "a short line": (
        "a,b\n1,2\n3\n",
        "wrong_number_of_cells",
        {"line": 3, "expected": 2, "found": 1},
    ),
    "bytes": ("\x00\x01\x02", "unreadable", {"kind": "CSV"}),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("piped", [False, True])
def test_bad_rows_are_one_line_and_leave_nothing(name, piped, refused, here):
    text, code, values = BAD_FILES[name]
    (here / "rows.csv").write_text(text)
    if piped:
        refused(code, "fit", "mixture", "-", piped=text, file="standard input", **values)
    else:
        refused(code, "fit", "mixture", "rows.csv", file="rows.csv", **values)
    assert left(here) == ["rows.csv"]


def test_nan_in_a_late_block_of_an_array_leaves_no_output(refused, models, here):
    X = np.zeros((40_000, 3))
    X[39_000, 1] = np.nan
    np.save("rows.npy", X)
    where = {"file": "rows.npy", "kind": "NaN", "n_rows": 1, "first": 39_000}
    refused("not_finite", "report", models["mixture"], "rows.npy", **where)
    refused("not_finite", "fit", "mixture", "rows.npy", "-k", "2", **where)
    assert left(here) == ["rows.npy"]


def test_output_that_cannot_be_written_is_said_before_any_work(refused, data, models, here):
    (here / "folder").mkdir()
    absent = here / "none" / "m.im"
    fit = ("fit", "mixture", here / "nowhere.csv", "-k", "3", "-o")  # not even looked for
    refused("output_without_folder", *fit, absent)
    refused("output_is_folder", *fit, "folder")
    for place in ("/dev/null", "/dev/full", "/dev/stdout", "-"):
        refused("output_not_a_file", *fit, place)
    rows = data / "rows.csv"
    refused("output_is_input", "fit", "mixture", rows, "-k", "3", "-o", rows)
    both = ("--checkpoint", "m.im", "-o", "m.im")
    refused("output_is_checkpoint", "fit", "mixture", rows, *both)
    ask = (models["mixture"], rows, "-o")
    refused("output_kind", "predict", *ask, "labels.xlsx", suffix=".xlsx")
    refused("output_not_a_file", "predict", *ask, "/dev/stdout")
    refused("output_without_folder", "report", *ask, here / "none" / "page.html")
    refused("output_kind", "report", *ask, "model.im")
    refused("output_without_folder", "sample", models["mixture"], "-o", "none/out.csv")
    assert left(here) == ["folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(refused, data, here):
    (here / "closed").mkdir(mode=0o500)
    refused("output_not_permitted", "fit", "mixture", data / "rows.csv", "-o", "closed/m.im")


def test_a_model_is_not_overwritten_by_its_answers(refused, data, models, here):
    shutil.copy(models["mixture"], "model.csv")
    for command in (["predict", "model.csv", data / "rows.csv"], ["sample", "model.csv"]):
        refused("output_is_input", *command, "-o", "model.csv")
    assert implicitmoments.load("model.csv").n_components_ == 3


def test_model_files_that_are_none(refused, data, here):
    (here / "text.im").write_text("no model")
    refused("cannot_read", "describe", "nowhere.im")
    refused("model_from_standard_input", "predict", "-", "-")
    refused("not_a_model_file", "describe", data / "rows.csv")
    for command in ("describe", "predict", "score", "report", "sample"):
        more = [] if command in ("describe", "sample") else [data / "rows.csv"]
        refused("not_a_model_file", command, "text.im", *more)
    assert left(here) == ["text.im"]


def test_rows_of_another_shape(refused, data, models):
    names = ["a", "b", "price"]
    missing = {"wanted": "height", "names": names, "option": "--columns"}
    refused("model_column_missing", "predict", models["mixture"], data / "lines.csv", **missing)
    missing = {"wanted": "price", "option": "--target"}
    refused("model_column_missing", "score", models["regressions"], data / "rows.csv", **missing)
    typed = (models["mixture"], data / "rows.csv", "--columns", "height,wide")
    refused("no_such_column", "predict", *typed, what="columns", wanted="wide")
    given = {"found": 3, "expected": 2}
    refused("features_differ", "predict", models["regressions"], data / "lines.npy", **given)


@pytest.mark.parametrize(
    ("word", "command", "question"),
    [
        ("density", ["predict", "ROWS"], "labels"),
        ("clusters", ["predict", "ROWS", "--proba"], "probabilities"),
        ("clusters", ["score", "ROWS"], "score"),
        ("clusters", ["sample"], "samples"),
        ("activations", ["sample"], "samples"),
        ("mixture", ["predict", "ROWS", "--component"], "components"),
    ],
)
def test_what_a_model_does_not_do(word, command, question, refused, data, models, here):
    name, *rest = command
    file = data / ("lines.csv" if word == "activations" else "rows.csv")
    more = [file if part == "ROWS" else part for part in rest]
    refused("no_answer", name, models[word], *more, kind=word, question=question)
    assert left(here) == []


def test_a_score_is_not_written_to_a_file(refused, data, models, here):
    refused("output_without_rows", "score", models["mixture"], data / "rows.csv", "-o", "out.csv")


def test_a_failure_within_the_fit_ends_with_1(refused, call, data, here, monkeypatch):
    def fail(*_, **__):
        raise np.linalg.LinAlgError("no convergence")

    monkeypatch.setattr(implicitmoments.SphericalMixture, "fit", fail)
    refused("LinAlgError", "fit", "mixture", data / "rows.csv", status=1)
    shown = call("fit", "mixture", data / "rows.csv", "--debug")
    assert shown.exit_code == 1
    assert "Traceback" in shown.stderr
    assert left(here) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_disk_that_is_full_ends_with_1(refused, data, here, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    refused("cannot_write", "fit", "mixture", data / "rows.csv", "-k", "3", status=1)
    assert left(here) == []


def test_many_components_are_noted_before_the_work(call, noted, data, here):
    (here / "rows.csv").write_text("\n".join((data / "rows.csv").read_text().split("\n")[:41]))
    result = call("fit", "mixture", "rows.csv", "-k", "4")
    assert result.exit_code == 0
    assert result.stderr == noted(("few_rows_per_component_asked", {"k": 4, "n": 10.0}))
    quiet = call("fit", "mixture", "rows.csv", "-k", "4", "--quiet")
    warned = [note for note in implicitmoments.load("model.im").notes_ if note.code not in QUIET]
    assert len(quiet.stderr.splitlines()) == len(warned)  # and none before the work
    assert call("fit", "mixture", "rows.csv", "-k", "2").stderr == ""
