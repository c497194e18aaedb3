"""Mixtures of regressions fitted by flexmix and mixtools (R)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
SCRIPT = Path(__file__).with_name("regressions.R")


class Lines(NamedTuple):
    """A mixture of regressions."""

    weights: Floats  # (k,)
    coef: Floats  # (k, 1 + d), the intercept first
    variances: Floats  # (k,), of the noise


class Asked(NamedTuple):
    """Which fit: the number of lines, "shared" or "separate" noise, and starts."""

    k: int
    noise: str
    starts: int


def fit_in_r(
    method: str,
    rows: tuple[Floats, Floats],
    seed: int,
    *,
    ks: Sequence[int],
    noises: Sequence[str] = ("separate",),
    starts: Sequence[int] = (1,),
    iterations: int = 500,
    limit: float | None = None,
) -> dict[Asked, tuple[float, Lines]]:
    """Fit every combination; return seconds, and the lines of the best of so many starts.

    None where no start has a fit, and none at all after ``limit`` seconds.
    """
    X, y = rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        path.write_bytes(X.T.astype("<f8").tobytes() + y.astype("<f8").tobytes())
        lists = [",".join(str(v) for v in values) for values in (ks, noises, starts)]
        numbers = [str(v) for v in X.shape], [str(iterations), str(seed)]
        command = ["Rscript", str(SCRIPT), method, str(path), *numbers[0], *lists, *numbers[1]]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=True
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return {}
    printed, found = iter(done.stdout.splitlines()), {}
    for head in printed:
        k, noise, n_starts, seconds = head.split()
        table = np.array([[float(v) for v in next(printed).split()] for _ in range(int(k))])
        lines = Lines(table[:, 0], table[:, 1:-1], table[:, -1] ** 2)
        found[Asked(int(k), noise, int(n_starts))] = (float(seconds), lines)
    return found


def r_packages() -> list[str]:
    """Return which of the R packages are installed."""
    if shutil.which("Rscript") is None:
        return []
    ask = 'cat(c("flexmix", "mixtools")[c(nzchar(system.file(package="flexmix")), nzchar('
    done = subprocess.run(
        ["Rscript", "-e", ask + 'system.file(package="mixtools")))])'],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split()
