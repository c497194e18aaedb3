"""Parameters from which a user wants a fit to start, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.description import as_floats
from implicitmoments.mixture.gaussians import CovarianceType, precisions_of
from implicitmoments.mixture.starts import Given
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers

GIVEN = ("weights_init", "means_init", "precisions_init")


def check_start(init_params: str, n_components: Any, covariance_type: str) -> None:
    """Raise where the kind of start does not go with the number and type of components."""
    if init_params == "moments" and covariance_type in ("diag", "full"):
        raise InputError(
            "no_moments_of_type",
            "`init_params='moments'` needs components that share a covariance or are "
            "spherical; with `covariance_type={kind!r}` use 'auto', 'merge' or 'k-means++'",
            kind=covariance_type,
        )
    if n_components == "auto" and init_params not in ("auto", "merge"):
        raise InputError(
            "init_with_auto",
            "`{name}` needs a number of components; set `n_components` other than 'auto', or "
            "leave `init_params` at 'auto'",
            name="init_params",
        )


def read_given(
    values: Mapping[str, Any],
    covariance_type: str,
    k: int | None,
    d: int,
    columns: Integers | None = None,
) -> Given:
    """Return a start of k components in d columns; raise where it is none.

    Parameters
    ----------
    values : mapping of str to array-like
        Of some names in ``GIVEN``; precisions in the shape of the type.
    k : int or None
        None where the number is to be chosen.
    columns : array of int, optional
        Columns that the start is for; all by default. Others are constant: precisions are those
        given their values.
    """
    if k is None or covariance_type == "auto":
        raise InputError(
            "init_with_auto",
            "`{name}` needs a number of components and a covariance type; set "
            "`n_components` and `covariance_type` other than 'auto'",
            name=next(iter(values)),
        )
    weights, means, precisions = (_numbers(name, values.get(name)) for name in GIVEN)
    own = np.arange(d) if columns is None else columns
    _check_shape("weights_init", weights, (k,))
    _check_shape("means_init", means, (k, d))
    if means is not None:
        means = means[:, own]
        _check_finite("means_init", means)
    if weights is not None:
        _check_finite("weights_init", weights)
    if weights is not None and (weights.min() < 0 or not np.isclose(weights.sum(), 1.0)):
        raise InputError(
            "weights_not_a_distribution",
            "`weights_init` must be non-negative and sum to 1, got a sum of {total:g} and a "
            "least weight of {least:g}",
            total=float(weights.sum()),
            least=float(weights.min()),
        )
    kind = CovarianceType(covariance_type)
    return Given(weights, means, _covariances(precisions, kind, k, d, own))


def _covariances(
    precisions: Floats | None, kind: CovarianceType, k: int, d: int, columns: Integers
) -> Floats | None:
    """Return the covariances of some columns, of precisions that the user gives."""
    if precisions is None:
        return None
    shape = {"full": (d, d), "diag": (d,), "spherical": ()}[kind.shape]
    _check_shape("precisions_init", precisions, shape if kind.tied else (k, *shape))
    whole = np.repeat(precisions[None], k, axis=0) if kind.tied else precisions
    if kind.shape == "spherical":
        whole = np.repeat(whole[:, None], d, axis=1)
    whole = whole[:, columns]
    whole = whole[:, :, columns] if kind.shape == "full" else whole
    _check_finite("precisions_init", whole)
    symmetric = kind.shape != "full" or np.allclose(whole, whole.transpose(0, 2, 1))
    least = np.linalg.eigvalsh(whole).min() if kind.shape == "full" else whole.min()
    if not symmetric or least <= 0:
        raise InputError(
            "precisions_not_positive",
            "`precisions_init` must be symmetric and positive definite, for "
            "`covariance_type={kind!r}`",
            kind=kind.name,
        )
    return precisions_of(whole)[0]


def _numbers(name: str, value: Any) -> Floats | None:
    """Return an array of any library, or a nested list, in NumPy."""
    try:
        return None if value is None else as_floats(value)
    except (TypeError, ValueError) as error:
        raise InputError(
            "init_not_numeric",
            "`{name}` must be an array of numbers: {error}",
            name=name,
            error=error,
        ) from None


def _check_shape(name: str, value: Floats | None, shape: tuple[int, ...]) -> None:
    """Raise for an array of another shape."""
    if value is not None and value.shape != shape:
        raise InputError(
            "init_of_wrong_shape",
            "`{name}` must be of shape {expected}, got shape {found}",
            name=name,
            expected=shape,
            found=value.shape,
        )


def _check_finite(name: str, value: Floats) -> None:
    if not np.isfinite(value).all():
        raise InputError("init_not_finite", "`{name}` contains NaN or infinity", name=name)
