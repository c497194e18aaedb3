"""Hostile files of every kind, read in child processes: a crash is one of the outcomes."""

from __future__ import annotations

import codecs
import json
import os
import platform
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zarr

from attacks.fuzzing.arrays import write_npy
from attacks.fuzzing.changes import pick
from attacks.fuzzing.chunks import write_zarr
from attacks.fuzzing.reading import OPTIONS, Attempt, attempt
from attacks.fuzzing.tables import write_arrow, write_parquet
from attacks.fuzzing.texts import write_csv
from attacks.fuzzing.watch import Watch

__all__ = ["KINDS", "fuzz_readers", "read_batch", "read_one", "reports", "warm"]

KINDS = {
    "npy": write_npy,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "csv": write_csv,
    "zarr": write_zarr,
}
SCRIPT = Path(__file__).parents[2] / "attack.py"
BATCH = 1_000  # inputs of one child
WARMING = 60  # inputs before those that count
ROOM = 3 * 2**30  # of address space, beyond what a child has when it begins
ENCODINGS = ("utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le")  # JSON looks for them
READY = {"number": -1}  # the inputs that count begin
HUNG = "hung, and could not be interrupted"
HARMLESS = frozenset({"os.listdir", "os.scandir"})


def read_batch(kind: str, numbers: range, seed: int, limit: float) -> None:
    """Read some inputs, and print a line of JSON about each: what a child does."""
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as name:
        spool, folder = Path(name) / "spool", Path(name) / "files"
        spool.mkdir()
        tempfile.tempdir = str(spool)
        warm(Watch(), limit, folder, [kind])
        watch = Watch(everywhere=True, spool=str(spool), allowed=HARMLESS)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
        n_open = len(os.listdir("/proc/self/fd"))
        print(json.dumps(READY), flush=True)
        for number in numbers:
            report = read_one(kind, number, seed, watch, limit, folder)
            if not report["wrong"] and os.listdir(spool):
                report |= {"wrong": "left_behind", "detail": str(os.listdir(spool))}
            if not report["wrong"] and len(os.listdir("/proc/self/fd")) > n_open + 20:
                report |= {"wrong": "left_open"}
            print(json.dumps(report), flush=True)


def warm(idle: Watch, limit: float, folder: Path, kinds: Sequence[str] = tuple(KINDS)) -> None:
    """Read a few inputs, so that what is imported on first use is imported."""
    for encoding in ENCODINGS:
        codecs.lookup(encoding)
    for kind in kinds:
        for number in range(WARMING):
            read_one(kind, number, 10**6, idle, limit, folder)


def read_one(
    kind: str, number: int, seed: int, watch: Watch, limit: float, folder: Path
) -> dict[str, Any]:
    """Make one input, and read it under watch; the numbers say which."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    how, path = KINDS[kind](folder, rng)
    there = sorted(folder.rglob("*"))
    done = attempt(path, pick(OPTIONS, rng), watch, limit)
    report = {"number": number, "how": how, **asdict(done)}
    if not report["wrong"] and sorted(folder.rglob("*")) != there:
        report |= {"wrong": "left_behind"}
    return report


def reports(
    kind: str, numbers: range, seed: int, limit: float, script: Path = SCRIPT
) -> Iterator[dict[str, Any]]:
    """Yield the outcome of each input, in child processes one after the other.

    If a child ends early or is silent for too long, the input after the last one it reported is
    the cause. The next child continues after it.
    """
    first = numbers.start
    while first < numbers.stop:
        batch = range(first, min(first + BATCH, numbers.stop))
        command = [sys.executable, str(script), "fuzz", "readers"]
        command += ["--child", "--kind", kind, "--first", str(first), "--inputs", str(len(batch))]
        command += ["--seed", str(seed), "--limit", str(limit)]
        with tempfile.TemporaryFile() as said:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as child:
                ended, ready = "", False
                for line in _lines(child, limit):
                    if isinstance(line, str):
                        ended = line
                        break
                    if line == READY:
                        ready = True
                        continue
                    first = line["number"] + 1
                    yield line
                child.kill()
            said.seek(0)
            words = said.read().decode(errors="replace").strip()
        if first < batch.stop:
            ended = ended or f"the process ended with status {child.returncode}"
            if not ready:
                yield _report(first, "never_started", f"{ended}: {words[-1500:]}")
                return
            code = "hung" if ended == HUNG else "crashed"
            yield _report(first, code, f"{ended}: {words[-1500:]}")
            first += 1
        elif words:
            yield _report(batch.stop - 1, "printed", words[-1500:])


def _report(number: int, wrong: str, detail: str) -> dict[str, Any]:
    done = Attempt("crash", wrong, detail, seconds=0.0, grown_mb=0.0)
    return {"number": number, "how": "", **asdict(done)}


def _lines(child: Any, limit: float) -> Iterator[dict[str, Any] | str]:
    """Yield the reports of a child, and a message if it is silent for too long."""
    left, patience = b"", 120.0  # the first files are read without watch
    while True:
        if not select.select([child.stdout], [], [], patience)[0]:
            yield HUNG
            return
        patience = 5 * limit
        got = os.read(child.stdout.fileno(), 2**16)
        if not got:
            return
        *whole, left = (left + got).split(b"\n")
        yield from (json.loads(line) for line in whole)


def fuzz_readers(kinds: Sequence[str], numbers: range, seed: int, limit: float) -> int:
    """Print the outcomes; return the number of failures."""
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, pyarrow {pa.__version__}, "
    )
    print(f"Zarr {zarr.__version__}, {len(numbers)} inputs of each kind, seed {seed}\n")
    print("| file | made by changing | rows | ValueError | TypeError | OSError | slowest, ms |")
    print("|---|---|---|---|---|---|---|")
    wrong: list[str] = []
    most, n_inputs = 0.0, 0
    for kind in kinds:
        outcomes, slowest = Counter[tuple[str, str]](), dict[str, float]()
        for report in reports(kind, numbers, seed, limit):
            how, outcome = report["how"], report["outcome"]
            if report["wrong"]:
                wrong.append(
                    f"{kind}, input {report['number']} ({how}): {report['wrong']}, "
                    f"{report['detail']}"
                )
            outcomes[how, outcome] += 1
            n_inputs += 1
            slowest[how] = max(slowest.get(how, 0.0), report["seconds"])
            most = max(most, report["grown_mb"])
        for how in sorted(slowest):
            counts = [outcomes[how, c] for c in ("rows", "ValueError", "TypeError", "OSError")]
            print(f"| {kind} | {how} | {' | '.join(map(str, counts))} ", end="")
            print(f"| {1e3 * slowest[how]:.0f} |", flush=True)
    print(f"\n{n_inputs} inputs, {len(wrong)} wrong. Most memory for one input: {most:.0f} MB.")
    for words in wrong:
        print(f"- {words}")
    return len(wrong)
