"""Notes and errors as data: a code and values, rendered from a message template.

Code and tests look at codes; sentences are for people. A template is text with fields in braces
and Python expressions in backticks, such as ``"use `n_components={k}`"``.
"""

from __future__ import annotations

import string
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

from implicitmoments.sentences import SENTENCES

__all__ = [
    "FIT",
    "QUIET",
    "SENTENCES",
    "AssumptionWarning",
    "CodedError",
    "FitWarning",
    "InputError",
    "InputTypeError",
    "Note",
    "Notes",
    "format_value",
    "printable",
    "render",
    "warn_of",
]

LISTED = 6  # entries of a long list that are printed
LIBRARIES = ("implicitmoments", "sklearn")  # frames that a warning does not point at

# A note may mean a wrong answer, and a fit warns of it with ``AssumptionWarning``, except for two
# kinds. Of those on the choice of the model, or on the optimum that was found, it warns with
# ``FitWarning``, which a search over numbers of components may ignore.
FIT: frozenset[str] = frozenset(
    {
        *("components_are_one", "component_missing", "not_round", "heavy_tails"),
        *("at_floor", "search_doubtful", "directions_not_identified", "polynomial_predicts"),
        *("residuals_explained", "fewer_components"),
    }
)
# Those that are harmless, or describe what was done, are no warnings.
QUIET: frozenset[str] = frozenset(
    {
        "columns_left_out",  # predictions do not depend on them
        # of decoded components, which the likelihood judges
        *("more_components_likely", "too_many_components_to_decode"),
        *("components_unresolved", "components_unsigned"),
    }
)


class _Formatter(string.Formatter):
    """Format specifications for lists and counts, beside those of Python."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.startswith("count "):
            noun = format_spec.removeprefix("count ")
            return f"{value:,} {noun if value == 1 else noun + 's'}"
        if format_spec == "percent":
            return "under 0.01%" if 0 < value < 1e-4 else f"{value:.2%}"
        if isinstance(value, list):
            shown = [self.format_field(entry, format_spec) for entry in value[:LISTED]]
            more = f", … ({len(value)} in all)" if len(value) > LISTED else ""
            return (", ".join(shown) or "none") + more
        return str(super().format_field(value, format_spec))


def format_value(value: Any, format_spec: str) -> str:
    """Format one value as a field of a template does.

    Examples
    --------
    >>> format_value(0.0213, "percent"), format_value(1, "count row")
    ('2.13%', '1 row')
    """
    return _Formatter().format_field(value, format_spec)


def printable(text: str) -> str:
    r"""Return a text whose control characters are written as escapes, except ends of lines.

    Names of columns and texts of files may hold sequences that a terminal obeys.

    Examples
    --------
    >>> printable(chr(27) + "[2J")  # clears a screen
    '\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def render(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a template; control characters of values are written as escapes.

    A field ``{n:count row}`` prints "1 row" or "2,000 rows"; a list prints its first entries and
    its length.

    Examples
    --------
    >>> render("`n_components={k}` is more than {n:count row}", {"k": 7, "n": 1})
    'n_components=7 is more than 1 row'
    >>> render("components {which}", {"which": list(range(10))})
    'components 0, 1, 2, 3, 4, 5, … (10 in all)'
    """
    return printable(_Formatter().vformat(template.replace("`", ""), (), values))


@dataclass(frozen=True)
class Note:
    """One finding about a fit.

    Parameters
    ----------
    code : str
        A key of ``SENTENCES``.
    values : mapping of str to object
        Numbers, strings, and lists of them that the sentence mentions.

    Examples
    --------
    >>> note = Note("not_converged", {"max_iter": 200})
    >>> print(note)
    EM did not converge in max_iter=200 iterations; increase max_iter or tol
    """

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.code not in SENTENCES:
            raise KeyError(f"no sentence for the code {self.code!r}")

    def __str__(self) -> str:
        return render(SENTENCES[self.code], self.values)


class Notes(list[Note]):
    """The notes of a fit: a list that prints as sentences.

    Examples
    --------
    >>> notes = Notes([Note("not_converged", {"max_iter": 200})])
    >>> notes.codes, "not_converged" in notes.codes
    (['not_converged'], True)
    >>> print(notes)
    EM did not converge in max_iter=200 iterations; increase max_iter or tol
    """

    @property
    def codes(self) -> list[str]:
        """The codes, in order."""
        return [note.code for note in self]

    def without(self, code: str) -> Notes:
        """Return the notes that have another code."""
        return Notes(note for note in self if note.code != code)

    def __str__(self) -> str:
        return "\n".join(str(note) for note in self) or "no notes"

    def __repr__(self) -> str:
        return f"<{len(self)} notes: {', '.join(self.codes)}>" if self else "<no notes>"


class CodedError(Exception):
    """An error with a code and values, whose message is rendered from a template.

    Parameters
    ----------
    code : str
        What went wrong, in snake_case.
    template : str
        The sentence, as described in :func:`render`.
    **values : object
        What the sentence mentions.
    """

    def __init__(self, code: str, template: str, **values: Any) -> None:
        super().__init__(code, template, values)
        self.code, self.template, self.values = code, template, values

    def __str__(self) -> str:
        return render(self.template, self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.code, self.template, **self.values), ()


class InputError(CodedError, ValueError):
    """A value that the user gave cannot be used.

    Examples
    --------
    >>> error = InputError("too_few_rows", "`n_components={k}` needs {k:count row}", k=3)
    >>> error.code, str(error)
    ('too_few_rows', 'n_components=3 needs 3 rows')
    """


class InputTypeError(CodedError, TypeError):
    """A value that the user gave has the wrong type.

    Examples
    --------
    >>> str(InputTypeError("labels_not_text", "`{name}` must be text", name="labels"))
    'labels must be text'
    """


class AssumptionWarning(UserWarning):
    """The data do not look like what the model assumes; the message says what to do.

    See Also
    --------
    FitWarning : Another number, shape or start may fit better.

    Examples
    --------
    >>> import warnings
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=1.0, random_state=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", im.AssumptionWarning)
    ...     model = im.SphericalMixtureClusterer(3, random_state=0).fit(X)
    >>> len(caught) > 0
    True
    """


class FitWarning(AssumptionWarning):
    """Another number or shape of components, or another start, may fit better.

    Searches over numbers of components fit too few and too many on purpose, and may ignore it.

    See Also
    --------
    AssumptionWarning : The data do not look like what a model assumes.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import implicitmoments as im
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", im.FitWarning)
    ...     model = im.SphericalMixture(2, random_state=0).fit(X)
    >>> [warning.category.__name__ for warning in caught]
    ['FitWarning']
    """


def _library(frame: FrameType) -> str:
    """Return the package of a frame; code run by ``exec`` may have none."""
    return str(frame.f_globals.get("__name__", "")).split(".")[0]


def warn_of(notes: Iterable[Note]) -> None:
    """Warn of each note that may mean a wrong answer, where the user's program led here.

    Notes that ``QUIET`` lists are harmless. Those that ``FIT`` lists raise ``FitWarning``, a fit
    that did not converge scikit-learn's ``ConvergenceWarning``, and others ``AssumptionWarning``.
    """
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 (slow to import)

    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _library(frame) in LIBRARIES:
        frame, level = frame.f_back, level + 1
    categories: dict[str, type[Warning]] = dict.fromkeys(FIT, FitWarning)
    categories["not_converged"] = ConvergenceWarning
    for note in (note for note in notes if note.code not in QUIET):
        category = categories.get(note.code, AssumptionWarning)
        warnings.warn(str(note), category, stacklevel=level)
