"""Run the tests five times, each under conditions that a test must not depend on.

``make stress`` runs them all, and ``make stress TESTS=tests/cli`` some. Every run has a random
order of its own, which is printed and can be repeated.
"""

import argparse
import secrets
import shlex
import subprocess
import sys
from contextlib import ExitStack, contextmanager

from joblib import cpu_count

NOHUP = ["nohup"]
# a shell that reads a script has no job control: what it starts in the background ignores SIGINT
BACKGROUND = ["sh", "-c", '"$@" & wait $!', "sh"]
CONDITIONS = {
    "in random order": ([], False),
    "under load": ([], True),
    "in the background": (BACKGROUND, False),
    "under nohup": (NOHUP, False),
    "under nohup, in the background and under load": ([*NOHUP, *BACKGROUND], True),
}
BUSY = "while True: sum(range(100_000))"


@contextmanager
def load():
    """Keep every processor that the tests may use busy twice over."""
    with ExitStack() as stack:
        for _ in range(2 * cpu_count()):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            stack.callback(busy.kill)
        yield


def run(arguments, condition):
    """Run the tests under a condition; return whether they passed."""
    before, loaded = CONDITIONS[condition]
    seed = ["--order", str(secrets.randbelow(10**6))]
    command = [*before, sys.executable, "-m", "pytest", *seed, *arguments]
    print(f"== {condition}: {shlex.join(command)}", flush=True)
    with ExitStack() as stack:
        if loaded:
            stack.enter_context(load())
        # a pipe, since nohup would write to a file what goes to a terminal
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        tests = stack.enter_context(subprocess.Popen(command, **how, text=True))
        for line in tests.stdout:
            print(line, end="", flush=True)
    return tests.returncode == 0


def main():
    """Run the tests under every condition, and say which failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=CONDITIONS, action="append", help="these conditions")
    chosen, arguments = parser.parse_known_args()
    failed = [each for each in chosen.only or CONDITIONS if not run(arguments, each)]
    print(f"failed: {'; '.join(failed)}" if failed else "all passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
