"""The report of a model: a page of verdict, figures and tables, written to a file."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
from dataclasses import replace
from datetime import date as calendar
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from implicitmoments.description import Table, counted, findings_of
from implicitmoments.estimator import FittedEstimator
from implicitmoments.picture_data import RowSample
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
from implicitmoments.report.group_tables import heat_table, pair_table, row_table, size_table
from implicitmoments.report.next_step import next_step_of
from implicitmoments.report.reader import PYTHON, Reader
from implicitmoments.report.statistics import cell, exact, is_number, settings_of, statistics_of
from implicitmoments.report.verdict import title_of, verdict_of
from implicitmoments.saving import replace_file

TABLE_ROWS, TABLE_COLUMNS = 300, 32  # of a table; the model has the rest
WIDE = 8  # columns beside the first that fit on a printed page; more stand below each other
FOLDED = 25  # rows from which a table is folded
NAMED = 8  # columns named in the header, which is to stay on one line or two
# packages whose versions affect the results or the pictures of a report
VERSIONS = ("implicitmoments", "numpy", "scipy", "scikit-learn", "matplotlib")


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

    The page is one file without network access: a verdict with one next step, profiles of the
    groups, the fit against the rows, parameters that can be copied, statistics and versions. It
    follows the light or dark setting of the reader, can be printed, and is complete without
    scripts.

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
    if subtitle is None:
        subtitle = Path(X).name if isinstance(X, str | os.PathLike) else ""
    return save_page(model, rows, PYTHON, path=path, title=title, subtitle=subtitle, date=date)


def save_page(
    model: Any,
    rows: RowSample,
    reader: Reader,
    *,
    path: str | os.PathLike[str],
    title: str | None,
    subtitle: str,
    date: calendar | str | None = None,
) -> Path:
    """Write a page on a sample of rows, in the words of a reader."""
    day = calendar.today().isoformat() if date is None else str(date)
    text = render_page(model, rows, reader, title=title, subtitle=subtitle, date=day)
    with replace_file(path) as file:
        file.write(text.encode())
    return Path(path)


def render_page(
    model: FittedEstimator,
    rows: RowSample,
    reader: Reader,
    *,
    title: str | None,
    subtitle: str,
    date: str,
) -> str:
    """Return the page as text; its title is by default what the model is."""
    own = title_of(model, rows.target)
    groups, verdict = group_rows(model, rows), verdict_of(model, rows)
    step, shown = next_step_of(model, verdict), rows.units.described(model)
    found = [[*pair] for pair in findings_of(shown).items()]
    return _template(reader).render(
        title=title or own[0].upper() + own[1:],
        subtitle=subtitle,
        date=date,
        data=_describe_data(model, rows, reader),
        verdict=verdict,
        next=step,
        command=reader.command(model, step),
        groups=None if groups is None else _profile(groups),
        overview=list(map_figures(model, rows, groups)),
        columns=[] if groups is None else list(column_figures(groups)),
        pairs=[] if groups is None else list(pair_figure(groups)),
        judged=list(fit_figures(model, rows, groups)),
        method=list(method_figures(model)),
        parameters=shown._parameter_tables(),
        found=Table("Found", ["quantity", "value"], found),
        settings=_settings(model, reader),
        statistics=statistics_of(model),
        versions=", ".join(
            [f"{name} {version(name)}" for name in VERSIONS]
            + [f"Python {platform.python_version()}"]
        ),
    )


def _profile(groups: Groups) -> dict[str, Any]:
    """Return what the page says of the groups."""
    return {
        "noun": groups.noun,
        "buttons": [(i, groups.colour(i) % len(PALETTE)) for i in groups.order],
        "sizes": size_table(groups),
        "heat": heat_table(groups),
        "rows": row_table(groups),
        "pairs": pair_table(groups),
    }


def _settings(model: Any, reader: Reader) -> Table:
    """Return the parameters of the fit in the words of a reader."""
    table = settings_of(model, reader.defaults(model), reader.value)
    rows = [[reader.option(str(name)), *rest] for name, *rest in table.rows]
    return replace(table, rows=rows, marked=frozenset(map(reader.option, table.marked)))


def _template(reader: Reader) -> jinja2.Template:
    source, style, script, logo = (
        files("implicitmoments.report").joinpath(name).read_text("utf-8")
        for name in ("page.html.jinja", "page.css", "page.js", "logo.svg")
    )
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"cell": cell, "exact": exact, "counted": counted}
    environment.filters |= {"sentence": reader.sentence, "parts": _parts}
    environment.tests["numeric"] = is_number
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    limits = {"rows": TABLE_ROWS, "columns": TABLE_COLUMNS, "folded": FOLDED}
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    environment.globals |= {"style": style, "script": script, "logo": logo.strip()}
    environment.globals |= {"policy": policy, "limits": limits}
    return environment.from_string(source)


def _parts(n_columns: int) -> list[tuple[int, int]]:
    """Return the columns of each part of a table, which stand below each other.

    Examples
    --------
    >>> _parts(4), _parts(12)
    ([(1, 4)], [(1, 7), (7, 12)])
    """
    n = min(n_columns, TABLE_COLUMNS + 1)
    count = max(1, -(-(n - 1) // WIDE))
    width = -(-(n - 1) // count)
    return [(i, min(i + width, n)) for i in range(1, n, width)] or [(1, 1)]


def _describe_data(model: FittedEstimator, rows: RowSample, reader: Reader) -> str:
    names = getattr(model, "feature_names_in_", None)
    words = f"{counted(rows.total, 'row')}, {counted(model.n_features_in_, 'column')}"
    if names is not None:
        more = "" if len(names) <= NAMED else ", …"
        words += " (" + ", ".join(map(str, names[:NAMED])) + more + ")"
    if len(rows.y) and rows.target != "y":
        words += f", labels: {rows.target}"
    if rows.units.scale is not None:
        words += ". Columns were divided by their standard deviations for the fit; this page has"
        words += " the units of the file"
    return f"{reader.kind(model)}: {words}"
