"""Results that a restructuring of the library must not change.

Run: python benchmarks/frozen.py write FILE
     python benchmarks/frozen.py compare FILE
     python benchmarks/frozen.py compare FILE --only "RegressionMixture"

``write`` computes every item and writes them to a JSON file; ``compare`` computes them again and
prints one line for each, old and new. It ends with status 1 if an item CHANGED, and takes a few
minutes on one thread. ``benchmarks/frozen.json`` holds the results to compare with.

Items are digests (predictions of every estimator on small data sets) and tables (small versions
of the settings of the other benchmarks). There are three kinds:

- numbers: "same" where they agree to 1e-9, relative, and "within margin" to 1e-6, or to 2e-3
  where a likelihood was maximised. The number that differs most is shown, with its position;
- searches: true components found, the log-likelihood of all rows, and in brackets its
  difference from that of EM from the truth. At most 2 nats less and no component fewer is no
  change (10 nats if the number of components is wrong, because maxima are then close together).
  If the number of components is chosen, −BIC/2 replaces the likelihood;
- losses, such as 1 − R² or a distance from the truth: at most a few per cent more.

Only public names of the library are used, so the script runs before and after a change.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from threadpoolctl import threadpool_limits

from freezing.digests import digests
from freezing.kinds import CHANGED, SAME, Items, compute, from_json, judge, to_json
from freezing.moments import moment_items
from freezing.tables import tables

PACKAGES = ("numpy", "scipy", "scikit-learn")


def chosen(only: str) -> Items:
    """Return the items whose name contains a text."""
    items = digests() | moment_items() | tables()
    return {name: item for name, item in items.items() if only in name}


def write(path: Path, items: Items) -> None:
    """Compute every item and write it."""
    kept = {}
    for name, item in items.items():
        clock = perf_counter()
        kept[name] = to_json(compute(item))
        print(f"{name}: {perf_counter() - clock:.1f} s", file=sys.stderr, flush=True)
    lines = ",\n".join(f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in kept.items())
    versions = json.dumps({name: version(name) for name in PACKAGES})
    path.write_text(
        f'{{\n"versions": {versions},\n"items": {{\n{lines}\n}}\n}}\n', encoding="utf-8"
    )


def compare(path: Path, items: Items, only: str) -> bool:
    """Print old and new results of every item; return whether none changed."""
    document = json.loads(path.read_text(encoding="utf-8"))
    then = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    now = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"old: {then}\nnew: {now}\n")
    print("| item | old | new | verdict |\n|---|---|---|---|")
    before = {name: old for name, old in document["items"].items() if only in name}
    counts: dict[str, int] = {}
    for name in [*items, *(name for name in before if name not in items)]:
        if name not in before:
            old, new, verdict = "", "", "new item"
        elif name not in items:
            old, new, verdict = "", "no such item", CHANGED
        else:
            old, new, verdict = judge(from_json(before[name]), compute(items[name]))
        key = verdict if verdict in {SAME, CHANGED, "new item"} else "within margin"
        counts[key] = counts.get(key, 0) + 1
        print(f"| {name} | {old} | {new} | {verdict} |", flush=True)
    print("\n" + ", ".join(f"{n} {what}" for what, n in counts.items()))
    return CHANGED not in counts


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="items whose name holds this text")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # settings are awkward on purpose
    clock, items = perf_counter(), chosen(given.only)
    with threadpool_limits(1):
        if given.what == "write":
            write(given.file, items)
            good = True
        else:
            good = compare(given.file, items, given.only)
    print(f"{len(items)} items, {perf_counter() - clock:.0f} s", file=sys.stderr)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
