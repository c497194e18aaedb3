"""Write the report of a model to a file."""

from __future__ import annotations

import os
from datetime import date as calendar
from pathlib import Path
from typing import Any

from implicitmoments.plot.canvas import sample_rows
from implicitmoments.report.page import MOST_ROWS, render_page
from implicitmoments.saving.files import write_whole


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

    The page is one file without network access: a verdict, pictures of spectra, components, the
    fit against the rows and convergence, parameters that can be copied, statistics and versions.
    It follows the light or dark setting of the reader.

    Parameters
    ----------
    model : fitted estimator
    X, y : rows and, for models that have them, labels, as ``fit`` takes them
    path : path, default "report.html"
        Replaced at once when the page is complete.
    title : str, optional
        What the model is by default: "A mixture of 4 spherical Gaussians".
    subtitle : str, optional
        Where rows and model come from; by default the file if X is a path.
    date : datetime.date or str, optional
        Today by default; with a given date, the same model and rows give the same page.
    max_rows : int, default 5000
        Largest number of rows used for pictures and checks, a random sample.

    Returns
    -------
    pathlib.Path
        Where the page was written.

    Examples
    --------
    >>> import implicitmoments as im
    >>> import tempfile
    >>> from pathlib import Path
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> model = im.SphericalMixture(3, random_state=0).fit(X)
    >>> path = im.report.write_report(model, X, path=Path(tempfile.mkdtemp()) / "mixture.html")
    >>> path.read_text()[:15]
    '<!DOCTYPE html>'
    """
    rows = sample_rows(model, X, y, max_rows)
    day = calendar.today().isoformat() if date is None else str(date)
    if subtitle is None:
        subtitle = Path(X).name if isinstance(X, str | os.PathLike) else ""
    text = render_page(model, rows, title=title, subtitle=subtitle, date=day)
    write_whole(Path(path), text.encode())
    return Path(path)
