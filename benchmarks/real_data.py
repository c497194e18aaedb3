"""Gaussian mixtures of real data, beside scikit-learn and mclust.

Each set is split at random, once per seed: 70 % of the rows are fitted, 30 % are held out. For
each covariance type, with as many components as there are classes: total log-likelihood of both,
adjusted Rand index of the rows fitted, where there are classes, and seconds of the processor, of
``im.GaussianMixture``, of scikit-learn from 1, 10 and 20 starts and of
mclust. Then what ``"auto"`` chooses for all rows beside mclust's choice. Run as

    OMP_NUM_THREADS=1 python benchmarks/real_data.py --write docs/real_data.md

R with mclust, MASS and mlbench has most of the sets; without it, those of scikit-learn are fitted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning

import implicitmoments as im
from real_fits import (
    IN_R,
    SHIPPED,
    STARTS,
    Data,
    Fit,
    Mixture,
    SplitFit,
    export_from_r,
    fit_mclust,
    fit_ours,
    fit_peer,
    judge,
    judge_split,
    load,
)
from spreads import spread
from verdicts import AS_GOOD, summary

Fits: TypeAlias = dict[str, list[SplitFit | None]]  # by tool; one fit per seed
OURS, MCLUST = "GaussianMixture", "mclust"
PEERS = {n: f"scikit-learn, {n} start{'s' if n > 1 else ''}" for n in STARTS}


def compare(data: Data, seed: int, *, with_r: bool) -> dict[str, dict[str, SplitFit | None]]:
    """Fit one split of the rows by every tool: figures by type, and by tool."""
    train, test = data.split(seed)
    in_r = fit_mclust(train, train.k, seed) if with_r else {}
    said = {}
    for kind in data.types:
        fits: dict[str, Mixture | None] = {OURS: fit_ours(train, kind, train.k, seed)}
        fits |= {PEERS[n]: fit for n, fit in fit_peer(train, kind, seed).items()}
        fits[MCLUST] = in_r.get(kind)
        said[kind] = {tool: judge_split(train, test, fit) for tool, fit in fits.items()}
    return said


def compare_all(data: Data, seeds: Sequence[int], *, with_r: bool) -> dict[str, Any]:
    """Return all figures of a data set, as numbers and texts."""
    splits = [compare(data, seed, with_r=with_r) for seed in seeds]
    fits = {
        kind: {tool: [figures_of(each[kind][tool]) for each in splits] for tool in tools}
        for kind, tools in splits[0].items()
    }
    chosen = {OURS: fit_ours(data, "auto", "auto", seeds[0])}
    chosen |= {MCLUST: fit_mclust(data, "auto", seeds[0])["auto"]} if with_r else {}
    n, d = data.X.shape
    return {
        "n": n,
        "d": d,
        "k": data.k,
        "classes": data.labels is not None,
        "rows": data.rows_in_all,
        "constant": data.constant,
        "fits": fits,
        "auto": {tool: asdict(judge(data, found)) for tool, found in chosen.items()},
    }


def figures_of(fit: SplitFit | None) -> dict[str, Any] | None:
    """Return a fit as a dictionary."""
    return None if fit is None else asdict(fit)


def versions(mclust: str | None) -> str:
    """Return the date and the versions of what was compared."""
    said = f"{date.today()}: NumPy {np.__version__}, scikit-learn {sklearn.__version__}"
    return said + (f", mclust {mclust}" if mclust else "")


def tables(results: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of all tables in Markdown."""
    sets = {
        name: {
            kind: {
                tool: [None if each is None else SplitFit(**each) for each in fits]
                for tool, fits in tools.items()
            }
            for kind, tools in results[name]["fits"].items()
        }
        for name in (*SHIPPED, *IN_R)
        if name in results
    }
    yield "## In short"
    yield ""
    settings = {f"{name} {kind}": sets[name][kind] for name in sets for kind in sets[name]}
    yield from summary(settings, [PEERS[max(STARTS)], MCLUST])
    autos = {
        name: {tool: Fit(**fit) for tool, fit in results[name]["auto"].items()} for name in sets
    }
    yield from compare_choices(autos)
    yield "; ".join(sorted({results[name]["versions"] for name in sets})) + "."
    yield ""
    yield from choices(results, autos)
    for name, kinds in sets.items():
        yield from one_set(results[name], name, kinds)


def compare_choices(autos: dict[str, dict[str, Fit]]) -> Iterator[str]:
    """Yield how often the choice of this library has the lower BIC."""
    both = {name: fits for name, fits in autos.items() if MCLUST in fits}
    above = [name for name, fits in both.items() if fits[OURS].bic > fits[MCLUST].bic + AS_GOOD]
    where = f", higher on {', '.join(above)}" if above else ""
    yield (
        f'With `"auto"`, BIC is at most that of mclust\'s choice on {len(both) - len(above)} of '
        f"{len(both)} sets{where}."
    )
    yield ""


def choices(results: dict[str, Any], autos: dict[str, dict[str, Fit]]) -> Iterator[str]:
    """Yield the table of chosen types and numbers of components."""
    yield '## Choice of type and number ("auto")'
    yield ""
    yield "| set | classes | `GaussianMixture` | BIC | Rand | s | mclust | BIC | Rand | s |"
    yield "|---" * 10 + "|"
    for name, fits in autos.items():
        cells = [f"[{name}](#{name})"]
        cells.append(str(results[name]["k"]) if results[name]["classes"] else "none")
        for tool in (OURS, MCLUST):
            cells += chosen_cells(fits[tool]) if tool in fits else [""] * 4
        yield "| " + " | ".join(cells) + " |"
    yield ""


def chosen_cells(fit: Fit) -> list[str]:
    """Return type and number, BIC, adjusted Rand index and seconds."""
    mark = " †" if fit.collapsed else ""
    rand = "–" if fit.rand is None else f"{fit.rand:.2f}"
    return [f"{fit.kind} {fit.k}", f"{fit.bic:,.0f}{mark}", rand, f"{fit.seconds:.1f}"]


def one_set(result: dict[str, Any], name: str, kinds: dict[str, Fits]) -> Iterator[str]:
    """Yield the table of one set: rows for the figures of each type, a column per tool."""
    rows = f"{result['n']:,} rows"
    if result["rows"] > result["n"]:
        rows = f"{result['n']:,} random rows of {result['rows']:,}"
    constant = f", {result['constant']} constant columns left out" if result["constant"] else ""
    yield f"### {name}"
    yield ""
    columns = "1 column" if result["d"] == 1 else f"{result['d']} columns"
    yield f"{rows}, {columns}{constant}, $k = {result['k']}$."
    yield ""
    heads = [f"`{OURS}`", *(tool for tool in next(iter(kinds.values())) if tool != OURS)]
    yield f"| type | figure | {' | '.join(heads)} |"
    yield "|---" * (2 + len(heads)) + "|"
    for kind, fits in kinds.items():
        for figure in ("fitted", "held out", "Rand", "s"):
            if figure != "Rand" or result["classes"]:
                cells = [cell(figure, fits[OURS], found) for found in fits.values()]
                yield f"| {kind} | {figure} | {' | '.join(cells)} |"
    yield ""


def cell(figure: str, ours: list[SplitFit | None], found: list[SplitFit | None]) -> str:
    """Return the median over seeds and the spread; likelihoods of others less those of ours."""
    there = [(a, b) for a, b in zip(ours, found, strict=True) if a is not None and b is not None]
    if not there:
        return "–"
    own = ours is found
    if figure == "fitted":
        text = spread([b.log_likelihood - (not own) * a.log_likelihood for a, b in there], 1)
        collapsed = sum(b.collapsed for _, b in there)
        text += f" †{collapsed}" if collapsed else ""
    elif figure == "held out":
        text = spread([b.held_out - (not own) * a.held_out for a, b in there], 1)
    elif figure == "Rand":
        text = spread([b.rand or 0.0 for _, b in there], 2)
    else:
        text = spread([b.seconds for _, b in there], 2)
    return text if len(there) == len(found) else f"{text}, {len(there)} of {len(found)} seeds"


def replace_tables(page: Path, text: str, section: str = "tables") -> None:
    """Replace what stands between the marks of a page."""
    begin, end = (f"<!-- {section}: {place} -->" for place in ("begin", "end"))
    before, found, rest = page.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"{page} has no place for tables; put {begin} and {end} into it")
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")


def main() -> None:
    """Fit the sets that were asked for, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=(*SHIPPED, *IN_R), help="all by default")
    parser.add_argument("--rows", type=int, default=5_000, help="most rows of a set")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=5, help="splits")
    parser.add_argument(
        "--results", type=Path, help="JSON file of figures, to which sets are added"
    )
    parser.add_argument("--tables", action="store_true", help="tables of --results, no fits")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", im.AssumptionWarning)
    results: dict[str, Any] = {}
    if options.results and options.results.exists():
        results = json.loads(options.results.read_text())
    seeds = range(options.first, options.first + options.seeds)
    with tempfile.TemporaryDirectory() as folder:
        wanted = [] if options.tables else list(options.sets or (*SHIPPED, *IN_R))
        version = export_from_r(Path(folder)) if wanted else None
        for name in wanted:
            if version is None and name not in SHIPPED:
                continue
            print(f"{name} ...", file=sys.stderr, flush=True)
            data = load(name, Path(folder), options.rows, options.first)
            found = compare_all(data, seeds, with_r=version is not None)
            results[name] = found | {"versions": versions(version)}
            if options.results:
                options.results.write_text(json.dumps(results, indent=1))
    text = "\n".join(tables(results))
    print(text)
    if options.write:
        replace_tables(options.write, text)


if __name__ == "__main__":
    main()
