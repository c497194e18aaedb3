"""Mixtures of tables: likelihood beside EM from the truth and from random starts.

    python benchmarks/tables.py [recovery] [--seeds N] [--first SEED] [--quick] ...

``mixed`` has 4 Gaussian, 3 Poisson and 3 categorical columns, 3 to 12 components and 500 to 20,000
rows, all drawn from the seed, and a share of missing cells; the others have columns of one kind.
All methods have one implementation of EM; a random start gives every row random responsibilities.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from common import (
    LOST,
    RIGHT,
    THIS,
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    above,
    draw_weights,
    log_integer,
    main,
    names,
    print_table,
    select,
    spread,
    timed,
    values,
)

TRUTH = "EM from the truth"
MIXED = {f"mixed, {share} % missing": share / 100 for share in (0, 10, 30)}
COUNTS = {f"counts, k {k}, d {d}": (k, d) for k, d in ((20, 10), (40, 15), (60, 30))}
CLASSES = "latent classes, k 12, d 30"
SETTINGS = [*MIXED, *COUNTS, CLASSES]


class Data(NamedTuple):
    """A table, the kinds of its columns, and the component of each row."""

    columns: dict[str, Any]
    kinds: dict[str, str]
    labels: Any
    k: int


@cache
def draw(case: Case) -> Data:
    """Draw the table of a case."""
    rng = np.random.default_rng([case.seed, 42])
    if case.setting in MIXED:
        k, n = int(rng.integers(3, 13)), log_integer(rng, 500, 20_000)
        numbers, counts, levels = 4, 3, [4, 4, 4]
    elif case.setting in COUNTS:
        (k, counts), n = COUNTS[case.setting], 10_000
        numbers, levels = 0, []
    else:
        k, n, numbers, counts, levels = 12, 5_000, 0, 0, [2] * 30
    labels = rng.choice(k, n, p=draw_weights(rng, "Dirichlet", k))
    columns: dict[str, Any] = {}
    kinds = {}
    for j in range(numbers):
        means, deviations = 2 * rng.normal(size=k), np.exp(rng.uniform(-0.5, 0.3, k))
        columns[f"number {j}"] = means[labels] + deviations[labels] * rng.normal(size=n)
        kinds[f"number {j}"] = "gaussian"
    for j in range(counts):
        rates = np.exp(rng.normal(1.0, 1.0, k))
        columns[f"count {j}"] = rng.poisson(rates[labels]).astype(float)
        kinds[f"count {j}"] = "poisson"
    for j, size in enumerate(levels):
        below = rng.dirichlet(np.full(size, 0.7), k).cumsum(1)[labels]
        columns[f"level {j}"] = (below < rng.random((n, 1))).sum(1).astype(float)
        kinds[f"level {j}"] = "categorical"
    for cells in columns.values():
        cells[rng.random(n) < MIXED.get(case.setting, 0.0)] = np.nan
    return Data(columns, kinds, labels, k)


def fit_ours(case: Case) -> Figures:
    """Fit this library's mixture with its defaults."""
    import implicitmoments as im  # noqa: PLC0415

    data = draw(case)
    model: Any = im.TableMixture(data.k, columns=data.kinds, random_state=case.seed)
    model, seconds = timed(lambda: model.fit(data.columns))
    return {"level": len(data.labels) * model.lower_bound_, "seconds": seconds}


def fit_em(case: Case, n_starts: int) -> Figures:
    """Run EM from random responsibilities, or from the truth for no start."""
    from implicitmoments.mixture.em import Sample, run_em  # noqa: PLC0415
    from implicitmoments.mixture.frames import layout_of  # noqa: PLC0415
    from implicitmoments.mixture.tables import Tables  # noqa: PLC0415
    from implicitmoments.rows import ArrayTable, Rows  # noqa: PLC0415

    data, rng = draw(case), np.random.default_rng(case.seed)
    layout = layout_of(data.columns, data.kinds, {}, {})
    rows = Rows(ArrayTable.of({"x": layout.numbers(data.columns)}))

    def fit() -> float:
        family = Tables(kinds=layout.parts()).prepare(rows)
        sample = Sample.of(family, rows)
        n, k = len(data.labels), data.k
        starts: list[Floats] = [rng.dirichlet(np.ones(k), n).T for _ in range(n_starts)]
        levels = [
            run_em(sample, (start @ sample.own)[None], tol=1e-8, max_iter=1_500).levels[0]
            for start in starts or [np.eye(k)[data.labels].T]
        ]
        return float(max(levels))

    level, seconds = timed(fit)
    return {"level": level, "seconds": seconds}


def show(rows: list[Row]) -> None:
    """Print how often each method is as good as EM from the truth."""
    lines = []
    for setting in names(rows, "setting"):
        own = select(rows, setting=setting)
        for method in names(own, "method"):
            gaps = above(own, method, TRUTH)
            seconds = spread(values(select(own, method=method), "seconds"))
            good, lost = np.sum(gaps >= -RIGHT), np.sum(gaps < -LOST)
            if method != TRUTH:
                lines.append([setting, method, f"{good} of {len(gaps)}", lost, seconds])
    heads = ("setting", "method", f"within {RIGHT:g} nats of EM from the truth")
    print_table((*heads, f"lost by more than {LOST:g}", "s"), lines)


def warm_up() -> None:
    """Fit a small table, so that imports are not timed."""
    fit_ours(Case("mixed, 10 % missing", 0))


METHODS = [
    Method(TRUTH, partial(fit_em, n_starts=0)),
    Method(THIS, fit_ours),
    Method("EM, 1 random start", partial(fit_em, n_starts=1)),
    Method("EM, 10 random starts", partial(fit_em, n_starts=10)),
]
TABLES = {"recovery": Table(SETTINGS, METHODS, show, warm_up, 20, list(MIXED)[:1])}


if __name__ == "__main__":
    main("tables", __doc__, TABLES)
