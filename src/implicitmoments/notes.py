"""What a fit tells the user: every sentence stands under ``"notes"`` of ``stats_`` too."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from sklearn.exceptions import ConvergenceWarning

__all__ = ["UNFINISHED", "AssumptionWarning", "tell", "tell_unfinished"]

UNFINISHED = "the polish did not converge"


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


def tell(notes: Iterable[str], *, stacklevel: int = 3) -> None:
    """Warn of each sentence: by default the caller of ``fit``, from which this is called."""
    for sentence in notes:
        warnings.warn(sentence, AssumptionWarning, stacklevel=stacklevel)


def tell_unfinished(notes: list[str], max_iter: int, *, stacklevel: int = 3) -> None:
    """Note that the polish did not converge, and warn the caller of ``fit`` of it."""
    sentence = (
        f"{UNFINISHED} in max_iter={max_iter} iterations; raise max_iter, or tol "
        "if fewer digits do"
    )
    notes.append(sentence)
    warnings.warn(sentence, ConvergenceWarning, stacklevel=stacklevel)
