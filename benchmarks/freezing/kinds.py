"""Kinds of results, their representation in JSON, and what counts as a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Verdict: TypeAlias = tuple[str, str, str]  # old, new, verdict

SAME, WITHIN, CHANGED = "same", "within margin", "CHANGED"
ROUNDING = 1e-9  # relative; results that differ by less are the same
NATS = 2.0  # nats by which a search may end lower without counting as changed
DIGITS = 12  # kept of every number
EXACT = 1e-6  # relative margin of numbers that do not depend on a search
SEARCHED = 2e-3  # and of maxima of a likelihood, which depend on the tolerance of EM


@dataclass(frozen=True)
class Numbers:
    """A short vector: predictions or log densities at some rows, scores, counts.

    Attributes
    ----------
    values : list of float
    margin : float
        The largest difference allowed, relative to the larger of the old number and the median
        size of the vector. 0 where only rounding is allowed.
    """

    values: list[float]
    margin: float = 0.0

    def judge(self, old: Numbers) -> Verdict:
        """Compare at the number that differs most."""
        before, now = np.array(old.values), np.array(self.values)
        if before.shape != now.shape:
            return f"{len(before)} numbers", f"{len(now)} numbers", CHANGED
        size = np.maximum(np.abs(before), np.median(np.abs(before)))
        apart = np.abs(now - before) / np.where(size > 0, size, 1.0)
        apart[np.isnan(before) & np.isnan(now)] = 0.0
        apart[np.isnan(apart)] = np.inf
        at = int(np.argmax(apart))
        verdict = _grade(float(apart[at]), old.margin)
        return f"[{at}] {before[at]:.10g}", f"[{at}] {now[at]:.10g}", verdict


@dataclass(frozen=True)
class Search:
    """The result of a search for components: more likelihood and more components are better.

    Attributes
    ----------
    log_likelihood : float
        Of all rows, in nats.
    found, total : int
        True means or lines with a found one close to them, and how many there are.
    from_truth : float or None
        The log-likelihood of EM started at the truth; None where another number of components
        is asked for.
    nats : float
        How much lower the new log-likelihood may be.
    """

    log_likelihood: float
    found: int
    total: int
    from_truth: float | None
    nats: float = NATS

    def __str__(self) -> str:
        text = f"{self.found}/{self.total}, {self.log_likelihood:.4f}"
        if self.from_truth is None:
            return text
        return f"{text} ({self.log_likelihood - self.from_truth:+.4f})"

    def judge(self, old: Search) -> Verdict:
        """Compare likelihoods, and how many components were found."""
        gain = self.log_likelihood - old.log_likelihood
        if self.found == old.found and abs(gain) <= ROUNDING * abs(old.log_likelihood):
            verdict = SAME
        else:
            verdict = WITHIN if gain >= -old.nats and self.found >= old.found else CHANGED
        if verdict is not CHANGED and gain > NATS:
            verdict = f"{WITHIN}, {gain:.1f} nats higher"
        return str(old), str(self), verdict


@dataclass(frozen=True)
class Quality:
    """A loss, such as 1 − R² or a distance from the truth: smaller is better.

    Attributes
    ----------
    loss : float
    margin : float
        How much larger the new loss may be, relative to the old one.
    slack : float
        Absolute margin, for the rounding of a few rows.
    """

    loss: float
    margin: float = 0.05
    slack: float = 1e-6

    def judge(self, old: Quality) -> Verdict:
        """Compare losses."""
        rise, allowed = self.loss - old.loss, old.margin * abs(old.loss) + old.slack
        verdict = _grade(rise, allowed)
        return f"{old.loss:.8f}", f"{self.loss:.8f}", verdict


@dataclass(frozen=True)
class Failure:
    """An item that raised."""

    error: str

    def judge(self, old: Failure) -> Verdict:
        """Compare the errors: the same one is no change."""
        return old.error, self.error, SAME if self.error == old.error else CHANGED


Result: TypeAlias = Numbers | Search | Quality | Failure
Items: TypeAlias = dict[str, Callable[[], Result]]
KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Numbers, Search, Quality, Failure)
}


def compute(item: Callable[[], Result]) -> Result:
    """Return the result, rounded; an error is a result as well."""
    try:
        result = item()
    except Exception as error:  # noqa: BLE001, RUF100 (the other items are still to be compared)
        return Failure(f"{type(error).__name__}: {error}"[:200])
    if isinstance(result, Numbers):
        return replace(result, values=[rounded(value) for value in result.values])
    if isinstance(result, Search):
        truth = None if result.from_truth is None else rounded(result.from_truth)
        return replace(result, log_likelihood=rounded(result.log_likelihood), from_truth=truth)
    if isinstance(result, Quality):
        return replace(result, loss=rounded(result.loss))
    return result


def rounded(value: float) -> float:
    """Keep the digits that are compared, and a few more."""
    return float(f"{value:.{DIGITS}g}")


def flat(*parts: Any) -> list[float]:
    """Return all numbers of some arrays in one list."""
    return [float(v) for part in parts for v in np.ravel(np.asarray(part, dtype=np.float64))]


def to_json(result: Result) -> dict[str, Any]:
    """Return what is written."""
    return {"kind": type(result).__name__.lower(), **asdict(result)}


def from_json(kept: dict[str, Any]) -> Result:
    """Return what was written."""
    fields = dict(kept)
    result: Result = KINDS[fields.pop("kind")](**fields)
    return result


def judge(old: Result, new: Result) -> Verdict:
    """Compare two results of one item."""
    if type(old) is not type(new):
        shown = [r.error if isinstance(r, Failure) else type(r).__name__ for r in (old, new)]
        return shown[0], shown[1], CHANGED
    verdict: Verdict = new.judge(old)  # type: ignore[arg-type]
    return verdict


def _grade(apart: float, margin: float) -> str:
    if abs(apart) <= ROUNDING:
        return SAME
    return WITHIN if apart <= margin else CHANGED
