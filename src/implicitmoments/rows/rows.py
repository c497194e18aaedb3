"""Immutable view of the rows of a table: passes over them, and samples held in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

from implicitmoments.arrays import (
    Array,
    Floats,
    as_double,
    index_like,
    key_shares,
    move_like,
    namespace_of,
    row_keys,
    to_numpy,
)
from implicitmoments.notes import InputError
from implicitmoments.rows.draws import Integers, draw_numbers
from implicitmoments.rows.table import (
    DEFAULT_BUDGET,
    ArrayTable,
    Block,
    Measure,
    MemoryBudget,
    Progress,
    Sums,
    Table,
    join_blocks,
    take_places,
    take_rows,
    weights_of,
)

if TYPE_CHECKING:
    from implicitmoments.rows.checkpoint import Checkpoint

# rule(unmapped block of the table) -> (n,) whether each row is kept; None keeps all of them
Rule: TypeAlias = Callable[[Block], Array | None]
# labels(unmapped points, labels) -> mapped labels
LabelMap: TypeAlias = Callable[[Array, Array], Array]
# The center (d,) of a grid of points, in columns of the table, and the points (d,) to a unit of
# each column, 0 for one that does not vary. By their points rows have keys that do not depend on
# units: an offset of 1e8 deviations rounds a row by 1e-8 of one, which moves it to another point
# in one of thousands of rows.
KeyGrid: TypeAlias = tuple[Floats, Floats]
# numbers of rows, and their columns
Pieces: TypeAlias = Iterable[tuple[Integers, Block]]


class Census(NamedTuple):
    """How many rows are kept."""

    kept: int = 0  # rows that are kept and have a positive weight
    total: float = 0.0  # the sum of their weights

    @classmethod
    def of(cls, counts: Floats | None) -> Census:
        """Return the sums of :func:`count_rows`, None for those of no rows."""
        return cls() if counts is None else cls(int(counts[0]), float(counts[1]))


@dataclass(eq=False)
class Drawn:
    """The sample of a table that smaller samples are drawn from: one pass serves several."""

    seed: int = 0
    held: tuple[Table, Integers, Block] | None = None

    def select(self, table: Table, n: int, rng: np.random.Generator | int) -> Pieces:
        """Draw n rows, which depend on both seeds alone; return their numbers and columns."""
        most = min(100_000, 2**23 // max(1, table.n_features))
        if n > most:
            return table.select(draw_numbers(table.n_rows, n, rng))
        if self.held is None or self.held[0] is not table:
            numbers = draw_numbers(table.n_rows, most, self.seed)
            self.held = table, numbers, table.take(numbers)
        _, numbers, block = self.held
        places = draw_numbers(len(numbers), n, rng)
        return [(numbers[places], take_places(block, places))]


@dataclass(frozen=True, eq=False)
class Rows:
    r"""A view of rows: a table, an affine map, the rows kept, and their weights.

    Every estimator passes over its rows through a view. Views compose, and composing reads
    nothing.

    Attributes
    ----------
    table : Table
        Where the rows are.
    center : array of shape (d,) or None
    linear : array of shape (d, p) or None
        Points are mapped to ``(x - center) @ linear``.
    labels : callable or None
        Maps the column ``"y"``, as ``labels(x, y)`` with unmapped points.
    keep : tuple of Rule
        Functions of an unmapped block of the table: which rows are kept, (n,); None for all.
    weights : float
        Multiplies the weights of the rows, ``"counts"``.
    wide : bool
        Map rows in double precision even if the table has single precision.
    constants : array of shape (n_features,) or None
        Values of columns that points do not have, since they are the same in all rows; NaN for
        the d columns that they have. None where they have all.
    rows_per_block : int or None
        Rows read at a time; None to choose it by ``budget``.
    budget : MemoryBudget
    progress : callable or None
        Called as ``progress(what, rows_done, rows_total)`` during passes.
    known : Census or None
        Counted where it is not given.
    grid : KeyGrid or None
        On which rows have the keys that determine their shares; None for their bits.
    drawn : Drawn
        The sample that samples are drawn from; all views of one fit have it.
    checkpoint : Checkpoint or None
        Keeps the sums of passes.
    numbers : array of int or None
        Numbers of rows that were drawn or held, in the data that were given.

    See Also
    --------
    Table : The protocol of all tables.
    open_file : Rows of files.

    Examples
    --------
    >>> X = np.arange(8.0).reshape(4, 2)
    >>> rows = Rows.of(X).mapped(center=np.array([0.0, 1.0]), linear=0.5)
    >>> sum(block["x"].sum(axis=0) for block in rows.blocks()).tolist()
    [6.0, 6.0]
    >>> rows.kept_by(lambda block: block["x"][:, 0] > 1).kept
    3
    """

    table: Table
    center: Floats | None = None
    linear: Floats | None = None
    labels: LabelMap | None = None
    keep: tuple[Rule, ...] = ()
    weights: float = 1.0
    wide: bool = False
    constants: Floats | None = None
    rows_per_block: int | None = None
    budget: MemoryBudget = field(default=DEFAULT_BUDGET, repr=False)
    progress: Progress | None = field(default=None, repr=False)
    known: Census | None = field(default=None, repr=False)
    grid: KeyGrid | None = field(default=None, repr=False)
    drawn: Drawn = field(default_factory=Drawn, repr=False)
    checkpoint: Checkpoint | None = field(default=None, repr=False)
    numbers: Integers | None = field(default=None, repr=False)

    @classmethod
    def of(cls, points: Any, **columns: Array | None) -> Rows:
        """Return a view of an array (n, d) with further columns, of a table, or a view itself."""
        if isinstance(points, Rows):
            return points
        given = {name: column for name, column in columns.items() if column is not None}
        return cls(points if isinstance(points, Table) else ArrayTable(points, **given))

    def __getstate__(self) -> dict[str, Any]:
        """Leave the rows behind: a view that is pickled is a part of a measure of other rows."""
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        left = dict.fromkeys(("table", "progress", "checkpoint", "numbers"))
        return {**kept, **left, "drawn": Drawn()}

    # what the rows are

    @property
    def n(self) -> int:
        """Rows of the table, kept or not."""
        return self.table.n_rows

    @cached_property
    def columns(self) -> Integers | None:
        """Columns of the table that points have; None for all."""
        return None if self.constants is None else np.flatnonzero(np.isnan(self.constants))

    @property
    def n_features(self) -> int:
        """Coordinates of a point as mapped."""
        if self.linear is not None:
            return int(self.linear.shape[-1])
        return self.table.n_features if self.columns is None else len(self.columns)

    @cached_property
    def like(self) -> Array:
        """A point as mapped, (1, p): it has the library, precision and device of all."""
        return self.prepare(self.table.first, whole=True)["x"]

    @cached_property
    def first_kept(self) -> Block:
        """The first row that is kept, as mapped."""
        for block in self.blocks():
            if block["x"].shape[0]:
                return take_places(block, np.arange(1))
        raise self._none_kept()

    @property
    def weighted_rows(self) -> bool:
        """Whether rows have weights."""
        return self.weights != 1.0 or "counts" in self.table.first

    @property
    def small(self) -> bool:
        """Whether all rows may be held in memory."""
        return self.n * max(self.n_features, 1) <= self.budget.held

    @cached_property
    def census(self) -> Census:
        """Number of rows kept; may need a pass over the rows."""
        if self.known is not None:
            return self.known
        if not self.keep and not self.weighted_rows:
            return Census(self.n, float(self.n))
        sums = self.as_given().fold(lambda block: {"n": count_rows(block)}, what="counting rows")
        return Census.of(sums.get("n"))

    @property
    def kept(self) -> int:
        """Rows that are kept and have a positive weight."""
        return self.census.kept

    @property
    def total(self) -> float:
        """The sum of the weights of the rows that are kept."""
        return self.census.total

    @cached_property
    def held(self) -> bool:
        """Whether the table holds in memory all rows as a pass measures them."""
        changes = (self.center, self.linear, self.labels, self.constants, self.grid)
        changed = any(each is not None for each in changes) or self.keep or self.wide
        if changed or self.weights != 1.0 or not isinstance(self.table, ArrayTable):
            return False
        counts = self.table.block.get("counts")
        return counts is None or bool(namespace_of(counts).all(counts > 0))

    # further views

    def mapped(
        self, center: Floats | None = None, linear: Any = None, labels: LabelMap | None = None
    ) -> Self:
        """Return the rows with a further affine map of the points, and a map of the labels.

        A number as ``linear`` multiplies all columns.
        """
        if np.ndim(linear) == 0 and linear is not None:
            linear = linear * np.eye(self.n_features)
        if center is not None:  # in the columns of the table
            inverse = None if self.linear is None else np.linalg.pinv(self.linear)
            center = center if inverse is None else center @ inverse
            center = center if self.center is None else self.center + center
        if linear is not None and self.linear is not None:
            linear = self.linear @ linear
        moved = self.center if center is None else center
        turned = self.linear if linear is None else np.asarray(linear)
        return replace(self, center=moved, linear=turned, labels=labels or self.labels)

    def as_given(self) -> Self:
        """Return the rows that are kept, with their weights, without the map.

        Columns that are left out stay so.
        """
        return replace(self, center=None, linear=None, labels=None, wide=False)

    def kept_by(self, rule: Rule, known: Census | None = None) -> Self:
        """Return the rows that are also kept by a rule."""
        return replace(self, keep=(*self.keep, rule), known=known)

    def weighted(self, weights: Array | float) -> Self:
        """Return the rows with their weights multiplied, by a number or by one for each row."""
        if np.ndim(weights) == 0:
            return replace(self, weights=self.weights * float(weights), known=None)
        block = self.table.take(np.arange(self.n))
        counts = weights_of(block) * move_like(np.asarray(weights), block["x"])
        return replace(self, table=ArrayTable.of({**block, "counts": counts}), known=None)

    def split(self, share: int, n_shares: int, *, out: bool = False) -> Self:
        """Return one of some shares of the rows, or all rows but that share.

        Shares depend on the unmapped content of a row, or on its place on the grid of
        :meth:`keyed_on`: neither on its position nor on the size of blocks, and equal rows are in
        one share.
        """
        return self.kept_by(partial(in_share, share, n_shares, out, self.grid))

    def keyed_on(self, moments: Any) -> Self:
        """Return the rows with keys that do not depend on units: shares have them then.

        ``moments`` has ``mean`` and ``deviations`` (d,) of the columns, with 0 for constant ones.
        """
        units = np.where(moments.deviations > 0, moments.deviations, np.inf)
        return replace(self, grid=(moments.mean, 2.0**14 / units))  # points to a deviation

    # passes

    def prepare(self, block: Block, *, keyed: bool = False, whole: bool = False) -> Block:
        """Map the rows of a block that have a positive weight and that all rules keep.

        All its rows where ``whole``.
        """
        if self.weights != 1.0:
            block = {**block, "counts": weights_of(block) * self.weights}
        for rule in () if whole else (*self.keep, counted):
            block = take_rows(block, rule(block))
        x = block["x"]
        xp, found = namespace_of(x), dict(block)
        if keyed:
            found["key"] = keys_of(block, self.grid)
        if self.columns is not None:
            x = xp.take(x, index_like(self.columns, x), axis=1)
        if self.wide:
            x = as_double(x)
            if "counts" in block:
                found["counts"] = as_double(block["counts"])
        if self.labels is not None:
            found["y"] = self.labels(x, block["y"])
        if self.center is not None:
            x = x - move_like(self.center, x)[None, :]
        if self.linear is not None:
            x = x @ move_like(self.linear, x)
        return {**found, "x": x}

    def blocks(self, width: int = 1, *, whole: bool = False) -> Iterator[Block]:
        """Yield blocks of the rows that are kept, in order; of all rows where ``whole``."""
        for block in self.table.blocks(self.block_size(width)):
            yield self.prepare(block, whole=whole)

    def fold(
        self, measure: Measure, *, width: int = 1, what: str = "", keyed: bool = False
    ) -> Sums:
        """Sum ``measure`` over the blocks of the rows kept, in one pass.

        ``measure(block)`` returns named sums over the rows of a block, with ``"x"`` as mapped,
        ``"y"`` for labels and ``"counts"`` for weights; blocks without rows are not measured. It
        travels to where the rows are, so it holds small arrays only. Sums are added in the order
        of the rows: they have the same bits for any number of threads. ``width`` numbers are
        computed per row; ``keyed`` blocks have a column ``"key"`` for :func:`shares_of`.
        """
        progress, n = self.progress, self.n
        after = None if progress is None else lambda done: progress(what, done, n)
        measured = partial(self._measure_kept, measure, keyed)
        run = partial(self.table.fold, measured, self.block_size(width), after)
        return run() if self.checkpoint is None else self.checkpoint.sums(what, run)

    def block_size(self, width: int = 1) -> int:
        """Return how many rows are read at a time where so many numbers are computed from each."""
        widest = max(width, self.table.n_features, self.n_features)
        return self.rows_per_block or self.budget.rows_per_block(widest, self.table.first["x"])

    def _measure_kept(self, measure: Measure, keyed: bool, block: Block) -> Mapping[str, Any]:
        kept = self.prepare(block, keyed=keyed)
        return measure(kept) if kept["x"].shape[0] else {}

    # rows in memory

    def sample(self, n: int, rng: np.random.Generator | int = 0, *, width: int = 1) -> Rows:
        """Hold about n of the rows that are kept, drawn at random without replacement.

        All rows where there are no more. They stay in order.
        """
        n = min(n, max(1, self.budget.held // max(width, self.n_features, 1)))
        if n >= self.n:
            return self.hold()
        asked = min(self.n, math.ceil(n * (self.n / max(1, self.kept))))
        return self._holding(self.drawn.select(self.table, asked, rng), asked)

    def hold(self) -> Rows:
        """Hold all rows that are kept in memory, as mapped."""
        return self if self.held else self._holding(self.table.select(np.arange(self.n)), self.n)

    def _holding(self, pieces: Pieces, n: int) -> Rows:
        """Hold the rows of blocks that are kept, as mapped, with their keys and numbers."""
        maps = (self.constants, self.center, self.linear, self.grid)
        keyed = any(each is not None for each in maps)  # mapped points have no key of their own
        kept = (
            self.prepare({**block, "row": index_like(numbers, block["x"])}, keyed=keyed)
            for numbers, block in pieces
        )
        block = dict(join_blocks(kept, n))
        numbers = self.table.given_numbers(to_numpy(block.pop("row")))
        return self._of_block(block, numbers)

    def _of_block(self, block: Block, numbers: Integers | None = None) -> Rows:
        if block["x"].shape[0] == 0:
            raise self._none_kept()
        held, census = ArrayTable.of(block), Census.of(count_rows(block))
        how: dict[str, Any] = {"rows_per_block": self.rows_per_block, "budget": self.budget}
        return Rows(held, known=census, numbers=numbers, **how)

    def _none_kept(self) -> InputError:
        return InputError("no_rows_kept", "none of {n:count row} is kept", n=self.n)

    def take(self, places: Integers, counts: Array | None = None) -> Rows:
        """Return some of the rows that are held in memory."""
        block = dict(take_places(self.block, places))
        if counts is not None:
            block["counts"] = move_like(counts, block["x"])
        return self._of_block(block)

    def merged(self) -> Rows:
        """Hold the rows in memory, with equal ones counted once.

        Weights and repeated rows then give the same fit: rows that have weights, or that are
        repeated, are put in an order that depends on them alone.
        """
        held = self.hold()
        keys = to_numpy(row_keys(as_double(held.block["x"])))
        order = np.argsort(keys, kind="stable")
        if held.weighted_rows or np.any(keys[order[1:]] == keys[order[:-1]]):
            # rows of one key may differ: they are compared as neighbours in this order
            x = take_places(held.block, order)["x"]
            differ = namespace_of(x).any(x[1:, :] != x[:-1, :], axis=1)
            first = np.append(0, 1 + np.flatnonzero(to_numpy(differ)))
            counts = np.add.reduceat(held.counts[order], first)
            held = held.take(order[first], None if np.all(counts == 1) else counts)
        return replace(held, progress=self.progress, checkpoint=self.checkpoint)

    @cached_property
    def block(self) -> Block:
        """All rows that are kept, as mapped, in memory; without a copy where they are held."""
        return self.hold().table.block  # type: ignore[attr-defined, no-any-return]

    @cached_property
    def points(self) -> Floats:
        """The points that are kept, as mapped, in NumPy (n, p)."""
        return to_numpy(self.block["x"])

    @cached_property
    def counts(self) -> Floats:
        """The weights of these points in NumPy, (n,)."""
        return np.asarray(to_numpy(weights_of(self.block)), dtype=np.float64)


def counted(block: Block) -> Array | None:
    """Return which rows of a block have a positive weight; None for all."""
    counts = block.get("counts")
    return None if counts is None else counts > 0


def count_rows(block: Block) -> Floats:
    """Return the number of rows of a block, and the sum of their weights."""
    counts = weights_of(block)
    total = namespace_of(counts).sum(counts, dtype=namespace_of(counts).float64)
    return np.array([counts.shape[0], float(total)])


def restore_columns(points: Floats, constants: Floats | None, fill: float | None = None) -> Floats:
    """Put columns that were left out back into an array (…, p): (…, d).

    They have their constant values, or ``fill``.
    """
    if constants is None:
        return points
    values = constants if fill is None else fill
    whole = np.array(np.broadcast_to(values, (*points.shape[:-1], len(constants))))
    whole[..., np.isnan(constants)] = points
    return whole


def keys_of(block: Block, grid: KeyGrid | None = None) -> Array:
    """Return the keys (n,) of rows of an unmapped block: its own, or those of its content.

    The operations are of single numbers: a key does not depend on the block.
    """
    if "key" in block:
        return block["key"]
    if grid is None:
        return row_keys(block["x"])
    x = as_double(block["x"])
    (center, steps), xp = (move_like(each, x) for each in grid), namespace_of(x)
    return row_keys(xp.abs(xp.round((x - center) * steps)))


def shares_of(block: Block, n_shares: int, grid: KeyGrid | None = None) -> Array:
    """Return the share of each row of a block, (n,) numbers from 0 on, by its content."""
    return key_shares(keys_of(block, grid), n_shares)


def in_share(share: int, n_shares: int, out: bool, grid: KeyGrid | None, block: Block) -> Array:
    """Return which rows of a block are in a share; with ``out`` those that are in another."""
    shares = shares_of(block, n_shares, grid)
    return shares != share if out else shares == share  # type: ignore[no-any-return]
