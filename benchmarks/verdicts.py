"""Which of two fits of real data is better: counts for a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from real_fits import Fit, SplitFit

AS_GOOD = 2.0  # nats
VERDICTS = ("higher", "equal", "lower", "higher, ours collapsed", "lower, theirs collapsed")
HEADS = ("fits", *VERDICTS, "held out: higher", "equal", "lower")
# by setting; of each tool one fit per seed, None where it failed. The first tool is this library.
Results: TypeAlias = Mapping[str, Mapping[str, Sequence[SplitFit | None]]]


def verdict(ours: Fit, other: Fit) -> str:
    """Return which of two fits has the higher likelihood, and whether by a collapsed component."""
    gap = ours.log_likelihood - other.log_likelihood
    if abs(gap) <= AS_GOOD:
        return "equal"
    if gap > 0:
        return "higher, ours collapsed" if ours.collapsed else "higher"
    return "lower, theirs collapsed" if other.collapsed else "lower"


def pairs(results: Results, tool: str) -> Iterator[tuple[str, SplitFit, SplitFit]]:
    """Yield settings, and fits of this library and of another tool to the same rows."""
    for setting, fits in results.items():
        own = next(iter(fits.values()))
        for ours, other in zip(own, fits.get(tool, [None] * len(own)), strict=True):
            if ours is not None and other is not None:
                yield setting, ours, other


def summary(results: Results, listed: Sequence[str]) -> Iterator[str]:
    """Yield how often this library has the higher likelihood, and where it has the lower.

    Parameters
    ----------
    listed : sequence of str
        Tools for which the settings with lower likelihoods are listed.
    """
    yield f"| log-likelihood, compared with | {' | '.join(HEADS)} |"
    yield "|---" * (1 + len(HEADS)) + "|"
    lower: dict[tuple[str, str], dict[str, list[float]]] = {
        (tool, rows): {} for tool in listed for rows in ("fitted", "held-out")
    }
    for tool in dict.fromkeys(tool for fits in results.values() for tool in list(fits)[1:]):
        counts = dict.fromkeys(VERDICTS, 0)
        held = {"higher": 0, "equal": 0, "lower": 0}
        for setting, ours, other in pairs(results, tool):
            said = verdict(ours, other)
            counts[said] += 1
            gap = ours.held_out - other.held_out
            word = "equal" if abs(gap) <= AS_GOOD else "higher" if gap > 0 else "lower"
            held[word] += 1
            if tool in listed and said == "lower":
                below = other.log_likelihood - ours.log_likelihood
                lower[tool, "fitted"].setdefault(setting, []).append(below)
            if tool in listed and word == "lower":
                lower[tool, "held-out"].setdefault(setting, []).append(-gap)
        cells = [sum(counts.values()), *counts.values(), *held.values()]
        yield f"| {tool} | " + " | ".join(str(cell) for cell in cells) + " |"
    yield ""
    for (tool, rows), gaps in lower.items():
        text = "; ".join(f"{name} {max(gap):,.1f} ({len(gap)})" for name, gap in gaps.items())
        yield f"Lower than {tool}, {rows} rows, at most nats (number of seeds): {text or 'none'}."
        yield ""
