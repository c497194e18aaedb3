"""Parameters of a mixture of regressions: their checks, and how many lines rows allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from implicitmoments.regression.lines import Model
from implicitmoments.search.noise import LAWS
from implicitmoments.validation import (
    check_enough_rows,
    check_errors,
    check_flag,
    check_number,
    check_option,
    check_unknowns,
    check_whole,
    check_whole_or,
)

if TYPE_CHECKING:
    from implicitmoments.regression.estimator import RegressionMixture

ROWS_PER_PARAMETER = 3  # of the largest mixture that n_components="auto" tries


def check_parameters(estimator: RegressionMixture) -> tuple[int | None, Model]:
    """Check the parameters; the number of lines is None where BIC chooses it."""
    k = check_whole_or("n_components", estimator.n_components, ("auto",), 1)
    noise_type = check_option("noise_type", estimator.noise_type, ("shared", "separate"))
    check_whole("max_iter", estimator.max_iter, 1)
    check_whole("max_components", estimator.max_components, 1)
    check_number("tol", estimator.tol, 0.0)
    check_errors(estimator.errors)
    intercept = check_flag("fit_intercept", estimator.fit_intercept)
    student = check_option("noise", estimator.noise, LAWS) == "student"
    return None if isinstance(k, str) else k, Model(noise_type == "shared", intercept, student)


def most_lines(
    estimator: RegressionMixture, n_rows: int, n_coefficients: int, k: int | None
) -> int:
    """Return the largest number of lines to fit; raise where the rows are too few for k."""
    if k is None:
        enough = n_rows // (ROWS_PER_PARAMETER * (n_coefficients + 1))
        return max(1, min(int(estimator.max_components), enough))
    check_enough_rows(n_rows, k, k)
    if k > 1:  # one line has the minimum-norm solution, whatever the number of features
        check_unknowns(k, n_coefficients, n_rows)
    return k
