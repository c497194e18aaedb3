"""What SphericalMixture says of a fit: what the user can act on."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.diagnostics import Within
from implicitmoments.mixture.initialisation import Start

__all__ = ["notes_on"]

UNLIKE = 2.0  # times the least spread of a column, from which columns are unlike
WIDE = 1.3  # times the variance that noise makes, from which a component is wide
IN_DOUBT = 0.1  # of the rows, from which components overlap
TELLING = 10  # rows of a component for each feature: fewer do not show that it is wide
LOCAL = "may be one of several local optima; compare lower_bound_ for a few values of random_state"
FEW = 5  # rows of a component


def notes_on(
    model: Any, within: Within, start: Start, unit: float, n_rows: float, n_out: int
) -> list[str]:
    """Return sentences about a fit.

    Parameters
    ----------
    model : SphericalMixture
        With what was found stored.
    within : Within
    start : Start
    unit : float
        Of the spreads, in the user's units.
    n_rows : float
        Rows that were fitted, with their weight.
    n_out : int
        Rows that were left out.
    """
    k, d = model.n_components_, len(within.spreads)
    said = [_left_out(n_out), _too_few(n_rows, k)]
    overlapping = within.doubt > IN_DOUBT
    unlike = _unlike_columns(within.spreads * unit, getattr(model, "feature_names_in_", None))
    # pieces of one group may have any shape
    wide = None if overlapping else _wide_component(within.widths)
    said += [unlike, wide]
    if model.n_components == "auto":
        said.append(_chosen(k, model.max_components, within.doubt if overlapping else None))
    unproved = n_rows / k < TELLING * d  # that no component is wide
    if start.kind == "scattered" and (unlike or wide or overlapping or unproved):
        said.append(
            "the moments did not tell the components apart, so that the fit began at scattered "
            f"rows and {LOCAL}"
        )
    resolved = k if start.components is None else int(start.components.resolved.sum())
    if start.kind == "moments" and resolved < k and unproved:
        said.append(
            f"the moments told {resolved} of {k} components apart, and rows are too few to vouch "
            f"for the others: the fit {LOCAL}"
        )
    return [each for each in said if each]


def _left_out(n_out: int) -> str | None:
    if n_out == 0:
        return None
    far = "1 row lies far from all others and was"
    if n_out > 1:
        far = f"{n_out:,} rows lie far from all others and were"
    return f"{far} left out of the fit"


def _too_few(n_rows: float, k: int) -> str | None:
    if n_rows >= FEW * k:
        return None
    rows = "1 row is" if n_rows == 1 else f"{n_rows:,.6g} rows are"
    components = "1 component" if k == 1 else f"{k:,} components"
    return (
        f"{rows} few for {components}, whose variance and weights they hardly determine; use more "
        "rows or fewer components"
    )


def _unlike_columns(spreads: Floats, names: Any) -> str | None:
    """Compare the spreads of columns about the means."""
    least, most = int(spreads.argmin()), int(spreads.argmax())
    if not spreads[most] > UNLIKE * spreads[least]:
        return None
    called = [f"column {j}" if names is None else str(names[j]) for j in (least, most)]
    return (
        f"about their means, columns spread from {spreads[least]:.3g} ({called[0]}) to "
        f"{spreads[most]:.3g} ({called[1]}), while the model gives all of them one variance: "
        "divide each by its spread before the fit, or groups may be cut up or run together"
    )


def _wide_component(widths: Floats) -> str | None:
    if np.isnan(widths).all():
        return None
    i = int(np.nanargmax(widths))
    if widths[i] <= WIDE:
        return None
    return (
        f"component {i} is {widths[i]:.2g} times as wide, in variance along one direction, as "
        "round noise would be: it may hold more than one group; try more components"
    )


def _chosen(k: int, most: int, doubt: float | None) -> str | None:
    """Say where a number of components that was chosen is not one of groups."""
    if k >= most:
        return (
            f"the number of components stopped at max_components={most}, where more would still "
            "be likelier: raise it, or, where groups are not round, give n_components"
        )
    if doubt is None:
        return None
    return (
        f"components overlap: {doubt:.0%} of the rows may be of another than they are given to. "
        "Groups that are not round are covered by several components each; look at the picture, "
        "or give n_components"
    )
