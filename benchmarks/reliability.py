"""Start-up time, killed fits, damaged model files, units, threads and a full disk.

    python benchmarks/reliability.py [startup|kills|workers|models|units|threads|disk] [--quick] …

- ``startup``: processor time of a process, beside that of ``import sklearn.mixture`` in turn.
- ``kills``: a fit with a checkpoint is killed after a random block and started again. *same*: the
  bits of a fit that was not disturbed. Blocks that were read twice are counted, of 10 per pass.
- ``workers``: a fit on two workers of Dask, one of which is killed three times. *same*: the bits
  of a fit that was not disturbed. *ratio*: of the seconds of the two.
- ``models``: model files with random changes. *refused*: ``ModelFileError``; *model*: the change
  made another valid number; anything else, also any attempt to run code, is an error.
- ``units``: random units, and offsets of up to 1e8 deviations. *same*: densities or predictions
  agree to 1e-4 of their deviation; *noted*: a note or an error says otherwise; *silent*: nothing.
- ``threads``: calls in 8 threads. *same*: the bits of a call alone, threads of BLAS as before.
- ``disk``: a file may not grow beyond a kilobyte. *kept*: an error, and the file from before.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from threading import Timer
from time import perf_counter
from typing import Any

import numpy as np

import common
from common import Case, Figures, Floats

N, D, BLOCK = 40_000, 6, 4_000  # rows, columns, and rows of a block of a killed fit
TOLERANCE = 1e-4  # EM ends where densities of rows are right to about 1e-5
NUMBERS = ("seconds", "ratio", "blocks", "blocks twice", "killed")
LARGEST_UNIT, LARGEST_OFFSET = 26, 8.0  # powers of two and of ten

ESTIMATORS: dict[str, dict[str, Any]] = {
    "GaussianMixture": {"n_components": 3, "tol": 1e-13},
    "SphericalMixture": {"n_components": 3, "tol": 1e-13},
    "RegressionMixture": {"n_components": 3, "tol": 1e-13},
    "SphericalMixtureClusterer": {"n_components": 3},
    "SphericalMixtureDensity": {"n_components": 3, "degree": 2},
    "RegressionMixtureDensity": {"n_components": 3, "degree": 2},
    "ActivationSumRegressor": {
        "n_components": 3,
        "activation": "relu",
        "whiten": True,
        "tol": 1e-9,
    },
}
LABELLED = ("RegressionMixture", "RegressionMixtureDensity", "ActivationSumRegressor")
ONE_UNIT = ("SphericalMixture", "SphericalMixtureDensity", "SphericalMixtureClusterer")


def make(name: str, **more: Any) -> Any:
    """Return an estimator of the edition of this process."""
    import implicitmoments as im  # noqa: PLC0415

    return getattr(im, name)(**{**ESTIMATORS[name], "random_state": 0, **more})


def draw(name: str, n: int, seed: int) -> tuple[Floats, Floats | None]:
    """Draw rows of three components, and labels where the estimator takes them."""
    rng = np.random.default_rng([seed, 31])
    vectors, labels = rng.normal(size=(3, D)), rng.integers(3, size=n)
    vectors *= (1.2 if "Density" in name else 7.0) / np.linalg.norm(vectors, axis=1)[:, None]
    X = rng.normal(size=(n, D))
    if name not in LABELLED:
        return X + vectors[labels], None
    if name == "ActivationSumRegressor":
        y = np.maximum(X @ vectors.T, 0).sum(axis=1)
    else:
        y = np.sum(X * vectors[labels], axis=1)
    return X, y + 0.3 * rng.normal(size=n)


def digest(model: Any) -> str:
    """Return a digest of all fitted numbers and arrays."""
    bits = hashlib.sha256()
    for name, value in sorted(vars(model).items()):
        if isinstance(value, float | int | np.ndarray):
            bits.update(name.encode() + np.asarray(value).tobytes())
    return bits.hexdigest()


COMMAND = "import sys; from implicitmoments.cli import main; sys.argv[1:] = {!r}; main()"
CODES = {
    "im.GaussianMixture": "import implicitmoments as im; im.GaussianMixture",
    "im.load": "import implicitmoments as im; im.load",
    "--help": COMMAND.format(["--help"]),
    "predict": COMMAND.format(["predict", "model.im", "rows.csv"]),
    "fit": COMMAND.format(["fit", "mixture", "rows.csv", "-k", "3", "-o", "again.im"]),
}


def processor_seconds(code: str, folder: str) -> float:
    """Return the processor time of a process that imports this edition."""
    import implicitmoments as im  # noqa: PLC0415

    environment = {**os.environ, "PYTHONPATH": str(Path(str(im.__file__)).parents[1])}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the first process compiles
    before, run = resource.getrusage(resource.RUSAGE_CHILDREN), [sys.executable, "-c", code]
    subprocess.run(run, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_up(case: Case) -> Figures:
    """Measure one start, and the import of scikit-learn's mixtures in turn."""
    import implicitmoments as im  # noqa: PLC0415

    X, _ = draw("GaussianMixture", 1_000, 0)
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(f"{folder}/rows.csv", X, delimiter=",", header="a,b,c,d,e,f", comments="")
        im.save(make("GaussianMixture").fit(X), f"{folder}/model.im")
        own = processor_seconds(CODES[case.setting], folder)
        peer = processor_seconds("import sklearn.mixture", folder)
    return {"seconds": own, "ratio": own / peer}


def fit_child(name: str, folder: str, checkpoint: str | None, last: int) -> None:
    """Fit the rows of a folder; kill this process after block number ``last``."""
    blocks: list[int] = []

    def progress(what: str, done: int, total: int) -> None:  # noqa: ARG001
        blocks.append(done)
        if len(blocks) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    model, y = make(name, rows_per_block=BLOCK), D if name in LABELLED else None
    model.fit(f"{folder}/rows.npy", y, checkpoint=checkpoint, progress=progress)
    found = {"digest": digest(model), "blocks": len(blocks)}
    Path(folder, "found.json").write_text(json.dumps(found))


def fit_apart(name: str, folder: str, checkpoint: str | None, last: int = 0) -> dict[str, Any]:
    """Fit in a process of its own; return its findings, none if it was killed."""
    found = Path(folder, "found.json")
    found.unlink(missing_ok=True)
    process = get_context("fork").Process(target=fit_child, args=(name, folder, checkpoint, last))
    process.start()
    process.join()
    return dict(json.loads(found.read_text())) if found.exists() else {}


def kill_and_resume(case: Case) -> Figures:
    """Kill a fit after a random block, and start it again."""
    rng = np.random.default_rng([case.seed, 5])
    X, y = draw(case.setting, N, case.seed)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", X if y is None else np.column_stack([X, y]))
        whole, kept = fit_apart(case.setting, folder, None), f"{folder}/checkpoint"
        last = int(rng.integers(1, whole["blocks"]))
        fit_apart(case.setting, folder, kept, last)
        again = fit_apart(case.setting, folder, kept)
    figures = {"blocks": whole["blocks"], "blocks twice": last + again["blocks"] - whole["blocks"]}
    return {"outcome": "same" if again["digest"] == whole["digest"] else "different", **figures}


def fit_on_workers(name: str, seed: int, losses: Sequence[float]) -> tuple[str, float, int]:
    """Fit rows in partitions on Dask, and kill a worker at some seconds after the start.

    Return a digest of the model, seconds, and how many workers were killed before the end.
    """
    import dask.array as da  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    X, y = draw(name, N, seed)
    rows = da.from_array(X, chunks=(BLOCK, D))
    labels = None if y is None else da.from_array(y, chunks=BLOCK)
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    killed: list[int] = []
    with LocalCluster(**options, silence_logs="CRITICAL") as cluster, Client(cluster):

        def kill() -> None:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[-1], signal.SIGKILL)

        timers = [Timer(seconds, kill) for seconds in losses]
        clock = perf_counter()
        for timer in timers:
            timer.start()
        model = make(name).fit(rows, labels)
        seconds = perf_counter() - clock
        for timer in timers:
            timer.cancel()
    return digest(model), seconds, len(killed)


def lose_workers(case: Case) -> Figures:
    """Kill a worker of Dask at three moments of a fit."""
    whole, seconds, _ = fit_on_workers(case.setting, case.seed, ())
    rng = np.random.default_rng([case.seed, 6])
    losses = tuple(rng.uniform(0, seconds, 3))
    found, slower, killed = fit_on_workers(case.setting, case.seed, losses)
    same = "same" if found == whole else "different"
    return {"outcome": same, "ratio": slower / seconds, "killed": killed}


RUNNING = ("os.system", "os.exec", "subprocess.Popen", "socket.connect", "pickle.find_class")
watched: list[str] = []  # events that run code


def watch(event: str, _: Any) -> None:
    """Keep events that run code."""
    if event in RUNNING:
        watched.append(event)


def change(content: bytes, how: str, rng: np.random.Generator) -> bytes:
    """Return the content of a file with a random change."""
    if how == "shortened":
        return content[: int(rng.integers(len(content)))]
    found, header = bytearray(content), 8 + int.from_bytes(content[:8], "little")
    start, end = (0, header) if how == "header" else (header, len(content))
    for at in rng.integers(start, end, size=int(rng.integers(1, 6))):
        found[at] = (
            rng.choice(list(b'0123456789"{}[]ae-')) if how == "header" else rng.integers(256)
        )
    return bytes(found)


def load_changed(case: Case) -> Figures:
    """Load a model file with a random change."""
    import implicitmoments as im  # noqa: PLC0415

    rng, name = np.random.default_rng([case.seed, 9]), [*ESTIMATORS][case.seed % len(ESTIMATORS)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.im")
        im.save(fitted(name), path)
        path.write_bytes(change(path.read_bytes(), case.setting, rng))
        watched.clear()
        try:
            im.load(path)
            outcome = "model"
        except im.ModelFileError:
            outcome = "refused"
    return {"outcome": f"error: {watched[0]}" if watched else outcome}


@cache
def fitted(name: str) -> Any:
    """Return a fitted model, the same one in every call."""
    return make(name).fit(*draw(name, 400, 0))


def move_units(case: Case) -> Figures:
    """Fit rows, and the same rows in other units and elsewhere."""
    name, rng = case.setting, np.random.default_rng([case.seed, 7])
    X, y = draw(name, 300, case.seed)
    d = X.shape[1]
    units = 2.0 ** rng.integers(-LARGEST_UNIT, LARGEST_UNIT + 1, size=1 if name in ONE_UNIT else d)
    units = np.broadcast_to(units, d)
    offsets = 10 ** rng.uniform(-2, LARGEST_OFFSET, size=d) * rng.choice([-1, 1], size=d)
    there = X * units + units * offsets * X.std(axis=0)
    here = (there - units * offsets * X.std(axis=0)) / units  # offsets round rows
    unit = float(2.0 ** rng.integers(-LARGEST_UNIT, LARGEST_UNIT + 1))
    one = answers(name, here, y)
    other = answers(name, there, None if y is None else unit * y)
    if isinstance(one, str) or isinstance(other, str):
        same = isinstance(one, str) and one == other
        return {"outcome": "same" if same else "noted"}
    found = other[0] / unit if name == "ActivationSumRegressor" else other[0]
    if name == "SphericalMixtureClusterer":
        same = np.array_equal(one[0], found)
    else:
        gaps = one[0] - found
        if name != "ActivationSumRegressor":  # log densities differ by a constant
            gaps -= np.median(gaps)
        same = np.abs(gaps).max() <= TOLERANCE * max(1.0, one[0].std())
    noted = one[1] != other[1] or "at_floor" in other[1]
    return {"outcome": "same" if same else "noted" if noted else "silent"}


def answers(name: str, X: Floats, y: Floats | None) -> tuple[Floats, list[str]] | str:
    """Return what a fitted model says of its rows, and the codes of its notes, or of an error."""
    from implicitmoments.notes import CodedError  # noqa: PLC0415

    try:
        model = make(name).fit(X, y)
    except CodedError as error:
        return str(error.code)
    found = model.score_samples(X, y) if hasattr(model, "score_samples") else model.predict(X)
    return found, sorted(model.notes_.codes)


def blas_threads() -> int:
    """Return the threads that BLAS may use."""
    from threadpoolctl import threadpool_info  # noqa: PLC0415

    blas = (library for library in threadpool_info() if library["user_api"] == "blas")
    return max(int(library["num_threads"]) for library in blas)


def in_threads(case: Case) -> Figures:
    """Fit and predict in several threads at a time, and alone."""
    name, before = case.setting, blas_threads()
    X, y = draw(name, 600, case.seed)

    def call(i: int) -> str:
        model = make(name).fit(X, y) if i % 2 else fitted(name)
        answer = model.score_samples if hasattr(model, "score_samples") else model.predict
        told = (
            answer(X, y)
            if name in ("RegressionMixture", "RegressionMixtureDensity")
            else answer(X)
        )
        return digest(model) + np.asarray(told).tobytes().hex()

    alone = [call(0), call(1)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(call, range(16)))
    if blas_threads() != before:
        return {"outcome": "limits not restored"}
    return {"outcome": "same" if found == alone * 8 else "different"}


def write_limited(what: str, folder: str) -> None:
    """Write a result where a file may have a kilobyte."""
    from implicitmoments.cli import main as command  # noqa: PLC0415

    words = {"predict": ("predict", f"{folder}/model.im"), "fit": ("fit", "mixture", "-k", "3")}
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an OSError instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_024, 1_024))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    command([*words[what], f"{folder}/rows.npy", "-o", f"{folder}/out"])


def fill_disk(case: Case) -> Figures:
    """Write over a file while the disk is full."""
    import implicitmoments as im  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", draw("GaussianMixture", N, case.seed)[0])
        im.save(fitted("GaussianMixture"), f"{folder}/model.im")
        out = Path(folder, "out")
        out.write_text("before")
        process = get_context("fork").Process(target=write_limited, args=(case.setting, folder))
        process.start()
        process.join()
        files = sorted(path.name for path in Path(folder).iterdir())
        kept = out.read_text() == "before" and files == ["model.im", "out", "rows.npy"]
    return {"outcome": "kept" if kept and (process.exitcode or 0) > 0 else "not kept"}


def show(rows: list[common.Row]) -> None:
    """Print how many cases have each outcome, and the median and range of each number."""
    lines = []
    for setting in common.names(rows, "setting"):
        for method in common.names(rows, "method"):
            found = common.select(rows, setting=setting, method=method)
            counts = Counter(row.get("outcome", row.get("error", "–")) for row in found)
            told = ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common())
            figures = [common.spread(common.values(found, name)) for name in NUMBERS]
            lines.append([setting, method, len(found), told, *figures])
    common.print_table(("case", "edition", "cases", "outcomes", *NUMBERS), lines)


def warm_up() -> None:
    """Fit a few rows, and watch the process."""
    fitted("GaussianMixture")
    sys.addaudithook(watch)


def table(settings: Iterable[str], run: Callable[[Case], Figures], seeds: int) -> common.Table:
    """Return a table of outcomes."""
    every = list(settings)
    return common.Table(every, common.both_editions(run), show, warm_up, seeds, every[:2])


TABLES = {
    "startup": table(CODES, start_up, 5),
    "kills": table(ESTIMATORS, kill_and_resume, 15),
    "workers": table(ESTIMATORS, lose_workers, 1),
    "models": table(("header", "arrays", "shortened"), load_changed, 3_000),
    "units": table(ESTIMATORS, move_units, 70),
    "threads": table(ESTIMATORS, in_threads, 2),
    "disk": table(("predict", "fit"), fill_disk, 3),
}

if __name__ == "__main__":
    common.main("reliability", __doc__, TABLES)
