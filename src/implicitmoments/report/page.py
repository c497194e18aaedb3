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

from implicitmoments.estimator import counted, findings_of
from implicitmoments.plot import components, convergence, fit, spectra
from implicitmoments.plot.canvas import NoPictureError
from implicitmoments.plot.plotted_rows import Some
from implicitmoments.report.agreement import agreement_of
from implicitmoments.report.captions import caption_of
from implicitmoments.report.measurements import statistics_of
from implicitmoments.report.model_names import name_of
from implicitmoments.report.svg import picture
from implicitmoments.report.tables import Table, html_of, parameters_of, settings_of
from implicitmoments.report.verdict import Verdict, verdict_of

__all__ = ["Named", "page_of"]

SCATTERED = 1_200  # rows in a picture where each is an element
NAMED = 8  # columns that are named in the summary
VERSIONS = ("implicitmoments", "numpy", "scipy", "scikit-learn", "matplotlib")


class Named(NamedTuple):
    """What the reader is told first.

    Attributes
    ----------
    title : str
        What the model is, by default.
    subtitle : str
        Where rows and model come from.
    date : str
    """

    title: str | None
    subtitle: str
    date: str


def page_of(model: Any, some: Some, named: Named) -> str:
    """Return the page as text.

    Parameters
    ----------
    model : fitted estimator
    some : Some
        Rows to show it with.
    named : Named
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
    words = name_of(model, some.target)
    heading = escape(named.title or words[0].upper() + words[1:])
    origin = f"<p>{escape(named.subtitle)}</p>" if named.subtitle else ""
    body = "".join(_body(model, some))
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title><style>\n{style}</style></head>\n<body>"
        f"<header><h1>{heading}</h1>{origin}<p>{_data(model, some)}</p></header>\n"
        f"<main>{body}</main>\n{_footer(named.date)}\n<script>{script}</script></body></html>\n"
    )


def _body(model: Any, some: Some) -> Iterator[str]:
    yield _verdict(verdict_of(model, some.total, some.target, agreement_of(model, some)))
    yield '<section><h2>Pictures</h2><div class="pictures">'
    yield from _pictures(model, some)
    yield "</div></section>\n<section><h2>Parameters</h2>"
    for i, table in enumerate(parameters_of(model)):
        yield html_of(table, f"parameters-{i}")
    yield '</section>\n<section class="words"><h2>Numbers</h2><div class="two">'
    found = Table("Found", ["quantity", "value"], [[*pair] for pair in findings_of(model).items()])
    yield f"<div>{html_of(found, 'found')}{html_of(settings_of(model), 'settings')}</div>"
    yield f"<div>{html_of(statistics_of(model), 'statistics')}</div></div></section>"


def _verdict(verdict: Verdict) -> str:
    against, in_favour = (
        "".join(f"<li>{escape(each)}</li>" for each in facts)
        for facts in (verdict.against, verdict.in_favour)
    )
    return (
        f'<section class="verdict{"" if verdict.good else " look"}" aria-label="Verdict">'
        f'<p class="found">{escape(verdict.found)}</p>'
        f"<p><strong>{escape(verdict.judgement)}</strong></p>"
        + (f'<ul class="against">{against}</ul>' if against else "")
        + (f'<p>What speaks for it:</p><ul class="for">{in_favour}</ul>' if in_favour else "")
        + "</section>\n"
    )


def _pictures(model: Any, some: Some) -> Iterator[str]:
    """Draw what there is to show."""
    drawn: dict[str, Callable[[Any], Any]] = {
        "spectra": partial(spectra, model),
        "components": lambda ax: components(model, some, ax=ax, max_rows=SCATTERED),
        "fit": lambda ax: fit(model, some, ax=ax),
        "convergence": partial(convergence, model),
    }
    for name, draw in drawn.items():
        title, words = caption_of(name, model, some.target)
        try:
            shown = picture(draw, name, f"{title}. {words}")
        except NoPictureError:
            continue
        yield (
            f'<figure id="{name}">{shown}'
            f"<figcaption><strong>{title}.</strong> {escape(words)}</figcaption></figure>"
        )


def _data(model: Any, some: Some) -> str:
    names = getattr(model, "feature_names_in_", None)
    words = f"{counted(some.total, 'row')}, {counted(model.n_features_in_, 'column')}"
    if names is not None:
        more = "" if len(names) <= NAMED else ", …"
        words += " (" + ", ".join(map(str, names[:NAMED])) + more + ")"
    if len(some.y) and some.target != "y":
        words += f", labels: {some.target}"
    return escape(f"{type(model).__name__}: {words}")


def _footer(date: str) -> str:
    used = [f"{name} {version(name)}" for name in VERSIONS]
    words = ", ".join([*used, f"Python {platform.python_version()}"])
    return f"<footer><p>{escape(date)}. Made with {escape(words)}.</p></footer>"
