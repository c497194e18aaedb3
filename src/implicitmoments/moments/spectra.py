"""What a fit saw of eigenvalues of moments, under the same names for every estimator."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from implicitmoments.arrays import Floats, to_numpy
from implicitmoments.moments.decode import Components
from implicitmoments.moments.step_report import StepReport

__all__ = ["account_of_components", "account_of_span", "account_of_steps", "second_moment_floor"]


def account_of_steps(steps: Iterable[StepReport]) -> dict[str, Any]:
    """Return spectra, noise floors, ranks and orders of the steps of a recursion.

    Returns
    -------
    dict
        Lists with one entry a moment: ``"spectra"``, eigenvalues from the largest down;
        ``"noise_floor"``, below which they say nothing; ``"ranks"``, how many were kept; and
        ``"moment_orders"``.
    """
    steps = list(steps)
    return {
        "spectra": [to_numpy(step.spectrum) for step in steps],
        "noise_floor": [float(step.floor) for step in steps],
        "ranks": [int(step.rank) for step in steps],
        "moment_orders": [int(step.order) for step in steps],
    }


def account_of_components(components: Components | None) -> dict[str, Any]:
    """Return the same of the moment that components were read off; nothing where none was."""
    if components is None or components.decoded is None:
        return {}
    decoded = components.decoded
    return {
        "spectra": [to_numpy(decoded.spectrum)],
        "noise_floor": [float(decoded.floor)],
        "ranks": [len(decoded.weights)],
        "moment_orders": [2 * decoded.r],
    }


def account_of_span(spectrum: Floats, rank: int, floor: float) -> dict[str, Any]:
    """Return the same of a second moment of which the top directions were kept."""
    return {
        "spectra": [to_numpy(spectrum)],
        "noise_floor": [floor],
        "ranks": [rank],
        "moment_orders": [2],
    }


def second_moment_floor(n_features: int, n_rows: float) -> float:
    r"""Return the largest eigenvalue that noise of variance 1 gives :math:`E[x x^T] - I`.

    The edge of the law of Marchenko and Pastur, :math:`(1 + \sqrt{d/n})^2 - 1`.
    """
    return (1 + math.sqrt(n_features / max(n_rows, 1.0))) ** 2 - 1
