"""Small data that the probes are tried on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

_rng = np.random.default_rng(0)
X = np.concatenate([_rng.normal(size=(300, 2)), _rng.normal(size=(300, 2)) * 0.5 + 6])
LABELS = np.where(_rng.random(600) < 0.5, 2.0, -2.0) * X[:, 0] + 0.3 * _rng.normal(size=600)
HOLES = np.where(_rng.random(X.shape) < 0.02, np.nan, X)
WEIGHTS = _rng.uniform(0.5, 1.5, len(X))
WILD = np.concatenate([X, [[1e6, 1e6]]])
LIGHT = np.concatenate([_rng.normal(size=(970, 2)), _rng.normal(size=(30, 2)) + 10])  # 3 %


def in_containers() -> tuple[Any, Any, Any]:
    """Return the rows as a Dask array, a data frame and a sparse array."""
    dask = import_module("dask.array").from_array(X, chunks=(200, 2))
    frame = import_module("pandas").DataFrame(X, columns=["a", "b"])
    return dask, frame, import_module("scipy.sparse").csr_array(X)
