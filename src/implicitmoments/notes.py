"""What a fit or an error has to say, as data: a code and values, rendered from a template.

Code and tests look at codes; sentences are for people. A template is text with fields in braces
and Python expressions in backticks, such as ``"use `n_components={k}`"``. The Python vocabulary
prints an expression as it stands, the command line prints the option that stands for it.
"""

from __future__ import annotations

import string
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, SupportsIndex

__all__ = [
    "PYTHON",
    "SENTENCES",
    "AssumptionWarning",
    "CodedError",
    "InputError",
    "InputTypeError",
    "Note",
    "Notes",
    "Vocabulary",
    "format_value",
    "render",
    "warn_of",
]

LISTED = 6  # entries of a long list that are printed

# One sentence per code. Sections follow the folders.
SENTENCES: dict[str, str] = {
    # every estimator
    "not_converged": "EM did not converge in `max_iter={max_iter}` iterations; increase "
    "`max_iter` or `tol`",
    "outliers_dropped": "outliers left out of the fit: {n:count row} far from all others; check "
    "or remove them",
    # regression
    "constant_labels": "y is constant, so all lines coincide",
    "inputs_not_gaussian": "the inputs are clearly not Gaussian: {reason}. The likelihood does "
    "not assume Gaussian inputs, but the initialisation does: compare `lower_bound_` for several "
    "values of `random_state`",
    "line_looks_double": "line {line} looks like two: splitting it would raise the log-likelihood "
    "by {gain:.0f}, more than the {penalty:.0f} that BIC charges; a line may be missing, or y is "
    "not linear in x, or the noise depends on x; try more components",
    "line_missing": "the residuals have a peak of {peak:.1f} standard errors, where noise gives "
    "at most {noise_maximum:.1f}: a line may be missing; try more components",
    # of model files: sentences of an older version, and codes of a newer one
    "stored_sentence": "{text}",
    "unknown_note": "a note that this version of the library does not know: {code} {values}",
    # moments
    "directions_at_noise_floor": "{low} of {k} directions of the moment of order {order} are at "
    "the noise floor (eigenvalue {k}: {eigenvalue:.3g}, floor {floor:.3g}, {n_rows:count row}): "
    "equal vectors, too many components, or too few rows; try fewer components or more rows",
    "directions_near_noise_floor": "the last of {k} directions of the moment of order {order} is "
    "{gap:.2g} times the noise floor (eigenvalue {eigenvalue:.3g}, floor {floor:.3g}, "
    "{n_rows:count row}): equal vectors, too many components, or too few rows; try fewer "
    "components or more rows",
    "more_components_likely": "there are more than {k} components, or the model does not fit: "
    "the next eigenvalue of the moment of order {order} is {ratio:.1f} times the noise floor; try "
    "more components",
    "too_many_components_to_decode": "{k} components are more than the moments can hold "
    "(dimension {capacities} for r = {r}); use fewer components or more features",
    "orders_missing": "the data carry no information about one of the orders {orders}",
    "no_positive_eigenvalue": "the moment of order {order} has no positive eigenvalue: no "
    "component stands out",
    "weights_exceed_total": "the weights sum to {total:.3g} instead of {expected:.3g}: the "
    "vectors are estimated too short, with a bias that both halves of the rows share; use more "
    "rows",
    "components_mixed": "components {which} are not powers of one vector: noise, or several "
    "components in one",
    "components_blurred": "components {which} have standard errors comparable to the distance to "
    "their nearest neighbour",
    "components_faint": "components {which} are below the noise floor",
    "components_unsigned": "components {which} are known up to sign: the data show even orders "
    "only",
    "decompositions_differ": "random starts of the decomposition found different components",
    # report: measurements that support a fit or speak against it
    "bic_best": "BIC is lowest at `n_components={k}` of {least} to {most} compared; the next, "
    "{other}, is {difference:,.3g} higher",
    "bic_close": "BIC hardly distinguishes `n_components={k}` from {other} (difference "
    "{difference:.2g})",
    "bic_at_limit": "BIC still decreases at `n_components={k}`, the largest number allowed; "
    "increase `max_components`",
    "fit_found": "the fit found {title} in {n_rows:count row} of {n_columns:count column}",
    "all_checks_passed": "all checks passed",
    "nothing_checked": "no check applies to this fit; look at the pictures",
    "points_to_check": "{n:count point} to check:",
    "samples_agree": "Kolmogorov–Smirnov distance between data and model samples: {gap:.2g} "
    "(threshold {limit:.2g})",
    "samples_differ": "Kolmogorov–Smirnov distance between data and model samples: {gap:.2g}, "
    "above the threshold {limit:.2g}; see the picture of the fit",
    "cannot_sample": "no rows can be drawn from the density: its sampler accepts {rate:.2g} of "
    "its proposals",
    "moments_resolve": "the moments alone resolve the {k} components: the weakest eigenvalue is "
    "{ratio:,.1f} times the noise",
    "moments_do_not_resolve": "the moments alone do not resolve the {k} components: the weakest "
    "eigenvalue is {ratio:.1f} times the noise",
    "moments_show_more": "the moments show more than {k} components, or components that are not "
    "spherical: the next eigenvalue is {ratio:,.1f} times the noise",
    "moments_started_em": "EM was initialised from the moments; a k-means++ start gave no higher "
    "likelihood",
    "components_spherical": "all components are spherical (largest variance ratio {ratio:.2f} "
    "along one direction)",
    "few_misclassified": "expected misclassification rate: {rate:percent}",
    "groups_fitted_apart": "the rows form {groups} groups so far apart that each was fitted "
    "separately",
    "no_peak_left": "no significant peak of the characteristic function is left beside the fitted "
    "lines (highest {height:.1f} standard errors; noise alone reaches {usual:.1f})",
    "lines_clear_before_em": "each of the {k} lines was clear of the noise before EM",
    "labels_fit_everywhere": "labels are as probable as labels drawn from the model for all "
    "values of x (χ² {statistic:.0f}, {freedom} degrees of freedom)",
    "labels_depend_on_x": "the probability of labels, compared with labels drawn from the model, "
    "depends on x (χ² {statistic:.0f}, {freedom} degrees of freedom): a line may be missing, or "
    "the relation is not linear",
    "clusters_spherical": "all clusters are spherical (largest variance ratio {ratio:.2f} along "
    "one direction)",
    "means_separated": "the nearest means are {separation:.1f} noise standard deviations apart: "
    "expected misclassification rate {rate:percent}",
    "pairwise_test_reliable": "the pairwise test errs on {split:percent} of pairs within a "
    "cluster and {merge:percent} of pairs between clusters",
    "density_agrees": "total variation distance from the rows: at least {distance:.2g}, which "
    "chance alone explains (up to {chance:.2g})",
    "density_within_epsilon": "total variation distance from the rows: at least {distance:.2g}, "
    "below `epsilon={epsilon:g}`",
    "density_differs": "total variation distance from the rows: at least {distance:.2g}, where "
    "chance alone gives up to {chance:.2g}",
    "truncation_small": "degrees above {degree} contribute at most {bound:percent} in total "
    "variation",
    "degree_at_limit": "degree {degree} has the highest held-out likelihood and is the highest "
    "that was tried; increase `max_degree`",
    "polynomial_error": "expected squared error of the polynomial on new rows: {polynomial:.3g}",
    "network_error": "expected squared error of the network on new rows: {network:.3g} "
    "(polynomial {polynomial:.3g})",
    "flat_direction": "the variance of the rows along some direction is {ratio:.2g} times the "
    "noise variance {variance:.3g}; remove constant or dependent columns, scale the columns "
    "alike, or set `variance`",
    "moments_of_inputs_not_gaussian": "the inputs are clearly not Gaussian: {reason}; estimates "
    "from moments are then biased: transform the columns to normal quantiles "
    "(sklearn.preprocessing.QuantileTransformer with output_distribution='normal'), or rely on a "
    "fit by likelihood or least squares (`RegressionMixture`, `refine=True`)",
    # activation
    "inputs_standardised": "the inputs were standardised: the activation acts on v · z, with z of "
    "mean 0 and covariance I; with `whiten=False` it acts on the inputs as given",
    "nearly_even": "{name} is nearly even: odd orders have {ratio:.1e} of the energy of the even "
    "ones and are mostly noise (Remark 4.11: a phase near a multiple of π/2); an activation that "
    "is exactly even would leave them out",
    "nearly_odd": "{name} is nearly odd: even orders, from which the subspaces are found, have "
    "{ratio:.1e} of the energy of the odd ones (Remark 4.11: a phase near a multiple of π/2); "
    "many more rows are needed",
    "directions_not_identified": "directions {which} are not identified: they can turn without "
    "changing the fit, as when two directions are equal, a weight is zero, there are too many "
    "components, or the activation is a polynomial",
    "activation_flat": "{name} is constant except for jumps, so refinement cannot turn the "
    "directions that the moments gave",
    "no_direction_errors": "there are too many unknowns to compute standard errors of the "
    "directions",
    "directions_up_to_sign": "directions are identified up to sign: {name} is even",
    "polynomial_predicts": "the polynomial is expected to predict new rows better than the "
    "network: the labels may not be a positive sum of this activation (there is no intercept), or "
    "there are too few rows for its unknowns",
    # density
    "density_far_from_rows": "the density is at least {distance:.2f} from the rows in total "
    "variation, and its expansion of degree {degree} is negative at {negative_rows:.1%} of them: "
    "the means are too long (norm {radius:.1f} in units of the noise, √log k is {usual:.1f}), "
    "there are too few rows for the degree, or the mixture is not spherical; use more rows, "
    "`degree='cv'` and a larger `max_degree`, or `SphericalMixture` or "
    "`SphericalMixtureClusterer`",
    "regression_density_far_from_rows": "the density is at least {distance:.2f} from the rows in "
    "total variation, and its expansion of degree {degree} is negative at {negative_rows:.1%} of "
    "them: the noise is too small ({share:.2g} of the variance of y about one line, spread of "
    "intercepts included), some lines are much steeper than others (try `label_scale=1.4`), there "
    "are too few rows for the degree, or the rows are not a mixture of regressions on Gaussian "
    "inputs; use more rows and `degree='cv'`, or `RegressionMixture`",
    "degree_still_rising": "degree {degree}, the highest that `max_degree={max_degree}` allows, "
    "has a clearly higher held-out likelihood than degree {before} (total variation distance up "
    "to {step:.2f}), so higher degrees matter; use a larger `max_degree` and more rows, or fit "
    "the components themselves",
    "noise_too_large": "`noise={noise:.3g}` is more than the standard deviation of y about one "
    "line, {spread:.3g}; check its unit, or use `noise=None`",
    "too_few_rows_for_degree": "{n:count row} for {coefficients} coefficients of degree {degree}: "
    "the density fits noise; use more rows, fewer components or a lower `degree`",
    "truncation_large": "the noise is {share:.2g} of the variance of y about one line, so orders "
    "above the degree {degree} matter (tail bound {bound:.2g}): a distance of {epsilon:g} needs "
    "degree {needed} or more, and a number of rows that grows as (1/epsilon)^O(1/noise²); use "
    "`RegressionMixture`, which fits the lines themselves",
    "degree_too_low_for_intercepts": "the intercepts differ at the mean of x, and `degree='auto'` "
    "takes their spread for noise, so its degree may be too low; use `degree='cv'`",
    "inputs_not_standard": "`whiten=False` assumes inputs from N(0, I), but their mean and "
    "covariance are clearly different; use `whiten=True`",
    # mixture
    "moments_too_few_rows": "{n:count distinct row} are too few for the moments of "
    "{k:count component}",
    "moments_unusable": "the moments cannot be used: {reason}",
    "few_rows_per_component": "{n:count row} for {k:count component} hardly determine their "
    "variance and weights; use more rows or fewer components",
    "columns_differ_in_spread": "the spread about the means goes from {least_spread:.3g} "
    "({least}) to {most_spread:.3g} ({most}), but the model has one variance for all columns: "
    "groups may be split or merged; divide each column by its spread before the fit",
    "component_not_spherical": "component {component} is not spherical (variance ratio "
    "{ratio:.2g} along one direction): it may contain more than one group; increase "
    "`n_components`",
    "stopped_at_max_components": "BIC still decreased at `max_components={most}`: increase it, "
    "or, where groups are not spherical, set `n_components`",
    "components_overlap": "components overlap (expected misclassification rate {rate:.0%}): "
    "groups that are not spherical are covered by several components each; look at the picture, "
    "or set `n_components`",
    "local_optimum": "the moments did not resolve the components, and the fit started from "
    "scattered rows: it may be one of several local optima; compare `lower_bound_` for a few "
    "values of `random_state`",
    "components_unresolved": "the moments resolve {resolved} of {k} components, and neither the "
    "number of rows nor the separation confirms the others: there may be fewer components, or "
    "the fit may be one of several local optima; compare `bic()` for fewer components, and "
    "`lower_bound_` for a few values of `random_state`",
    # clustering
    "fewer_clusters": "found {n:count cluster}, fewer than `n_components={k}`",
    "separation_too_small": "the separation is too small to cluster by pairs: the nearest means "
    "are {separation:.1f} noise standard deviations apart, the pairwise test errs on "
    "{split_rate:.1%} of pairs from the same component and {merge_rate:.1%} of pairs from two, "
    "and the expected misclassification rate is {doubt:.1%}; use `SphericalMixture`",
    "cluster_wide": "the variance within a cluster is {ratio:.1f} times that of the noise "
    "along some direction: the cluster holds more than one component, some means are much "
    "farther apart than others, or the variance is larger than {variance:.3g}; use more "
    "components, `SphericalMixture`, or another `variance`",
    # command line
    "few_rows_per_component_asked": "-k {k:,} leaves {n:.1f} rows per component, too few for a "
    "reliable fit; try a smaller -k",
    "column_counts_rows": "column {column} counts {first:.0f} … {last:.0f} in steps of 1 and "
    "looks like a row number; leave it out with {option}",
    "column_of_answers": "column {column} looks like output of predict or sample; leave it out "
    "with {option}",
    "columns_by_position": "--columns has other names than the model and is matched by position: "
    "{pairs}",
    "incomplete_rows_dropped": "{n:count row} with missing numbers left out",
    "no_browser": "there is no browser; open {path} in one yourself",
    "scale_columns": "--scale divides columns by their standard deviations",
    "columns_were_scaled": "the columns were divided by their standard deviations in the file",
    "found_is_scaled": "values under found refer to columns divided by scale; in_file_units has "
    "them for the columns of the file, to which scores refer as well",
}


class Vocabulary(Protocol):
    """How Python expressions in a sentence are printed."""

    def expression(self, text: str) -> str:
        """Return an expression such as ``n_components=3`` in the words of the reader."""
        ...


class _Python:
    def expression(self, text: str) -> str:
        return text


PYTHON: Vocabulary = _Python()


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


def render(template: str, values: Mapping[str, Any], words: Vocabulary = PYTHON) -> str:
    """Fill in a template.

    Parameters
    ----------
    template : str
        Text with fields in braces, and Python expressions in backticks. A field ``{n:count row}``
        prints "1 row" or "2,000 rows"; a list prints its first entries and its length.
    values : mapping of str to object
    words : Vocabulary, default PYTHON
        Prints the expressions.

    Returns
    -------
    str

    Examples
    --------
    >>> render("`n_components={k}` is more than {n:count row}", {"k": 7, "n": 1})
    'n_components=7 is more than 1 row'
    >>> render("components {which}", {"which": list(range(10))})
    'components 0, 1, 2, 3, 4, 5, … (10 in all)'
    """
    parts = [_Formatter().vformat(part, (), values) for part in template.split("`")]
    return "".join(words.expression(part) if i % 2 else part for i, part in enumerate(parts))


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

    def sentence(self, words: Vocabulary = PYTHON) -> str:
        """Return the note as a sentence in the words of a reader."""
        return render(SENTENCES[self.code], self.values, words)

    def __str__(self) -> str:
        return self.sentence()


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

    def sentence(self, words: Vocabulary = PYTHON) -> str:
        """Return the message in the words of a reader."""
        return render(self.template, self.values, words)

    def __str__(self) -> str:
        return self.sentence()

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.code, self.template, self.values)


def _rebuild(cls: type[CodedError], code: str, template: str, values: dict[str, Any]) -> Any:
    return cls(code, template, **values)


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
    >>> str(InputTypeError("not_a_flag", "`{name}` must be True or False", name="whiten"))
    'whiten must be True or False'
    """


class AssumptionWarning(UserWarning):
    """The data do not look like what the model assumes; the message says what to do.

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


def warn_of(notes: Iterable[Note], *, stacklevel: int = 3) -> None:
    """Warn of each note, by default at the line that called ``fit``.

    A fit that did not converge raises scikit-learn's ``ConvergenceWarning``.
    """
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 (slow to import)

    for note in notes:
        category = ConvergenceWarning if note.code == "not_converged" else AssumptionWarning
        warnings.warn(str(note), category, stacklevel=stacklevel)


UNFINISHED = "the polish did not converge"


def tell(notes: Iterable[str], *, stacklevel: int = 3) -> None:
    """Warn of each sentence; to be replaced by `warn_of`."""
    for sentence in notes:
        warnings.warn(sentence, AssumptionWarning, stacklevel=stacklevel)


def tell_unfinished(notes: list[str], max_iter: int, *, stacklevel: int = 3) -> None:
    """Note that EM did not converge; to be replaced by `warn_of`."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    sentence = (
        f"{UNFINISHED} in max_iter={max_iter} iterations; raise max_iter, or tol "
        "if fewer digits do"
    )
    notes.append(sentence)
    warnings.warn(sentence, ConvergenceWarning, stacklevel=stacklevel)
