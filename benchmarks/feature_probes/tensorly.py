"""What tensorly does: decompositions of tensors that are given."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from feature_probes import MIXTURE_ROWS, Cell, Floats, Probes, absent, project, public_names, tries

tl: Any = import_module("tensorly")
methods: Any = import_module("tensorly.decomposition")
NAMES = public_names(
    tl,
    methods,
    *(import_module(f"tensorly.{room}") for room in ("regression", "tenalg", "metrics", "random")),
)


def tensor(vectors: Floats, order: int) -> Any:
    """Return the sum of the powers of vectors."""
    letters = "abcdef"[:order]
    subscripts = ",".join(f"i{letter}" for letter in letters) + "->" + letters
    return tl.tensor(np.einsum(subscripts, *[vectors] * order))


def unit(k: int, d: int) -> Floats:
    """Return random directions."""
    vectors = np.random.default_rng(0).normal(size=(k, d))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def least_cosine(vectors: Floats, factor: Floats) -> float:
    """Return how close the worst found of the vectors is."""
    return float(np.abs(vectors @ (factor / np.linalg.norm(factor, axis=0))).max(axis=1).min())


def overcomplete() -> Cell:
    """Find eight vectors in five features from their tensor of order 4, from five starts."""
    vectors = unit(8, 5)
    given = tensor(vectors, 4)
    cosines = []
    for seed in range(5):
        found = methods.parafac(
            given, 8, n_iter_max=2000, tol=1e-12, init="random", random_state=seed
        )
        cosines.append(least_cosine(vectors, found.factors[0]))
    power = least_cosine(vectors, methods.symmetric_parafac_power_iteration(given, 8)[1])
    good = sum(cosine > 0.999 for cosine in cosines)
    words = "some starts of `parafac`, given the tensor" if good else "no"
    return words, f"least cosines {np.round(cosines, 3)}; by power iteration {power:.3f}"


def decomposed() -> Cell:
    """Decompose a tensor."""
    vectors = np.eye(5)[:3]
    found = methods.symmetric_parafac_power_iteration(tensor(vectors, 3), 3)[1]
    return (
        "yes",
        f"least cosine, three vectors in five features: {least_cosine(vectors, found):.3f}",
    )


def others() -> Cell:
    """Run other methods on tensors."""
    given = tensor(unit(3, 4), 3)
    core = methods.tucker(given, [2, 2, 2])[0].shape
    train = [f.shape for f in methods.tensor_train(given, [1, 2, 2, 1]).factors]
    regression: Any = import_module("tensorly.regression").CPRegressor
    matrices = np.random.default_rng(0).normal(size=(20, 3, 3))
    regression(2, n_iter_max=2, verbose=0).fit(matrices, matrices[:, 0, 0])
    return "yes", f"Tucker core {core}, train {train}, CPRegressor fitted"


def probes() -> Probes:
    """Return all probes of tensorly."""
    mixtures = (*MIXTURE_ROWS, "density from moments, without components")
    return {
        **dict.fromkeys(mixtures, lambda: absent(NAMES, "mixture|gaussian|cluster|density")),
        "positive sums of a known activation": lambda: absent(NAMES, "activation|relu"),
        "hidden Markov models, Bayesian networks": lambda: absent(NAMES, "markov|hmm|bayes"),
        "implicit moments of high order": lambda: tries(
            lambda: tl.tensor(np.zeros((20,) * 12)), "allocate", no="no, the tensor is an argument"
        ),
        "more components than features, from moments": overcomplete,
        "decomposition of a given tensor": decomposed,
        "Tucker, tensor train, tensor regression": others,
        **project("tensorly"),
    }
