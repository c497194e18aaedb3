"""A fit of every estimator, for attacks: files of rows of any length, and processes that fit them.

A process is a command of benchmarks/attack.py; it prints one line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

import implicitmoments as im

Floats = np.ndarray[Any, np.dtype[np.float64]]

SCRIPT = Path(__file__).parents[1] / "attack.py"
D, PIECE = 20, 100_000
LABELLED = ("RegressionMixture", "RegressionMixtureDensity", "ActivationSumRegressor")
CASES: dict[str, dict[str, Any]] = {
    "SphericalMixture": {"n_components": 5},
    "GaussianMixture": {"n_components": 5},
    "SphericalMixtureDensity": {"n_components": 3},
    "SphericalMixtureClusterer": {"n_components": 5},
    "RegressionMixture": {"n_components": 3},
    "RegressionMixtureDensity": {"n_components": 3},
    "ActivationSumRegressor": {"activation": "relu", "n_components": 3},
}


def make_model(name: str, rows_per_block: int | None = None) -> Any:
    """Return an estimator with its parameters."""
    return getattr(im, name)(**CASES[name], random_state=0, rows_per_block=rows_per_block)


def where_labels_are(name: str) -> int | None:
    """Return the column of the labels in a file of rows, or None if there is none."""
    return D if name in LABELLED else None


def draw_rows(name: str, n: int, piece: int) -> Floats:
    """Return the n rows of one piece, with a column of labels if the estimator takes them."""
    rng = np.random.default_rng(20)
    k = int(CASES[name]["n_components"])
    far = 1.2 if name == "SphericalMixtureDensity" else 7.0
    vectors = rng.normal(size=(k, D))
    vectors *= far / np.linalg.norm(vectors, axis=1, keepdims=True)
    rng = np.random.default_rng([20, piece])
    rows, which = rng.normal(size=(n, D)), rng.integers(k, size=n)
    if name not in LABELLED:
        return np.asarray(rows + vectors[which])
    if name == "ActivationSumRegressor":
        labels = np.maximum(rows @ vectors.T / far, 0).sum(axis=1)
    else:
        labels = np.sum(rows * vectors[which], axis=1) / far
    return np.column_stack([rows, labels + 0.3 * rng.normal(size=n)])


def write_rows(name: str, path: Path, n: int) -> None:
    """Write n rows to a .npy file."""
    columns = D + (name in LABELLED)
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (n, columns)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, PIECE):
            draw_rows(name, min(PIECE, n - start), start // PIECE).tofile(file)


def digest(model: Any) -> str:
    """Return a digest of all arrays and numbers of a fitted model, without those of time."""
    bits = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        im.save(model, Path(folder) / "model")
        arrays: dict[str, Any] = load_file(Path(folder) / "model")
    numbers = {n: v for n, v in vars(model).items() if isinstance(v, float | int)}
    for name, value in sorted((arrays | numbers).items()):
        bits.update(name.encode() + np.asarray(value).tobytes())
    return bits.hexdigest()


def peak_memory() -> float:
    """Return the peak of the resident memory of this process, in MB.

    Not ``getrusage``, which includes the memory of the parent process.
    """
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**10


def report(**values: Any) -> None:
    """Print a line for the parent process."""
    print(json.dumps(values), flush=True)


def child(*arguments: object, **environment: str) -> dict[str, Any]:
    """Run benchmarks/attack.py in a separate process, and read its last line."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))
