import json
import re
from pathlib import Path

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.cli.app import app
from implicitmoments.cli.columns import ModelColumns
from implicitmoments.cli.description import as_json_values, model_document
from implicitmoments.cli.report_words import report_reader
from implicitmoments.description import findings_of, fit_columns
from implicitmoments.registry import ESTIMATORS
from implicitmoments.report.page import _settings
from implicitmoments.saving.descriptions import load_description

COMMANDS = [
    *("fit", "predict", "score", "evaluate", "compare"),
    *("sample", "report", "describe", "demo"),
]
ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"implicitmoments ([a-z]+)((?: [^|>#\n`]+)?)")


def options_shown(text):
    """Command and options of every line that runs the command line."""
    for command, rest in SHOWN.findall(text):
        if command in COMMANDS:
            yield command, re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest)


@pytest.mark.parametrize("word", ESTIMATORS)
def test_describe(word, call, models):
    result = call("describe", models[word])
    assert result.exit_code == 0, result.stderr
    assert ESTIMATORS[word] in result.stdout
    assert "random_state=0" in result.stdout
    document = json.loads(call("describe", models[word], "--json").stdout)
    assert document["model"] == word
    assert document["parameters"]["random_state"] == 0
    # it is read without the class of the estimator, and is what the estimator would show
    model = im.load(models[word])
    shown = model_document(model, model.get_params(deep=False), ModelColumns.of(model))
    assert document == as_json_values(shown)
    described = load_description(models[word])[0]
    tables = (described._parameter_tables(), model._parameter_tables())
    for one, other in zip(*tables, strict=True):
        assert (one.name, one.columns, one.rows) == (other.name, other.columns, other.rows)
    assert findings_of(described) == findings_of(model)
    labelled = word in ("regressions", "regression-density", "activations")
    assert document["columns"] == ({"target": "price"} if labelled else {})


@pytest.mark.parametrize("word", ["mixture", "regressions"])
def test_report_is_a_page(word, call, data, models, tmp_path):
    file = data / ("rows.csv" if word == "mixture" else "lines.csv")
    out = tmp_path / "page.html"
    result = call("report", models[word], file, "-o", out, "--title", "Of a test")
    assert result.exit_code == 0, result.stderr
    assert str(out) in result.stdout
    assert "Of a test" in out.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_report_opens_the_page(call, data, models, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda page: opened.append(page) is None)
    out = tmp_path / "page.html"
    how = ("-o", out, "--open", "--json")
    result = call("report", models["mixture"], data / "rows.csv", *how)
    assert json.loads(result.stdout) == {"output": str(out)}
    assert opened == [out.as_uri()]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command, call):
    result = call(command, "--help")
    assert result.exit_code == 0
    assert f"implicitmoments {command}" in result.stdout.split("Examples:")[1]


def test_help_names_exit_codes_and_every_command(call):
    text = call("--help").stdout
    assert all(f"{status} " in text.split("Exit codes:")[1] for status in (0, 1, 2, 130, 143))
    assert all(f"\n  {command} " in text for command in COMMANDS)
    registered = {each.name or each.callback.__name__ for each in app.registered_commands}
    assert registered == set(COMMANDS)


def test_options_in_examples_and_pages_exist(call):
    helps = {command: call(command, "--help").stdout for command in COMMANDS}
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/command_line.md")]
    shown = [each for text in (*pages, *helps.values()) for each in options_shown(text)]
    assert len(shown) > 30
    for command, options in shown:
        for option in options:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", helps[command]), (command, option)


def test_csv_of_a_scaled_model_has_deviations_in_the_units_of_the_file(call, data, tmp_path):
    out = tmp_path / "model.im"
    call("fit", "mixture", data / "rows.csv", "-k", "3", "--scale", "-o", out)
    result = call("describe", out, "--format", "csv")
    header, first = (line.split(",") for line in result.stdout.splitlines()[:2])
    assert "variance" not in header
    model = im.load(out)
    values = dict(zip(header, first, strict=True))
    own = [float(v) for name, v in values.items() if name.startswith("standard deviation of ")]
    assert len(own) == model.n_features_in_
    np.testing.assert_allclose(own, np.sqrt(model.variance_) * fit_columns(model)["scale"])


def test_settings_of_a_report_are_options_with_their_defaults():
    def rows(model):
        return _settings(model, report_reader(Path("model.im"), None)).rows

    chosen = im.SphericalMixture("auto", tol=1e-3, random_state=0)
    assert rows(chosen) == [
        ["--set tol", "0.001", "1e-07"],
        ["--covariance", "tied_spherical", "tied_spherical"],
        ["-k", "auto", "auto"],
        ["--seed", "0", "0"],
    ]
    assert ["-k", "3", "required"] in rows(im.SphericalMixtureDensity(3, random_state=0))
