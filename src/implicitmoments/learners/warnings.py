"""What a fit tells the user about the data."""

__all__ = ["AssumptionWarning"]


class AssumptionWarning(UserWarning):
    """The data do not look like what the model assumes of them; the message says what to do.

    Examples
    --------
    >>> import warnings
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=1.0, random_state=0)
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always", im.AssumptionWarning)
    ...     model = im.SphericalMixtureClusterer(3, random_state=0).fit(X)
    >>> str(said[0].message).split(":")[0]
    'the separation is too small to cluster by pairs'
    """
