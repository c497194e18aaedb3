"""Attacks: kills, lost workers, malformed files, large files, and what else should not matter.

Run: python benchmarks/attack.py NAME [options]; python benchmarks/attack.py NAME --help

Each attack is a module of benchmarks/attacks, which describes it. Tables are in Markdown; the exit
status is 1 if anything went wrong.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

ATTACKS = ("files", "fuzz", "kills", "threads", "units", "workers")


def main() -> None:
    """Run from the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("name", choices=ATTACKS)
    name = parser.parse_args(sys.argv[1:2]).name
    # only this module: others import libraries that this attack may do without
    module = import_module(f"attacks.{name}")
    own = argparse.ArgumentParser(
        prog=f"{parser.prog} {name}", description=module.__doc__, formatter_class=raw
    )
    module.add_options(own)
    sys.exit(bool(module.attack(own.parse_args(sys.argv[2:]))))


if __name__ == "__main__":
    main()
