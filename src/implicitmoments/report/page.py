"""The report of a model: a page of verdict, pictures and tables, written to a file."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date as calendar
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from scipy.stats import ks_2samp

from implicitmoments.description import Table, counted, findings_of
from implicitmoments.estimator import KOLMOGOROV_CHANCE, Fact, FittedEstimator
from implicitmoments.notes import FIT, SENTENCES, Note, Notes
from implicitmoments.picture_data import NoPictureError, RowSample
from implicitmoments.plot import components, convergence, fit, spectra
from implicitmoments.plot.canvas import frozen_copy, sample_rows
from implicitmoments.plot.data_comparison import MOST_COMPARED
from implicitmoments.plot.fit_statistics import step_history
from implicitmoments.report.statistics import cell, exact, is_number, settings_of, statistics_of
from implicitmoments.report.svg import picture
from implicitmoments.saving.files import write_whole

FEWEST_COMPARED = 50  # of a comparison of distributions: chance reaches 0.27 between fewer
TABLE_ROWS, TABLE_COLUMNS = 300, 120  # of a table; the model has the rest
FOLDED = 25  # rows from which a table is folded
SCATTERED = 1_200  # rows in a picture where each is an element
NAMED = 8  # columns named in the header, which is to stay on one line or two
# packages whose versions affect the results or the pictures of a report
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


@dataclass(frozen=True)
class Verdict:
    """Overall assessment of a fit."""

    found: Note  # what the model is
    judgement: Note
    against: Notes  # notes of the fit, and measurements that speak against it
    in_favour: Notes  # measurements that support it


def verdict_of(model: Any, X: Any, y: Any = None, *, max_rows: int = MOST_COMPARED) -> Verdict:
    """Judge a fitted model by its notes, its measurements, and a random sample of rows."""
    rows = sample_rows(model, X, y, max_rows)
    facts = model._evidence() + _compare_samples(model, rows)
    against = Notes(model.notes_ + [fact.note for fact in facts if not fact.supports])
    # what supports a fit presumes its model, and says nothing where another one is better
    doubted = not FIT.isdisjoint(model.notes_.codes)
    in_favour = Notes(fact.note for fact in facts if fact.supports and not doubted)
    if against:
        judgement = Note("points_to_check", {"n": len(against)})
    else:
        judgement = Note("all_checks_passed" if in_favour else "nothing_checked")
    values: dict[str, Any] = {
        "title": title_of(model, rows.target),
        "n_rows": rows.total,
        "n_columns": model.n_features_in_,
    }
    return Verdict(Note("fit_found", values), judgement, against, in_favour)


def title_of(model: FittedEstimator, target: str) -> str:
    """Return the title of a model, with the name of its labels unless that is "y"."""
    return model._title() + ("" if target == "y" else f" for {target}")


def _compare_samples(model: FittedEstimator, rows: RowSample) -> list[Fact]:
    """Compare rows with rows drawn from the model.

    There is nothing to compare for models without samples, for few rows, for rows without noise,
    and for rows with weights, which the comparison would ignore.
    """
    if "samples" not in model.answers or len(rows.x) < FEWEST_COMPARED:
        return []
    if model._weighted() or model._noise_free(rows):
        return []
    twin = frozen_copy(model)
    try:
        view = twin._fit_view(rows)
    except NoPictureError as reason:
        return [Fact(False, Note("cannot_sample", {"rate": reason.values["rate"]}))]
    drawn = view.rows if view.drawn is None else view.drawn
    gap = float(ks_2samp(view.rows, drawn, method="asymp").statistic)
    limit = KOLMOGOROV_CHANCE * math.sqrt(1 / len(view.rows) + 1 / len(drawn))
    agree = gap <= limit
    note = Note("samples_agree" if agree else "samples_differ", {"gap": gap, "limit": limit})
    return [Fact(agree, note), *twin._row_evidence(rows)]


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


def render_page(
    model: FittedEstimator, rows: RowSample, *, title: str | None, subtitle: str, date: str
) -> str:
    """Return the page as text; its title is by default what the model is."""
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
    limits = {"rows": TABLE_ROWS, "columns": TABLE_COLUMNS, "folded": FOLDED}
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


def _pictures(model: FittedEstimator, rows: RowSample) -> Iterator[dict[str, str]]:
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
        yield {"id": name, "svg": svg, "title": title, "words": words}


def caption_of(name: str, model: FittedEstimator, target: str = "y") -> tuple[str, str]:
    """Return the title of a picture, and how to read it; the labels are called ``target``."""
    if name == "convergence":
        history = step_history(model) or "scores"
        steps = history.endswith("history")
        return "Convergence" if steps else "Choice of the degree", STEPS[history]
    words = model._caption(name).format(target=target)
    if name == "spectra" and any(floor > 0 for floor in model.stats_.get("noise_floor", ())):
        words += NOISE
    own = "Components" if model.vectors else "Rows by density"
    return {"spectra": "Spectra", "components": own, "fit": "Fit against data"}[name], words
