"""The whole recipe: peaks and moments, EM on some rows, repair, EM on all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from implicitmoments.moments.decode import Components
from implicitmoments.regression.characteristic_function import WaveRows
from implicitmoments.regression.design_rows import FeatureRows
from implicitmoments.regression.em import Climb, Model, climb
from implicitmoments.regression.initialisation import decoded_points, first_lines, random_lines
from implicitmoments.regression.likelihood import Lines
from implicitmoments.regression.repair import Repaired, loud, repair
from implicitmoments.regression.span import search_span
from implicitmoments.regression.splits import looks_double

__all__ = ["FittedLines", "Workspace", "fit_lines", "mend"]

FEWEST_ROWS = 5_000
ROWS_PER_COEFFICIENT, ROWS_IN_NOISE = 50, 200  # of each line, for EM on some of the rows
FEWEST_WAVES, WAVES_PER_LINE = 50_000, 4_000
PATIENCE, MORE_PATIENCE = 3, 8  # splits that are tried in vain
TRIAL_STEPS, TRIAL_TOL = 150, 1e-5
SMALL_DATA, EXTRA_STARTS, EXTRA_IN_NOISE = 5_000, 10, 2
MORE_EFFORT = 2
LIGHTEST = 0.15  # over the mean weight: a line that is lighter asks for no more rows


@dataclass(frozen=True, eq=False)
class Workspace:
    """All rows, and those on which peaks are looked for.

    Attributes
    ----------
    rows : FeatureRows
    waves : WaveRows
    seen : FeatureRows
        The rows of the waves.
    """

    rows: FeatureRows
    waves: WaveRows
    seen: FeatureRows

    @classmethod
    def of(cls, rows: FeatureRows, k: int) -> Workspace:
        """Choose rows for about k lines."""
        seen = rows.about(max(FEWEST_WAVES, WAVES_PER_LINE * k))
        return cls(rows, WaveRows.of(seen, search_span(seen, k)), seen)


@dataclass(frozen=True, eq=False)
class FittedLines:
    """Lines fitted to all rows.

    Attributes
    ----------
    lines : Lines
        The heaviest first.
    mean_log_likelihood : float
    history : tuple of float
        Of EM on all rows.
    converged : bool
    n_peaks : int
        Lines that EM started from peaks above the noise.
    n_decoded : int
        Vectors that the moments gave to start from.
    accepted : int
        Repairs that raised the likelihood.
    z : float
        Height over the noise of the highest peak that the lines leave.
    read : Components or None
        What was read off the moments.
    """

    lines: Lines
    mean_log_likelihood: float
    history: tuple[float, ...]
    converged: bool
    n_peaks: int
    n_decoded: int
    accepted: int
    z: float
    read: Components | None = None


def fit_lines(
    space: Workspace, k: int, model: Model, *, seed: int, max_iter: int, tol: float
) -> FittedLines:
    """Fit k lines.

    Parameters
    ----------
    space : Workspace
    k : int
    model : Model
    seed : int
    max_iter, tol : int and float
        Of EM on all rows.
    """
    rng = np.random.default_rng(seed)
    # Starts: peaks of the characteristic function, what the moments read, random lines.
    decoded, read = decoded_points(space.seen, k, seed)
    start = first_lines(space.waves, k, model, rng, decoded)
    some = space.rows.about(max(FEWEST_ROWS, ROWS_PER_COEFFICIENT * k * space.rows.n_features))
    found = climb(some, start.lines, model, max_iter=TRIAL_STEPS, tol=TRIAL_TOL)
    for _ in range(_extra_starts(space, start.n_peaks, k)):
        other = random_lines(space.waves, k, rng)
        trial = climb(some, other, model, max_iter=TRIAL_STEPS, tol=TRIAL_TOL)
        found = max(found, trial, key=lambda each: each.mean_log_likelihood)
    # What is missing, on as many rows as the lightest line and the noise ask for.
    fixed = mend(space, found.lines, model, rng)
    whole = climb(space.rows, fixed.climb.lines, model, max_iter=max_iter, tol=tol)
    # All rows may show of a line that it stands for two, where some did not.
    if k > 1 and looks_double(space.rows, whole.lines, model):
        more = _repair_held(space, whole, model, rng)
        fixed = replace(more, accepted=fixed.accepted + more.accepted)
        if more.accepted:
            again = climb(space.rows, more.climb.lines, model, max_iter=max_iter, tol=tol)
            whole = max(again, whole, key=lambda each: each.mean_log_likelihood)
    return FittedLines(
        lines=whole.lines.keep(np.argsort(-whole.lines.weights, kind="stable")),
        mean_log_likelihood=whole.mean_log_likelihood,
        history=whole.history,
        converged=whole.converged,
        n_peaks=start.n_peaks,
        n_decoded=len(decoded),
        accepted=fixed.accepted,
        z=fixed.z,
        read=read,
    )


def mend(space: Workspace, lines: Lines, model: Model, rng: np.random.Generator) -> Repaired:
    """Repair on some of the rows, and again on more where lines are light or noise is large."""
    k, q, n = lines.k, space.rows.n_features, 0
    size, accepted = max(FEWEST_ROWS, ROWS_PER_COEFFICIENT * k * q), 0
    while True:
        some = space.rows.about(size)
        found = climb(some, lines, model, max_iter=TRIAL_STEPS, tol=TRIAL_TOL)
        waves, effort = space.waves, 1
        if some.n_rows > space.seen.n_rows:
            waves = WaveRows.of(some, space.waves.span)
        if n:  # light lines are seen from fewer points
            effort = MORE_EFFORT
        repaired = repair(some, waves, found, model, rng, _patience(found.lines), effort)
        lines, accepted = repaired.climb.lines, accepted + repaired.accepted
        each = ROWS_IN_NOISE if loud(lines) else ROWS_PER_COEFFICIENT
        size = int(each * q / max(lines.weights.min(), LIGHTEST / k))
        n, before = some.n_rows, n
        if n == space.rows.n_rows or size < 2 * n or n == before:
            return replace(repaired, accepted=accepted)


def _repair_held(
    space: Workspace, whole: Climb, model: Model, rng: np.random.Generator
) -> Repaired:
    """Repair on all rows, or on as many as are held in memory: it takes many passes."""
    rows = space.rows.about(space.rows.n_rows)
    if rows.n_rows < space.rows.n_rows:
        whole = climb(rows, whole.lines, model, max_iter=TRIAL_STEPS, tol=TRIAL_TOL)
    return repair(rows, space.waves, whole, model, rng, PATIENCE)


def _extra_starts(space: Workspace, n_peaks: int, k: int) -> int:
    """Random starts beside the first: where they cost little, or where few peaks are seen."""
    if k == 1:
        return 0
    if space.rows.n_rows <= SMALL_DATA:
        return EXTRA_STARTS
    return 0 if 2 * n_peaks >= k else EXTRA_IN_NOISE


def _patience(lines: Lines) -> int:
    return MORE_PATIENCE if loud(lines) else PATIENCE
