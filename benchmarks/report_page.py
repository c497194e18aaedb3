"""Size of reports, and checks of them in headless Chromium.

    python benchmarks/report_page.py [--rows 1000000]

One report each of three groups, of 60, of lines, of scaled columns and of a number chosen by BIC,
and one of a CSV file of many rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import implicitmoments as im
from implicitmoments.report import write_report
from page_checks import CHROMIUM, PDFTOTEXT, look, print_faults, print_sheets

PHONE, DESK = 390, 1200  # pixels


def write_table(path: Path, names: list[str], rows: Any) -> Path:
    """Write rows as CSV."""
    np.savetxt(path, rows, delimiter=",", header=",".join(names), comments="", fmt="%.5g")
    return path


def cases(folder: Path, many: int, seed: int) -> Iterator[tuple[str, Path, float]]:
    """Yield a name, a report, and the seconds of processor time that writing it took."""
    rng = np.random.default_rng(seed)
    units = np.array([10.0, 15_000.0, 12.0, 1.0])

    def mixture(n: int, k: int) -> Any:
        radius = 8.0 if k < 10 else 20.0
        X, _ = im.datasets.make_spherical_mixture(
            n, k, 4, radius=radius, separation=5.0, random_state=seed
        )
        return X * units + 5 * units

    names = ["age", "income", "hours", "rooms"]
    path = write_table(folder / "many.csv", names, mixture(many, 6))
    yield (
        f"{many:,} rows",
        *timed(im.GaussianMixture(6, covariance_type="diag", random_state=0), path),
    )
    frames: dict[str, tuple[Any, int | str]] = {
        "3 groups": (mixture(900, 3), 3),
        "60 groups": (mixture(6_000, 60) / units, 60),
    }
    frames["number by BIC"] = (mixture(900, 4) / units, "auto")
    for name, (X, k) in frames.items():
        path = write_table(folder / f"{len(X)}-{k}.csv", names, X)
        yield name, *timed(im.GaussianMixture(k, covariance_type="diag", random_state=0), path)
    X, y, _ = im.datasets.make_regression_mixture(900, 3, 2, noise=0.3, random_state=seed)
    model = im.RegressionMixture(3, random_state=0)
    path = write_table(folder / "lines.csv", ["price", "ads", "units"], np.column_stack([X, y]))
    yield "lines", *timed(model, path, "units")
    wide = np.hstack([mixture(900, 3), rng.normal(size=(900, 20))])
    heads = [*names, *(f"answer {j}" for j in range(20))]
    path = write_table(folder / "wide.csv", heads, wide)
    yield "24 columns", *timed(im.GaussianMixture(3, covariance_type="diag", random_state=0), path)


def timed(model: Any, path: Path, target: str | None = None) -> tuple[Path, float]:
    """Fit a model to a file, and write its report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", im.AssumptionWarning)
        model.fit(path, target)
    clock = time.process_time()
    page = write_report(model, path, target, path=path.with_suffix(".html"))
    return page, time.process_time() - clock


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=71)
    arguments = parser.parse_args()
    if CHROMIUM is None or PDFTOTEXT is None:
        parser.error("chromium and pdftotext have to be on the path")
    print(
        "| report of | kB | s | pictures | console errors | width at 390 px | unlabelled | sheets "
        "| print faults |\n|---|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, page, seconds in cases(folder, arguments.rows, arguments.seed):
            phone, console = look(page, folder / "profile", PHONE)
            desk, more = look(page, folder / "profile", DESK)
            sheets = print_sheets(page, folder / "profile")
            faults = print_faults(page.read_text("utf-8"), sheets)
            cells = [
                what,
                f"{page.stat().st_size / 1e3:,.0f}",
                f"{seconds:.1f}",
                len(phone["pictures"]),
                len(console + more),
                phone["scroll"],
                len(phone["unlabelled"] + desk["unlabelled"]),
                len(sheets),
                "; ".join(f"{kind}: {own}" for kind, own in faults.items() if own) or 0,
            ]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
