"""Gaussian mixtures of real data, beside scikit-learn and mclust.

For each data set and covariance type, with as many components as there are classes: total
log-likelihood of all rows, BIC (p log n − 2 log L, lower is better), adjusted Rand index, rows of
the smallest component, and seconds, of ``im.GaussianMixture``, of scikit-learn from 20 starts and
of mclust. Fits of this library are repeated with other seeds, and each is compared. Then what
``"auto"`` chooses beside mclust's choice. Run as

    OMP_NUM_THREADS=1 python benchmarks/real_data.py --write docs/real_data.md

R with mclust, MASS and mlbench has most of the sets; without it, those of scikit-learn are fitted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
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
    Data,
    Fit,
    export_from_r,
    fit_mclust,
    fit_ours,
    fit_peer,
    load,
)

Sets: TypeAlias = dict[str, dict[str, dict[str, Fit]]]  # by set, type and tool
OURS, PEER, MCLUST = "GaussianMixture", "scikit-learn", "mclust"
AS_GOOD = 2.0  # nats


def compare(data: Data, seed: int, seeds: int, *, with_r: bool) -> dict[str, Any]:
    """Return all figures of a data set, as numbers and texts."""
    said: dict[str, dict[str, Fit]] = {}
    peers = fit_mclust(data, seed) if with_r else {}
    for kind in (*data.types, "auto"):
        auto = kind == "auto"
        fits = {
            OURS: fit_ours(data, kind, "auto" if auto else data.k, seed),
            PEER: None if auto else fit_peer(data, kind, seed),
            MCLUST: peers.get(kind),
        }
        for other in [] if auto else range(seed + 1, seed + seeds):
            fits[f"{OURS}, seed {other}"] = fit_ours(data, kind, data.k, other)
        said[kind] = {tool: fit for tool, fit in fits.items() if fit is not None}
    n, d = data.X.shape
    return {
        "n": n,
        "d": d,
        "k": data.k,
        "classes": data.labels is not None,
        "rows": data.rows_in_all,
        "constant": data.constant,
        "fits": {kind: {t: asdict(f) for t, f in fits.items()} for kind, fits in said.items()},
    }


def versions(mclust: str | None) -> str:
    """Return the date and the versions of what was compared."""
    said = f"{date.today()}: NumPy {np.__version__}, scikit-learn {sklearn.__version__}"
    return said + (f", mclust {mclust}" if mclust else "")


def tables(results: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of all tables in Markdown."""
    sets = {
        name: {
            kind: {tool: Fit(**fit) for tool, fit in fits.items()}
            for kind, fits in results[name]["fits"].items()
        }
        for name in (*SHIPPED, *IN_R)
        if name in results
    }
    yield from summary(sets)
    yield "; ".join(sorted({results[name]["versions"] for name in sets})) + "."
    yield ""
    yield from choices(results, sets)
    for name, kinds in sets.items():
        yield from one_set(results[name], name, kinds)


def own(fits: dict[str, Fit]) -> list[Fit]:
    """Return the fits of this library, one for each seed."""
    return [fit for tool, fit in fits.items() if tool.startswith(OURS)]


def comparisons(sets: Sets, tool: str) -> Iterator[tuple[str, Fit, Fit]]:
    """Yield set and type, and fits of this library, one for each seed, and of another one."""
    for name, kinds in sets.items():
        for kind, fits in kinds.items():
            if kind != "auto" and tool in fits:
                for fit in own(fits):
                    yield f"{name} {kind}", fit, fits[tool]


def verdict(ours: Fit, other: Fit) -> str:
    """Return which of two fits has the higher likelihood, and whether by a collapsed component."""
    gap = ours.log_likelihood - other.log_likelihood
    if abs(gap) <= AS_GOOD:
        return "equal"
    if gap > 0:
        return "higher, ours collapsed" if ours.collapsed else "higher"
    return "lower, theirs collapsed" if other.collapsed else "lower"


VERDICTS = ("higher", "equal", "lower", "higher, ours collapsed", "lower, theirs collapsed")


def summary(sets: Sets) -> Iterator[str]:
    """Yield how often this library has the higher likelihood, and where it has the lower."""
    yield "## In short"
    yield ""
    yield f"| log-likelihood, compared with | fits | {' | '.join(VERDICTS)} |"
    yield "|---" * (2 + len(VERDICTS)) + "|"
    below = []
    for tool in (PEER, MCLUST):
        counts, gaps = dict.fromkeys(VERDICTS, 0), dict[str, list[float]]()
        for name, ours, other in comparisons(sets, tool):
            counts[verdict(ours, other)] += 1
            if verdict(ours, other) == "lower":
                gap = other.log_likelihood - ours.log_likelihood
                gaps.setdefault(name, []).append(gap)
        cells = " | ".join(str(count) for count in counts.values())
        yield f"| {tool} | {sum(counts.values())} | {cells} |"
        cases = "; ".join(f"{name} {max(gap):,.1f} ({len(gap)})" for name, gap in gaps.items())
        below.append(f"Lower than {tool}, at most nats (number of seeds): {cases or 'none'}.")
    yield ""
    for line in below:
        yield line
        yield ""
    pairs = {name: kinds["auto"] for name, kinds in sets.items() if MCLUST in kinds["auto"]}
    above = [name for name, fits in pairs.items() if fits[OURS].bic > fits[MCLUST].bic + AS_GOOD]
    where = f", higher on {', '.join(above)}" if above else ""
    yield (
        f'With `"auto"`, BIC is at most that of mclust\'s choice on {len(pairs) - len(above)} of '
        f"{len(pairs)} sets{where}."
    )
    yield ""


def choices(results: dict[str, Any], sets: Sets) -> Iterator[str]:
    """Yield the table of chosen types and numbers of components."""
    yield '## Choice of type and number ("auto")'
    yield ""
    yield "| set | classes | `GaussianMixture` | BIC | Rand | s | mclust | BIC | Rand | s |"
    yield "|---" * 10 + "|"
    for name, kinds in sets.items():
        cells = [f"[{name}](#{name})"]
        cells.append(str(results[name]["k"]) if results[name]["classes"] else "none")
        for tool in (OURS, MCLUST):
            fit = kinds["auto"].get(tool)
            cells += (
                [f"{fit.kind} {fit.k}", f"{fit.bic:,.0f}{_mark(fit)}", _rand(fit), _time(fit)]
                if fit
                else [""] * 4
            )
        yield "| " + " | ".join(cells) + " |"
    yield ""


def one_set(result: dict[str, Any], name: str, kinds: dict[str, dict[str, Fit]]) -> Iterator[str]:
    """Yield the table of one set: a row per type, in each cell the tools in their order."""
    rows = f"{result['n']:,} rows"
    if result["rows"] > result["n"]:
        rows = f"{result['n']:,} random rows of {result['rows']:,}"
    constant = f", {result['constant']} constant columns left out" if result["constant"] else ""
    yield f"### {name}"
    yield ""
    columns = "1 column" if result["d"] == 1 else f"{result['d']} columns"
    yield f"{rows}, {columns}{constant}, $k = {result['k']}$."
    yield ""
    tools = "scikit-learn | mclust"
    heads = f"log-likelihood: ours | other seeds | {tools}"
    yield f"| type | {heads} | BIC: ours | {tools} | Rand | smallest, rows | s |"
    yield "|---" * 11 + "|"
    for kind, fits in kinds.items():
        if kind == "auto":
            continue
        by_tool = [fits.get(tool) for tool in (OURS, PEER, MCLUST)]
        seeds = " / ".join(f"{f.log_likelihood:,.1f}{_mark(f)}" for f in own(fits)[1:])
        levels = [f"{f.log_likelihood:,.1f}{_mark(f)}" if f else "–" for f in by_tool]
        cells = [kind, levels[0], seeds, *levels[1:]]
        cells += [f"{f.bic:,.1f}" if f else "–" for f in by_tool]
        cells.append(" / ".join(_rand(f) for f in by_tool))
        cells.append(" / ".join(f"{f.smallest:.0f}" if f else "–" for f in by_tool))
        cells.append(" / ".join(_time(f) for f in by_tool))
        yield "| " + " | ".join(cells) + " |"
    yield ""


def _mark(fit: Fit) -> str:
    return " †" if fit.collapsed else ""


def _rand(fit: Fit | None) -> str:
    return "–" if fit is None or fit.rand is None else f"{fit.rand:.2f}"


def _time(fit: Fit | None) -> str:
    return "–" if fit is None else f"{fit.seconds:.1f}"


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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3, help="fits of this library")
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
    with tempfile.TemporaryDirectory() as folder:
        wanted = [] if options.tables else list(options.sets or (*SHIPPED, *IN_R))
        version = export_from_r(Path(folder)) if wanted else None
        for name in wanted:
            if version is None and name not in SHIPPED:
                continue
            print(f"{name} ...", file=sys.stderr, flush=True)
            data = load(name, Path(folder), options.rows, options.seed)
            found = compare(data, options.seed, options.seeds, with_r=version is not None)
            results[name] = found | {"versions": versions(version)}
            if options.results:
                options.results.write_text(json.dumps(results, indent=1))
    text = "\n".join(tables(results))
    print(text)
    if options.write:
        replace_tables(options.write, text)


if __name__ == "__main__":
    main()
