"""What this library and its peers in Python do, tried out one by one.

Run: python benchmarks/features.py        (flexmix and mixtools: Rscript benchmarks/features.R)

Rows of docs/comparison.md rest on lines that this prints. Packages that are not installed are left
out: pip install "implicitmoments[peers]" tensorly.
"""

from __future__ import annotations

import importlib
import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(300, 2)), RNG.normal(size=(300, 2)) * 0.5 + 6])
HOLES = np.where(RNG.random(X.shape) < 0.02, np.nan, X)
WEIGHTS = RNG.uniform(0.5, 1.5, len(X))


def works(attempt: Callable[[], Any]) -> str:
    """Say whether something runs, and if not, why."""
    try:
        attempt()
    except (TypeError, ValueError, AttributeError, ImportError, MemoryError, RuntimeError) as why:
        return f"no ({type(why).__name__}: {str(why).splitlines()[0][:70]})"
    return "yes"


def try_ours() -> Iterator[tuple[str, str]]:
    """Try this library."""
    import implicitmoments as im  # noqa: PLC0415

    fitted = im.SphericalMixture(2, random_state=0).fit(X)
    lines = im.RegressionMixture(2, random_state=0).fit(X[:, :1], X[:, 1])
    yield "shared variance", f"{np.ndim(fitted.variance_) == 0}"
    yield "sample_weight", works(lambda: im.SphericalMixture(2).fit(X, sample_weight=WEIGHTS))
    yield "rows in pieces", works(lambda: im.SphericalMixture(2).partial_fit(X).partial_fit(X))
    yield "missing values", works(lambda: im.SphericalMixture(2).fit(HOLES))
    yield "number chosen", works(lambda: im.SphericalMixture("auto").fit(X))
    yield "standard errors of coefficients", f"{lines.coef_errors_.shape}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        journal = path.with_name("journal")
        yield "file", works(lambda: im.SphericalMixture(2).fit(path))
        yield "checkpoint", works(lambda: im.SphericalMixture(2).fit(path, checkpoint=journal))
    strict = importlib.import_module("array_api_strict")
    yield "other arrays", works(lambda: im.SphericalMixture(2).fit(strict.asarray(X)))
    dask = importlib.import_module("dask.array")
    yield "Dask", works(lambda: im.SphericalMixture(2).fit(dask.from_array(X, chunks=(200, 2))))
    wild = np.concatenate([X, [[1e6, 1e6]]])
    counted = im.SphericalMixture(2, random_state=0).fit(wild).stats_["outliers"]
    yield "outliers left out", str(int(counted))


def try_scikit_learn() -> Iterator[tuple[str, str]]:
    """Try scikit-learn's GaussianMixture."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415
    from sklearn.utils import get_tags  # noqa: PLC0415
    from sklearn.utils.discovery import all_estimators  # noqa: PLC0415

    spherical = GaussianMixture(2, covariance_type="spherical").fit(X)
    yield (
        "estimators with mixture in their name",
        str([n for n, _ in all_estimators() if "ixtur" in n]),
    )
    yield "variances of spherical components", f"{spherical.covariances_.shape}"
    yield "full covariances", works(lambda: GaussianMixture(2).fit(X))
    yield "default start", f"{GaussianMixture().init_params}, n_init={GaussianMixture().n_init}"
    yield "sample_weight", works(lambda: GaussianMixture(2).fit(X, sample_weight=WEIGHTS))
    yield "partial_fit", str(hasattr(GaussianMixture, "partial_fit"))
    yield "missing values", works(lambda: GaussianMixture(2).fit(HOLES))
    yield "bic", str(hasattr(GaussianMixture, "bic"))
    for start in ("kmeans", "random"):
        tags = get_tags(GaussianMixture(init_params=start))
        yield f"other arrays, init_params={start!r}", str(tags.array_api_support)
    wild = np.concatenate([X, [[1e6, 1e6]]])
    yield (
        "weights with one row at 1e6",
        str(GaussianMixture(2, random_state=0).fit(wild).weights_.round(3)),
    )


def try_pomegranate() -> Iterator[tuple[str, str]]:
    """Try pomegranate's GeneralMixtureModel."""
    torch = importlib.import_module("torch")
    model: Any = importlib.import_module("pomegranate.gmm").GeneralMixtureModel
    normal: Any = importlib.import_module("pomegranate.distributions").Normal
    rows = torch.tensor(X, dtype=torch.float32)

    def make(kind: str = "diag") -> Any:
        return model([normal(covariance_type=kind) for _ in range(2)], random_state=0)

    spherical = make("sphere").fit(rows)
    shapes = [tuple(part.covs.shape) for part in spherical.distributions]
    yield "variances of spherical components", f"one each: {shapes}"
    yield "full covariances", works(lambda: make("full").fit(rows))
    yield "default start", str(inspect.signature(model).parameters["init"].default)
    yield "sample_weight", works(lambda: make().fit(rows, torch.tensor(WEIGHTS)[:, None].float()))
    pieces = make().fit(rows)
    yield (
        "rows in pieces",
        works(
            lambda: ([pieces.summarize(part) for part in rows.split(100)], pieces.from_summaries())
        ),
    )
    holes = torch.masked.MaskedTensor(rows, torch.tensor(~np.isnan(HOLES)))
    yield "missing values, as a masked tensor", works(lambda: make().fit(holes))
    yield "bic", str(hasattr(model, "bic"))
    yield (
        "modules",
        ", ".join(
            sorted(
                p.stem for p in Path(importlib.import_module("pomegranate").__path__[0]).iterdir()
            )
        ),
    )


def try_tensorly() -> Iterator[tuple[str, str]]:
    """Try tensorly's symmetric decomposition and its memory."""
    tl = importlib.import_module("tensorly")
    power: Any = importlib.import_module(
        "tensorly.decomposition"
    ).symmetric_parafac_power_iteration
    for k in (3, 7):
        vectors = np.linalg.qr(RNG.normal(size=(k, k)))[0][:, :5] if k > 5 else np.eye(5)[:k]
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        tensor = tl.tensor(np.einsum("ia,ib,ic->abc", vectors, vectors, vectors))
        factor = power(tensor, k)[1]
        cosines = np.abs(factor.T @ vectors.T / np.linalg.norm(factor, axis=0)[:, None]).max(
            axis=0
        )
        yield f"{k} vectors in 5 features, least cosine", f"{cosines.min():.2f}"
    yield "a tensor of order 12 in 20 features", works(lambda: tl.tensor(np.zeros((20,) * 12)))


PEERS = {
    "implicitmoments": try_ours,
    "scikit-learn": try_scikit_learn,
    "pomegranate": try_pomegranate,
    "tensorly": try_tensorly,
}


def main() -> None:
    """Print a table of what was found."""
    warnings.simplefilter("ignore")
    print("| package | what | found |\n|---|---|---|")
    for name, attempt in PEERS.items():
        try:
            named = f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
        for what, found in attempt():
            print(f"| {named} | {what} | {found} |")


if __name__ == "__main__":
    main()
