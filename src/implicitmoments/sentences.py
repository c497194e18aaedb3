"""The sentence of each note, by its code; see :mod:`implicitmoments.notes` for the templates.

A code of ``NOTES`` has a row in docs/notes.md.
"""

from __future__ import annotations

# Notes on fits, data and moments. Sections follow the folders.
NOTES: dict[str, str] = {
    # every estimator
    "not_converged": "EM did not converge in `max_iter={max_iter}` iterations; increase "
    "`max_iter` or `tol`",
    "outliers": "outliers left out of the fit: {n:count row} far from all others; check "
    "or remove them",
    "outliers_scored": "scores and criteria count {n:count row} of {rows:,} that are outliers by "
    "the rule of the fit, which leaves them out; these may decide the sum, see `score_samples`",
    "rows_of_density_zero": "scores and criteria are infinite: {n:count row} of {rows:,} have "
    "density 0 under the model, as all rows that differ in a column that was constant in the fit; "
    "leave such columns out before the fit",
    "outliers_kept": "outliers kept in the fit: {n:count row} of (x, y) very far from all others, "
    "which may determine it alone; check or remove them",
    "heavy_tails": "the noise has heavier tails than a Gaussian: Student's t with about "
    "{freedom:.0f} degrees of freedom lowers BIC by {gain:,.0f}; try `noise='student'` of "
    "`GaussianMixture` or `RegressionMixture`",
    "flat_direction": "the variance of the rows along some direction is {ratio:.2g} times the "
    "noise variance {variance:.3g}; remove constant or dependent columns, scale the columns "
    "alike, or set `variance`",
    # regression
    "inputs_dependent": "the inputs vary along {n} of {of} directions: columns {columns} are "
    "linear functions of one another, so their coefficients are not determined, and those of "
    "least norm are taken; leave some of them out",
    # moments
    "neighbours_paired": "the differences are those of neighbouring rows: if rows are sorted by "
    "component or by time, neighbours are alike and the moments are wrong; shuffle the rows, or "
    "pass an array, which is shuffled",
    "negative_eigenvalue": "the moment of order {order} has the eigenvalues {top:.3g} and "
    "{below:.3g}, and a negative one is left out as noise: weights of both signs need "
    "`subspace='singular'`; with positive weights the model does not fit, or there are too few "
    "rows",
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
    # activation
    "inputs_standardised": "the inputs were standardised: the activation acts on v · z, with z of "
    "mean 0 and covariance I; with `whiten=False` it acts on the inputs as given",
    "nearly_even": "{name} is nearly even: odd orders have {ratio:.1e} of the energy of the even "
    "ones and are mostly noise (Remark 4.11: a phase near a multiple of π/2); an activation that "
    "is exactly even would leave them out",
    "nearly_odd": "{name} is nearly odd: even orders, from which the subspaces are found, have "
    "{ratio:.1e} of the energy of the odd ones (Remark 4.11: a phase near a multiple of π/2); "
    "many more rows are needed; `positive=False` uses the odd orders too",
    "negative_weights_likely": "the moment of order {order} has the eigenvalues {top:.3g} and "
    "{below:.3g}, and those of a positive sum are positive: some weights are likely to be "
    "negative; `positive=False` learns weights of both signs",
    "residuals_explained": "a further component, of either sign, would explain {share:percent} of "
    "the squared error that the network leaves: the search may have ended in a local optimum, or "
    "there may be more components, negative weights, biases or another activation; try a larger "
    "`n_starts`, more `n_components`, `positive=False` or `fit_bias=True`",
    "components_merged": "`n_components={asked}`, but the labels determine {k:count component}: "
    "others are equal to these, or zero, within their errors; more rows may separate them",
    "polynomial_of_other_inputs": "the inputs do not have mean 0 and covariance I, so that with "
    "`whiten=False` the moments, and the polynomial that predicts, are biased; `refine=True` fits "
    "the model itself",
    "directions_not_identified": "directions {which} are not identified: they can turn without "
    "changing the fit, as when two directions are equal, a weight is zero, there are too many "
    "components, or the activation is a polynomial",
    "directions_in_span": "there are too many unknowns to fit directions beyond the span that the "
    "moments determine; use more rows or fewer features",
    "directions_up_to_sign": "directions are identified up to sign: {name} is even",
    "polynomial_predicts": "the polynomial is expected to predict new rows better than the "
    "network: the labels may not be such a sum of this activation (there is no intercept; "
    "`positive=False` and `fit_bias=True` allow more), or there are too few rows for its unknowns",
    "moments_of_inputs_not_gaussian": "the inputs are clearly not Gaussian (columns that the "
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
    "covariance are clearly different; use `whiten=True`",
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
    "columns_left_out": "columns without variation were left out of the fit: {columns}",
    # clustering
    "fewer_clusters": "found {n:count cluster}, fewer than `n_components={k}`",
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
