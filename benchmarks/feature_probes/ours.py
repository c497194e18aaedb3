"""What this library does."""

from __future__ import annotations

import contextlib
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import implicitmoments as im
from feature_probes import Cell, Probes, absent, mixture_methods, project, public_names, tries
from feature_probes.data import LABELS, LIGHT, WEIGHTS, WILD, X, in_containers
from implicitmoments.datasets import make_activation_sum, make_spherical_mixture
from implicitmoments.problems import SphericalMixtureProblem

NAMES = public_names(
    *(im, im.problems, im.moments, im.plot, im.report, im.datasets, im.rows, im.projections)
)
KINDS = ("Spherical", "Gaussian", "Regression", "Activation")
ESTIMATORS = [n for n in NAMES if n.startswith(KINDS)]
MIXTURES = [n for n in ESTIMATORS if not n.startswith("Activation")]


def fit(rows: Any = X, k: Any = 2, **how: Any) -> Any:
    """Fit a spherical mixture."""
    return im.SphericalMixture(k, random_state=0, **how).fit(rows)


def shape(covariance_type: str, expected: tuple[int, ...]) -> Cell:
    """Fit Gaussians with covariances of a type, and see their shape."""
    model = im.GaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(X)
    found = model.covariances_.shape
    return ("yes" if found == expected else "no"), f"covariances {found}"


def given_start() -> Cell:
    """Fit Gaussians from given means, which keep their order."""
    means = fit().means_[::-1]
    model = im.GaussianMixture(2, means_init=means, random_state=0).fit(X)
    near = bool(np.abs(model.means_ - means).max() < 1)
    return ("`means_init`, Gaussian mixtures" if near else "no"), f"starts {model.stats_['start']}"


def lines(**how: Any) -> Any:
    """Fit a mixture of regressions."""
    return im.RegressionMixture(2, random_state=0).fit(X[:, :1], LABELS, **how)


def moments() -> Cell:
    """Answer with a tensor of order 12 in 20 features, 20^12 entries."""
    rows, _ = make_spherical_mixture(3000, 3, 20, radius=4.0, separation=3.0, random_state=0)
    found = im.implicit_moments(SphericalMixtureProblem(rows), n_components=3, order=12)
    answers = found.hermite(rows[:5])
    good = bool(np.all(np.isfinite(answers)))
    return ("yes" if good else "no"), f"order 12 in 20 features: {answers.shape} finite answers"


def overcomplete() -> Cell:
    """Find eight means in six features from moments."""
    rows, truth = make_spherical_mixture(60_000, 8, 6, radius=4.0, separation=3.0, random_state=0)
    found = im.implicit_moments(SphericalMixtureProblem(rows), n_components=8, order=4)
    means = np.asarray(found.components().vectors)
    cosines = means @ truth.vectors.T / np.linalg.norm(means, axis=1)[:, None]
    least = float((cosines / np.linalg.norm(truth.vectors, axis=1)).max(axis=0).min())
    return (
        "from rows" if least > 0.9 else "no"
    ), f"8 means in 6 features, least cosine {least:.3f}"


def network() -> Cell:
    """Learn a sum of two ReLUs."""
    rows, labels, _ = make_activation_sum(2000, 2, 5, noise=0.1, random_state=0)
    model = im.ActivationSumRegressor("relu", n_components=2, random_state=0).fit(rows, labels)
    weights = model.weights_
    return ("yes" if (weights > 0).all() else "no"), f"weights {weights.round(2)}"


def density() -> Cell:
    """Fit a density that has no components."""
    model = im.SphericalMixtureDensity(2, random_state=0).fit(X)
    has = [n for n in vars(model) if n.startswith(("means", "weights", "components"))]
    return ("yes" if not has else "no"), f"log-density {model.score_samples(X[:2]).round(2)}"


def from_file() -> Cell:
    """Fit rows of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        return tries(lambda: fit(path).weights_.round(2), yes="yes")


def interrupted() -> Cell:
    """End a fit midway, and go on from its journal."""
    many, _ = make_spherical_mixture(30_000, 3, 4, random_state=0)
    blocks: list[int] = []

    def stop(_what: str, done: int, _total: int) -> None:
        blocks.append(done)
        if len(blocks) == 3:
            raise KeyboardInterrupt

    def begin(**how: Any) -> Any:
        return im.SphericalMixture(3, random_state=0, rows_per_block=5_000).fit(many, **how)

    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal"
        with contextlib.suppress(KeyboardInterrupt):
            begin(checkpoint=journal, progress=stop)
        same = bool(np.array_equal(begin().means_, begin(checkpoint=journal).means_))
    words = "`checkpoint=`" if same and len(blocks) == 3 else "no"
    return words, f"stopped after {len(blocks)} blocks; then the same means: {same}"


def torch_arrays() -> Cell:
    """Fit arrays of two other libraries, and see where the means are."""
    strict, torch = import_module("array_api_strict"), import_module("torch")
    kept = [
        type(fit(library.asarray(X)).means_) is type(library.asarray(X))
        for library in (strict, torch)
    ]
    return (
        "torch, the array API" if all(kept) else "no",
        f"means stay in array_api_strict and torch: {kept}",
    )


def saved() -> Cell:
    """Write a model and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.im"
        im.save(fit(), path)
        same = np.array_equal(im.load(path).means_, fit().means_)
        start = path.read_bytes()[8:40]
    return ("safetensors, no pickle" if same else "no"), f"same means: {same}; begins {start!r}"


def report() -> Cell:
    """Write a page about a model."""
    with tempfile.TemporaryDirectory() as folder:
        page = im.report.write_report(fit(), X, path=Path(folder) / "report.html")
        return "HTML page", f"{os.path.getsize(page)} bytes"


def pictures() -> Cell:
    """Draw a fit."""
    import_module("matplotlib").use("agg")
    return tries(lambda: im.plot.fit(fit(), X), yes="yes")


def floor() -> Cell:
    """Fit a component whose rows are all the same."""
    rows = np.concatenate([X[:300], np.full((100, 2), 9.0)])
    model = im.GaussianMixture(2, reg_covar=0.1, random_state=0).fit(rows)
    least = float(np.linalg.eigvalsh(model.covariances_).min())
    return ("`reg_covar`" if least > 0 else "no"), f"least variance of equal rows {least:.1e}"


def models() -> Probes:
    """Return the probes of models."""
    return {
        "spherical Gaussians, one variance per component": lambda: tries(
            lambda: fit(covariance_type="spherical").variance_
        ),
        "spherical Gaussians, tied variance": lambda: (
            "yes" if np.ndim(fit().variance_) == 0 else "no",
            f"variance {fit().variance_:.3f}",
        ),
        "diagonal covariances": lambda: shape("diag", (2, 2)),
        "full covariances": lambda: shape("full", (2, 2, 2)),
        "tied full covariance": lambda: shape("tied", (2, 2)),
        "factor analysers": lambda: absent(ESTIMATORS, "factor"),
        "other families (Poisson, gamma, …)": lambda: absent(MIXTURES, "famil|poisson|gamma"),
        "nonparametric components": lambda: absent(ESTIMATORS, "kernel|bandwidth|nonparam"),
        "features of different families": lambda: absent(ESTIMATORS, "famil|distrib"),
        "linear regressions": lambda: tries(lambda: lines().coef_.ravel().round(2)),
        "generalised linear models": lambda: absent(ESTIMATORS, "link|famil|poisson|logistic"),
        "random effects": lambda: absent(ESTIMATORS, "random_eff|group|mixed"),
        "smooth or penalised terms": lambda: absent(MIXTURES, "spline|smooth|alpha|penal|l1"),
        "weights that depend on x": lambda: absent(MIXTURES, "expert|concomitant|gating"),
        "grouped rows that share a component": lambda: absent(MIXTURES, "group"),
        "positive sums of a known activation": network,
        "density from moments, without components": density,
        "hidden Markov models, Bayesian networks": lambda: absent(NAMES, "markov|hmm|bayes"),
        "implicit moments of high order": moments,
        "more components than features, from moments": overcomplete,
        "decomposition of a given tensor": lambda: absent(NAMES, "parafac|tucker|decompos"),
        "Tucker, tensor train, tensor regression": lambda: absent(NAMES, "tucker|train"),
    }


def fitting() -> Probes:
    """Return the probes of fitting."""
    gaussian = im.GaussianMixture(2, random_state=0)
    outliers = [int(each.stats_["outliers"]) for each in (fit(WILD), clone(gaussian).fit(WILD))]
    starts = im.ActivationSumRegressor().n_starts
    return {
        "initialisation": lambda: (
            "merged groups, splits, k-means++, moments",
            f"start of a fit: {fit().stats_['start']}",
        ),
        "multiple starts": lambda: (
            "Gaussian mixtures, `n_init`; activations, `n_starts`",
            f"activations {starts}; Gaussian mixtures {gaussian.n_init}",
        ),
        "user-defined start": given_start,
        "EM": lambda: tries(
            lambda: f"{len(fit().stats_['mean_log_likelihood_history'])} steps",
            yes="yes, with moves",
        ),
        "stochastic or hard EM": lambda: absent(MIXTURES, "stochastic|hard|classif|batch"),
        "sample weights": lambda: tries(
            lambda: im.SphericalMixture(2).fit(X, sample_weight=WEIGHTS).weights_
        ),
        "number of components": lambda: (
            '`"auto"`' if fit(LIGHT, "auto").n_components_ == 2 else "no",
            f"found {fit(LIGHT, 'auto').n_components_} of 2",
        ),
        "bootstrap test of the number of components": lambda: absent(NAMES, "boot"),
        "standard errors": lambda: tries(
            lambda: (
                lines().coef_errors_,
                im.SphericalMixture(2, errors="robust").fit(X).mean_errors_,
            ),
            yes="all parameters, observed or robust",
        ),
        "outliers": lambda: (
            "left out and counted, mixtures of Gaussians" if outliers == [1, 1] else "no",
            f"outliers with one row at 1e6: {outliers}",
        ),
        "prior on parameters": lambda: absent(ESTIMATORS, "prior|bayes|concentration"),
        "lower bound on variances": floor,
        "fixed parameters": lambda: tries(lambda: fit(variance=1.0).variance_, yes="`variance=`"),
        "semi-supervised": lambda: absent(MIXTURES, "labels|semi|known"),
        **mixture_methods(fit),
        "criteria": lambda: tries(
            lambda: (fit().aic(X), fit().bic(X), clone(gaussian).fit(X).icl(X)),
            yes="AIC, BIC; Gaussian mixtures also ICL",
        ),
    }


def using() -> Probes:
    """Return the probes of rows, machines and daily use."""
    dask, frame, sparse = in_containers()
    model = im.SphericalMixture(2, random_state=0)
    return {
        "incremental fits": lambda: tries(
            lambda: [
                each(2).partial_fit(X).partial_fit(X).weights_
                for each in (im.SphericalMixture, im.GaussianMixture)
            ],
            yes="`partial_fit`, mixtures of Gaussians",
        ),
        "data in files": from_file,
        "resumes after an interruption": interrupted,
        "other array libraries, GPU": torch_arrays,
        "float32 in, float32 out": lambda: (
            "yes" if fit(X.astype(np.float32)).means_.dtype == np.float32 else "no",
            f"means are {fit(X.astype(np.float32)).means_.dtype}",
        ),
        "Dask": lambda: tries(lambda: fit(dask).weights_),
        "sparse data": lambda: tries(lambda: fit(sparse), "[Ss]parse"),
        "scikit-learn API": lambda: tries(lambda: cross_val_score(clone(model), X)),
        "data frames": lambda: tries(lambda: fit(frame).feature_names_in_),
        "model files": saved,
        "report": report,
        "plots": pictures,
        "data sets included": lambda: absent(NAMES, "load_", no="generators only"),
    }


def probes() -> Probes:
    """Return all probes of this library."""
    return {**models(), **fitting(), **using(), **project("implicitmoments")}
