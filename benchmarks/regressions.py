"""Mixtures of regressions: lines found and likelihood, beside random starts and flexmix.

    python benchmarks/regressions.py [recovery] [random] [real] [--seeds N] [--old SRC] ...

Every line is found if the largest error of a coefficient vector is at most 1.2 times that of EM
from the truth. Random EM starts at lines of random direction with the variance of y; of ten starts
the best likelihood counts. flexmix is fitted where R has it, for at most two minutes. ``random``
draws everything from the seed: 2 to 10 lines in 1 to 20 features, five laws of inputs, unequal
slopes and noise. EM from the truth has one noise variance, as the model has by default. ``real``
fits 70 % of the rows of four sets of R, drawn by the seed, with standardised columns and one noise
variance or one each. A fit has collapsed if a line has fewer than two rows per parameter, or less
than 1e-5 of the variance of y.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import (
    OLD,
    RIGHT,
    THIS,
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    above,
    both_editions,
    compare_levels,
    draw_weights,
    log_integer,
    log_likelihood,
    main,
    matched_distances,
    names,
    plain_em,
    print_table,
    select,
    spread,
    three_ways,
    timed,
    values,
)

TRUTH = "EM from the truth"
WITHIN = 1.2  # times the error of EM from the truth
LAWS = ("equal", "1/i", "Dirichlet", "one light")
INPUTS = ("normal", "discrete", "uniform", "t3", "correlated")
SLOPES = ("equal lengths", "different lengths", "one flat")
NOISES = ("equal", "unequal", "t3")


class Lines(NamedTuple):
    """Weights (k,), intercepts and slopes (k, 1 + d), and noise variances (k,)."""

    weights: Floats
    coefficients: Floats
    variances: Floats


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs with a first column of ones (n, 1 + d), labels, and the lines they are from."""

    Z: Floats
    y: Floats
    truth: Lines
    words: str = ""
    shared: bool = True  # whether lines have one noise variance

    def log_joint(self, lines: Lines) -> Floats:
        """Return the log densities (n, k) of labels given inputs, and components."""
        residuals = self.y[:, None] - self.Z @ lines.coefficients.T
        normaliser = np.log(2 * np.pi * lines.variances) / 2
        return np.asarray(
            np.log(lines.weights) - normaliser - residuals**2 / (2 * lines.variances)
        )

    def m_step(self, responsibilities: Floats) -> Lines:
        """Return the most likely lines."""
        counts = np.maximum(responsibilities.sum(axis=0), 1e-12)
        grams = np.einsum("nk,ni,nj->kij", responsibilities, self.Z, self.Z, optimize=True)
        sides = (responsibilities * self.y[:, None]).T @ self.Z
        grams += 1e-9 * np.eye(self.Z.shape[1])
        coefficients = np.linalg.solve(grams, sides[..., None])[..., 0]
        residuals = self.y[:, None] - self.Z @ coefficients.T
        squares = np.sum(responsibilities * residuals**2, axis=0)
        variances = np.full(len(counts), squares.sum() / len(self.y))
        if not self.shared:
            variances = np.maximum(squares / counts, 1e-12)
        return Lines(counts / counts.sum(), coefficients, variances)


@dataclass(frozen=True)
class Setting:
    """Lines of unit slopes in random directions, and what differs."""

    k: int
    d: int
    n: int
    noise: float = 0.3
    weights: str = (
        "equal"  # equal; 10:1, of the heaviest to the lightest; half, ten times as heavy
    )
    longest: float = 1.0  # norms of slopes are between 1/longest and longest
    pairs: float = 0.0  # distance of two lines of a pair
    inputs: str = "normal"


RECOVERY = {
    "k 4": Setting(4, 20, 20_000),
    "k 8": Setting(8, 20, 50_000),
    "k 12": Setting(12, 20, 30_000),
    "k 16": Setting(16, 20, 200_000),
    "k 6, d 4": Setting(6, 4, 100_000),
    "pairs": Setting(12, 20, 100_000, pairs=0.5),
    "pairs, 30,000 rows": Setting(12, 20, 30_000, pairs=0.5),
    "weights 10:1": Setting(8, 20, 50_000, weights="10:1"),
    "weights 10:1, 8,000 rows": Setting(8, 20, 8_000, weights="10:1"),
    "half light": Setting(8, 20, 50_000, weights="half"),
    "different norms": Setting(8, 20, 50_000, longest=2.0),
    "noise 1": Setting(8, 20, 50_000, noise=1.0),
    "k 24": Setting(24, 20, 200_000),
    "d 100": Setting(5, 100, 50_000),
    "exponential inputs": Setting(8, 20, 50_000, inputs="exponential"),
    "inputs of signs": Setting(8, 20, 50_000, inputs="signs"),
}


@cache
def draw(case: Case) -> Data:
    """Draw the rows of a case."""
    if case.setting == "random":
        return draw_anything(case.seed)
    setting, rng = RECOVERY[case.setting], np.random.default_rng([case.seed, 7])
    k, d = setting.k, setting.d
    slopes = draw_slopes(setting, rng)
    ratios = {
        "equal": np.ones(k),
        "10:1": np.geomspace(10, 1, k),
        "half": np.repeat([10.0, 1.0], [k // 2, k - k // 2]),
    }[setting.weights]
    weights = ratios / ratios.sum()
    labels = rng.choice(k, setting.n, p=weights)
    X = draw_inputs(rng, setting.inputs, setting.n, d)
    y = np.sum(X * slopes[labels], axis=1) + setting.noise * rng.normal(size=setting.n)
    truth = Lines(weights, np.column_stack([np.zeros(k), slopes]), np.full(k, setting.noise**2))
    return Data(np.column_stack([np.ones(setting.n), X]), y, truth)


def draw_slopes(setting: Setting, rng: np.random.Generator) -> Floats:
    """Draw slopes (k, d) in random directions, or pairs that are close."""
    k, d = setting.k, setting.d
    if setting.pairs:
        middle = unit(rng.normal(size=(k // 2, d)))
        away = rng.normal(size=(k // 2, d))
        away = unit(away - np.sum(away * middle, axis=1, keepdims=True) * middle)
        return np.vstack([middle + setting.pairs / 2 * away, middle - setting.pairs / 2 * away])
    norms = np.exp(rng.uniform(-1, 1, (k, 1)) * np.log(setting.longest))
    return np.asarray(norms * unit(rng.normal(size=(k, d))))


def unit(vectors: Floats) -> Floats:
    """Return vectors of length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def draw_anything(seed: int) -> Data:
    """Draw a mixture of lines, and rows from it."""
    rng = np.random.default_rng([seed, 2])
    k, d = int(rng.integers(2, 11)), log_integer(rng, 1, 20)
    n = log_integer(rng, max(100, 10 * k * (d + 2)), 8_000)  # ten rows per parameter and more
    law, inputs = str(rng.choice(LAWS)), str(rng.choice(INPUTS))
    slopes, noise = str(rng.choice(SLOPES)), str(rng.choice(NOISES))
    scale = np.exp(rng.uniform(np.log(0.05), np.log(0.5)))
    weights, coefficients = draw_weights(rng, law, k), rng.normal(size=(k, 1 + d))
    coefficients[:, 1:] = unit(coefficients[:, 1:])
    if slopes == "different lengths":
        coefficients[:, 1:] *= np.exp(rng.uniform(np.log(0.3), np.log(3.0), (k, 1)))
    elif slopes == "one flat":
        coefficients[0, 1:] = 0.0
    scales = scale * (rng.uniform(0.3, 2.0, k) if noise == "unequal" else np.ones(k))
    Z = np.column_stack([np.ones(n), draw_inputs(rng, inputs, n, d)])
    labels = rng.choice(k, n, p=weights)
    errors = rng.standard_t(3, n) / np.sqrt(3) if noise == "t3" else rng.normal(size=n)
    y = np.sum(Z * coefficients[labels], axis=1) + scales[labels] * errors
    words = (
        f"k {k}, d {d}, n {n}, weights {law}, inputs {inputs}, slopes {slopes}, "
        f"noise {noise} {scale:.2f}"
    )
    # the model has one noise variance
    return Data(Z, y, Lines(weights, coefficients, np.full(k, weights @ scales**2)), words)


def draw_inputs(rng: np.random.Generator, inputs: str, n: int, d: int) -> Floats:
    """Draw inputs (n, d) of about unit variance."""
    if inputs == "discrete":
        return rng.integers(-1, 3, (n, d)).astype(np.float64)
    if inputs == "uniform":
        return rng.uniform(-np.sqrt(3), np.sqrt(3), (n, d))
    if inputs == "t3":
        return np.divide(rng.standard_t(3, (n, d)), np.sqrt(3))
    if inputs == "exponential":
        return rng.exponential(size=(n, d)) - 1
    if inputs == "signs":
        return rng.choice([-1.0, 1.0], size=(n, d))
    X = rng.normal(size=(n, d))
    if inputs == "correlated":
        X = 0.6 * X + 0.8 * rng.normal(size=(n, 1))
    return np.asarray(X)


# ---- methods


def fit_ours(case: Case, n_components: str = "") -> Figures:
    """Fit RegressionMixture with its defaults; no rows are left out of random mixtures."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    data, drop = draw(case), case.setting != "random"
    k = n_components or len(data.truth.weights)
    model: Any = im.RegressionMixture(k, drop_outliers=drop, random_state=case.seed)
    model, seconds = timed(lambda: model.fit(data.Z[:, 1:], data.y))
    coefficients = np.column_stack([model.intercept_, model.coef_])
    variances = np.broadcast_to(np.square(model.noise_), len(coefficients))
    lines = Lines(model.weights_, coefficients, variances)
    return judge(data, lines) | {"seconds": seconds, "k": len(lines.weights)}


def fit_random_starts(case: Case, n_starts: int) -> Figures:
    """Run plain EM from random starts and keep the best."""
    data, rng = draw(case), np.random.default_rng([case.seed, n_starts])

    def best_of_starts() -> Lines:
        ends = [em(data, random_lines(data, rng)) for _ in range(n_starts)]
        best: Lines = max(ends, key=lambda end: end[0])[1]
        return best

    lines, seconds = timed(best_of_starts)
    return judge(data, lines) | {"seconds": seconds}


def random_lines(data: Data, rng: np.random.Generator) -> Lines:
    """Return lines of random direction through the origin with the variance of y."""
    k, d = len(data.truth.weights), data.Z[:, 1:].shape[1]
    coefficients = np.column_stack([np.zeros(k), 0.75 * unit(rng.normal(size=(k, d)))])
    return Lines(np.full(k, 1 / k), coefficients, np.full(k, data.y.var()))


def em(data: Data, start: Lines) -> tuple[float, Any]:
    """Run plain EM."""
    return plain_em(data.log_joint, data.m_step, start)


FLEXMIX = """
suppressMessages(library(flexmix)); rows <- read.csv("{rows}", header = FALSE); set.seed({seed})
t <- system.time(m <- flexmix(V1 ~ ., data = rows, k = {k}))
p <- parameters(m)
write.table(cbind(prior(m), t(p)), "{out}", sep = ",", row.names = FALSE, col.names = FALSE)
cat(sum(t[1:2]))
"""


def fit_flexmix(case: Case) -> Figures:
    """Fit flexmix with its defaults, if R has it: one random start."""
    if shutil.which("Rscript") is None:
        return {}
    data = draw(case)
    with tempfile.TemporaryDirectory() as folder:
        rows, out = Path(folder, "rows.csv"), Path(folder, "out.csv")
        np.savetxt(rows, np.column_stack([data.y, data.Z[:, 1:]]), delimiter=",", fmt="%.17g")
        program = FLEXMIX.format(rows=rows, out=out, seed=case.seed, k=len(data.truth.weights))
        command = ["Rscript", "-e", program]
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
        if done.returncode:
            return {}
        found = np.loadtxt(out, delimiter=",", ndmin=2)
    lines = Lines(found[:, 0], found[:, 1:-1], found[:, -1] ** 2)
    return judge(data, lines) | {"seconds": float(done.stdout)}


def fit_truth(case: Case) -> Figures:
    """Run plain EM from the truth."""
    data = draw(case)
    level, lines = em(data, data.truth)
    return judge(data, lines) | {"level": level, "words": data.words}


def judge(data: Data, lines: Lines) -> Figures:
    """Return the largest error of a line, and the log-likelihood of all rows."""
    errors = matched_distances(np.asarray(lines.coefficients), data.truth.coefficients)
    return {"error": float(errors.max()), "level": log_likelihood(data.log_joint(lines))}


def warm_up() -> None:
    """Fit a few rows."""
    import implicitmoments as im  # noqa: PLC0415

    rng = np.random.default_rng(0)
    im.RegressionMixture(2, random_state=0).fit(rng.normal(size=(200, 2)), rng.normal(size=200))


# ---- real data

REAL = {"patent": 3, "crabs": 2, "birthwt": 3, "boston": 3}  # lines that are fitted
SETS_OF_R = """
data(patent, package = "flexmix")
births <- transform(MASS::birthwt, race = factor(race))
of <- switch("{name}",
  patent = model.frame(log1p(Patents) ~ lgRD, patent), crabs = model.frame(RW ~ CL, MASS::crabs),
  birthwt = model.frame(bwt ~ age + lwt + race + smoke + ptl + ht + ui + ftv, births),
  boston = model.frame(medv ~ ., MASS::Boston))
table <- cbind(of[[1]], model.matrix(attr(of, "terms"), of)[, -1])
write.table(table, "{out}", sep = ",", row.names = FALSE, col.names = FALSE)
"""
STARTS = """
suppressMessages(library(flexmix)); rows <- read.csv("{rows}", header = FALSE); set.seed({seed})
best <- NULL; clock <- proc.time()
of <- reformulate(names(rows)[-1], "V1")
for (start in seq_len({n_starts})) {{
  model <- if ({shared}) FLXMRglmfix(varFix = TRUE) else FLXMRglm()
  how <- list(iter.max = 200, minprior = 0)
  m <- tryCatch(flexmix(of, rows, k = {k}, model = model, control = how), error = function(e) NULL)
  if (!is.null(m) && (is.null(best) || isTRUE(logLik(m) > logLik(best)))) best <- m
}}
found <- cbind(prior(best), t(parameters(best)))
write.table(found, "{out}", sep = ",", row.names = FALSE, col.names = FALSE)
cat(sum((proc.time() - clock)[1:2]))
"""
CONTINUED = "the best of 20, EM continued"


def run_r(program: str, rows: Floats | None = None, **words: Any) -> tuple[Floats, str]:
    """Run a program of R, and return the table that it writes and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"rows": Path(folder, "rows.csv"), "out": Path(folder, "out.csv")}
        if rows is not None:
            np.savetxt(files["rows"], rows, delimiter=",", fmt="%.17g")
        command = ["Rscript", "-e", program.format(**files, **words)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        return np.loadtxt(files["out"], delimiter=",", ndmin=2), done.stdout


@cache
def draw_real(case: Case) -> tuple[Data, Data]:
    """Return the rows of a set that are fitted, and those held out."""
    name, noise = case.setting.split()
    table, _ = run_r(SETS_OF_R, name=name)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    table = np.insert(
        table[np.random.default_rng(case.seed).permutation(len(table))], 1, 1, axis=1
    )
    n, k = round(0.7 * len(table)), REAL[name]
    truth = Lines(np.full(k, 1 / k), np.zeros((k, table.shape[1] - 1)), np.ones(k))  # unknown
    parts = (table[:n], table[n:])
    fitted, others = (
        Data(part[:, 1:], part[:, 0], truth, "", noise == "shared") for part in parts
    )
    return fitted, others


def judge_real(case: Case, lines: Lines, seconds: float) -> Figures:
    """Return log-likelihoods, and whether the fit has collapsed."""
    fitted, others = draw_real(case)
    joint = fitted.log_joint(lines)
    sizes = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None]).sum(axis=0)
    few = sizes.min() < 2 * fitted.Z.shape[1] and not fitted.shared
    return {
        "level": log_likelihood(joint),
        "held_out": log_likelihood(others.log_joint(lines)),
        "collapsed": bool(few or np.min(lines.variances) < 1e-5),
        "seconds": seconds,
    }


def fit_ours_real(case: Case) -> Figures:
    """Fit RegressionMixture to all rows."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    fitted, _ = draw_real(case)
    name, noise = case.setting.split()
    model: Any = im.RegressionMixture(
        REAL[name], noise_type=noise, drop_outliers=False, random_state=case.seed
    )
    model, seconds = timed(lambda: model.fit(fitted.Z[:, 1:], fitted.y))
    coefficients = np.column_stack([model.intercept_, model.coef_])
    variances = np.broadcast_to(np.square(model.noise_), len(coefficients))
    return judge_real(case, Lines(model.weights_, coefficients, variances), seconds)


@cache
def start_flexmix(case: Case, n_starts: int) -> tuple[Lines, float]:
    """Return the best of some starts of flexmix, and their seconds."""
    data, _ = draw_real(case)
    rows = np.column_stack([data.y, data.Z[:, 1:]])
    words = {"shared": str(data.shared).upper(), "k": len(data.truth.weights)}
    found, printed = run_r(STARTS, rows, seed=case.seed, n_starts=n_starts, **words)
    return Lines(found[:, 0], found[:, 1:-1], found[:, -1] ** 2), float(printed)


def fit_starts_real(case: Case, n_starts: int) -> Figures:
    """Judge the best of some starts of flexmix."""
    return judge_real(case, *start_flexmix(case, n_starts))


def continue_real(case: Case) -> Figures:
    """Judge the best of 20 starts after EM to convergence."""
    start, seconds = start_flexmix(case, 20)
    return judge_real(case, em(draw_real(case)[0], start)[1], seconds)


# ---- tables


def show_real(rows: list[Row]) -> None:
    """Print how likelihoods compare with those of each rival; in brackets where ours collapsed."""
    lines = []
    for method in (OLD, THIS):
        sound = [not row.get("collapsed") for row in select(rows, method=method)]
        for rival in [name for name in names(rows, "method") if sound and name != method]:
            cells = []
            for key in ("level", "held_out"):
                gaps = above(rows, method, rival, key)
                pairs = zip(three_ways(gaps), three_ways(gaps[sound]), strict=True)
                cells += [f"{every} ({every - some})" for every, some in pairs]
            cells.append(f"{above(rows, method, rival).min():.1f}")
            lines.append([method, rival, len(sound), *cells])
    heads = [f"{what}{gap}" for what in ("", "held out: ") for gap in ("higher", "equal", "lower")]
    print_table(("method", "rival", "fits", *heads, "worst"), lines)
    print()
    sums = [(m, spread(values(select(rows, method=m), "seconds"))) for m in names(rows, "method")]
    print_table(("method", "s"), sums)


def show_recovery(rows: list[Row]) -> None:
    """Print how often every line was found."""
    lines = []
    for setting in names(rows, "setting"):
        own = select(rows, setting=setting)
        goals = {row["seed"]: row["error"] for row in select(own, method=TRUTH)}
        for method in names(own, "method"):
            found = [row for row in select(own, method=method) if "seconds" in row]
            if not found:
                continue
            ratios = np.array([row["error"] / goals[row["seed"]] for row in found])
            numbers = values(found, "k")
            every = f"{np.sum(ratios <= WITHIN)} of {len(found)}"
            cells = [setting, method, every, f"{ratios.max():.2f}"]
            lines.append([*cells, spread(numbers, 0), spread(values(found, "seconds"))])
    print_table(("setting", "method", "every line", "worst error ratio", "lines", "s"), lines)


def show_random(rows: list[Row]) -> None:
    """Print how often each edition is lost, and where."""
    compare_levels(rows, TRUTH)
    print()
    gaps = {method: above(rows, method, TRUTH) for method in (OLD, THIS)}
    gaps = {method: own for method, own in gaps.items() if len(own)}
    lost = [
        (row["seed"], row["words"], *(f"{own[i]:+.1f}" for own in gaps.values()))
        for i, row in enumerate(select(rows, method=TRUTH))
        if any(own[i] < -RIGHT for own in gaps.values())
    ]
    print_table(("seed", "configuration", *gaps), lost)


METHODS = [
    Method(TRUTH, fit_truth),
    *both_editions(fit_ours),
    Method('this edition, "auto"', partial(fit_ours, n_components="auto")),
    Method("EM, 1 random start", partial(fit_random_starts, n_starts=1)),
    Method("EM, 10 random starts", partial(fit_random_starts, n_starts=10)),
    Method("flexmix", fit_flexmix),
]
TABLES = {
    "recovery": Table(list(RECOVERY), METHODS, show_recovery, warm_up, 10, ["k 4"]),
    "random": Table(["random"], METHODS[:3], show_random, warm_up, 300),
    "real": Table(
        [f"{name} {noise}" for name in REAL for noise in ("shared", "separate")],
        [
            *both_editions(fit_ours_real),
            Method("flexmix, 1 start", partial(fit_starts_real, n_starts=1)),
            Method("flexmix, 20 starts", partial(fit_starts_real, n_starts=20)),
            Method(CONTINUED, continue_real),
        ],
        show_real,
        warm_up,
        5,
        ["crabs shared"],
    ),
}

if __name__ == "__main__":
    main("regressions", __doc__, TABLES)
