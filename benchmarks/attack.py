"""Attacks: kills, lost workers, malformed files, large files, and what else should not matter.

Run: python benchmarks/attack.py NAME [options]; python benchmarks/attack.py NAME --help

Each attack is a module of benchmarks/attacks, which describes it. Tables are in Markdown; the exit
status is 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import sys

from attacks import files, fuzz, kills, threads, units, workers

ATTACKS = {
    "files": files,
    "fuzz": fuzz,
    "kills": kills,
    "threads": threads,
    "units": units,
    "workers": workers,
}


def main() -> None:
    """Run from the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    names = parser.add_subparsers(dest="name", required=True)
    for name, module in ATTACKS.items():
        module.add_options(names.add_parser(name, description=module.__doc__, formatter_class=raw))
    options = parser.parse_args()
    sys.exit(bool(ATTACKS[options.name].attack(options)))


if __name__ == "__main__":
    main()
