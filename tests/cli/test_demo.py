import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from implicitmoments import __version__, load
from implicitmoments.cli import main
from implicitmoments.cli.app import app
from implicitmoments.cli.demo import HEADS

run = CliRunner().invoke


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the demonstration prints, in a folder whose name is short, and the folder."""
    folder = tmp_path_factory.mktemp("demo") / "made" / "here"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.getbasetemp())
        result = run(app, ["demo", "-o", os.path.relpath(folder)])
    assert result.exit_code == 0, result.output
    return result.stdout, folder


def test_demo_prints_one_table_a_sentence_and_the_files(shown):
    text, folder = shown
    assert max(map(len, text.splitlines())) <= 80
    before, after = re.split(
        r"^ *─+ *$", text.rstrip(), flags=re.M
    )  # fails unless there is one rule
    assert re.split("  +", before.strip()) == list(HEADS)
    rows = [re.split("  +", line.strip()) for line in after.splitlines() if line.startswith(" ")]
    learned = json.loads((folder / "learned.json").read_text())
    assert [row[0] for row in rows if row[0]] == [row["problem"] for row in learned]
    assert all(len(row) == len(HEADS) for row in rows if row[0])
    closing = [line for line in after.splitlines() if line and not line.startswith(" ")]
    sentence = " ".join(line for line in closing if not line.startswith("wrote "))
    assert sentence.count(".") == 1
    assert f"{len(learned)} of {len(learned)}" in sentence
    assert "report.html" in closing[-1]


def test_demo_writes_its_files(shown):
    _, folder = shown
    learned = json.loads((folder / "learned.json").read_text())
    assert len(learned) == 4
    assert all(row["error"] < row["usual_error"] for row in learned)
    assert (folder / "report.html").read_text().startswith("<!")
    assert load(folder / "mixture.im").n_components_ == 60
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["learned.json", "mixture.im", "report.html"]


def test_a_file_in_the_way_is_said_before_any_work(refused, tmp_path):
    (tmp_path / "taken").write_text("")
    refused("output_not_a_folder", "demo", "-o", tmp_path / "taken")


def test_version_and_help():
    assert run(app, ["--version"]).output.strip() == __version__
    assert "demo" in run(app, []).output


def test_python_m_is_the_same_command():
    command = [sys.executable, "-m", "implicitmoments", "--version"]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == __version__


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "implicitmoments.cli.app")
    monkeypatch.setattr("implicitmoments.cli.install", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert "pip install 'implicitmoments[cli]'" in ended.value.code
