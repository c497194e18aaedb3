"""Write the report of a model to a file."""

from __future__ import annotations

import os
from datetime import date as calendar
from pathlib import Path
from typing import Any

from implicitmoments.plot.canvas import check_model
from implicitmoments.plot.plotted_rows import some_rows
from implicitmoments.report.page import Named, page_of
from implicitmoments.saving.atomic_file import write_whole

__all__ = ["write_report"]

MOST_ROWS = 5_000


def write_report(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    path: str | os.PathLike[str] = "report.html",
    title: str | None = None,
    subtitle: str | None = None,
    date: calendar | str | None = None,
    max_rows: int = MOST_ROWS,
) -> Path:
    """Write one HTML page about a fitted model.

    The page holds all it needs and asks no network for anything: a verdict in words, what there
    is to show of spectra with the noise, components, the fit against the rows and convergence,
    parameters to be copied, statistics and versions. It follows light and dark.

    Parameters
    ----------
    model : fitted estimator
    X : array of shape (n_samples, n_features), or whatever else ``fit`` takes
    y : array of shape (n_samples,), where the model has labels
        Refused where it has none.
    path : path
        Replaced at once when the page is complete.
    title : str, optional
        What the model is by default: "A mixture of 4 spherical Gaussians".
    subtitle : str, optional
        Where rows and model come from; the file by default, where X is a path.
    date : datetime.date or str, optional
        Today by default; with a date of your own the same model and rows give the same page.
    max_rows : int
        Rows that pictures look at at most, evenly taken.

    Returns
    -------
    pathlib.Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> model = im.SphericalMixture(3, random_state=0).fit(X)
    >>> path = im.report.write_report(model, X, path=Path(tempfile.mkdtemp()) / "mixture.html")
    >>> path.read_text()[:15]
    '<!DOCTYPE html>'
    """
    check_model(model)
    some = some_rows(model, X, y, max_rows)
    day = calendar.today().isoformat() if date is None else str(date)
    origin = Path(X).name if isinstance(X, str | os.PathLike) else ""
    named = Named(title, origin if subtitle is None else subtitle, day)
    text = page_of(model, some, named)
    write_whole(Path(path), text.encode())
    return Path(path)
