"""A short use of the installed package, without pytest: ``make dist-check`` runs it.

``python -I tests/smoke.py`` uses the library, and with ``--command FILE`` the command line on a
CSV file too. It writes into a temporary folder.
"""

import argparse
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import implicitmoments as im


def use_library(folder):
    """Fit a model, save it, and read it again."""
    if im.__version__ != version("implicitmoments"):
        raise SystemExit(f"{im.__version__} is not the version of the package")
    X, _ = im.datasets.make_spherical_mixture(
        1_000, 3, 4, radius=6.0, separation=6.0, random_state=0
    )
    model = im.GaussianMixture(3, random_state=0).fit(X)
    im.save(model, folder / "model.im")
    if not np.array_equal(im.load(folder / "model.im").predict(X), model.predict(X)):
        raise SystemExit("a model answers otherwise after it was saved and loaded")
    begun = im.start(X, 3, covariance_type="spherical", random_state=0)
    if begun.means.shape != (3, 4):
        raise SystemExit(f"means of shape {begun.means.shape}")


def use_command(folder, data):
    """Fit a model to a CSV file, print it, and write a report."""
    columns = "height_cm,weight_kg,age,sleep_h"
    model, page = str(folder / "people.im"), folder / "report.html"
    for words in (
        ["fit", "mixture", data, "--columns", columns, "-k", "4", "-o", model],
        ["describe", model],
        ["report", model, data, "-o", str(page)],
    ):
        subprocess.run([sys.executable, "-I", "-m", "implicitmoments", *words], check=True)
    if not page.stat().st_size:
        raise SystemExit("the report is empty")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        use_library(Path(name))
        if options.command:
            use_command(Path(name), options.command)
    print(f"implicitmoments {im.__version__} works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
