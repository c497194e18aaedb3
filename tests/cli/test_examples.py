"""Every example of every --help runs as it stands."""

import gzip
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from implicitmoments.cli.app import app

HELPS = [each.epilog for each in (app.registered_callback, *app.registered_commands)]
EXAMPLES = [
    line for text in HELPS for line in re.findall(r"^  (.*implicitmoments .*)$", text, re.M)
]
NAMES = ["height", "width", "depth", "length"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with the files that examples name."""
    folder = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(0)
    means = 6 * np.eye(4)[:3]
    X = means[rng.integers(3, size=600)] + rng.normal(size=(600, 4))
    columns = dict(zip(NAMES, X.T, strict=True))
    stretch = rng.normal(size=600)
    tuned = np.where(rng.random(600) < 0.5, 2 * stretch, 2 - stretch) + 0.1 * rng.normal(size=600)
    rows, tones = pyarrow.table(columns), pyarrow.table({"stretch": stretch, "tuned": tuned})
    whole = pyarrow.table({**columns, "stretch": stretch, "tuned": tuned})
    for name, table in (("rows", rows), ("new", rows), ("tones", tones), ("held_out", whole)):
        pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    for name in ("2025", "2026-01", "2026-02"):
        pyarrow.csv.write_csv(rows, folder / f"{name}.csv")
    text = (folder / "rows.csv").read_text().replace(",", ";").replace(".", ",")
    (folder / "spreadsheet.csv").write_text(text)
    pyarrow.csv.write_csv(tones.rename_columns(["x", "y"]), folder / "data.csv")
    counted = rows.append_column("count", [rng.integers(1, 4, 600)])
    for name, table in (("rows", counted), ("new", rows), ("huge", rows)):
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    for name in ("rows", "held_out"):
        np.save(folder / f"{name}.npy", X)
    (folder / "rows.csv.gz").write_bytes(gzip.compress((folder / "rows.csv").read_bytes()))
    fits = (
        ("mixture", folder / "rows.csv", "-k", 3, "-o", folder / "model.im"),
        ("regressions", folder / "tones.csv", "--target", "tuned", "-o", folder / "lines.im"),
    )
    for fit in fits:
        arguments = [str(each) for each in ("fit", *fit)]
        assert CliRunner().invoke(app, arguments).exit_code == 0
    for name, same in (("three", "model"), ("four", "model"), ("others", "lines")):
        shutil.copy(folder / f"{same}.im", folder / f"{name}.im")
    return folder


def piped(command, text):
    return subprocess.run(command, shell=True, input=text, capture_output=True, check=True).stdout


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example, call, prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(prepared, tmp_path / "here"))
    monkeypatch.setattr("webbrowser.open", lambda page: True)
    # what demo does is tested on its own, and takes a while
    monkeypatch.setattr("implicitmoments.cli.demo.run_demo", lambda *_, **__: None)
    before, _, rest = example.partition("implicitmoments ")
    typed, _, after = rest.partition("|")
    typed, _, into = typed.partition(">")
    given = piped(before.rstrip("| "), b"") if before else None
    result = call(*shlex.split(typed), input=given)
    assert result.exit_code == 0, result.stderr
    if after and shutil.which(shlex.split(after)[0]):
        assert piped(after, result.stdout.encode())
    if into:
        assert result.stdout


def test_every_command_has_examples():
    commands = {re.search(r"implicitmoments (\w+)", example)[1] for example in EXAMPLES}
    assert commands == {command.callback.__name__ for command in app.registered_commands}
    assert len(EXAMPLES) > 20


def test_commands_of_the_readme_run_as_typed(tmp_path, monkeypatch):
    root = Path(__file__).parents[2]
    (tmp_path / "examples").symlink_to(root / "examples")
    monkeypatch.chdir(tmp_path)
    section = (root / "README.md").read_text().split("## Fit a CSV file")[1].split("\n## ")[0]
    typed = re.findall(r"^\$ implicitmoments (.*)$", section, re.M)
    assert len(typed) == 2
    for line in typed:
        result = CliRunner().invoke(app, shlex.split(line.replace(" --open", "")))
        assert result.exit_code == 0, result.output
    assert (tmp_path / "report.html").exists()
