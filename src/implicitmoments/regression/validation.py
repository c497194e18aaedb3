"""What RegressionMixture accepts, and what it says of a fit."""

from __future__ import annotations

from typing import Any

from implicitmoments.regression.em import Model
from implicitmoments.regression.standardise import Standard
from implicitmoments.rows import Source, Whitening
from implicitmoments.rows.normality import measure_gaussianity
from implicitmoments.validation import check_flag, check_number, check_unknowns, check_whole

__all__ = ["check_parameters", "missing_line", "most_lines", "words_for_user"]

DOUBLE = 1.5  # times what is no noise any more: heavy tails raise it too
HIGH = 1.2  # times what noise makes, from which a peak is one of a line
EXACT = 1e-6  # of the scale of labels: noise below it is rounding, and so are its peaks
ROWS_TO_COUNT = 3  # for each parameter of the lines that n_components="auto" tries


def check_parameters(estimator: Any) -> tuple[int | None, Model]:
    """Check what was typed; None for as many lines as BIC says."""
    if estimator.noise not in ("shared", "separate"):
        raise ValueError(f"noise is 'shared' or 'separate', got {estimator.noise!r}")
    check_whole("max_iter", estimator.max_iter, 1)
    check_whole("max_components", estimator.max_components, 1)
    check_number("tol", estimator.tol, 0.0)
    k, shared = estimator.n_components, estimator.noise == "shared"
    model = Model(shared=shared, intercept=check_flag("fit_intercept", estimator.fit_intercept))
    if isinstance(k, str):
        if k != "auto":
            raise ValueError(f"n_components is a whole number or 'auto', got {k!r}")
        return None, model
    return check_whole("n_components", k, 1), model


def most_lines(estimator: Any, n_rows: int, n_coefficients: int, k: int | None) -> int:
    """Return the most lines that are fitted; raise where rows cannot tell so many."""
    if k is None:
        enough = n_rows // (ROWS_TO_COUNT * (n_coefficients + 1))
        return max(1, min(int(estimator.max_components), enough))
    if k > n_rows:
        raise ValueError(
            f"n_components={k} is more than the {n_rows} rows; use more rows or fewer components"
        )
    if k > 1:  # for one line features that do not vary on their own were left out
        check_unknowns(k, n_coefficients, n_rows, "lines", "coefficients")
    return k


def words_for_user(estimator: Any, source: Source, standard: Standard, model: Model) -> list[str]:
    """Say of a fit what the user can act on."""
    said: list[str] = []
    if standard.constant:
        said.append("y is the same in every row, so that all lines are; look at y")
    words = None
    if estimator.n_components_ > 1:  # of one line there is no start
        # without intercepts points were standardised about 0, and not about their mean
        whitening = standard.whitening if model.intercept else Whitening.of(source, reduce=True)
        names = getattr(estimator, "feature_names_in_", None)
        words = measure_gaussianity(source, whitening).words(names)
    if words is not None:
        said.append(
            f"the inputs are clearly not Gaussian: {words}. The likelihood does not ask for "
            "Gaussian inputs, but the start does: compare log_likelihood_ for a few values of "
            "random_state"
        )
    return said


def missing_line(stats: dict[str, Any], noise: float) -> list[str]:
    """Say where what the lines leave shows another one; noise is relative to the labels.

    No warning: a search through numbers of lines tries too few on purpose.
    """
    if noise < EXACT:
        return []
    double = stats["double_by_line"]
    widest = max(range(len(double)), key=double.__getitem__)
    if double[widest] > DOUBLE:
        return [
            f"line {widest} looks like two: rows lie off it by more in some directions of x than "
            "in others; a line may be missing, or y is not linear, or the noise depends on x; try "
            "more components"
        ]
    left, usual = stats["highest_peak_left"], stats["noise_maximum"]
    if left > HIGH * usual:
        return [
            f"what the lines leave still peaks at {left:.1f} standard errors, where noise makes "
            f"at most {usual:.1f}: a line may be missing; try more components"
        ]
    return []
