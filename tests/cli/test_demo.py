import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from implicitmoments import __version__, load
from implicitmoments.cli import main
from implicitmoments.cli.app import app

run = CliRunner().invoke


def test_demo_prints_a_table_and_writes_its_files(tmp_path):
    folder = tmp_path / "made" / "here"
    result = run(app, ["demo", "-o", str(folder)])
    assert result.exit_code == 0, result.output
    assert "regressions" in result.output
    rows = json.loads((folder / "table.json").read_text())
    assert len(rows) == 5
    assert all(row["error"] < 0.3 for row in rows[:-1])
    assert rows[-1]["paper_error"] < 1e-10
    assert all(len(row["spectra"]) >= row["order"] // 2 for row in rows)
    learned = json.loads((folder / "learned.json").read_text())
    assert len(learned) == 4
    assert all(row["error"] < row["usual_error"] for row in learned)
    assert (folder / "report.html").read_text().startswith("<!")
    assert load(folder / "mixture.im").n_components_ == 60
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["learned.json", "mixture.im", "report.html", "table.json"]


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
