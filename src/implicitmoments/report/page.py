"""The page: what is on it, and in which order."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any, NamedTuple

from implicitmoments.learners.summary import findings_of
from implicitmoments.plot import components, convergence, fit, spectra
from implicitmoments.plot.canvas import NoPictureError
from implicitmoments.plot.rows import Some
from implicitmoments.report.drawing import picture
from implicitmoments.report.tables import (
    Table,
    html_of,
    parameters_of,
    settings_of,
    statistics_of,
)
from implicitmoments.report.verdict import Verdict, verdict_of

__all__ = ["page_of"]

SCATTERED = 1_200  # rows in a picture where each is an element
NAMED = 8  # columns that are named in the summary
VERSIONS = ("implicitmoments", "numpy", "scipy", "scikit-learn", "matplotlib")


class Shown(NamedTuple):
    """A picture: its name, how to read it, and how to draw it."""

    name: str
    title: str
    words: str
    draw: Callable[[Any], Any]


def page_of(model: Any, some: Some, *, title: str | None, date: str) -> str:
    """Return the page as text.

    Parameters
    ----------
    model : fitted estimator
    some : Some
        Rows to show it with.
    title : str, optional
    date : str
    """
    style, script = (
        files("implicitmoments.report").joinpath(f"page.{end}").read_text("utf-8")
        for end in ("css", "js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    heading = escape(title or type(model).__name__)
    body = "".join(_body(model, some))
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title><style>\n{style}</style></head>\n<body>"
        f"<header><h1>{heading}</h1><p>{_data(model, some)}</p></header>\n"
        f"<main>{body}</main>\n{_footer(date)}\n<script>{script}</script></body></html>\n"
    )


def _body(model: Any, some: Some) -> Iterator[str]:
    yield _verdict(verdict_of(model, some.total))
    yield '<section><h2>Pictures</h2><div class="pictures">'
    for shown in _pictures(model, some):
        yield _figure(shown)
    yield "</div></section>\n<section><h2>Parameters</h2>"
    for i, table in enumerate(parameters_of(model)):
        yield html_of(table, f"parameters-{i}")
    yield '</section>\n<section class="words"><h2>Numbers</h2><div class="two">'
    found = Table("Found", ["quantity", "value"], [[*pair] for pair in findings_of(model).items()])
    yield f"<div>{html_of(found, 'found')}{html_of(settings_of(model), 'settings')}</div>"
    yield f"<div>{html_of(statistics_of(model), 'statistics')}</div></div></section>"


def _verdict(verdict: Verdict) -> str:
    state = "" if verdict.good else " look"
    words = "".join(f"<li>{escape(each)}</li>" for each in verdict.words)
    facts = "".join(f"<li>{escape(each)}</li>" for each in verdict.facts)
    return (
        f'<section class="verdict{state}" aria-label="Verdict">'
        f'<p class="found">{escape(verdict.found)}</p>'
        f"<p><strong>{escape(verdict.judgement)}</strong></p>"
        + (f"<ul>{words}</ul>" if words else "")
        + (f"<p>What was measured:</p><ul>{facts}</ul>" if facts else "")
        + "</section>\n"
    )


def _pictures(model: Any, some: Some) -> list[Shown]:
    return [
        Shown(
            "spectra",
            "Spectra",
            "Eigenvalues of the moments. Filled: directions that were kept. Dashed: the noise, "
            "below which an eigenvalue says nothing.",
            partial(spectra, model),
        ),
        Shown(
            "components",
            "Components",
            "Rows and components in two dimensions. What overlaps here may be apart in others.",
            lambda ax: components(model, some, ax=ax, max_rows=SCATTERED),
        ),
        Shown(
            "fit",
            "Fit against data",
            "If the model is right, rows and model agree up to chance.",
            lambda ax: fit(model, some, ax=ax),
        ),
        Shown(
            "convergence",
            "Convergence",
            "How the fit came to its end.",
            partial(convergence, model),
        ),
    ]


def _figure(shown: Shown) -> str:
    """Draw a picture, or say why there is none."""
    try:
        drawn = picture(shown.draw, shown.name, f"{shown.title}. {shown.words}")
    except NoPictureError as reason:
        drawn = f'<p class="note">{escape(str(reason))}</p>'
    return (
        f'<figure id="{shown.name}">{drawn}'
        f"<figcaption><strong>{shown.title}.</strong> {escape(shown.words)}</figcaption></figure>"
    )


def _data(model: Any, some: Some) -> str:
    names = getattr(model, "feature_names_in_", None)
    words = f"{some.total:,} rows, {model.n_features_in_:,} columns"
    if names is not None:
        more = "" if len(names) <= NAMED else ", …"
        words += " (" + ", ".join(map(str, names[:NAMED])) + more + ")"
    return escape(words)


def _footer(date: str) -> str:
    used = [f"{name} {version(name)}" for name in VERSIONS]
    words = ", ".join([*used, f"Python {platform.python_version()}"])
    return f"<footer><p>{escape(date)}. Made with {escape(words)}.</p></footer>"
