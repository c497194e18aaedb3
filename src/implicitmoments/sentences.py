"""The sentence of each note, by its code; see :mod:`implicitmoments.notes` for the templates.

A code of ``NOTES`` has a row in docs/notes.md.
"""

from __future__ import annotations

# Notes on fits, data and moments. Sections follow the folders.
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
    # regression
    # moments
    "negative_eigenvalue": "the moment of order {order} has the eigenvalues {top:.3g} and "
    "{below:.3g}, and the negative one is beyond its noise: weights of both signs need "
    "`subspace='singular'`, or `positive=False` of `ActivationSumRegressor`; with positive "
    "weights the model does not fit, for example because the assumed variance is too large",
    "more_components_likely": "there are more than {k} components, or the model does not fit: "
    "the next eigenvalue of the moment of order 4 is {ratio:.1f} times the noise floor; try more "
    "components",
    "too_many_components_to_decode": "{k} components are more than the {room} that moments of "
    "these rows can hold; use fewer components or more features",
    "components_unresolved": "components {which} are not resolved: equal vectors, too many "
    "components, or too few rows; try fewer components or more rows",
    "components_unsigned": "components {which} are known up to sign: the data show even orders "
    "only",
    # activation
    "nearly_symmetric": "{name} is nearly {parity}: orders of the other parity are mostly noise "
    "(Remark 4.11: a phase near a multiple of π/2); use more rows, an activation that is exactly "
    "{parity}, or `positive=False`, which uses all orders",
    "residuals_explained": "a further component, of either sign, would explain {share:percent} of "
    "the squared error that the network leaves: the search may have ended in a local optimum, or "
    "there may be more components, negative weights, biases or another activation; try a larger "
    "`n_starts`, more `n_components`, `positive=False` or `fit_bias=True`",
    "directions_not_identified": "directions {which} are not identified: they can turn without "
    "changing the fit, as when two directions are equal, a weight is zero, there are too many "
    "components, or the activation is a polynomial",
    "polynomial_predicts": "the polynomial is expected to predict new rows better than the "
    "network: the labels may not be such a sum of this activation (there is no intercept; "
    "`positive=False` and `fit_bias=True` allow more), or there are too few rows for its unknowns",
    "inputs_not_gaussian": "the inputs are clearly not Gaussian (columns that the "
    "Jarque-Bera test rejects: {columns}; largest skewness {skewness:.2g}, largest excess "
    "kurtosis {kurtosis:.2g}; mean of |z|⁴ {fourth_moment_ratio:.2g} times that of a Gaussian); "
    "estimates from moments are then biased: transform the columns to normal quantiles "
    "(sklearn.preprocessing.QuantileTransformer with output_distribution='normal'), or rely on a "
    "fit by likelihood or least squares (`RegressionMixture`, `refine=True`)",
    # density
    "density_far_from_rows": "the density is at least {distance:.2f} from the rows in total "
    "variation, and its expansion of degree {degree} is negative at {negative_rows:.1%} of them: "
    "components are too far apart for the noise and the number of rows, or the rows are not such "
    "a mixture; use more rows, `degree='auto'` and a larger `max_degree`, or fit the components "
    "(`SphericalMixture`, `RegressionMixture`)",
    "inputs_not_standard": "`whiten=False` assumes inputs from N(0, I), but their mean and "
    "covariance are clearly different, so that the moments are biased; use `whiten=True`, or "
    "`refine=True` of `ActivationSumRegressor`",
    # mixture
    "few_rows": "{n:count row} for {k:count component} hardly determine their "
    "variance and weights; use more rows or fewer components",
    "not_round": "components do not have the spread that the model assumes: "
    "`{option}={kind!r}` lowers BIC by {gain:,.0f}; `GaussianMixture` has all covariance types",
    "at_floor": "components {which} have the least variance that the fit allows along some "
    "column: their rows hardly vary there, and the likelihood depends on that bound; look for "
    "repeated values, use fewer components or more rows",
    "search_doubtful": "independent searches ended in different optima, so a better fit may "
    "exist; compare `lower_bound_` for a few values of `random_state`",
    "components_are_one": "components {which} are likely to be one: merging them lowers the "
    "log-likelihood by {loss:.1f}, which chance explains; use `n_components={fewer}` or "
    "`n_components='auto'`",
    "component_missing": "a component is likely to be missing: splitting component {which} lowers "
    "BIC by {gain:,.0f}; use `n_components={more}` or `n_components='auto'`",
    "columns_left_out": "columns that are constant, or linear functions of others, say nothing of "
    "their own: {columns}; they are left out, or share their coefficients",
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

# One sentence per code.
SENTENCES: dict[str, str] = NOTES
