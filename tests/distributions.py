"""Build a wheel and an sdist, and use each in an empty environment.

``make dist-check`` runs it, with the extra ``release``. The wheel is built from the sdist, so that
a file that the sdist lacks is noticed. The files stay in dist/.
"""

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "examples/data/people.csv"


def run(*words):
    print("$", *words, flush=True)
    subprocess.run([str(word) for word in words], check=True)


def check(path, folder):
    """Install a distribution without extras and use it, then with the command line."""
    venv.create(folder, clear=True, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    for extra, options in (("", []), ("[cli]", ["--command", DATA])):
        run(python, "-m", "pip", "install", "--quiet", f"{path}{extra}")
        run(python, "-I", ROOT / "tests/smoke.py", *options)
    run(python, "-m", "pip", "check")


def main():
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", dist, ROOT)
    paths = sorted(dist.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *paths)
    with tempfile.TemporaryDirectory() as name:
        for path in paths:
            check(path, Path(name) / "environment")


if __name__ == "__main__":
    main()
