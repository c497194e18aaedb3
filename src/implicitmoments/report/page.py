"""The page: its contents, filled into the template."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from numbers import Integral, Real
from typing import Any, NamedTuple

import jinja2
import numpy as np

from implicitmoments.estimator import FittedEstimator, Table, counted, findings_of
from implicitmoments.notes import SENTENCES, Note
from implicitmoments.picture_data import NoPictureError, RowSample
from implicitmoments.plot import components, convergence, fit, spectra
from implicitmoments.plot.convergence import step_history
from implicitmoments.report.statistics import settings_of, statistics_of, title_of, verdict_of
from implicitmoments.report.svg import picture

DIGITS = 5


def cell(value: Any) -> str:
    """Return the text of a cell: a number in few digits.

    Examples
    --------
    >>> cell(12_345), cell(-0.123456), cell(float("nan")), cell(True)
    ('12,345', '−0.12346', '–', 'yes')
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if is_number(value):
        if not np.isfinite(float(value)):
            return "–" if np.isnan(float(value)) else "∞" if value > 0 else "−∞"
        return f"{float(value):.{DIGITS}g}".replace("-", "−")
    return str(value)


def exact(value: Any) -> str:
    """Return a number with all digits, for copying."""
    return repr(float(value))


def is_number(value: Any) -> bool:
    """Say whether a cell is a number and not a truth value."""
    return isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)


MOST_ROWS, MOST_COLUMNS = 300, 120  # of a table; the model has the rest
FOLDED = 25  # rows from which a table is folded
SCATTERED = 1_200  # rows in a picture where each is an element
NAMED = 8  # columns named in the header
VERSIONS = ("implicitmoments", "numpy", "scipy", "scikit-learn", "matplotlib")
NOISE = " Dashed: the noise level, below which an eigenvalue carries no information."
STEPS = {
    "mean_log_likelihood_history": "The remaining gain of EM at each pass over the rows; it stops "
    "below tol. At the foot: a thousandth of tol, or less.",
    "loss_history": "Error of the network on its training rows, step by step. Dashed: that of the "
    "polynomial, expected on new rows.",
    "scores": "Mean log density of held-out rows, by degree of the polynomial.",
    "error_by_degree": "Squared error of the polynomial on held-out rows, by degree.",
}


class Picture(NamedTuple):
    """A picture with its caption."""

    id: str
    svg: str
    title: str
    words: str


def render_page(
    model: FittedEstimator, rows: RowSample, *, title: str | None, subtitle: str, date: str
) -> str:
    """Return the page as text.

    Parameters
    ----------
    title : str or None
        By default what the model is.
    subtitle : str
        Where rows and model come from.
    """
    own = title_of(model, rows.target)
    found = [[*pair] for pair in findings_of(model).items()]
    return _template().render(
        title=title or own[0].upper() + own[1:],
        subtitle=subtitle,
        date=date,
        data=_describe_data(model, rows),
        verdict=verdict_of(model, rows),
        pictures=list(_pictures(model, rows)),
        parameters=model._parameter_tables(),
        found=Table("Found", ["quantity", "value"], found),
        settings=settings_of(model),
        statistics=statistics_of(model),
        versions=", ".join(
            [f"{name} {version(name)}" for name in VERSIONS]
            + [f"Python {platform.python_version()}"]
        ),
    )


def _template() -> jinja2.Template:
    source, style, script = (
        files("implicitmoments.report").joinpath(f"page.{end}").read_text("utf-8")
        for end in ("html.jinja", "css", "js")
    )
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"cell": cell, "exact": exact, "counted": counted, "sentence": sentence}
    environment.tests["numeric"] = is_number
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    limits = {"rows": MOST_ROWS, "columns": MOST_COLUMNS, "folded": FOLDED}
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    environment.globals |= {"style": style, "script": script, "policy": policy, "limits": limits}
    return environment.from_string(source)


def sentence(note: Note) -> str:
    """Return a note with a capital, unless it begins with a value or an expression, and a stop."""
    text = str(note)
    if SENTENCES[note.code][0].islower():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def _describe_data(model: FittedEstimator, rows: RowSample) -> str:
    names = getattr(model, "feature_names_in_", None)
    words = f"{counted(rows.total, 'row')}, {counted(model.n_features_in_, 'column')}"
    if names is not None:
        more = "" if len(names) <= NAMED else ", …"
        words += " (" + ", ".join(map(str, names[:NAMED])) + more + ")"
    if len(rows.y) and rows.target != "y":
        words += f", labels: {rows.target}"
    return f"{type(model).__name__}: {words}"


def _pictures(model: FittedEstimator, rows: RowSample) -> Iterator[Picture]:
    """Draw the pictures that the model has."""
    drawn: dict[str, Callable[[Any], Any]] = {
        "spectra": partial(spectra, model),
        "components": lambda ax: components(model, rows, ax=ax, max_rows=SCATTERED),
        "fit": lambda ax: fit(model, rows, ax=ax),
        "convergence": partial(convergence, model),
    }
    for name, draw in drawn.items():
        title, words = caption_of(name, model, rows.target)
        try:
            svg = picture(draw, name, f"{title}. {words}")
        except NoPictureError:
            continue
        yield Picture(name, svg, title, words)


def caption_of(name: str, model: FittedEstimator, target: str = "y") -> tuple[str, str]:
    """Return the title of a picture, and how to read it.

    Parameters
    ----------
    name : {"spectra", "components", "fit", "convergence"}
    target : str
        The name of the labels.
    """
    if name == "convergence":
        history = step_history(model) or "scores"
        steps = history.endswith("history")
        return "Convergence" if steps else "Choice of the degree", STEPS[history]
    words = model._caption(name).format(target=target)
    if name == "spectra" and any(floor > 0 for floor in model.stats_.get("noise_floor", ())):
        words += NOISE
    own = "Components" if model.vectors else "Rows by density"
    return {"spectra": "Spectra", "components": own, "fit": "Fit against data"}[name], words
