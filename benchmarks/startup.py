"""Processor time of the import of an estimator and of each command, beside scikit-learn's."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

PEER = "import sklearn.mixture"
COMMAND = "import sys; sys.argv[1:] = {arguments!r}; from implicitmoments.cli import main; main()"
DATA = (
    "import sys, numpy as np, implicitmoments as im; "
    "X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0); "
    "np.savetxt('rows.csv', X, delimiter=',', header='a,b,c,d', comments=''); "
    "im.save(im.SphericalMixture(3, random_state=0).fit(X), 'model.im')"
)
COMMANDS = {
    "--help": ["--help"],
    "describe": ["describe", "model.im"],
    "sample": ["sample", "model.im", "-n", "100"],
    "predict": ["predict", "model.im", "rows.csv"],
    "score": ["score", "model.im", "rows.csv"],
    "fit": ["fit", "mixture", "rows.csv", "-k", "3", "-o", "again.im"],
    "report": ["report", "model.im", "rows.csv", "-o", "page.html"],
}
REPEATS = 7  # of which the median is printed


def seconds(code: str, folder: Path) -> float:
    """Return the processor time of a process that runs code, user and system."""
    cached = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    cached.pop("PYTHONDONTWRITEBYTECODE", None)  # as where a package is installed
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=cached, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure() -> None:
    """Print seconds, and their ratio to the import of scikit-learn measured in turn."""
    codes = {
        "import implicitmoments": "import implicitmoments",
        "im.SphericalMixture": "import implicitmoments as im; im.SphericalMixture",
        "im.load": "import implicitmoments as im; im.load",
    } | {name: COMMAND.format(arguments=each) for name, each in COMMANDS.items()}
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        seconds(DATA, folder)
        print("| what | processor time, s | ratio to import sklearn.mixture |\n|---|---|---|")
        for name, code in codes.items():
            for each in (code, PEER):  # compiles what is imported
                seconds(each, folder)
            pairs = [(seconds(code, folder), seconds(PEER, folder)) for _ in range(REPEATS)]
            own, ratio = median(a for a, _ in pairs), median(a / b for a, b in pairs)
            print(f"| {name} | {own:.2f} | {ratio:.2f} |", flush=True)
