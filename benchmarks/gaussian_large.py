"""Full covariances on many rows: in memory, on a GPU, and from a file larger than memory.

Run: OMP_NUM_THREADS=1 python benchmarks/gaussian_large.py memory [--rows 1000000]
     python benchmarks/gaussian_large.py device [--rows 1000000] [--library torch|cupy]
     python benchmarks/gaussian_large.py file [--gigabytes 10] [--folder DIR]

k = 50 components in d = 20 features, at least 3.5 deviations apart. ``memory`` compares
``GaussianMixture`` with one start of scikit-learn in one run, and both with EM from
the truth; seconds are of the processor. ``device`` compares the fit of rows on the GPU with that
of the same rows on the host. ``file`` writes a .npy file, fits it in a separate process, and
prints the peak of its resident memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im
from gaussian_mixtures import Floats, Setting, Truth, draw, from_truth
from implicitmoments.arrays import to_numpy
from scale import peak_memory

K, D = 50, 20
BATCH = 200_000  # rows that are drawn at a time


def setting_of(rows: int) -> Setting:
    """Return the setting for so many rows."""
    return Setting("large", "full", K, D, rows, 3.5)


def found(means: Any, truth: Truth) -> int:
    """Count the true means with a mean of the fit within 0.2 deviations."""
    precisions = np.linalg.inv(truth.covariances)
    apart = truth.means[:, None] - np.asarray(to_numpy(means))
    squares = np.einsum("iaj,ijk,iak->ia", apart, precisions, apart)
    return int(np.sum(squares.min(axis=1) < 0.2**2))


def in_memory(options: argparse.Namespace) -> None:
    """Compare the fit with one start of scikit-learn."""
    setting = setting_of(options.rows)
    X, truth = draw(setting, options.seed)
    reference = total(from_truth(X, setting, truth), X)
    print(f"{setting}\n| fit | seconds | means found | nats above EM from the truth |")
    print("|---|---|---|---|")
    models: dict[str, Any] = {
        "GaussianMixture": im.GaussianMixture(K, random_state=0),
        "scikit-learn, 1 start": Peer(K, random_state=0),
    }
    for name, model in models.items():
        clock = process_time()
        model.fit(X)
        seconds, nats = process_time() - clock, total(model, X) - reference
        row = f"{name} | {seconds:.1f} | {found(model.means_, truth)} of {K} | {nats:,.1f}"
        print(f"| {row} |", flush=True)


def total(model: Any, X: Floats) -> float:
    """Return the log-likelihood of all rows, in batches."""
    parts = (X[i : i + BATCH] for i in range(0, len(X), BATCH))
    return sum(float(model.score(part)) * len(part) for part in parts)


def on_device(options: argparse.Namespace) -> None:
    """Compare a fit on the GPU with one on the host."""
    from scale_device import Card  # noqa: PLC0415 (for the GPU alone)

    card = Card(options.library)
    X, truth = draw(setting_of(options.rows), options.seed)
    print(f"{card.name}\n| fit | seconds | means found | mean log-likelihood | EM passes |")
    print("|---|---|---|---|---|")
    places = {"warm-up": card.move(X[:BATCH]), "on the GPU": card.move(X), "on the host": X}
    for name, rows in places.items():
        clock = perf_counter()
        model = im.GaussianMixture(K, random_state=0).fit(rows)
        card.wait()
        seconds = perf_counter() - clock
        means = f"{found(model.means_, truth)} of {K}"
        row = f"{name} | {seconds:.1f} | {means} | {model.lower_bound_:.5f} | {model.n_iter_}"
        print(f"| {row} |", flush=True)


def write_rows(path: Path, n: int, seed: int) -> Truth:
    """Write n rows of the mixture, in batches."""
    _, truth = draw(setting_of(1_000), seed)
    rng, roots = np.random.default_rng(seed), np.linalg.cholesky(truth.covariances)
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (n, D)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, n, BATCH):
            rows = rng.normal(size=(min(BATCH, n - start), D))
            ends = np.cumsum(rng.multinomial(len(rows), truth.weights))
            for i, part in enumerate(np.split(rows, ends[:-1])):
                part[:] = truth.means[i] + part @ roots[i].T
            rng.permutation(rows).tofile(file)
    return truth


def fit_file(path: str) -> None:
    """Fit a file; print seconds, peak memory and the means for the parent process."""
    before, clock = peak_memory(), perf_counter()
    model = im.GaussianMixture(K, random_state=0).fit(path)
    said: dict[str, Any] = {"seconds": perf_counter() - clock, "passes": model.n_iter_}
    said |= {"before": before, "peak": peak_memory(), "means": model.means_.tolist()}
    print(json.dumps(said), flush=True)


def from_file(options: argparse.Namespace) -> None:
    """Print memory and time of a fit of a large file."""
    n = int(options.gigabytes * 1e9 / (8 * D))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "rows.npy"
        truth = write_rows(path, n, options.seed)
        command = [sys.executable, __file__, "fit", "--path", str(path)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    said = json.loads(done.stdout.splitlines()[-1])
    means: Floats = np.array(said["means"])
    print(f"{options.gigabytes:g} GB, {n:,} rows, k = {K}, d = {D}\n| | value |\n|---|---|")
    print(f"| the fit | {said['seconds']:.0f} s, {said['passes']} passes of EM |")
    print(f"| peak resident memory | {said['peak']:.0f} MB ({said['before']:.0f} at the start) |")
    print(f"| means found | {found(means, truth)} of {K} |")


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["memory", "device", "file", "fit"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--library", choices=["torch", "cupy"], default="torch")
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--folder", help="for the file")
    parser.add_argument("--path", help="of a file to fit; for the process that fits")
    options = parser.parse_args()
    if options.what == "fit":
        fit_file(options.path)
    else:
        {"memory": in_memory, "device": on_device, "file": from_file}[options.what](options)


if __name__ == "__main__":
    main()
