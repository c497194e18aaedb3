"""What pomegranate does: ``GeneralMixtureModel`` and its distributions."""

from __future__ import annotations

import inspect
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
from sklearn.base import clone

from feature_probes import Cell, Probes, absent, present, project, public_names, tries
from feature_probes.data import HOLES, LIGHT, WEIGHTS, WILD, X

torch = import_module("torch")
parts: Any = import_module("pomegranate.distributions")
Model: Any = import_module("pomegranate.gmm").GeneralMixtureModel
MODULES = [
    import_module(f"pomegranate.{module.name}")
    for module in iter_modules(import_module("pomegranate").__path__)
    if not module.name.startswith("_")
]
# what a torch module has of its own says nothing of pomegranate
NAMES = [
    name
    for name in public_names(parts, *MODULES)
    if not hasattr(torch.nn.Module, name.partition(".")[2].partition("(")[0] or " ")
]
MIXTURES = [n for n in NAMES if n.startswith(("GeneralMixtureModel", "Normal"))]
ROWS = torch.tensor(X).float()


def fit(rows: Any = ROWS, kind: str = "diag", *more: Any, **how: Any) -> Any:
    """Fit a mixture of two Gaussians."""
    model = Model([parts.Normal(covariance_type=kind) for _ in range(2)], random_state=0)
    return model.fit(rows, *more, **how)


def mixture(*distributions: Any, rows: Any = None, **how: Any) -> Any:
    """Fit a mixture of given distributions."""
    return Model(list(distributions), random_state=0, **how).fit(ROWS if rows is None else rows)


def shape(kind: str, expected: list[int]) -> Cell:
    """Return whether covariances of a component have the shape that the row asks for."""
    seen = [list(part.covs.shape) for part in fit(kind=kind).distributions]
    return ("yes" if seen == [expected] * 2 else "no"), f"covariance_type={kind!r}: {seen}"


def families() -> Cell:
    """Fit mixtures of other families."""
    counts = torch.floor(ROWS.abs())
    made = [mixture(parts.Poisson(), parts.Poisson(), rows=counts)]
    made += [mixture(parts.Gamma(), parts.Gamma(), rows=ROWS.abs() + 0.1)]
    kinds = [n for n in dir(parts) if n[0].isupper()]
    return "yes", f"fitted Poisson and gamma, {len(made)}; there are {', '.join(kinds)}"


def kinds() -> Cell:
    """Fit components whose features have different families."""
    rows = torch.stack([ROWS[:, 0], torch.floor(ROWS[:, 1].abs())], dim=1)
    pair = [parts.IndependentComponents([parts.Normal(), parts.Poisson()]) for _ in range(2)]
    return tries(lambda: mixture(*pair, rows=rows).priors.data, yes="`IndependentComponents`")


def chains() -> Cell:
    """Fit a hidden Markov model, and look for networks."""
    hmm: Any = import_module("pomegranate.hmm").DenseHMM
    model = hmm([parts.Normal(), parts.Normal()], max_iter=2, random_state=0)
    model.fit(ROWS.reshape(6, 100, 2))
    found = present(NAMES, "^(bayesiannetwork|factorgraph|markovchain|[a-z]+hmm)$")
    return found[0], f"fitted DenseHMM; {found[1]}"


def pieces() -> Cell:
    """Run a step of EM on rows in pieces."""
    model = fit()
    for part in ROWS.split(100):
        model.summarize(part)
    model.from_summaries()
    return "`summarize`, `from_summaries`", f"weights {model.priors.data}"


def given(second: float = 6.0) -> Any:
    """Return a mixture that was not fitted yet."""
    return Model(
        [
            parts.Normal([0.0, 0.0], [1.0, 1.0], covariance_type="diag"),
            parts.Normal([second] * 2, [1.0, 1.0], covariance_type="diag"),
        ]
    )


def frozen() -> Cell:
    """Fit with a component that stays as it is."""
    still = parts.Normal([0.0, 0.0], [1.0, 1.0], covariance_type="diag", frozen=True)
    moving = parts.Normal([5.0, 5.0], [1.0, 1.0], covariance_type="diag")
    means = mixture(still, moving).distributions[0].means.tolist()
    return ("`frozen`" if means == [0.0, 0.0] else "no"), f"frozen at 0, fitted {means}"


def known_labels() -> Cell:
    """Say that 100 rows at 0 belong to the component at 6, and see whether it moves to them."""
    priors = torch.full((len(X), 2), 0.5)
    priors[:100] = torch.tensor([0.0, 1.0])
    free, told = (
        float(given().fit(ROWS, priors=p).distributions[1].means[0]) for p in (None, priors)
    )
    return (
        "`priors`" if told < free - 1 else "no"
    ), f"mean without labels {free:.2f}, with {told:.2f}"


def holes() -> Cell:
    """Fit rows with missing values."""
    rows = torch.tensor(HOLES).float()
    fitted = given().fit(torch.masked.MaskedTensor(rows, ~torch.isnan(rows)))
    means = [part.means.tolist() for part in fitted.distributions]
    return ("masked tensors" if np.isfinite(means).all() else "no"), f"means {np.round(means, 2)}"


def saved() -> Cell:
    """Write a fitted model and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        torch.save(fit(), path)
        refused = tries(lambda: torch.load(path), "weights_only")
        torch.load(path, weights_only=False)
        torch.save(fit().state_dict(), path)
        state = torch.load(path)
    words = "`torch.save`, a pickle; or `state_dict`, by hand"
    return words, f"without pickle: {refused[1]}; a state_dict of {len(state)} entries is read"


def light() -> Cell:
    """Return what happens to a component of 3 % of the rows."""
    model = given().fit(torch.tensor(LIGHT).float())
    seen = float(model.priors.min())
    return ("kept" if 0.02 < seen < 0.04 else "lost"), f"smallest weight {seen:.3f}"


def floor() -> Cell:
    """Fit rows that are nearly the same, with a floor."""
    rows = 1e-3 * ROWS
    kinds = ("diag", "sphere", "full")
    fitted = [parts.Normal(min_cov=0.1, covariance_type=kind).fit(rows).covs for kind in kinds]
    least = min(float((covs.diagonal() if covs.ndim == 2 else covs).min()) for covs in fitted)
    return (
        "`min_cov`" if least >= 0.1 else "no, `min_cov` is ignored"
    ), f"least variance {least:.1e}"


def far_rows() -> Cell:
    """Return whether Student's t, the family for far rows, is not moved by one."""
    mean = float(parts.StudentT(3).fit(torch.tensor(WILD).float()).means[0])
    return (
        "no" if mean > 100 else "Student's t"
    ), f"mean of StudentT with a row at 1e6: {mean:.0f}"


def again() -> Cell:
    """Return whether a fit goes on where another ended."""
    model = given(second=1.0)
    model.max_iter = 1
    logs = [float(model.fit(ROWS).log_probability(ROWS).mean()) for _ in range(3)]
    words = "by hand, `fit` again" if logs[0] < logs[1] <= logs[2] else "no"
    return words, f"log-likelihood after three fits of one step: {np.round(logs, 4)}"


def models() -> Probes:
    """Return the probes of models."""
    regressions = "regressionmix|linear(?!chain)|glm|lmm"
    return {
        "spherical Gaussians, one variance per component": lambda: shape("sphere", []),
        "spherical Gaussians, tied variance": lambda: absent(MIXTURES, "shared|tied|equal"),
        "diagonal covariances": lambda: shape("diag", [2]),
        "full covariances": lambda: shape("full", [2, 2]),
        "tied full covariance": lambda: absent(MIXTURES, "shared|tied|equal"),
        "factor analysers": lambda: absent(NAMES, "factoranal|lowrank"),
        "other families (Poisson, gamma, …)": families,
        "nonparametric components": lambda: absent(NAMES, "kernel|bandwidth|nonparam"),
        "features of different families": kinds,
        "linear regressions": lambda: absent(NAMES, regressions),
        "generalised linear models": lambda: absent(NAMES, regressions),
        "random effects": lambda: absent(NAMES, "randomeff|mixedeff|lmm"),
        "smooth or penalised terms": lambda: absent(NAMES, "spline|smooth|lasso|penal"),
        "weights that depend on x": lambda: absent(NAMES, "expert|concomitant|gating"),
        "grouped rows that share a component": lambda: absent(MIXTURES, "group"),
        "positive sums of a known activation": lambda: absent(NAMES, "activation|relu"),
        "density from moments, without components": lambda: absent(NAMES, "moment|hermite"),
        "hidden Markov models, Bayesian networks": chains,
        "implicit moments of high order": lambda: absent(NAMES, "moment"),
        "more components than features, from moments": lambda: absent(NAMES, "moment"),
        "decomposition of a given tensor": lambda: absent(NAMES, "parafac|tucker|decompos"),
        "Tucker, tensor train, tensor regression": lambda: absent(NAMES, "tucker|train$"),
    }


def fitting() -> Probes:
    """Return the probes of fitting."""
    start = inspect.signature(Model).parameters["init"].default
    weights = torch.tensor(WEIGHTS)[:, None].float()
    return {
        "initialisation": lambda: (start, f"init={start!r}"),
        "multiple starts": lambda: absent(MIXTURES, "n_init|n_starts|restart|nrep"),
        "user-defined start": lambda: tries(
            lambda: given().fit(ROWS).priors.data, yes="the distributions"
        ),
        "EM": lambda: tries(lambda: fit().priors.data),
        "stochastic or hard EM": lambda: present(NAMES, "^kmeans$", yes="`KMeans`"),
        "sample weights": lambda: tries(lambda: fit(ROWS, "diag", weights).priors.data),
        "number of components": lambda: absent(NAMES, "n_components|bic|aic|criteri"),
        "criteria": lambda: absent(MIXTURES, "bic|aic|criteri"),
        "bootstrap test of the number of components": lambda: absent(NAMES, "boot|test"),
        "standard errors": lambda: absent(NAMES, "stderr|standard_err|confidence|boot"),
        "outliers": far_rows,
        "missing values": holes,
        "components of small weight": light,
        "prior on parameters": lambda: absent(MIXTURES, "dirichlet|wishart|concentration|pseudo"),
        "lower bound on variances": floor,
        "fixed parameters": frozen,
        "semi-supervised": known_labels,
        "prediction for new rows": lambda: tries(lambda: fit().predict_proba(ROWS[:1]).tolist()),
        "density of new rows": lambda: tries(lambda: fit().log_probability(ROWS[:1]).tolist()),
        "sampling": lambda: tries(lambda: fit().sample(2).tolist()),
    }


def using() -> Probes:
    """Return the probes of rows, machines and daily use."""
    dask = import_module("dask.array").from_array(X.astype(np.float32), chunks=(200, 2))
    frame = import_module("pandas").DataFrame(X.astype(np.float32), columns=["a", "b"])
    sparse = ROWS.to_sparse()
    refused = "has no attribute|must be|Could not run|Unrecognized|unsupported"
    return {
        "incremental fits": pieces,
        "data in files": lambda: absent(MIXTURES, "path|file|read", no="by hand, in batches"),
        "resumes after an interruption": again,
        "other array libraries, GPU": lambda: tries(lambda: fit().to("cpu").device, yes="torch"),
        "float32 in, float32 out": lambda: (
            "yes" if fit().distributions[0].means.dtype == torch.float32 else "no",
            f"means are {fit().distributions[0].means.dtype}",
        ),
        "Dask": lambda: tries(lambda: fit(dask), refused),
        "sparse data": lambda: tries(lambda: fit(sparse), refused),
        "scikit-learn API": lambda: tries(lambda: clone(given()), "get_params"),
        "data frames": lambda: tries(lambda: fit(frame), refused),
        "model files": saved,
        "report": lambda: absent(NAMES, "report|summary$"),
        "plots": lambda: absent(MIXTURES, "plot|draw"),
        "data sets included": lambda: absent(NAMES, "load_|dataset"),
    }


def probes() -> Probes:
    """Return all probes of pomegranate."""
    return {**models(), **fitting(), **using(), **project("pomegranate")}
