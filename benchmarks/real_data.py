"""Gaussian mixtures of real data, beside scikit-learn and mclust.

For each data set and covariance type, with as many components as there are classes: total
log-likelihood of all rows, BIC (p log n − 2 log L, lower is better), adjusted Rand index, rows of
the smallest component, and seconds, of ``im.GaussianMixture``, of scikit-learn from 20 starts and
of mclust. Then what ``"auto"`` chooses beside mclust's choice. Run as

    OMP_NUM_THREADS=1 python benchmarks/real_data.py --results figures.json --write docs/real_data.md

R with mclust, MASS and mlbench has most of the sets; without it, those of scikit-learn are fitted.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from scipy.special import logsumexp
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
SCRIPT = Path(__file__).with_suffix(".R")
# covariance types of this library and the matching models of mclust
MODELS = {
    "tied_spherical": "EII",
    "spherical": "VII",
    "tied_diag": "EEI",
    "diag": "VVI",
    "tied": "EEE",
    "full": "VVV",
}
ONE_COLUMN = {"tied": "E", "full": "V"}  # in one column the six types are two
SHIPPED = ("iris", "wine", "breast_cancer", "digits")  # with scikit-learn
# in R, and components to fit where there are no classes
IN_R = {
    "faithful": 2,
    "acidity": 2,
    "galaxies": 4,
    "thyroid": None,
    "diabetes": None,
    "banknote": None,
    "crabs": None,
    "glass": None,
    "vehicle": None,
    "vowel": None,
    "satellite": None,
    "letter": None,
    "shuttle": None,
}
STARTS = 20  # of scikit-learn
OURS, PEER, MCLUST = "GaussianMixture", "scikit-learn", "mclust"
SINGULAR = 1e-5  # ten times the default reg_covar of scikit-learn, in units of the column variance
AS_GOOD = 2.0  # nats
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")


@dataclass(frozen=True, eq=False)
class Data:
    """Standardised rows (n, d), and their classes, if there are any."""

    name: str
    X: Floats
    labels: list[str] | None
    k: int
    rows_in_all: int
    constant: int  # columns left out

    @property
    def types(self) -> dict[str, str]:
        """Types that differ, and mclust's names of them."""
        return MODELS if self.X.shape[1] > 1 else ONE_COLUMN


@dataclass(frozen=True)
class Fit:
    """Figures of one fit."""

    kind: str
    k: int
    log_likelihood: float
    bic: float
    rand: float | None  # adjusted Rand index
    smallest: float  # rows of the smallest component: the least sum of responsibilities
    eigenvalue: float  # the least of all covariances
    fewest: float  # rows that determine a component of this type
    seconds: float

    @property
    def collapsed(self) -> bool:
        """Whether the likelihood is that of a component on a few rows, or of equal values."""
        return self.smallest < self.fewest or self.eigenvalue < SINGULAR


def load(name: str, folder: Path, most: int, seed: int) -> Data:
    """Load a set: at most ``most`` random rows, columns divided by their deviations."""
    if name in SHIPPED:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        labels = [str(label) for label in y]
        if name == "digits":
            X = PCA(10, random_state=0).fit_transform(X)
    else:
        with (folder / f"{name}.csv").open() as lines:
            table = list(csv.reader(lines))
        X = np.array([[float(value) for value in line[:-1]] for line in table])
        labels = [line[-1] for line in table]
    n = len(X)
    if n > most:
        chosen = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
        X, labels = X[chosen], [labels[i] for i in chosen]
    deviations = X.std(axis=0)
    varies = deviations > 0
    X = (X - X.mean(axis=0))[:, varies] / deviations[varies]
    classes = len(set(labels))
    k = classes if classes > 1 else IN_R[name] or 1
    return Data(name, X, labels if classes > 1 else None, k, n, int(np.sum(~varies)))


def n_numbers(kind: str, d: int) -> int:
    """Count the parameters of one covariance."""
    return 1 if kind.endswith("spherical") else d if kind.endswith("diag") else d * (d + 1) // 2


def n_parameters(kind: str, k: int, d: int) -> int:
    """Count the free parameters of a mixture."""
    return k * (d + 1) - 1 + n_numbers(kind, d) * (1 if kind.startswith("tied") else k)


def fewest_rows(kind: str, d: int) -> float:
    """Return the rows with twice as many numbers as a component has parameters."""
    return 0.0 if kind.startswith("tied") else 2 * (d + n_numbers(kind, d)) / d


def judge(
    data: Data, kind: str, weights: Floats, means: Floats, covariances: Floats, seconds: float
) -> Fit:
    """Return the figures of a mixture with covariances (k, d, d): one judge for all tools."""
    X, (k, d) = data.X, means.shape
    lower = np.linalg.cholesky(covariances)
    logs = np.empty((len(X), k))
    for i in range(k):
        z = np.linalg.solve(lower[i], (X - means[i]).T)
        logs[:, i] = -0.5 * np.sum(z**2, axis=0) - np.log(np.diagonal(lower[i])).sum()
    logs += np.log(np.maximum(weights, 1e-300)) - 0.5 * d * np.log(2 * np.pi)
    densities = logsumexp(logs, axis=1)
    level = float(densities.sum())
    found = adjusted_rand_score(data.labels, logs.argmax(axis=1)) if data.labels else None
    return Fit(
        kind=kind,
        k=k,
        log_likelihood=level,
        bic=n_parameters(kind, k, d) * float(np.log(len(X))) - 2 * level,
        rand=found,
        smallest=float(np.exp(logs - densities[:, None]).sum(axis=0).min()),
        eigenvalue=float(np.linalg.eigvalsh(covariances).min()),
        fewest=fewest_rows(kind, d),
        seconds=seconds,
    )


def matrices(kind: str, covariances: Any, k: int, d: int) -> Floats:
    """Return covariances in the shape of ``covariances_`` as matrices (k, d, d)."""
    found = np.asarray(covariances, dtype=float)
    if kind.startswith("tied"):
        found = np.repeat(found[None], k, axis=0)
    if kind.endswith("spherical"):
        found = np.repeat(found[:, None], d, axis=1)
    return found if found.ndim == 3 else found[:, :, None] * np.eye(d)


def fit_ours(data: Data, kind: str, k: int | str, seed: int) -> Fit:
    """Fit this library's mixture to all rows."""
    clock = perf_counter()
    model = im.GaussianMixture(k, covariance_type=kind, drop_outliers=False, random_state=seed)
    model.fit(data.X)
    seconds, chosen = perf_counter() - clock, model.covariance_type_
    if data.X.shape[1] == 1:
        chosen = "tied" if chosen.startswith("tied") else "full"
    covariances = matrices(model.covariance_type_, model.covariances_, *model.means_.shape)
    return judge(data, chosen, model.weights_, model.means_, covariances, seconds)


def fit_peer(data: Data, kind: str, seed: int) -> Fit | None:
    """Fit scikit-learn's mixture from many starts, and run EM on from the best until it settles."""
    if kind not in ("spherical", "diag", "tied", "full"):
        return None
    clock = perf_counter()
    model = Peer(data.k, covariance_type=kind, n_init=STARTS, random_state=seed)
    try:
        model.fit(data.X)
        model.set_params(warm_start=True, tol=1e-7, max_iter=2000).fit(data.X)
    except ValueError:  # a covariance that is not positive definite
        return None
    seconds = perf_counter() - clock
    covariances = matrices(kind, model.covariances_, *model.means_.shape)
    return judge(data, kind, model.weights_, model.means_, covariances, seconds)


def fit_mclust(data: Data, seed: int) -> dict[str, Fit]:
    """Fit mclust's models with k components, by type, and its choice with 1 to 9, "auto"."""
    names = {model: kind for kind, model in data.types.items()}
    found: dict[str, Fit] = {}
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder, "rows.csv")
        np.savetxt(rows, data.X, delimiter=",", fmt="%.17g")
        command = ["Rscript", SCRIPT, "fit", rows, folder, data.k, seed, ",".join(names)]
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=True
        )
        for line in done.stdout.splitlines():
            name, model, seconds, _ = line.split()
            with Path(folder, f"{name}.csv").open() as lines:
                table = np.array([[float(v) for v in each] for each in csv.reader(lines)])
            d = data.X.shape[1]
            covariances = table[:, 1 + d :].reshape(-1, d, d)
            # with one component, mclust calls a model by another name: XII, XXI or XXX
            kind = names.get(model) or names[model.replace("X", "E")]
            found[names.get(name, name)] = judge(
                data, kind, table[:, 0], table[:, 1 : 1 + d], covariances, float(seconds)
            )
    return found


def compare(data: Data, seed: int, *, with_r: bool) -> dict[str, Any]:
    """Return all figures of a data set, as numbers and texts."""
    said: dict[str, dict[str, Fit]] = {}
    peers = fit_mclust(data, seed) if with_r else {}
    for kind in (*data.types, "auto"):
        auto = kind == "auto"
        fits = {
            OURS: fit_ours(data, kind, "auto" if auto else data.k, seed),
            PEER: None if auto else fit_peer(data, kind, seed),
            MCLUST: peers.get(kind),
        }
        said[kind] = {tool: fit for tool, fit in fits.items() if fit is not None}
    n, d = data.X.shape
    return {
        "n": n,
        "d": d,
        "k": data.k,
        "classes": data.labels is not None,
        "rows": data.rows_in_all,
        "constant": data.constant,
        "fits": {kind: {t: asdict(f) for t, f in fits.items()} for kind, fits in said.items()},
    }


def in_r(folder: Path) -> bool:
    """Write the sets of R to a folder; say what is missing if that fails."""
    if shutil.which("Rscript") is None:
        print("Rscript is not installed: only sets of scikit-learn, no mclust", file=sys.stderr)
        return False
    command = ["Rscript", str(SCRIPT), "export", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        print(f"only sets of scikit-learn, no mclust, because R says: {reason}", file=sys.stderr)
    return done.returncode == 0


def tables(results: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of all tables in Markdown."""
    sets = {
        name: {
            kind: {tool: Fit(**fit) for tool, fit in fits.items()}
            for kind, fits in results[name]["fits"].items()
        }
        for name in (*SHIPPED, *IN_R)
        if name in results
    }
    yield from summary(sets)
    yield from choices(results, sets)
    for name, kinds in sets.items():
        yield from one_set(results[name], name, kinds)


Sets: TypeAlias = dict[str, dict[str, dict[str, Fit]]]


def comparisons(sets: Sets, tool: str) -> Iterator[tuple[str, str, Fit, Fit]]:
    """Yield set, type, and the fits of this library and of another one."""
    for name, kinds in sets.items():
        for kind, fits in kinds.items():
            if kind != "auto" and tool in fits:
                yield name, kind, fits[OURS], fits[tool]


def summary(sets: Sets) -> Iterator[str]:
    """Yield how often each tool has the higher likelihood, and where this library has the lower."""
    yield "## In short"
    yield ""
    yield "| compared with | comparisons | higher | equal | lower, theirs collapsed | lower |"
    yield "|---|---|---|---|---|---|"
    below = []
    for tool in (PEER, MCLUST):
        counts = dict.fromkeys(("higher", "equal", "collapsed", "lower"), 0)
        for name, kind, ours, other in comparisons(sets, tool):
            gap = ours.log_likelihood - other.log_likelihood
            verdict = "higher" if gap > AS_GOOD else "equal" if gap >= -AS_GOOD else "lower"
            if verdict == "lower" and other.collapsed:
                verdict = "collapsed"
            counts[verdict] += 1
            if verdict == "lower":
                below.append(f"{name} {kind}: {-gap:,.1f} nats below {tool}")
        cells = " | ".join(str(count) for count in counts.values())
        yield f"| {tool} | {sum(counts.values())} | {cells} |"
    yield ""
    yield f"Lower: {'; '.join(below)}." if below else "No comparison is lower."
    yield ""


def choices(results: dict[str, Any], sets: Sets) -> Iterator[str]:
    """Yield the table of chosen types and numbers of components."""
    yield '## Choice of type and number ("auto")'
    yield ""
    yield "| set | classes | `GaussianMixture` | BIC | Rand | s | mclust | BIC | Rand | s |"
    yield "|---" * 10 + "|"
    for name, kinds in sets.items():
        cells = [f"[{name}](#{name.replace('_', '_')})"]
        cells.append(str(results[name]["k"]) if results[name]["classes"] else "none")
        for tool in (OURS, MCLUST):
            fit = kinds["auto"].get(tool)
            cells += (
                [f"{fit.kind} {fit.k}", f"{fit.bic:,.0f}{_mark(fit)}", _rand(fit), _time(fit)]
                if fit
                else [""] * 4
            )
        yield "| " + " | ".join(cells) + " |"
    yield ""


def one_set(result: dict[str, Any], name: str, kinds: dict[str, dict[str, Fit]]) -> Iterator[str]:
    """Yield the table of one set: a row per type, in each cell the tools in their order."""
    rows = f"{result['n']:,} rows"
    if result["rows"] > result["n"]:
        rows = f"{result['n']:,} random rows of {result['rows']:,}"
    constant = f", {result['constant']} constant columns left out" if result["constant"] else ""
    yield f"### {name}"
    yield ""
    yield f"{rows}, {result['d']} columns{constant}, k = {result['k']}."
    yield ""
    yield (
        "| type | log-likelihood: ours | scikit-learn | mclust | BIC: ours | scikit-learn | mclust "
        "| Rand | smallest, rows | s |"
    )
    yield "|---" * 10 + "|"
    for kind, fits in kinds.items():
        if kind == "auto":
            continue
        by_tool = [fits.get(tool) for tool in (OURS, PEER, MCLUST)]
        cells = [kind]
        cells += [f"{f.log_likelihood:,.1f}{_mark(f)}" if f else "–" for f in by_tool]
        cells += [f"{f.bic:,.1f}" if f else "–" for f in by_tool]
        cells.append(" / ".join(_rand(f) for f in by_tool))
        cells.append(" / ".join(f"{f.smallest:.0f}" if f else "–" for f in by_tool))
        cells.append(" / ".join(_time(f) for f in by_tool))
        yield "| " + " | ".join(cells) + " |"
    yield ""


def _mark(fit: Fit) -> str:
    return " †" if fit.collapsed else ""


def _rand(fit: Fit | None) -> str:
    return "–" if fit is None or fit.rand is None else f"{fit.rand:.2f}"


def _time(fit: Fit | None) -> str:
    return "–" if fit is None else f"{fit.seconds:.1f}"


def main() -> None:
    """Fit the sets that were asked for, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=(*SHIPPED, *IN_R), help="all by default")
    parser.add_argument("--rows", type=int, default=5_000, help="most rows of a set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--results", type=Path, help="JSON file of figures, to which sets are added"
    )
    parser.add_argument("--tables", action="store_true", help="tables of --results, no fits")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", im.AssumptionWarning)
    results: dict[str, Any] = {}
    if options.results and options.results.exists():
        results = json.loads(options.results.read_text())
    with tempfile.TemporaryDirectory() as folder:
        wanted = [] if options.tables else list(options.sets or (*SHIPPED, *IN_R))
        with_r = bool(wanted) and in_r(Path(folder))
        for name in wanted:
            if not with_r and name not in SHIPPED:
                continue
            print(f"{name} ...", file=sys.stderr, flush=True)
            data = load(name, Path(folder), options.rows, options.seed)
            results[name] = compare(data, options.seed, with_r=with_r)
            if options.results:
                options.results.write_text(json.dumps(results, indent=1))
    text = "\n".join(tables(results))
    print(text)
    if options.write:
        begin, end = MARKS
        before, _, rest = options.write.read_text().partition(begin)
        after = rest.partition(end)[2]
        options.write.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")


if __name__ == "__main__":
    main()
