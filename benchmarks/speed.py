"""Seconds of fits beside one start of scikit-learn, and of one pass of EM on a GPU.

    python benchmarks/speed.py [large] [small] [device] [--seeds N] [--old SRC] [--quick] ...

``large`` has 10,000 rows and more, ``small`` 100 to 2,000. Means are Gaussian, 4 deviations apart
(5 from three features on) or on a grid; weights are between 1 and 3 times the least. Seconds are
of one processor. ``device`` needs torch and a GPU: one pass of EM over a million rows beside its
two matrix products, and six steps of EM from given means.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from common import (
    THIS,
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    both_editions,
    main,
    matched_distances,
    names,
    print_table,
    select,
    spread,
    timed,
    values,
)

PEER = "scikit-learn, 1 start"


@dataclass(frozen=True)
class Setting:
    """Components, features and rows, and covariances or geometry."""

    k: int
    d: int
    n: int
    shape: str = "spherical"

    def __str__(self) -> str:
        return f"k {self.k}, d {self.d}, {self.n:,} rows, {self.shape}"


def by_name(*settings: Setting) -> dict[str, Setting]:
    """Return settings by their names."""
    return {str(setting): setting for setting in settings}


LARGE = by_name(
    Setting(25, 10, 30_000),
    Setting(45, 25, 50_000),
    Setting(80, 40, 80_000),
    Setting(150, 30, 100_000),
    Setting(100, 256, 40_000),
    Setting(20, 768, 20_000),
    Setting(64, 3, 40_000),
    Setting(64, 3, 40_000, "grid"),
    Setting(30, 2, 20_000),
    Setting(8, 5, 10_000),
    Setting(30, 10, 60_000, "full"),
    Setting(15, 30, 60_000, "full"),
    Setting(50, 20, 100_000, "full"),
)
SMALL = by_name(
    *(
        Setting(k, d, n, shape)
        for k, d, n in ((2, 2, 100), (3, 4, 150), (5, 3, 400), (6, 5, 600), (10, 5, 2_000))
        for shape in ("spherical", "full")
    )
)
SETTINGS = LARGE | SMALL


@cache
def draw(case: Case) -> tuple[Floats, Floats]:
    """Return rows and means."""
    setting = SETTINGS[case.setting]
    k, d, n = setting.k, setting.d, setting.n
    rng = np.random.default_rng([case.seed, k, d, n])
    weights = rng.uniform(1, 3, k)
    if setting.shape == "grid":
        side = round(k ** (1 / 3))
        means = 4.0 * np.indices((side,) * 3).reshape(3, -1).T
    else:
        means = draw_means(k, d, 4.0 if d < 3 else 5.0, rng)
    labels = rng.choice(k, n, p=weights / weights.sum())
    rows = rng.normal(size=(n, d))
    if setting.shape == "full":  # deviations between 1/2 and 1, so that means stay apart
        for i in range(k):
            axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
            rows[labels == i] = rows[labels == i] * rng.uniform(0.5, 1.0, d) @ axes
    return np.asarray(rows + means[labels]), np.asarray(means)


def draw_means(k: int, d: int, apart: float, rng: np.random.Generator) -> Floats:
    """Draw Gaussian means that are at least ``apart`` from one another."""
    scale, means = apart / np.sqrt(2 * d), np.empty((0, d))
    while len(means) < k:
        new = scale * rng.normal(size=d)
        if len(means) == 0 or np.min(np.sum((means - new) ** 2, axis=1)) >= apart**2:
            means = np.vstack([means, new])
        scale *= 1.0005
    return means


def fit_ours(case: Case) -> Figures:
    """Fit SphericalMixture, or GaussianMixture with full covariances."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    setting = SETTINGS[case.setting]
    model: Any = im.SphericalMixture(setting.k, random_state=case.seed)
    if setting.shape == "full":
        model = im.GaussianMixture(setting.k, random_state=case.seed)
    return outcome(case, model)


def fit_scikit_learn(case: Case) -> Figures:
    """Fit scikit-learn's mixture from one start."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    setting = SETTINGS[case.setting]
    kind = "full" if setting.shape == "full" else "spherical"
    return outcome(case, GaussianMixture(setting.k, covariance_type=kind, random_state=case.seed))


def outcome(case: Case, model: Any) -> Figures:
    """Return seconds, means missed by more than their errors, and the likelihood per row."""
    setting, (X, means) = SETTINGS[case.setting], draw(case)
    model, seconds = timed(lambda: model.fit(X))
    close = max(0.5, 1.5 * float(np.sqrt(2 * setting.d * setting.k / setting.n)))
    missed = int(np.sum(matched_distances(np.asarray(model.means_), means) >= close))
    return {"seconds": seconds, "missed": missed, "level": float(model.score(X))}


def warm_up() -> None:
    """Fit a few rows by the library and by scikit-learn."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X = np.random.default_rng(0).normal(size=(200, 2))
    im.SphericalMixture(2, random_state=0).fit(X)
    im.GaussianMixture(2, random_state=0).fit(X)
    GaussianMixture(2, random_state=0).fit(X)


def show(rows: list[Row]) -> None:
    """Print seconds, the ratio to one start of scikit-learn, and means missed."""
    lines = []
    for setting in names(rows, "setting"):
        own = select(rows, setting=setting)
        peer = values(select(own, method=PEER), "seconds")
        for method in names(own, "method"):
            found = select(own, method=method)
            seconds = values(found, "seconds")
            ratio = spread(seconds / peer) if len(seconds) == len(peer) else "–"
            missed = values(found, "missed")
            every = f"{np.sum(missed == 0)} of {len(missed)}"
            lines.append([setting, method, spread(seconds, 3), ratio, every])
    print_table(("setting", "method", "s", "ratio to one start", "every mean"), lines)


# ---- a GPU


def torch_module() -> Any:
    """Return torch if it sees a GPU, else None."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch  # noqa: PLC0415  # an extra

    return torch if torch.cuda.is_available() else None


PASSES = [f"{kind} {dtype}" for kind in ("spherical", "diag") for dtype in ("float32", "float64")]
STEPS = "six steps of EM"


def measure_device(case: Case) -> Figures:
    """Measure a pass of EM or a fit of six steps, k = 1,024 in 128 features, a million rows."""
    torch = torch_module()
    if torch is None:
        return {}
    import implicitmoments as im  # noqa: PLC0415

    k, d, n = 1_024, 128, 1_000_000
    kind, dtype = ("spherical", "float32") if case.setting == STEPS else case.setting.split()
    generator = torch.Generator("cuda").manual_seed(case.seed)
    how: dict[str, Any] = {"device": "cuda", "dtype": getattr(torch, dtype)}
    means = 3 * torch.randn((k, d), generator=generator, **how)
    labels = torch.randint(k, (n,), generator=generator, device="cuda")
    X = means[labels] + torch.randn((n, d), generator=generator, **how)
    model: Any = im.GaussianMixture(
        k, covariance_type=kind, means_init=means.cpu().numpy(), max_iter=6, drop_outliers=False
    )
    if case.setting == STEPS:
        model.fit(X[:10_000])
        return {"seconds": seconds_of(lambda: model.fit(X), torch, 1)}
    features = torch.hstack([X, X**2]) if kind == "diag" else X
    weights = torch.randn((k, features.shape[1]), **how)

    def products() -> Any:
        logits = features @ weights.T
        return logits.T @ features

    e_step = pass_of(model, X)
    plain = seconds_of(products, torch, 5)
    return {"seconds": seconds_of(e_step, torch, 5), "products": plain}


def pass_of(model: Any, X: Any) -> Callable[[], Any]:
    """Return one pass of EM over the rows, at the parameters of a fit of a few of them."""
    from implicitmoments.mixture.em import Stream  # noqa: PLC0415
    from implicitmoments.mixture.gaussians import Gaussians  # noqa: PLC0415
    from implicitmoments.rows import Rows  # noqa: PLC0415

    rows = Rows.of(X)
    family = Gaussians(model.covariance_type).prepare(rows)
    stream = Stream(family, rows, np.zeros(0), single=str(X.dtype).endswith("32"))
    k = len(model.means_init)
    shape = model.means_init.shape[: 1 + (model.covariance_type == "diag")]
    given = {"means": model.means_init, "covariances": np.ones(shape)}
    sums = family.sums_of(given, np.full(k, len(X) / k))[None]
    return lambda: stream.e_step(sums)


def seconds_of(call: Callable[[], Any], torch: Any, repeats: int) -> float:
    """Return the median time of calls, after one that is not timed if there are several."""
    times = []
    for _ in range(repeats + (repeats > 1)):
        torch.cuda.synchronize()
        clock = perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(perf_counter() - clock)
    return float(np.median(times[-repeats:]))


def show_device(rows: list[Row]) -> None:
    """Print milliseconds, and the ratio to the two products."""
    lines = [
        (
            row["setting"],
            f"{1_000 * row['seconds']:.1f}",
            f"{row['seconds'] / row['products']:.2f}" if "products" in row else "–",
        )
        for row in rows
        if "seconds" in row
    ]
    print_table(("what", "ms", "ratio to two products"), lines or [("no GPU", "", "")])
    for row in rows:
        if "error" in row:
            print(row["setting"], row["error"])


METHODS = [Method(PEER, fit_scikit_learn), *both_editions(fit_ours)]
TABLES = {
    "large": Table(list(LARGE), METHODS, show, warm_up, 3, [str(Setting(8, 5, 10_000))]),
    "small": Table(list(SMALL), METHODS, show, warm_up, 10, list(SMALL)[:2]),
    "device": Table(
        [*PASSES, STEPS], [Method(THIS, measure_device)], show_device, warm_up, 1, PASSES[:1]
    ),
}

if __name__ == "__main__":
    main("speed", __doc__, TABLES)
