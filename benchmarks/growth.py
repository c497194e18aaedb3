"""Time and peak memory of the paper's recursion against m, d, k and N.

Run: python benchmarks/growth.py [--plot docs/figures/growth.svg]

Each row is a separate process, on one thread, on a spherical mixture whose rows are generated
on demand. Peak memory is that of all arrays of the run, by tracemalloc in a second run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from implicitmoments.datasets import random_directions
from implicitmoments.moments import implicit_moments
from implicitmoments.problems import SphericalMixtureProblem
from implicitmoments.rows import RowDraws


@dataclass(frozen=True)
class Setting:
    """One row: order m, features d, components k, rows N of each average."""

    m: int = 4
    d: int = 20
    k: int = 5
    n: int = 4_000

    def varied(self, name: str, value: int) -> Setting:
        """Return the setting with one number changed."""
        return Setting(**{**asdict(self), name: value})


BASE = Setting()
SWEEPS = {
    "m": [4, 6, 8, 12, 16],
    "d": [25, 50, 100, 200],
    "k": [5, 10, 15, 20],
    "n": [64_000, 128_000, 256_000],
}
START = {"m": BASE, "d": Setting(m=3, n=20_000), "k": Setting(m=3, n=20_000), "n": Setting(m=3)}
IMPOSSIBLE = Setting(m=12, d=50, k=5, n=4_000)


def run_one(setting: Setting) -> dict[str, float]:
    """Run the recursion once and measure it."""
    means = random_directions(setting.k, setting.d, radius=1.0, random_state=0)

    def rows_of_a_mixture(_: range, rng: RowDraws) -> Any:
        labels = rng.categorical(np.full(setting.k, 1 / setting.k))
        return means[labels] + rng.normal(setting.d)

    problem = SphericalMixtureProblem(rows_of_a_mixture)

    def run() -> float:
        clock = perf_counter()
        result = implicit_moments(
            problem,
            n_components=setting.k,
            order=setting.m,
            method="paper",
            n_samples=setting.n,
            random_state=0,
        )
        assert np.all(np.isfinite(result.spectra[-1]))
        return perf_counter() - clock

    seconds = run()
    tracemalloc.start()
    run()
    return {"seconds": seconds, "peak_mb": tracemalloc.get_traced_memory()[1] / 2**20}


def measure(setting: Setting, repeats: int) -> dict[str, float]:
    """Run in fresh processes; the fastest time and the median peak."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", json.dumps(asdict(setting))]
    runs = [
        json.loads(
            subprocess.run(command, env=environment, capture_output=True, check=True).stdout
        )
        for _ in range(repeats)
    ]
    return {
        "seconds": min(run["seconds"] for run in runs),
        "peak_mb": float(np.median([run["peak_mb"] for run in runs])),
    }


def exponent(values: list[int], measured: list[float]) -> float:
    """Slope of a straight line through logarithms."""
    return float(np.polyfit(np.log(values), np.log(measured), 1)[0])


def dense(setting: Setting) -> str:
    """Bytes of the dense moment of order 2m that the recursion looks at, as a power of ten."""
    return f"{8 * float(setting.d) ** (2 * setting.m):.0e} B"


def main() -> None:
    """Print the tables and write the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--plot", type=Path, help="file to draw the sweeps to")
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run_one(Setting(**json.loads(arguments.one)))))
        return
    print("| sweep | m | d | k | N | dense M_2m | seconds | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    curves: dict[str, list[dict[str, float]]] = {}
    for name, values in SWEEPS.items():
        settings = [START[name].varied(name, value) for value in values]
        curves[name] = [measure(setting, arguments.repeats) for setting in settings]
        for setting, row in zip(settings, curves[name], strict=True):
            print(line(name, setting, row), flush=True)
    print(line("impossible", IMPOSSIBLE, measure(IMPOSSIBLE, arguments.repeats)))
    print("\n| exponent of | m | d | k | N |\n|---|---|---|---|---|")
    for what in ("seconds", "peak_mb"):
        slopes = [
            exponent(values, [row[what] for row in curves[name]])
            for name, values in SWEEPS.items()
        ]
        print(f"| {what} | " + " | ".join(f"{slope:.2f}" for slope in slopes) + " |")
    if arguments.plot:
        draw(curves, arguments.plot)


def line(name: str, setting: Setting, row: dict[str, float]) -> str:
    """Write one row of the table."""
    return (
        f"| {name} | {setting.m} | {setting.d} | {setting.k} | {setting.n:,} | {dense(setting)} "
        f"| {row['seconds']:.2f} | {row['peak_mb']:.0f} |"
    )


def draw(curves: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Draw seconds and peak memory of every sweep, on logarithmic axes."""
    import matplotlib as mpl  # noqa: PLC0415 (only for the plot)

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, 4, figsize=(12, 3), sharey=True, layout="constrained")
    for axis, (name, rows) in zip(axes, curves.items(), strict=True):
        for what, style, label in (("seconds", "o-", "seconds"), ("peak_mb", "s--", "peak MB")):
            axis.loglog(SWEEPS[name], [row[what] for row in rows], style, label=label)
        axis.set_xticks(SWEEPS[name], [f"{value:,}" for value in SWEEPS[name]])
        axis.minorticks_off()
        axis.set_xlabel("N" if name == "n" else name)
        axis.grid(visible=True, alpha=0.2)
    axes[0].legend(frameon=False, loc="center right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    main()
