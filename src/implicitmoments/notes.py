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

__all__ = [
    "FIT",
    "NOTES",
    "QUIET",
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

# The sentence of each note by its code; each has a row in docs/notes.md
NOTES: dict[str, str] = {
    # every estimator
    "not_converged": "EM did not converge in `max_iter={max_iter}` iterations; increase "
    "`max_iter` or `tol`",
    "outliers": "outliers {done} the fit: {n:count row} far from all others; check or remove them",
    "outliers_scored": "scores and criteria count {n:count row} of {rows:,} that are outliers by "
    "the rule of the fit, and {zero:count row} of density 0, such as rows that differ in a column "
    "that was constant in the fit; see `score_samples`",
    "heavy_tails": "the noise has heavier tails than a Gaussian: Student's t with about "
    "{freedom:.0f} degrees of freedom lowers BIC by {gain:,.0f}; try `noise='student'` of "
    "`GaussianMixture` or `RegressionMixture`",
    "flat_direction": "the variance of the rows along some direction is {ratio:.2g} times the "
    "noise variance {variance:.3g}; remove constant or dependent columns, scale the columns "
    "alike, or set `variance`",
    # moments
    "negative_eigenvalue": "the moment of order {order} has the eigenvalues {top:.3g} and "
    "{below:.3g}, and the negative one is beyond its noise: weights of both signs need "
    "`subspace='singular'`, or `positive=False` of `ActivationSumRegressor`; with positive "
    "weights the model does not fit, for example because the assumed variance is too large",
    "more_components_likely": "there are more than {k} components, or the model does not fit: "
    "the next eigenvalue of the moment of order 4 is {ratio:.1f} times the noise floor; try more "
    "components",
    "components_unresolved": "components {which} are not resolved: equal vectors, too few rows, "
    "or more than the {room} that moments of these rows can hold; use fewer components, more rows "
    "or more features",
    # activation
    "nearly_symmetric": "{name} is nearly {parity}: orders of the other parity are mostly noise "
    "(Remark 4.11: a phase near a multiple of π/2); use more rows, an activation that is exactly "
    "{parity}, or `positive=False`, which uses all orders",
    "residuals_explained": "a further component, of either sign, would explain {share:percent} of "
    "the squared error that the network leaves: the search may have ended in a local optimum, or "
    "there may be more components, negative weights, biases or another activation; try a larger "
    "`n_starts`, more `n_components`, `positive=False` or `fit_bias=True`",
    "directions_not_identified": "the {what} of components {which} are not identified: the data "
    "do not determine them, as when two directions are equal, a weight is zero, or only even "
    "orders are known",
    "polynomial_predicts": "the polynomial is expected to predict new rows better than the "
    "network: the labels may not be such a sum of this activation (there is no intercept; "
    "`positive=False` and `fit_bias=True` allow more), or there are too few rows for its unknowns",
    "inputs_not_gaussian": "the inputs are clearly not Gaussian (columns that the "
    "Jarque-Bera test rejects: {columns}; largest skewness {skewness:.2g}, largest excess "
    "kurtosis {kurtosis:.2g}); estimates from moments are biased: transform the columns to normal "
    "quantiles (sklearn.preprocessing.QuantileTransformer with output_distribution='normal'), or "
    "rely on a fit by likelihood or least squares (`RegressionMixture`, `refine=True`)",
    # density
    "density_far_from_rows": "the Kolmogorov distance of the density from the rows is "
    "{distance:.2f}, and its expansion of degree {degree} is negative at {negative_rows:.1%} of "
    "them: components are too far apart for the noise and the number of rows, or the rows are not "
    "such a mixture; use more rows, `degree='auto'` and a larger `max_degree`, or fit the "
    "components (`SphericalMixture`, `RegressionMixture`)",
    "inputs_not_standard": "`whiten=False` assumes inputs from N(0, I), but their mean and "
    "covariance are clearly different, so that the moments are biased; use `whiten=True`, or "
    "`refine=True` of `ActivationSumRegressor`",
    # mixture
    "few_rows": "{n:count row} hardly determine {k:count component}; use fewer, or more rows",
    "not_round": "components do not have the spread that the model assumes: "
    "`{model}` with `{option}={kind!r}` lowers BIC by {gain:,.0f}",
    "at_floor": "components {which} have the least variance that the fit allows along some "
    "column: their rows hardly vary there, and the likelihood depends on that bound; look for "
    "repeated values, use fewer components or more rows",
    "search_doubtful": "the search ended before it was settled, so a better fit may exist; "
    "compare `lower_bound_` for a few values of `random_state`",
    "components_are_one": "components {which} are likely to be one: merging them lowers the "
    "log-likelihood by {loss:.1f}, which chance explains; use `n_components={fewer}` or "
    "`n_components='auto'`",
    "component_missing": "a component is likely to be missing: splitting component {which} lowers "
    "BIC by {gain:,.0f}; use `n_components={more}` or `n_components='auto'`",
    "columns_left_out": "columns that are constant, or linear functions of others, say nothing of "
    "their own: {columns}; they are left out, or share their coefficients",
    "kinds_guessed": "by their values, columns were taken as {columns}; set `columns` if not so",
    # clustering
    "fewer_components": "`n_components={asked}`, but the data determine {k}: others are equal to "
    "these, or empty; more rows may separate them",
    "separation_too_small": "the separation is too small to cluster by pairs: the nearest means "
    "are {separation:.1f} noise standard deviations apart, the pairwise test errs on "
    "{split_rate:.1%} of pairs from the same component and {merge_rate:.1%} of pairs from two, "
    "and the expected misclassification rate is {misclassification_rate:.1%}; use "
    "`SphericalMixture`",
    "cluster_wide": "the variance within a cluster is {ratio:.1f} times that of the noise "
    "along some direction: the cluster holds more than one component, or the variance is larger "
    "than {variance:.3g}; use more components, `SphericalMixture`, or another `variance`",
}

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
        *("columns_left_out", "kinds_guessed"),  # predictions do not hang on them; what was done
        # of decoded components, which the likelihood judges
        *("more_components_likely", "components_unresolved"),
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
            shown = [self.format_field(entry, format_spec) for entry in value[:6]]
            more = f", … ({len(value)} in all)" if len(value) > 6 else ""
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
        A key of ``NOTES``.
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
        if self.code not in NOTES:
            raise KeyError(f"no sentence for the code {self.code!r}")

    def __str__(self) -> str:
        return render(NOTES[self.code], self.values)


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
    while frame.f_back is not None and _library(frame) in ("implicitmoments", "sklearn"):
        frame, level = frame.f_back, level + 1
    categories: dict[str, type[Warning]] = dict.fromkeys(FIT, FitWarning)
    categories["not_converged"] = ConvergenceWarning
    for note in (note for note in notes if note.code not in QUIET):
        category = categories.get(note.code, AssumptionWarning)
        warnings.warn(str(note), category, stacklevel=level)
