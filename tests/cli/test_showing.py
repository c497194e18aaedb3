import json

import pytest

from implicitmoments.cli.app import app
from implicitmoments.cli.building import MODELS

COMMANDS = ["fit", "predict", "score", "sample", "report", "describe"]


@pytest.mark.parametrize("word", MODELS)
def test_describe(word, call, models):
    result = call("describe", models[word])
    assert result.exit_code == 0, result.stderr
    assert MODELS[word].__name__ in result.stdout
    assert "random_state=0" in result.stdout
    told = json.loads(call("describe", models[word], "--json").stdout)
    assert told["model"] == word
    assert told["parameters"]["random_state"] == 0
    labelled = word in ("regressions", "regression-density", "activations")
    assert told["columns"] == ({"target": "price"} if labelled else {})


@pytest.mark.parametrize("word", ["mixture", "regressions"])
def test_report_is_a_page(word, call, data, models, tmp_path):
    file = data / ("rows.csv" if word == "mixture" else "lines.csv")
    out = tmp_path / "page.html"
    result = call("report", models[word], file, "-o", out, "--title", "Of a test")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"wrote {out}\n"
    assert "Of a test" in out.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_report_opens_the_page(call, data, models, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    out = tmp_path / "page.html"
    how = ("-o", out, "--open", "--json")
    result = call("report", models["mixture"], data / "rows.csv", *how)
    assert json.loads(result.stdout) == {"output": str(out)}
    assert opened == [out.as_uri()]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command, call):
    result = call(command, "--help")
    assert result.exit_code == 0
    assert f"implicitmoments {command} " in result.stdout.split("Examples:")[1]


def test_help_names_exit_codes_and_every_command(call):
    text = call("--help").stdout
    assert "Exit codes: 0 done, 1 the work failed, 2 bad usage or bad input, 130" in text
    assert all(f"\n  {command} " in text for command in COMMANDS)
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == {
        *COMMANDS,
        "demo",
    }
