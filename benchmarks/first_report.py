"""Seconds from a clone of the repository to a report of a CSV file, step by step.

    python benchmarks/first_report.py [FILE --columns A,B,C]

Clones the repository that the script is in, makes an environment, installs the library with its
command line, fits a mixture with number and shape chosen, and writes a report. The file is
``examples/data/people.csv`` by default. Packages are fetched as pip is configured to.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
PEOPLE = ROOT / "examples" / "data" / "people.csv"


def main() -> None:
    """Print a table of the steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, default=PEOPLE)
    parser.add_argument("--columns", default="height_cm,weight_kg,age,sleep_h")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone, bin_ = Path(folder, "clone"), Path(folder, "venv", "bin")
        chosen = ("--columns", given.columns, "-k", "auto", "--covariance", "auto")
        command, file = str(bin_ / "implicitmoments"), str(given.file.resolve())
        steps = {
            "clone": ("git", "clone", "--quiet", str(ROOT), str(clone)),
            "environment": (sys.executable, "-m", "venv", str(bin_.parent)),
            "installation": (str(bin_ / "pip"), "install", "--quiet", f"{clone}[cli]"),
            "fit": (command, "fit", "mixture", file, *chosen, "-o", "model.im", "-q"),
            "report": (command, "report", "model.im", file, "-o", "report.html", "-q"),
        }
        print(f"{os.cpu_count()} cores\n\n| step | s |\n|---|---|")
        begin = perf_counter()
        for name, words in steps.items():
            clock = perf_counter()
            subprocess.run(words, cwd=folder, check=True, stderr=subprocess.DEVNULL)
            print(f"| {name} | {perf_counter() - clock:.1f} |", flush=True)
        print(f"| in all | {perf_counter() - begin:.1f} |")


if __name__ == "__main__":
    main()
