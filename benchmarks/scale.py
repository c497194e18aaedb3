"""Rows in files and on Dask: reading rates, and fits of large files with their memory.

    python benchmarks/scale.py [reading fit passes report dask device] [--old SRC] [--quick] …

``reading`` passes over a file of a mixture in 16 columns and sums them up; rates are megabytes
per second. ``fit`` fits every estimator to an .npy file of 20 columns, each in a process of its
own, whose peak of memory is told. ``passes`` compares one pass of EM over an .npy file with
reading it and the two matrix products of a pass. ``report`` writes the page of 6 groups in 4
columns and tells its kilobytes. ``dask`` fits rows in partitions on this machine, and ``device``
tensors on a GPU where there is one. Seconds are of the processor, but those of the clock in
``fit`` (which has both), ``dask`` and ``device``. Files are kept in the folder for temporary files
while the benchmark runs.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from common import Case, Figures, Floats, Row, Table, both_editions, main, names, select, values

D, K = 16, 10
WIDE_K = 30  # components of the passes that are timed
PART = 100_000  # rows that are written at a time
MEGABYTES = {"100 MB": 100, "1 GB": 1_000, "10 GB": 10_000}
KINDS = ("npy", "parquet", "csv")
COLUMNS = 20  # of the files that every estimator fits, without the labels
FITTED: dict[str, dict[str, Any]] = {
    "SphericalMixture": {"n_components": 5},
    "GaussianMixture": {"n_components": 5},
    "RegressionMixture": {"n_components": 3},
    "SphericalMixtureClusterer": {"n_components": 5},
    "SphericalMixtureDensity": {"n_components": 3},
    "RegressionMixtureDensity": {"n_components": 3},
    "ActivationSumRegressor": {"n_components": 3, "activation": "relu"},
}
LABELLED = ("RegressionMixture", "RegressionMixtureDensity", "ActivationSumRegressor")


def write(folder: Path, kind: str, megabytes: int, d: int = D, k: int = K) -> Path:
    """Write rows of a mixture, a part at a time."""
    path, n = folder / f"rows.{kind}", megabytes * 10**6 // (8 * d)
    rng = np.random.default_rng(0)
    means = 6.0 * rng.normal(size=(k, d))

    def draw(m: int) -> Floats:
        return means[rng.integers(k, size=m)] + rng.normal(size=(m, d))

    if kind == "npy":
        return write_array(path, n, d, draw)
    import pyarrow as pa  # noqa: PLC0415 (only for these files)
    import pyarrow.csv  # noqa: PLC0415
    import pyarrow.parquet  # noqa: PLC0415

    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(d)])
    new = pa.csv.CSVWriter if kind == "csv" else pa.parquet.ParquetWriter
    with new(path, schema) as file:
        for start in range(0, n, PART):
            rows = draw(min(PART, n - start))
            file.write_table(pa.table(dict(zip(schema.names, rows.T, strict=True))))
    return path


def write_array(path: Path, n: int, d: int, draw: Callable[[int], Floats]) -> Path:
    """Write n rows of d columns."""
    whole = np.lib.format.open_memmap(path, "w+", np.float64, (n, d))
    for start in range(0, n, PART):
        part = whole[start : start + PART]
        part[:] = draw(len(part))
    return path


def write_for(folder: Path, name: str, megabytes: int) -> Path:
    """Write rows that suit an estimator, with labels last where it takes them."""
    rng, k = np.random.default_rng(20), FITTED[name]["n_components"]
    vectors = rng.normal(size=(k, COLUMNS))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    radius, d = 1.2 if name == "SphericalMixtureDensity" else 7.0, COLUMNS + (name in LABELLED)

    def draw(m: int) -> Floats:
        rows, component = rng.normal(size=(m, COLUMNS)), rng.integers(k, size=m)
        if name not in LABELLED:
            return np.asarray(rows + radius * vectors[component])
        products = rows @ vectors.T
        if name == "ActivationSumRegressor":
            labels = np.maximum(products, 0).sum(axis=1)
        else:
            labels = products[np.arange(m), component]
        return np.column_stack([rows, labels + 0.3 * rng.normal(size=m)])

    return write_array(folder / "rows.npy", megabytes * 10**6 // (8 * d), d, draw)


def peak() -> float:
    """Return the peak of memory of this process, in megabytes."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1_024


def passes(path: str) -> Figures:
    """Sum up the columns of a file in two passes; opening a CSV file parses it."""
    from implicitmoments.rows import Rows, open_file  # noqa: PLC0415 (of an edition)

    clock = process_time()
    table: Any = open_file(path)
    opened, total = process_time() - clock, np.zeros(D)
    clock = process_time()
    for _ in range(2):
        found = Rows.of(table).fold(lambda block: {"x": np.asarray(block["x"]).sum(axis=0)})
        total += found["x"]
    seconds, read = process_time() - clock, 2 * 8 * D * table.n_rows / 1e6
    return {"opened": opened, "rate": read / seconds, "memory": peak(), "check": total[0]}


def fit(path: str, name: str) -> Figures:
    """Fit an estimator to a file."""
    import implicitmoments as im  # noqa: PLC0415

    rows: Counter[str] = Counter()

    def progress(what: str, done: int, total: int) -> None:
        rows[what] += done == total

    model = getattr(im, name)(**FITTED[name], random_state=0)
    labels = COLUMNS if name in LABELLED else None
    clock, processor = perf_counter(), process_time()
    model.fit(path, labels, progress=progress)
    seconds, processor = perf_counter() - clock, process_time() - processor
    found = {"seconds": seconds, "processor s": processor, "passes": rows.total()}
    return {**found, "memory": peak()}


def em_pass(path: str) -> Figures:
    """Compare a pass of EM with reading the rows and two products."""
    import implicitmoments as im  # noqa: PLC0415

    reports: list[tuple[str, int, float]] = []  # by the fit: what it does, rows done, and when

    def progress(what: str, done: int, total: int) -> None:  # noqa: ARG001
        reports.append((what, done, process_time()))

    im.SphericalMixture(WIDE_K, random_state=0).fit(path, progress=progress)
    n, d = np.load(path, mmap_mode="r").shape
    passes = [
        (later[2] - one[2]) / (later[1] - one[1])
        for one, later in pairwise(reports)
        if one[0] == later[0] == "EM" and later[1] > one[1]
    ]
    coefficients, clock = np.ones((WIDE_K, d + 2)), process_time()
    with open(path, "rb") as file:
        file.seek(128)
        while len(x := np.fromfile(file, np.float64, 8_192 * d)):
            x = x[: len(x) // d * d].reshape(-1, d)
            lifted = np.column_stack([x, np.einsum("nd,nd->n", x, x), np.ones(len(x))])
            (coefficients @ lifted.T) @ lifted
    bare, seconds = process_time() - clock, n * float(np.median(passes))
    return {"pass": seconds, "reading and products": bare, "ratio": seconds / bare}


def report(path: str) -> Figures:
    """Write the report of a mixture."""
    import implicitmoments as im  # noqa: PLC0415

    model = im.GaussianMixture(6, covariance_type="diag", random_state=0).fit(path)
    clock, page = process_time(), Path(path).with_suffix(".html")
    im.report.write_report(model, path, path=page)
    return {"seconds": process_time() - clock, "kB": page.stat().st_size / 1_000}


def dask_fit(path: str) -> Figures:
    """Fit a mixture to partitions of the rows, by threads of this process."""
    import dask.array as da  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X = np.load(path, mmap_mode="r")
    there, clock = da.from_array(X, chunks=(100_000, D)), perf_counter()
    model = im.SphericalMixture(K, random_state=0).fit(there)
    return {"seconds": perf_counter() - clock, "level": float(model.lower_bound_)}


def device_fit(path: str) -> Figures:
    """Fit a mixture to a tensor on a GPU."""
    import torch  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X: Any = torch.from_numpy(np.load(path)).to("cuda", torch.float32)
    im.SphericalMixture(K, random_state=0).fit(X)  # compiles kernels
    clock = perf_counter()
    model = im.SphericalMixture(K, random_state=0).fit(X)
    torch.cuda.synchronize()
    return {"seconds": perf_counter() - clock, "level": float(model.lower_bound_)}


def alone(measure: Callable[[str], Figures], write_file: Callable[[Path], Path]) -> Figures:
    """Measure a file in a process of its own, which imports the same edition."""
    with tempfile.TemporaryDirectory() as folder:
        path, paths = write_file(Path(folder)), list(sys.path)
        with get_context("spawn").Pool(1, initializer=take_paths, initargs=(paths,)) as pool:
            return pool.apply(measure, (str(path),))


def take_paths(paths: list[str]) -> None:
    """Import from the folders of another process."""
    sys.path[:] = paths


def read_case(case: Case) -> Figures:
    """Measure the reading of one kind of file."""
    kind, size = case.setting.split(" ", 1)
    return alone(passes, partial(write, kind=kind, megabytes=MEGABYTES[size]))


def fit_case(case: Case) -> Figures:
    """Measure a fit of one file."""
    name, size = case.setting.split(" ", 1)
    file = partial(write_for, name=name, megabytes=MEGABYTES[size])
    return alone(partial(fit, name=name), file)


def pass_case(case: Case) -> Figures:
    """Measure a pass of EM over rows of some columns."""
    d = int(case.setting.split()[1])
    return alone(em_pass, partial(write, kind="npy", megabytes=400, d=d, k=WIDE_K))


def report_case(case: Case) -> Figures:
    """Measure a report of rows in 4 columns."""
    megabytes = 32 * int(case.setting.replace(",", "")) // 10**6
    return alone(report, partial(write, kind="npy", megabytes=megabytes, d=4, k=6))


def dask_case(case: Case) -> Figures:
    """Measure a fit on Dask."""
    return alone(dask_fit, partial(write, kind="npy", megabytes=MEGABYTES[case.setting]))


def device_case(case: Case) -> Figures:
    """Measure a fit on a GPU."""
    return alone(device_fit, partial(write, kind="npy", megabytes=MEGABYTES[case.setting]))


def warm_up() -> None:
    """Do nothing: every measurement has a process of its own."""


def show(rows: list[Row]) -> None:
    """Print the median of every figure, by setting and method."""
    keys = dict.fromkeys(key for row in rows for key in row)
    figures = [key for key in keys if key not in ("setting", "seed", "method", "check")]
    print(f"{'setting':32}{'method':16}" + "".join(f"{key:>22}" for key in figures))
    for setting in names(rows, "setting"):
        for method in names(rows, "method"):
            some = select(rows, setting=setting, method=method)
            cells = []
            for key in figures:
                found = [row[key] for row in some if key in row]
                text = key == "error" and bool(found)
                cells.append(str(found[0]) if text else f"{np.median(values(some, key)):.4g}")
            print(f"{setting:32}{method:16}" + "".join(f"{cell:>22}" for cell in cells))


READING = [f"{kind} {size}" for size in ("100 MB", "1 GB") for kind in KINDS]
FITS = ["SphericalMixture 1 GB", *(f"{name} 10 GB" for name in FITTED)]
TABLES = {
    "reading": Table(READING, both_editions(read_case), show, warm_up, 3, READING[:3]),
    "fit": Table(FITS, both_editions(fit_case), show, warm_up, 1, ["SphericalMixture 100 MB"]),
    "passes": Table(["d 30", "d 100"], both_editions(pass_case), show, warm_up, 3, ["d 100"]),
    "report": Table(["1,000,000"], both_editions(report_case), show, warm_up, 1),
    "dask": Table(["100 MB", "1 GB"], both_editions(dask_case), show, warm_up, 1, ["100 MB"]),
    "device": Table(["1 GB"], both_editions(device_case), show, warm_up, 1, ["100 MB"]),
}

if __name__ == "__main__":
    main("scale", __doc__, TABLES)
