"""Features of this library and its peers: the tables of docs/comparison.md, each cell tested.

Run: python benchmarks/features.py                              the tables
     python benchmarks/features.py --saw [ROW ...]              results of each probe
     python benchmarks/features.py --check docs/comparison.md   fail if the page differs

Needs: pip install "implicitmoments[cli,dask,peers]" tensorly array-api-strict pandas, and
R with flexmix, mixtools, mvtnorm, lme4 and glmnet (Debian: r-cran-flexmix and so on).
A missing package has no column and is not checked.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

from feature_probes import MIXTURE_ROWS, Cell

Found = dict[str, dict[str, Cell]]  # package, row, cell

MODULES = {
    "implicitmoments": "ours",
    "scikit-learn": "scikit_learn",
    "pomegranate": "pomegranate",
    "tensorly": "tensorly",
}
FITS_ROWS = ["implicitmoments", "scikit-learn", "pomegranate", "flexmix", "mixtools"]
EVERYONE = [*FITS_ROWS, "tensorly"]
TABLES: dict[str, tuple[list[str], list[str]]] = {
    "Models": (
        EVERYONE,
        [
            *MIXTURE_ROWS,
            "positive sums of a known activation",
            "density from moments, without components",
            "hidden Markov models, Bayesian networks",
            "implicit moments of high order",
            "more components than features, from moments",
            "decomposition of a given tensor",
            "Tucker, tensor train, tensor regression",
        ],
    ),
    "Fitting": (
        FITS_ROWS,
        [
            "initialisation",
            "multiple starts",
            "user-defined start",
            "EM",
            "stochastic or hard EM",
            "sample weights",
            "number of components",
            "criteria",
            "bootstrap test of the number of components",
            "standard errors",
            "outliers",
            "missing values",
            "components of small weight",
            "prior on parameters",
            "lower bound on variances",
            "fixed parameters",
            "semi-supervised",
            "prediction for new rows",
            "density of new rows",
            "sampling",
        ],
    ),
    "Data and hardware": (
        FITS_ROWS,
        [
            "incremental fits",
            "data in files",
            "resumes after an interruption",
            "other array libraries, GPU",
            "float32 in, float32 out",
            "Dask",
            "sparse data",
        ],
    ),
    "Tools": (
        FITS_ROWS,
        [
            "scikit-learn API",
            "data frames",
            "model files",
            "command line",
            "report",
            "plots",
            "data sets included",
        ],
    ),
    "The projects": (
        EVERYONE,
        [
            "version tested",
            "stated development status",
            "first year",
            "licence",
        ],
    ),
}


def probe_python(wanted: set[str]) -> Found:
    """Run the probes of the Python packages that are installed."""
    found: Found = {}
    for package, module in MODULES.items():
        try:
            probes = import_module(f"feature_probes.{module}").probes()
        except ModuleNotFoundError as error:
            print(f"{package} is skipped: {error}", file=sys.stderr)
            continue
        found[package] = {row: probe() for row, probe in probes.items() if row in wanted}
    return found


def probe_r() -> Found:
    """Run features.R, which prints package, row, cell and result, separated by tabs."""
    if shutil.which("Rscript") is None:
        print("flexmix and mixtools are skipped: Rscript is not installed", file=sys.stderr)
        return {}
    script = Path(__file__).with_name("features.R")
    done = subprocess.run(["Rscript", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: Found = {}
    for line in done.stdout.splitlines():
        package, row, cell, saw = line.split("\t")
        found.setdefault(package, {})[row] = (cell, saw)
    return found


def tables(found: Found) -> dict[str, list[str]]:
    """Return the lines of each table, for the packages that were probed."""
    written = {}
    for title, (columns, rows) in TABLES.items():
        there = [column for column in columns if column in found]
        lines = [f"| | {' | '.join(there)} |", "|---" * (len(there) + 1) + "|"]
        lines += [
            f"| {row} | {' | '.join(found[package][row][0] for package in there)} |"
            for row in rows
        ]
        written[title] = lines
    return written


def differences(page: str, found: Found) -> list[str]:
    """Return the cells in which a page and the probes differ, either way."""
    says = dict(cells_of(page.splitlines()))
    seen = dict(cells_of([line for lines in tables(found).values() for line in lines]))
    says = {key: cell for key, cell in says.items() if key[1] in found}
    return [
        f"{row}, {package}: the page says {says.get((row, package))!r},"
        f" the probe {seen.get((row, package))!r}"
        for row, package in sorted(says | seen)
        if seen.get((row, package)) not in {says.get((row, package)), "?"}
    ]


def cells_of(lines: list[str]) -> list[tuple[tuple[str, str], str]]:
    """Return row, package and text of every cell of the tables in a page."""
    cells = []
    columns: list[str] = []
    for line in lines:
        words = [word.strip() for word in line.strip().strip("|").split("|")]
        if not line.startswith("|") or set(line) <= set("|-"):
            continue
        if line.startswith("| |"):
            columns = words[1:]
        else:
            cells += [
                ((words[0], column), w) for column, w in zip(columns, words[1:], strict=True)
            ]
    return cells


def main() -> int:
    """Print the tables, the results of probes, or the differences from a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--saw", nargs="*", metavar="ROW", help="print the result of each probe")
    parser.add_argument("--check", type=Path, metavar="PAGE", help="fail if this page differs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["SCIPY_ARRAY_API"] = "1"  # scikit-learn takes torch tensors only with it
    every = {row for _, rows in TABLES.values() for row in rows}
    found = {**probe_python(set(options.saw or every)), **probe_r()}
    if options.saw is not None:
        for row in options.saw or sorted(every):
            print(f"\n{row}")
            for package in (p for p in EVERYONE if row in found.get(p, {})):
                cell, saw = found[package][row]
                print(f"  {package}: {cell}: {' '.join(saw.split())}")
        return 0
    if options.check is None:
        for title, lines in tables(found).items():
            print(f"\n## {title}\n", *lines, sep="\n")
        return 0
    wrong = differences(options.check.read_text(encoding="utf-8"), found)
    print(*wrong, f"{len(wrong)} cells differ; packages tried: {', '.join(found)}", sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
