"""Parameters of a mixture from which the iterations of other libraries can start."""

from __future__ import annotations

from typing import Any, NamedTuple

from implicitmoments.arrays import Array
from implicitmoments.mixture.gaussian import GaussianMixture
from implicitmoments.notes import InputError
from implicitmoments.rows import RandomState
from implicitmoments.validation import check_option

SHAPES = ("full", "tied", "diag", "spherical")  # those that scikit-learn and hmmlearn have too


class InitialParameters(NamedTuple):
    """Means (k, d), weights (k,) and precisions of a mixture, in the shapes of scikit-learn."""

    means: Array
    weights: Array
    precisions: Array


def start(
    X: Any,
    n_components: int | str,
    *,
    covariance_type: str = "full",
    sample_weight: Any = None,
    random_state: RandomState = None,
) -> InitialParameters:
    """Return means, weights and precisions from which other libraries can start.

    They are those of a fit of :class:`GaussianMixture`, which needs no restarts.

    Parameters
    ----------
    X : array (n_samples, n_features), data frame, path, iterator of blocks, Dask or Source
    n_components : int or "auto"
        The number k of components; ``"auto"`` for the least Bayesian information criterion.
    covariance_type : {"full", "tied", "diag", "spherical"}, default "full"
        Type of the precisions. Use ``"spherical"`` for k-means.
    sample_weight : array of shape (n_samples,), optional
        Number of times each row counts.
    random_state : int, generator, np.random or None, default None
        Seed of all random numbers.

    Returns
    -------
    means : array of shape (k, n_features)
    weights : array of shape (k,)
        In decreasing order.
    precisions : array
        Inverses of the covariances: of shape (k, d, d) for ``"full"``, (d, d) for ``"tied"``,
        (k, d) for ``"diag"``, (k,) for ``"spherical"``.

    See Also
    --------
    GaussianMixture : Covariances of any shape.
    SphericalMixture : Spherical covariances, one variance or several.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 8, 5, radius=6.0, random_state=0)
    >>> means, weights, precisions = im.start(X, 8, covariance_type="spherical", random_state=0)
    >>> means.shape, weights.shape, precisions.shape
    ((8, 5), (8,), (8,))
    >>> KMeans(8, init=means, n_init=1).fit(X).cluster_centers_.shape
    (8, 5)
    """
    check_option("covariance_type", covariance_type, SHAPES)
    model = GaussianMixture(
        n_components, covariance_type=covariance_type, random_state=random_state
    ).fit(X, sample_weight=sample_weight)
    left_out = [note.values["columns"] for note in model.notes_ if note.code == "columns_left_out"]
    if left_out and covariance_type != "spherical":
        raise InputError(
            "precisions_infinite",
            "columns {columns} of X are constant, so that their precisions are infinite; leave "
            "them out, or use `covariance_type='spherical'` if only means are needed",
            columns=left_out[0],
        )
    return InitialParameters(model.means_, model.weights_, model.precisions_)
