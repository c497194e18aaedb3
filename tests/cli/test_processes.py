"""Pipes, signals and exit codes, in processes of their own."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

COMMAND = [sys.executable, "-m", "implicitmoments"]
# a fit that says on standard error when it has begun, and never ends by itself
ENDLESS = """
import sys, time
import implicitmoments
from implicitmoments.cli import main

def fit(self, X, **how):
    sys.stderr.write("begun\\n")
    sys.stderr.flush()
    while True:
        time.sleep(1)

implicitmoments.SphericalMixture.fit = fit
sys.argv = ["implicitmoments", *sys.argv[1:]]
main()
"""


def run(*arguments, **how):
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, **how)


def one_error(said):
    """Say whether one line, with an error, is on standard error."""
    return said.startswith("implicitmoments: error: ") and said.count("\n") == 1


def test_a_pipe_from_rows_to_labels(data, models):
    with open(data / "rows.csv") as rows:
        done = run("predict", models["mixture"], "-", stdin=rows)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2_001
    assert done.stderr == ""


def test_a_reader_that_leaves_is_no_error(models):
    command = [*COMMAND, "sample", str(models["mixture"]), "-n", "300000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"height,width,depth,component\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_interrupted_fit_leaves_nothing(data, tmp_path, checkpoint, from_terminal):
    kept = ["--checkpoint", "fit.journal"] if checkpoint else []
    python = [*from_terminal, sys.executable, "-c", ENDLESS]
    command = [*python, "fit", "mixture", str(data / "rows.csv"), *kept]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait() == 130
    assert one_error(said)
    assert ("fit.journal" in said) == checkpoint
    assert list(tmp_path.iterdir()) == []


def test_exit_codes_of_the_process(call, tmp_path):
    assert call("fit", "mixture", tmp_path / "nowhere.csv").exit_code == 2
    mistyped = run("fti")
    assert mistyped.returncode == 2
    assert one_error(mistyped.stderr)
    assert "'fit'" in mistyped.stderr


def test_progress_is_shown_on_a_terminal_alone(call, on_terminal, tmp_path):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(30_000, 3)))
    status, shown = on_terminal("fit", "mixture", "rows.npy", "-k", "2", "-o", "m.im")
    assert status == 0
    assert "pass 1" in shown
    assert "rows" in shown
    silent = call("fit", "mixture", tmp_path / "rows.npy", "-k", "2", "-o", tmp_path / "m.im")
    assert (silent.exit_code, silent.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_an_output_that_is_full_is_named(models):
    for arguments in (["--help"], ["sample", str(models["mixture"])]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*COMMAND, *arguments], check=False, stdout=full, stderr=subprocess.PIPE, text=True
            )
        assert done.returncode == 1
        assert one_error(done.stderr)
        assert os.strerror(errno.ENOSPC) in done.stderr


def test_a_process_without_streams(models):
    def closed(typed, streams):
        shell = f'exec "$0" -m implicitmoments {typed} {streams}'
        command = ["bash", "-c", shell, sys.executable]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    assert closed("--help", ">&-").returncode == 0
    done = closed(f"predict '{models['mixture']}' -", "<&-")
    assert done.returncode == 2
    assert one_error(done.stderr)
