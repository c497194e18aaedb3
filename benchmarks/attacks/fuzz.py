"""Readers and the loader on malformed and malicious files.

Run: python benchmarks/attack.py fuzz loader --inputs 10000
     python benchmarks/attack.py fuzz readers --inputs 10000
     python benchmarks/attack.py fuzz readers --kind zarr --first 312 --inputs 1

``loader`` gives ``implicitmoments.load`` files that were mutated byte by byte, with and without a
valid checksum, files with a rewritten header or document, and random bytes. Each must
give a model or a ModelFileError, within the time limit and without running code: an audit hook
records what is compiled, executed, started, connected to, imported or opened for writing.

``readers`` gives ``open_file`` as many .npy, Parquet, Arrow, CSV and Zarr files of each kind, or
of one. Each must give finite rows, the same in two passes, or one error of the library that
names the file, within limits of time and memory, without running code and without leaving files
behind. Child processes read them, because a failure of a reader in C ends its process.
"""

from __future__ import annotations

import argparse

from attacks.fuzzing.models import fuzz_loader
from attacks.fuzzing.readers import KINDS, fuzz_readers, read_batch


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this attack."""
    parser.add_argument("reader", choices=["loader", "readers"])
    parser.add_argument("--inputs", type=int, default=10_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=5.0, help="seconds an input may take")
    parser.add_argument("--kind", choices=list(KINDS), help="of file; all by default")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)


def attack(given: argparse.Namespace) -> int:
    """Print the outcomes; return the number of failures."""
    numbers = range(given.first, given.first + given.inputs)
    if given.child:
        read_batch(given.kind, numbers, given.seed, given.limit)
        return 0
    if given.reader == "loader":
        return fuzz_loader(given.inputs, given.seed, given.limit)
    kinds = [given.kind] if given.kind else list(KINDS)
    return fuzz_readers(kinds, numbers, given.seed, given.limit)
