"""Files of rows and of fitted models that the commands are tried on."""

import os
import pty
import signal
import subprocess
import sys
from inspect import signature

import numpy as np
import pytest
from typer.testing import CliRunner

from implicitmoments.cli.app import app
from implicitmoments.cli.console import as_typed
from implicitmoments.notes import CodedError, Note

MEANS = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 2.0], [0.0, 7.0, -3.0]])


def write_csv(path, names, rows):
    lines = [",".join(names), *(",".join(f"{v:.6f}" for v in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with rows.csv (three clusters) and lines.csv (two lines), and their arrays."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = MEANS[rng.integers(0, 3, 2_000)] + rng.normal(size=(2_000, 3))
    write_csv(folder / "rows.csv", ["height", "width", "depth"], X)
    np.save(folder / "rows.npy", X)
    x, side = rng.normal(size=(2_000, 2)), rng.integers(0, 2, 2_000) == 0
    y = np.where(side, 1 + x @ [2.0, -1.0], -1 + x @ [-1.0, 3.0]) + 0.2 * rng.normal(size=2_000)
    write_csv(folder / "lines.csv", ["a", "b", "price"], np.column_stack([x, y]))
    np.save(folder / "lines.npy", np.column_stack([x, y]))
    return folder


@pytest.fixture(scope="session")
def models(data):
    """Fitted models in files, by their word."""
    folder = data / "models"
    folder.mkdir()
    rows, lines = str(data / "rows.csv"), [str(data / "lines.csv"), "--target", "price"]
    given = {
        "mixture": [rows, "-k", "3"],
        "gaussian-mixture": [rows, "-k", "3"],
        "clusters": [rows, "-k", "3"],
        "density": [rows, "-k", "3", "--degree", "2"],
        "regressions": [*lines, "-k", "2"],
        "regression-density": [*lines, "-k", "2", "--degree", "2"],
        "activations": [*lines, "-k", "2", "--activation", "relu"],
    }
    paths = {}
    for word, arguments in given.items():
        paths[word] = folder / f"{word}.im"
        result = call("fit", word, *arguments, "-o", paths[word])
        assert result.exit_code == 0, result.stderr
        assert str(paths[word]) in result.stdout
    return paths


# Starts a command with the dispositions of signals that a terminal gives: a runner of tests may
# itself have been started with some of them ignored, as by nohup or in the background of a shell.
TERMINAL = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="session")
def from_terminal():
    """What goes before a command, for it to be started as from a terminal."""
    return [sys.executable, "-c", TERMINAL]


@pytest.fixture
def on_terminal(tmp_path):
    """Run a command in a folder, with a terminal for standard error; return what it shows."""

    def run(*arguments):
        command = [sys.executable, "-m", "implicitmoments", *map(str, arguments)]
        seen, side = pty.openpty()
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=side
        ) as process:
            os.close(side)
            shown = b""
            while True:
                try:
                    part = os.read(seen, 4096)
                except OSError:  # Linux ends a terminal whose other side is closed so
                    break
                if not part:
                    break
                shown += part
            status = process.wait()
        os.close(seen)
        return status, shown.decode()

    return run


@pytest.fixture
def as_from_a_terminal():
    """Handle signals in this process as Python does when it is started from a terminal."""
    given = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in given.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


# click before 8.2, which typer 0.15 needs, joins both streams unless it is told not to
APART = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}


def call(*arguments, **how):
    """Run a command in this process."""
    return CliRunner(**APART).invoke(app, [str(each) for each in arguments], **how)


@pytest.fixture(name="call", scope="session")
def _call():
    return call


@pytest.fixture
def refused(call):
    """Run a command that must end with one line on standard error; return its error.

    The code is that of a CodedError, or the class of an error of usage.
    """

    def run(code, *arguments, status=2, piped=None, **values):
        result = call(*arguments, input=piped)
        assert result.exit_code == status, (result.output, result.exception)
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("implicitmoments: error: ")
        error = result.exception.__cause__
        if isinstance(error, CodedError):
            assert lines[0].endswith(" ".join(error.sentence(as_typed).split()))
        assert getattr(error, "code", type(error).__name__) == code, repr(error)
        assert {name: error.values.get(name) for name in values} == values
        return error

    return run


@pytest.fixture(scope="session")
def noted():
    """What standard error holds for notes, given as pairs of code and values."""

    def lines(*notes):
        sentences = [Note(code, values).sentence(as_typed) for code, values in notes]
        return "".join(f"implicitmoments: note: {sentence}\n" for sentence in sentences)

    return lines
