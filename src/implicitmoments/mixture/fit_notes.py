"""Notes on a fitted spherical mixture: findings that the user can act on."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicitmoments.arrays import Floats
from implicitmoments.mixture.diagnostics import Within
from implicitmoments.mixture.starts import Start
from implicitmoments.notes import Note, Notes

UNLIKE = 2.0  # ratio of the spreads of two columns from which one variance misleads
WIDE = 1.3  # variance ratio from which a component is not spherical; noise alone stays below 1.2
IN_DOUBT = 0.1  # expected misclassification rate from which components overlap
ROWS_PER_FEATURE = 10  # of a component: fewer do not show that it is spherical
ROWS_PER_COMPONENT = 5  # fewer determine neither weights nor the variance


def notes_on(
    model: Any, within: Within, start: Start, unit: float, n_rows: float, n_out: int
) -> Notes:
    """Return the notes on a fit.

    Parameters
    ----------
    model : SphericalMixture
        With its fitted parameters.
    unit : float
        Of the spreads, in the user's units.
    n_rows : float
        Rows that were fitted, with their weights.
    n_out : int
        Rows that were left out.
    """
    k, d = model.n_components_, len(within.spreads)
    notes = Notes()
    if n_out:
        notes.append(Note("outliers_dropped", {"n": n_out}))
    if n_rows < ROWS_PER_COMPONENT * k:
        n = int(n_rows) if n_rows == int(n_rows) else n_rows
        notes.append(Note("few_rows_per_component", {"n": n, "k": k}))
    overlapping = within.doubt > IN_DOUBT
    shape = _unlike_columns(within.spreads * unit, getattr(model, "feature_names_in_", None))
    if not overlapping:  # pieces of one group may have any shape
        shape += _not_spherical(within.widths)
    notes += shape
    if model.n_components == "auto" and k >= model.max_components:
        notes.append(Note("stopped_at_max_components", {"most": model.max_components}))
    elif model.n_components == "auto" and overlapping:
        notes.append(Note("components_overlap", {"rate": within.doubt}))
    unproved = overlapping or n_rows / k < ROWS_PER_FEATURE * d
    resolved = (start.decoded.numbers or {}).get("resolved", k if k == 1 else 0)
    if start.decoded.numbers is None:  # groups that were fitted apart have no common moments
        resolved = k
    if start.kind == "scattered" and (shape or unproved):
        notes.append(Note("local_optimum"))
    elif start.kind == "moments" and resolved < k and unproved:
        notes.append(Note("components_unresolved", {"resolved": resolved, "k": k}))
    return notes


def _unlike_columns(spreads: Floats, names: Any) -> Notes:
    """Compare the spreads of columns about the means."""
    least, most = int(spreads.argmin()), int(spreads.argmax())
    if not spreads[most] > UNLIKE * spreads[least]:
        return Notes()
    called = [f"column {j}" if names is None else str(names[j]) for j in (least, most)]
    values = {"least": called[0], "least_spread": float(spreads[least])}
    values |= {"most": called[1], "most_spread": float(spreads[most])}
    return Notes([Note("columns_differ_in_spread", values)])


def _not_spherical(widths: Floats) -> Notes:
    if np.isnan(widths).all() or np.nanmax(widths) <= WIDE:
        return Notes()
    i = int(np.nanargmax(widths))
    values = {"component": i, "ratio": float(widths[i])}
    return Notes([Note("component_not_spherical", values)])
