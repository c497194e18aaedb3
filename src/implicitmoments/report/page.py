"""The report of a model: a page of verdict, figures and tables, written to a file."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from collections.abc import Iterable
from datetime import date as calendar
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from implicitmoments.estimator import Table, counted, findings_of
from implicitmoments.plot.canvas import PALETTE, sample_rows
from implicitmoments.plot.data_comparison import MOST_COMPARED
from implicitmoments.plot.groups import Groups, group_rows
from implicitmoments.report.figures import (
    column_figures,
    fit_figures,
    map_figures,
    method_figures,
    pair_figure,
)
from implicitmoments.report.tables import (
    cell,
    heat_table,
    is_number,
    pair_table,
    row_table,
    settings_of,
    size_table,
    statistics_of,
)
from implicitmoments.report.verdict import title_of, verdict_of
from implicitmoments.saving import replace_file

# of a table; the model has the rest. Tables of more rows than "folded" can be opened
LIMITS = {"rows": 300, "columns": 32, "folded": 25}


def write_report(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    path: str | os.PathLike[str] = "report.html",
    title: str | None = None,
    subtitle: str | None = None,
    date: calendar | str | None = None,
    max_rows: int = MOST_COMPARED,
) -> Path:
    """Write one HTML page about a fitted model.

    The page is one file without network access: a verdict, profiles of the groups, the fit
    against the rows, parameters that can be copied, statistics and versions. It follows the light
    or dark setting of the reader, can be printed, and is complete without scripts.

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

    See Also
    --------
    implicitmoments.plot.components : Rows and components in two dimensions.
    implicitmoments.plot.fit : The model against the rows.
    implicitmoments.save : Write a fitted model to a file.

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
    groups = group_rows(model, rows)
    if subtitle is None:
        subtitle = Path(X).name if isinstance(X, str | os.PathLike) else ""
    found = [[*pair] for pair in findings_of(model).items()]
    own = title_of(model, rows.target)
    counts = f"{counted(rows.total, 'row')} of {counted(model.n_features_in_, 'column')}"
    labels = f"; labels: {rows.target}" if model.labelled else ""
    text = _template().render(
        title=title or own,
        subtitle=subtitle,
        date=calendar.today().isoformat() if date is None else str(date),
        data=f"{type(model).__name__}: {counts} ({_first(rows.column_names)}){labels}",
        found_words=f"{own}, fitted to {counts}.",
        verdict=verdict_of(model, rows),
        groups=None if groups is None else _profile(groups),
        overview=list(map_figures(model, rows, groups)),
        columns=[] if groups is None else list(column_figures(groups)),
        pairs=[] if groups is None else list(pair_figure(groups)),
        judged=list(fit_figures(model, rows, groups)),
        method=list(method_figures(model)),
        parameters=model._parameter_tables(),
        found=Table("Found", ["quantity", "value"], found),
        settings=settings_of(model),
        statistics=statistics_of(model),
        versions=_versions(),
    )
    with replace_file(path) as file:
        file.write(text.encode())
    return Path(path)


def _profile(groups: Groups) -> dict[str, Any]:
    """Return what the page says of the groups."""
    colours = [PALETTE.index(groups.colour(i)) for i in groups.order]
    return {
        "buttons": list(zip(groups.order, colours, strict=True)),
        "sizes": size_table(groups),
        "heat": heat_table(groups),
        "rows": row_table(groups),
        "pairs": pair_table(groups),
    }


def _template() -> jinja2.Template:
    source, style, script, logo = (
        files("implicitmoments.report").joinpath(name).read_text("utf-8")
        for name in ("page.html.jinja", "page.css", "page.js", "logo.svg")
    )
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"cell": cell, "counted": counted, "sentence": _sentence}
    environment.filters["parts"] = _parts
    environment.tests["numeric"] = is_number
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    environment.globals |= {"style": style, "script": script, "logo": logo.strip()}
    environment.globals |= {"policy": policy, "limits": LIMITS}
    return environment.from_string(source)


def _sentence(note: object) -> str:
    """Return a note with a stop, and a capital unless it begins with an expression."""
    text = str(note)
    first = text.split(maxsplit=1)[0]
    text = text[0].upper() + text[1:] if first.isalpha() else text
    return text if text.endswith((".", ":")) else f"{text}."


def _first(names: Iterable[str]) -> str:
    """Return at most eight names, so that the header has one line or two."""
    names = list(names)
    return ", ".join(names[:8] + (["…"] if len(names) > 8 else []))


def _versions() -> str:
    """Return the versions that affect the results or the pictures."""
    packages = ("implicitmoments", "numpy", "scipy", "scikit-learn", "matplotlib")
    named = [f"{name} {version(name)}" for name in packages]
    return ", ".join([*named, f"Python {platform.python_version()}"])


def _parts(n_columns: int) -> list[tuple[int, int]]:
    """Return the columns of each part of a table, which stand below each other.

    Examples
    --------
    >>> _parts(4), _parts(12)
    ([(1, 4)], [(1, 7), (7, 12)])
    """
    n = min(n_columns, LIMITS["columns"] + 1)
    count = max(1, -(-(n - 1) // 8))  # 8 columns beside the first fit on a printed page
    width = max(1, -(-(n - 1) // count))
    return [(i, min(i + width, n)) for i in range(1, n, width)] or [(1, 1)]
