"""Ctrl-C, kill and a terminal that closes, at every stage of a process."""

import os
import signal
import subprocess
import sys
import time

import pytest

from implicitmoments.cli import Stopped, raise_on_signals

# runs the command line, and prints when it has begun; sends a signal when a module is imported
BEGUN = """
import os, signal, sys
from implicitmoments.cli import main

class Finder:
    def find_spec(self, name, *_):
        if name == "implicitmoments.cli.app":  # the first that main imports
            sys.stdout.write("begun\\n")
            sys.stdout.flush()
        if name == AT:
            os.kill(os.getpid(), NUMBER)

AT, NUMBER = sys.argv[1], int(sys.argv[2])
sys.meta_path.insert(0, Finder())
sys.argv[:3] = ["implicitmoments"]
main()
"""


# starts a command with signals ignored
IGNORE = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def begin(tmp_path, from_terminal):
    """Start a fit of rows from standard input that never ends."""
    (tmp_path / "temporary").mkdir()
    (tmp_path / "here").mkdir()
    made = []

    def start(at="nothing", number=2, before=(), arguments=("fit", "mixture", "-", "-k", "2")):
        python = [*from_terminal, *before, sys.executable, "-c", BEGUN]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*python, at, str(number), *arguments],
            cwd=tmp_path / "here",
            env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        made.append(process)
        assert process.stdout.readline() == "begun\n"
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()


def copied(process, folder):
    """Wait until rows from standard input are being copied to a temporary file."""
    while not any((folder / "temporary").glob("*/rows*")):
        assert process.poll() is None
        time.sleep(0.05)


def ended(process, number, folder):
    _, said = process.communicate()
    assert said.startswith("implicitmoments: error: ")
    assert said.count("\n") == 1
    assert process.returncode == 128 + number
    assert [*(folder / "here").iterdir(), *(folder / "temporary").iterdir()] == []


@pytest.mark.parametrize(
    "module",
    ["implicitmoments.cli.app", "typer", "numpy", "sklearn.base", "implicitmoments.saving"],
)
def test_an_interruption_while_modules_are_imported(module, begin, tmp_path):
    ended(begin(module), signal.SIGINT, tmp_path)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.4, 1.2])
def test_an_interruption_at_any_time(seconds, begin, tmp_path):
    process = begin()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    ended(process, signal.SIGINT, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_the_copy_of_standard_input_goes_with_the_process(number, begin, tmp_path):
    process = begin()
    process.stdin.write("a,b\n1,2\n")
    process.stdin.flush()
    copied(process, tmp_path)
    process.send_signal(number)
    process.send_signal(number)  # in a hurry
    ended(process, number, tmp_path)


def test_what_was_to_be_ignored_stays_ignored(begin, tmp_path):
    process = begin(before=(sys.executable, "-c", IGNORE))
    copied(process, tmp_path)
    for number in (signal.SIGINT, signal.SIGHUP):
        process.send_signal(number)
        time.sleep(0.2)
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    assert not any((tmp_path / "temporary").iterdir())


@pytest.mark.usefixtures("as_from_a_terminal")
def test_an_interruption_that_comes_as_another_error(call, data, monkeypatch, tmp_path):
    def import_badly(*_):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            raise ImportError("numpy failed to import") from None

    monkeypatch.setattr(
        "implicitmoments.cli.input_rows.open_file", lambda *_, **__: import_badly()
    )
    result = call("fit", "mixture", data / "rows.csv", "-o", tmp_path / "m.im")
    assert result.exit_code == 130
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("as_from_a_terminal")
def test_handlers_are_given_back_and_a_second_wish_is_the_first():
    before = signal.getsignal(signal.SIGTERM)
    with raise_on_signals() as came:
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert [each.code for each in came] == [143]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("as_from_a_terminal")
def test_handlers_of_the_caller_are_left_alone():
    def own(*_):
        pass

    before = signal.signal(signal.SIGTERM, own)
    try:
        with raise_on_signals():
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
