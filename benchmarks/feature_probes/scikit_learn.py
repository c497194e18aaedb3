"""What scikit-learn does: ``GaussianMixture`` and its family."""

from __future__ import annotations

import pickle
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.mixture
from sklearn import config_context
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.neural_network import MLPRegressor
from sklearn.utils.discovery import all_displays, all_estimators, all_functions

from feature_probes import Cell, Probes, absent, mixture_methods, project, public_names, tries
from feature_probes.data import LABELS, WEIGHTS, WILD, X, in_containers

MIXTURES = public_names(sklearn.mixture)
EVERYTHING = [name for name, _ in [*all_estimators(), *all_functions()]]


def fit(rows: Any = X, k: int = 2, **how: Any) -> Any:
    """Fit a mixture."""
    return GaussianMixture(k, random_state=0, **how).fit(rows)


def shape(kind: str, expected: tuple[int, ...]) -> Cell:
    """Return whether covariances of this kind have the shape that the row asks for."""
    seen = fit(covariance_type=kind).covariances_.shape
    return ("yes" if seen == expected else "no"), f"covariance_type={kind!r}: {seen}"


def one_variance() -> Cell:
    """Return whether some kind of covariance is one number."""
    kinds = ("full", "tied", "diag", "spherical")
    shapes = {kind: fit(covariance_type=kind).covariances_.shape for kind in kinds}
    return ("yes" if () in shapes.values() else "no"), f"shapes {shapes}"


def only_gaussian() -> Cell:
    """Return "no" if all that is called a mixture is Gaussian."""
    found = [name for name in EVERYTHING if "mixture" in name.lower()]
    others = [name for name in found if "Gaussian" not in name]
    return (f"found {others}" if others else "no"), f"estimators called mixtures: {found}"


def floor() -> Cell:
    """Fit rows that are nearly the same, with a floor."""
    variances = fit(1e-3 * X, reg_covar=0.1, covariance_type="diag").covariances_
    return ("`reg_covar`" if variances.min() >= 0.1 else "no"), f"least variance {variances.min()}"


def shrunk() -> Cell:
    """Return how a number of components is found: by criteria, or by a prior on weights."""
    bic = [fit(k=k).bic(X) for k in (1, 2, 3)]
    prior = BayesianGaussianMixture(
        n_components=6, random_state=0, weight_concentration_prior=1e-3
    )
    used = int(np.sum(prior.fit(X).weights_ > 0.01))
    words = "compare `bic`, or a prior that empties components"
    return words, f"BIC of 1, 2, 3: {np.round(bic)}; the prior uses {used} of 6"


def memory_map() -> Cell:
    """Return whether rows may be a memory map."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        refused = tries(lambda: fit(str(path)), "Expected 2D|convert string")
        mapped = tries(lambda: fit(np.load(path, mmap_mode="r")), yes="a memory map")
    return mapped[0], f"a path: {refused[1]}; a map: {mapped[1]}"


def torch_arrays() -> Cell:
    """Return which starts take rows of torch and keep them there."""
    torch = import_module("torch")
    kept = []
    with config_context(array_api_dispatch=True):
        for start in ("kmeans", "random"):
            try:
                fitted = fit(torch.asarray(X), init_params=start)
            except (TypeError, ValueError, NotImplementedError):
                continue
            if isinstance(fitted.means_, torch.Tensor):
                kept.append(start)
    words = {("random",): 'with `init_params="random"`', (): "no"}
    return words.get(tuple(kept), "yes"), f"starts that keep torch tensors: {kept}"


def again() -> Cell:
    """Return whether a fit goes on where another ended."""
    start = {"init_params": "random", "max_iter": 1, "tol": 0}
    model = GaussianMixture(2, random_state=0, warm_start=True, **start)
    bounds = [float(model.fit(X).lower_bound_) for _ in range(3)]
    words = "by hand, `warm_start`" if bounds[0] < bounds[1] <= bounds[2] else "no"
    return words, f"bounds after three fits of one step: {np.round(bounds, 4)}"


def models() -> Probes:
    """Return the probes of models."""
    return {
        "spherical Gaussians, one variance per component": lambda: shape("spherical", (2,)),
        "spherical Gaussians, tied variance": one_variance,
        "diagonal covariances": lambda: shape("diag", (2, 2)),
        "full covariances": lambda: shape("full", (2, 2, 2)),
        "tied full covariance": lambda: shape("tied", (2, 2)),
        "factor analysers": lambda: absent(MIXTURES, "factor"),
        "other families (Poisson, gamma, …)": lambda: absent(MIXTURES, "poisson|gamma|famil|expo"),
        "nonparametric components": lambda: absent(MIXTURES, "kernel|bandwidth|nonparam"),
        "features of different families": lambda: absent(MIXTURES, "famil|independent|distrib"),
        "linear regressions": only_gaussian,
        "generalised linear models": only_gaussian,
        "random effects": lambda: absent(EVERYTHING, "mixedeff|mixedlin|randomeff|lmm|lmer"),
        "smooth or penalised terms": only_gaussian,
        "weights that depend on x": lambda: absent(EVERYTHING, "expert|concomitant|gating"),
        "grouped rows that share a component": lambda: absent(MIXTURES, "group"),
        "positive sums of a known activation": lambda: tries(
            lambda: MLPRegressor(hidden_layer_sizes=(2,), max_iter=5).fit(X, LABELS).coefs_[1],
            yes="free networks, `MLPRegressor`",
        ),
        "density from moments, without components": lambda: absent(EVERYTHING, "moment|hermite"),
        "hidden Markov models, Bayesian networks": lambda: absent(
            EVERYTHING, "markov|hmm|bayesiannet|factorgraph"
        ),
        "implicit moments of high order": lambda: absent(EVERYTHING, "moment"),
        "more components than features, from moments": lambda: absent(EVERYTHING, "moment"),
        "decomposition of a given tensor": lambda: absent(EVERYTHING, "tensor|parafac|tucker"),
        "Tucker, tensor train, tensor regression": lambda: absent(EVERYTHING, "tensor|tucker"),
    }


def fitting() -> Probes:
    """Return the probes of fitting."""
    default = GaussianMixture()
    means = X[[0, -1]]
    return {
        "initialisation": lambda: (
            {"kmeans": "k-means"}.get(default.init_params, default.init_params),
            f"init_params={default.init_params!r}",
        ),
        "multiple starts": lambda: tries(
            lambda: fit(n_init=3), yes=f"`n_init`, default {default.n_init}"
        ),
        "user-defined start": lambda: tries(lambda: fit(means_init=means), yes="`means_init`"),
        "EM": lambda: tries(lambda: f"{fit().n_iter_} steps"),
        "stochastic or hard EM": lambda: tries(lambda: KMeans(2).fit(X), yes="`KMeans`"),
        "sample weights": lambda: tries(
            lambda: GaussianMixture(2).fit(X, sample_weight=WEIGHTS), "unexpected keyword"
        ),
        "number of components": shrunk,
        "bootstrap test of the number of components": lambda: absent(MIXTURES, "boot|test"),
        "standard errors": lambda: absent(MIXTURES, "error|stderr|confidence|boot"),
        "outliers": lambda: (
            "no" if fit(WILD).weights_.min() < 0.01 else "yes",
            f"weights with one row at 1e6: {fit(WILD).weights_.round(3)}",
        ),
        "prior on parameters": lambda: tries(
            lambda: BayesianGaussianMixture(n_components=2, mean_precision_prior=1.0).fit(X),
            yes="`BayesianGaussianMixture`",
        ),
        "lower bound on variances": floor,
        "fixed parameters": lambda: absent(MIXTURES, "fixed|frozen|freeze|constr"),
        "semi-supervised": lambda: absent(MIXTURES, "label|semi"),
        **mixture_methods(fit),
    }


def using() -> Probes:
    """Return the probes of rows, machines and daily use."""
    dask, frame, sparse = in_containers()
    small = X.astype(np.float32)
    displays = [f"{name}" for name, _ in all_displays()]
    return {
        "incremental fits": lambda: absent(MIXTURES, "partial_fit"),
        "data in files": memory_map,
        "resumes after an interruption": again,
        "other array libraries, GPU": torch_arrays,
        "float32 in, float32 out": lambda: (
            "yes" if fit(small).means_.dtype == np.float32 else "no",
            f"means are {fit(small).means_.dtype}",
        ),
        "Dask": lambda: tries(lambda: type(fit(dask).means_), yes="collected into memory"),
        "sparse data": lambda: tries(lambda: fit(sparse), "[Ss]parse"),
        "scikit-learn API": lambda: tries(lambda: clone(GaussianMixture(2)).fit(X)),
        "data frames": lambda: tries(lambda: fit(frame).feature_names_in_),
        "model files": lambda: (
            "pickle" if absent(MIXTURES, "save|dump|export")[0] == "no" else "yes",
            f"no method that saves; a pickle of {len(pickle.dumps(fit()))} bytes",
        ),
        "report": lambda: absent(MIXTURES, "report|summary"),
        "plots": lambda: absent(displays, "mixture|component"),
        "data sets included": lambda: (
            str(len(shipped())),
            f"load_*: {shipped()}",
        ),
    }


def shipped() -> list[str]:
    """Return the data sets that come with the package."""
    names = dir(import_module("sklearn.datasets"))
    others = ("load_files", "load_sample", "load_svmlight")
    return [n for n in names if n.startswith("load_") and not n.startswith(others)]


def probes() -> Probes:
    """Return all probes of scikit-learn."""
    return {**models(), **fitting(), **using(), **project("scikit-learn")}
