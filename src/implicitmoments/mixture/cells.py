r"""Kinds of columns of a table, as parts of a family: numbers, counts and outcomes, some missing.

Columns are independent given the component, so their features stand side by side. What would be
the constant of a column multiplies its mask, so a missing cell is a row of zeros:

.. code-block:: none

    numbers     m, m z, m z²      m = 1 where there is a number
    counts      e, x              e: the exposure, 0 where the count is missing
    outcomes    c_1, …, c_L       how often each outcome was seen, of one trial or several
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln

from implicitmoments.arrays import Floats
from implicitmoments.mixture.family import TINY, Parameters, Places
from implicitmoments.mixture.gaussians import LOG_2PI, rounding_steps

CELLS = 1.0  # of the pooled variance, that each column of a component borrows
SMOOTH = 0.1  # cells of the rate or the shares of all rows
LEAST = 1e-7  # variance of a column


@dataclass(frozen=True, eq=False)
class Cells(ABC):
    """The columns of one kind. Sums and features are those of the kind, (..., s)."""

    places: Places  # (c,) columns of the rows

    @abstractmethod
    def prepare(self, x: Floats) -> Any:
        """Return the kind in the units of some rows (n, ·), NaN where a cell is missing."""

    @abstractmethod
    def features(self, x: Floats) -> tuple[Floats, Floats]:
        """Return features (n, s), and what they lack of the log density in user's units (n,)."""

    @abstractmethod
    def pool(self, sums: Floats) -> Floats:
        """Return what components borrow from, (..., 1, ·)."""

    @abstractmethod
    def estimate(self, sums: Floats, pooled: Floats) -> Parameters:
        """Return the parameters for sums (..., k, s)."""

    @abstractmethod
    def coefficients(self, parameters: Parameters) -> Floats:
        """Return coefficients (..., k, s)."""

    @abstractmethod
    def residuals(self, features: Floats, sums: Floats) -> Floats:
        """Return differences (k, m, ·) of cells from what sums (k, 1, s) expect, in its noise."""

    @abstractmethod
    def points(self, features: Floats) -> Floats:
        """Return cells (n, ·) in units of their spread; 0 for missing ones."""

    @abstractmethod
    def steps(self, parameters: Parameters) -> Parameters:
        """Return steps of the parameters, as :meth:`Family.steps`."""

    @abstractmethod
    def to_user(self, parameters: Parameters) -> Parameters:
        """Return the parameters in the user's units."""

    @abstractmethod
    def fill(self, x: Floats, shares: Floats, found: Parameters) -> Floats:
        """Return rows whose missing cells have their expected values, or most probable level.

        Of responsibilities (n, k) and parameters in the user's units.
        """

    @abstractmethod
    def profile(self, found: Parameters) -> Iterator[tuple[int, str | int, Floats]]:
        """Yield column, name and values (k,) of each parameter; the number of a level for shares.

        Of parameters in the user's units.
        """

    @abstractmethod
    def draw(self, found: Parameters, labels: Places, rng: np.random.Generator) -> Floats:
        """Return cells (n, c) of components, from parameters in the user's units."""

    @property
    @abstractmethod
    def n_free(self) -> int:
        """The number of free parameters of a component."""


@dataclass(frozen=True, eq=False)
class Numbers(Cells):
    """Gaussian columns, some in their logarithms; parameters ``means``, ``variances`` (k, c)."""

    logs: Any = field(default_factory=partial(np.zeros, 0))  # (c,) of bool
    centre: Floats = field(default_factory=partial(np.zeros, 0))
    unit: Floats = field(default_factory=partial(np.zeros, 0))
    floor: Floats = field(default_factory=partial(np.zeros, 0))

    def _values(self, x: Floats) -> Floats:
        found = x[:, self.places]
        return np.log(found, out=found, where=np.broadcast_to(self.logs, found.shape))

    def prepare(self, x: Floats) -> Numbers:
        """Return the kind with centres, units and least variances of the columns."""
        values = self._values(x)
        centre, unit = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        unit = np.where(unit > 0, unit, 1.0)
        seen = [column[~np.isnan(column), None] for column in values.T]
        steps = np.array([rounding_steps(column)[0] for column in seen]) / unit
        floor = np.maximum(LEAST, steps**2 / (2 * np.pi))
        return replace(self, centre=centre, unit=unit, floor=floor)

    def features(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the mask, numbers and their squares."""
        values = self._values(x)
        seen = ~np.isnan(values)
        z = np.where(seen, (values - self.centre) / self.unit, 0.0)
        constant = -(seen @ np.log(self.unit)) - np.where(seen & self.logs, values, 0.0).sum(1)
        return np.hstack([seen, z, z * z]), constant

    def _within(self, sums: Floats) -> tuple[Floats, Floats, Floats]:
        """Return sizes, means and sums of squares about them, of each column."""
        sizes, z, squares = np.split(sums, 3, axis=-1)
        means = z / np.maximum(sizes, TINY)
        return sizes, means, np.maximum(squares - means * z, 0.0)

    def pool(self, sums: Floats) -> Floats:
        """Return the variances within components."""
        sizes, _, squares = self._within(sums)
        sizes = np.maximum(sizes.sum(-2, keepdims=True), TINY)
        return np.asarray(np.maximum(squares.sum(-2, keepdims=True) / sizes, self.floor))

    def estimate(self, sums: Floats, pooled: Floats) -> Parameters:
        """Return means and variances."""
        sizes, means, squares = self._within(sums)
        variances = (squares + CELLS * pooled) / (np.maximum(sizes, 0.0) + CELLS)
        return {"means": means, "variances": np.maximum(variances, self.floor)}

    def coefficients(self, parameters: Parameters) -> Floats:
        """Return the coefficients of independent Gaussians."""
        means, variances = parameters["means"], parameters["variances"]
        constants = -0.5 * (LOG_2PI + np.log(variances) + means**2 / variances)
        return np.concatenate([constants, means / variances, -0.5 / variances], axis=-1)

    def residuals(self, features: Floats, sums: Floats) -> Floats:
        """Return distances from the means in deviations."""
        seen, z, _ = np.split(features, 3, axis=-1)
        sizes, means, squares = self._within(sums)
        variances = np.maximum(squares / np.maximum(sizes, TINY), self.floor)
        return (z - seen * means) / np.sqrt(variances)

    def points(self, features: Floats) -> Floats:
        """Return numbers in units of their deviation."""
        return features[:, len(self.places) : 2 * len(self.places)]

    def steps(self, parameters: Parameters) -> Parameters:
        """Return deviations, and variances."""
        variances, every = parameters["variances"], np.eye(len(self.places))
        return {
            "means": np.sqrt(variances)[..., None] * every,
            "variances": variances[..., None] * every,
        }

    def to_user(self, parameters: Parameters) -> Parameters:
        """Return means and variances of the columns, or of their logarithms."""
        means = parameters["means"] * self.unit + self.centre
        return {"means": means, "variances": parameters["variances"] * self.unit**2}

    def fill(self, x: Floats, shares: Floats, found: Parameters) -> Floats:
        """Return rows with means, also of columns that are Gaussian in their logarithms."""
        means = found["means"]
        means = np.where(self.logs, np.exp(means + found["variances"] / 2), means)
        return filled(x, self.places, shares @ means)

    def profile(self, found: Parameters) -> Iterator[tuple[int, str | int, Floats]]:
        """Yield mean and deviation, or the median and the factor of a deviation about it."""
        deviations = np.sqrt(found["variances"])
        for j, place in enumerate(self.places.tolist()):
            mean, deviation = found["means"][:, j], deviations[:, j]
            if self.logs[j]:
                yield place, "median", np.exp(mean)
                yield place, "factor of a deviation", np.exp(deviation)
            else:
                yield place, "mean", mean
                yield place, "deviation", deviation

    def draw(self, found: Parameters, labels: Places, rng: np.random.Generator) -> Floats:
        """Return Gaussian numbers, or their exponentials."""
        noise = rng.normal(size=(len(labels), len(self.places)))
        drawn = found["means"][labels] + np.sqrt(found["variances"])[labels] * noise
        return np.exp(drawn, out=drawn, where=np.broadcast_to(self.logs, drawn.shape))

    @property
    def n_free(self) -> int:
        """A mean and a variance of each column."""
        return 2 * len(self.places)


@dataclass(frozen=True, eq=False)
class Counts(Cells):
    """Poisson columns; parameters are ``rates`` (k, c), per unit of exposure.

    ``exposures`` are places of columns, or -1 where every row has the exposure of 1.
    """

    exposures: Any = field(default_factory=partial(np.zeros, 0))  # (c,) places
    unit: Floats = field(default_factory=partial(np.zeros, 0))  # (c,) mean exposure
    root: Floats = field(
        default_factory=partial(np.zeros, 0)
    )  # (c,) mean of the roots of counts per exposure
    spread: Floats = field(default_factory=partial(np.zeros, 0))  # (c,) their deviation

    def prepare(self, x: Floats) -> Counts:
        """Return the kind with the units of exposures, and the spread of the counts."""
        found = replace(self, unit=np.ones(len(self.places)))
        exposures, seen = found._seen(x)[1:]
        unit = np.where(seen, exposures, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
        found = replace(found, unit=np.where(unit > 0, unit, 1.0))
        counts, exposures, seen = found._seen(x)
        roots = np.where(seen, np.sqrt(counts / np.where(seen, exposures, 1.0)), np.nan)
        return replace(found, root=np.nanmean(roots, axis=0), spread=np.nanstd(roots, axis=0))

    def _seen(self, x: Floats) -> tuple[Floats, Floats, Any]:
        """Return counts, exposures, and which cells are there."""
        counts, exposures = x[:, self.places], x[:, self.exposures]
        exposures = np.where(self.exposures < 0, 1.0, exposures) / self.unit
        return counts, exposures, ~np.isnan(counts + exposures) & (exposures > 0)

    def features(self, x: Floats) -> tuple[Floats, Floats]:
        """Return exposures and counts."""
        counts, exposures, seen = self._seen(x)
        e, n = np.where(seen, exposures, 1.0), np.where(seen, counts, 0.0)
        constant = (n * np.log(e) - gammaln(n + 1)).sum(1)
        return np.hstack([np.where(seen, exposures, 0.0), n]), constant

    def pool(self, sums: Floats) -> Floats:
        """Return the rates of all rows."""
        exposures, counts = np.split(sums.sum(-2, keepdims=True), 2, axis=-1)
        return np.asarray(np.maximum(counts, 1e-3) / np.maximum(exposures, 1e-3))

    def estimate(self, sums: Floats, pooled: Floats) -> Parameters:
        """Return rates."""
        exposures, counts = np.split(np.maximum(sums, 0.0), 2, axis=-1)
        return {"rates": (counts + SMOOTH * pooled) / (exposures + SMOOTH)}

    def coefficients(self, parameters: Parameters) -> Floats:
        """Return minus the rates, and their logarithms."""
        return np.concatenate([-parameters["rates"], np.log(parameters["rates"])], axis=-1)

    def residuals(self, features: Floats, sums: Floats) -> Floats:
        """Return distances from expected counts in deviations."""
        exposures, counts = np.split(features, 2, axis=-1)
        rates = self.estimate(sums, self.pool(sums))["rates"]
        return (counts - exposures * rates) / np.sqrt(rates)

    def points(self, features: Floats) -> Floats:
        """Return roots of counts per exposure, in units of their deviation."""
        exposures, counts = np.split(features, 2, axis=-1)
        roots = np.sqrt(counts / np.where(exposures > 0, exposures, 1.0))
        return np.where(exposures > 0, (roots - self.root) / (self.spread + TINY), 0.0)

    def steps(self, parameters: Parameters) -> Parameters:
        """Return deviations of counts, as far as rates stay positive."""
        rates = parameters["rates"]
        return {"rates": np.minimum(np.sqrt(rates), rates)[..., None] * np.eye(len(self.places))}

    def to_user(self, parameters: Parameters) -> Parameters:
        """Return rates per unit of exposure."""
        return {"rates": parameters["rates"] / self.unit}

    def fill(self, x: Floats, shares: Floats, found: Parameters) -> Floats:
        """Return rows with expected counts of their exposures; of the mean one for missing."""
        exposures = np.where(self.exposures < 0, 1.0, x[:, self.exposures])
        exposures = np.where(np.isnan(exposures), self.unit, exposures)
        return filled(x, self.places, shares @ found["rates"] * exposures)

    def profile(self, found: Parameters) -> Iterator[tuple[int, str | int, Floats]]:
        """Yield rates."""
        for j, place in enumerate(self.places.tolist()):
            yield place, "rate", found["rates"][:, j]

    def draw(self, found: Parameters, labels: Places, rng: np.random.Generator) -> Floats:
        """Return counts of the mean exposure."""
        return rng.poisson(found["rates"][labels] * self.unit).astype(np.float64)

    @property
    def n_free(self) -> int:
        """A rate of each column."""
        return len(self.places)


@dataclass(frozen=True, eq=False)
class Outcomes(Cells):
    """Columns of levels, by number, or of successes; parameters are ``shares`` (k, sum of sizes).

    ``trials`` are places of columns of successes, whose two outcomes are success and failure; -1
    for columns of levels, of one trial.
    """

    sizes: Any = field(default_factory=partial(np.zeros, 0))  # (c,) outcomes of each column
    trials: Any = field(default_factory=partial(np.zeros, 0))  # (c,) places
    share: Floats = field(default_factory=partial(np.zeros, 0))  # shares of all rows

    @property
    def starts(self) -> Places:
        """The first outcome of each column."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    def whole(self, counts: Floats) -> Floats:
        """Return for each outcome the sum of all outcomes of its column."""
        sums = np.add.reduceat(counts, self.starts, axis=-1)
        return np.asarray(np.repeat(sums, self.sizes, axis=-1))

    def prepare(self, x: Floats) -> Outcomes:
        """Return the kind with the shares of all rows."""
        return replace(self, share=self.pool(self.features(x)[0].sum(0, keepdims=True))[0])

    def features(self, x: Floats) -> tuple[Floats, Floats]:
        """Return how often each outcome was seen."""
        found, constant = [], np.zeros(len(x))
        for place, size, trials in zip(self.places, self.sizes, self.trials, strict=True):
            if trials < 0:
                found.append(x[:, [place]] == np.arange(size))
                continue
            both = np.column_stack([x[:, place], x[:, trials] - x[:, place]])
            both = np.where(np.isnan(both).any(1, keepdims=True), 0.0, both)
            constant += gammaln(both.sum(1) + 1) - gammaln(both + 1).sum(1)
            found.append(both)
        return np.hstack(found).astype(np.float64), constant

    def pool(self, sums: Floats) -> Floats:
        """Return the shares of all rows."""
        counts = np.maximum(sums.sum(-2, keepdims=True), 1e-3)
        return np.asarray(counts / self.whole(counts))

    def estimate(self, sums: Floats, pooled: Floats) -> Parameters:
        """Return shares."""
        counts = np.maximum(sums, 0.0) + SMOOTH * pooled
        return {"shares": counts / self.whole(counts)}

    def coefficients(self, parameters: Parameters) -> Floats:
        """Return the logarithms of shares."""
        return np.log(parameters["shares"])

    def residuals(self, features: Floats, sums: Floats) -> Floats:
        """Return distances from expected counts in deviations."""
        shares = self.estimate(sums, self.pool(sums))["shares"]
        return (features - self.whole(features) * shares) / np.sqrt(shares)

    def points(self, features: Floats) -> Floats:
        """Return distances from the shares of all rows, such that a column has variance 1."""
        n, width = self.whole(features), np.repeat(np.maximum(self.sizes - 1, 1), self.sizes)
        apart = (features - n * self.share) / np.sqrt(np.maximum(n, 1.0))
        return np.asarray(apart / np.sqrt(self.share * width))

    def steps(self, parameters: Parameters) -> Parameters:
        """Return steps towards all outcomes of a column but the last, which keep sums of 1."""
        shares = parameters["shares"]
        last = self.starts + self.sizes - 1
        free = np.setdiff1d(np.arange(shares.shape[-1]), last)
        column = np.repeat(np.arange(len(self.sizes)), self.sizes)
        towards = np.eye(shares.shape[-1])[free]
        same = column[free][:, None] == column
        return {"shares": shares[..., free, None] * (towards - same * shares[..., None, :])}

    def to_user(self, parameters: Parameters) -> Parameters:
        """Return the shares."""
        return {"shares": parameters["shares"]}

    def fill(self, x: Floats, shares: Floats, found: Parameters) -> Floats:
        """Return rows with most probable levels, and expected successes."""
        expected, starts = shares @ found["shares"], zip(self.starts, self.sizes, strict=True)
        columns = []
        for (start, size), trials in zip(starts, self.trials, strict=True):
            part = expected[:, start : start + size]
            columns.append(part.argmax(1) if trials < 0 else part[:, 0] * x[:, trials])
        return filled(x, self.places, np.column_stack(columns))

    def profile(self, found: Parameters) -> Iterator[tuple[int, str | int, Floats]]:
        """Yield the share of each outcome."""
        levels = np.arange(int(self.sizes.sum())) - np.repeat(self.starts, self.sizes)
        columns = zip(np.repeat(self.places, self.sizes), levels, found["shares"].T, strict=True)
        for place, level, shares in columns:
            yield int(place), int(level), shares

    def draw(self, found: Parameters, labels: Places, rng: np.random.Generator) -> Floats:
        """Return levels; of columns of successes those of one trial."""
        drawn = np.empty((len(labels), len(self.places)))
        for j, (start, size) in enumerate(zip(self.starts, self.sizes, strict=True)):
            below = found["shares"][:, start : start + size].cumsum(1)[labels]
            level = (below < rng.random((len(labels), 1)) * below[:, -1:]).sum(1)
            drawn[:, j] = level if self.trials[j] < 0 else level == 0
        return drawn

    @property
    def n_free(self) -> int:
        """A share of each outcome but one of a column."""
        return int((self.sizes - 1).sum())


def filled(x: Floats, places: Places, values: Floats) -> Floats:
    """Return rows with some values (n, c) where cells of some columns are missing."""
    x = x.copy()
    x[:, places] = np.where(np.isnan(x[:, places]), values, x[:, places])
    return x
