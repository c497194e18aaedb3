"""Rows of Dask arrays and DataFrames: passes take place on the workers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from typing import Any
from uuid import uuid4

import numpy as np

from implicitmoments.arrays import Array
from implicitmoments.notes import CodedError, InputError, InputTypeError
from implicitmoments.rows.blas_threads import threads_for_folds
from implicitmoments.rows.cells import find_cell
from implicitmoments.rows.dask_columns import (
    DaskArray,
    Frame,
    aligned,
    choose_columns,
    dask_module,
    rows_of_array,
    rows_of_frame,
)
from implicitmoments.rows.dask_partition import (
    Carried,
    Partition,
    fold_partition,
    pick_rows,
    rows_at,
)
from implicitmoments.rows.draws import Integers, RowDraws
from implicitmoments.rows.fold import (
    After,
    Block,
    Measure,
    Sums,
    add_sums,
)
from implicitmoments.rows.sources import ElsewhereSource, Source, is_frame, join_blocks

FAN_IN = 8  # sums added per task of the tree: few levels, and no worker holds many sums


class DaskSource(Source):
    """Rows of a Dask array; each partition is processed on the worker that holds it.

    A pass is one task per partition and a tree of sums, on the workers of the active
    ``distributed.Client``, or by Dask's scheduler as it is configured. Only the sums come back.
    Making a source computes nothing. Values are checked on the workers, in passes up to the first
    that reads all rows. BLAS uses one thread per task. A pickled source leaves its rows behind.

    Parameters
    ----------
    x : dask.array of shape (n_samples, n_features)
        Columns become one chunk. Row chunks of unknown length are counted, once, when
        ``n_rows`` is first asked for.
    y : dask.array or Series of shape (n_samples,), optional
        Labels, in the row chunks of x or rechunked to them.
    counts : dask.array or Series of shape (n_samples,), optional
        How often each row counts.

    See Also
    --------
    ArraySource : Rows of arrays in memory.
    open_file : Rows of a file.

    Examples
    --------
    >>> import dask.array as da
    >>> source = DaskSource(da.ones((1_000, 3), chunks=(300, 2)))
    >>> def total(block, rows):
    ...     return {"x": block["x"].sum(axis=0)}
    >>> print(source.fold(total, range(1_000), 128)["x"])
    [1000. 1000. 1000.]
    """

    def __init__(
        self, x: DaskArray, *, y: DaskArray | None = None, counts: DaskArray | None = None
    ) -> None:
        x = rows_of_array(x)
        self.n_features = int(x.shape[1])
        self.feature_names: tuple[str, ...] | None = None
        self._labels = {"x": "X", "y": "y", "counts": "sample_weight"}
        self._columns: dict[str, DaskArray] = {"x": x}
        for name, given in (("y", y), ("counts", counts)):
            if given is not None:
                self._columns[name] = aligned(given, x, self._labels[name])
        self._lengths_of = x  # the array whose chunks give the partition lengths
        self._checked = False
        self._first: Block | None = None
        self._frame: Frame | None = None  # of which the columns were made

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        columns: Sequence[Hashable] | None = None,
        y: Hashable | DaskArray | None = None,
        sample_weight: Hashable | DaskArray | None = None,
    ) -> DaskSource:
        """Take columns of a Dask DataFrame, by name.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
        columns : list of column names, optional
            The points; by default all columns but those named below. Text and categories that
            are numbers are converted, as those of pandas are, and others refused.
        y, sample_weight : column name, or Series or array of shape (n_samples,), optional
        """
        if not (is_frame(frame) and hasattr(frame, "columns")):
            kind, template = type(frame).__name__, "expected a Dask DataFrame, got a {kind}"
            raise InputTypeError("not_a_dask_frame", template, kind=kind)
        others: dict[str, Any] = {"y": y, "counts": sample_weight}
        named: dict[str, Any] = {}
        labels = {}
        for key, given in others.items():
            if is_frame(given):  # a Series: Dask keeps its rows beside those of the frame
                named[key] = f"{key} of its own"
                frame = frame.assign(**{named[key]: given})
            elif given is not None and not hasattr(given, "shape"):
                named[key], labels[key] = given, f"column {given!r}"
        chosen = choose_columns(frame, columns, list(named.values()))
        table = rows_of_frame(frame, chosen, list(named.values()))
        d = len(chosen)
        others |= {key: table[:, d + i] for i, key in enumerate(named)}
        source = cls(table[:, :d], **others)
        source._labels |= labels
        if all(isinstance(name, str) for name in chosen):
            source.feature_names = tuple(str(name) for name in chosen)
        source._frame = frame[[*chosen, *named.values()]]
        narrow = frame[chosen[:1]].to_dask_array()  # as it is: to be counted, and not converted
        if narrow.numblocks[0] == table.numblocks[0]:  # then one column is enough to count rows
            source._lengths_of = narrow
        else:
            source._lengths_of = source._frame.to_dask_array()
        return source

    @cached_property
    def n_rows(self) -> int:  # type: ignore[override]  # not known before it is asked for
        """The number of rows; to count partitions of unknown length takes a small pass."""
        n = self._edges[-1]
        if not n:
            template = "X is empty (no partition has rows), expected at least one row"
            raise InputError("no_rows", template)
        return n

    def read(self, rows: range, rng: RowDraws) -> Block:  # noqa: ARG002 (nothing to draw)
        """Compute these rows only, and return them to this process."""
        if rows == range(1) and self._first is not None:
            return self._first
        self._partitions(rows)
        # slices of arrays, and no tasks of ours: Dask then reads a part of a chunk where it can
        cut = [column[rows.start : rows.stop] for column in self._known]
        with self._cells_by_row():
            found = _computed(cut)
        block = rows_at(dict(zip(self._columns, found, strict=True)), slice(None))
        if rows == range(1):  # requested often, to find the array library and dtype
            self._first = block
        return block

    def fold(
        self,
        measure: Measure,
        rows: range,
        rows_per_block: int,
        *,
        what: str = "",
        seed: int = 0,  # noqa: ARG002 (rows are there, and not made)
        initial: Mapping[str, Array] | None = None,
        after: After | None = None,
    ) -> Sums:
        """Sum over rows on the workers: partitions first, then a tree of their sums.

        ``after`` is called once, at the end: no sums are complete before.
        """
        total = dict(initial or {})
        if not rows:
            return total
        name = _task_name(what or "fold")
        carried = (name, "measure")  # one entry, on which every task depends
        graph: dict[Any, Any] = {carried: Carried(measure)}
        level: list[Any] = []
        for i, part in self._partitions(rows):
            cut = range(max(rows.start, part.rows.start), min(rows.stop, part.rows.stop))
            level.append((name, 0, i))
            task = (fold_partition, carried, self._chunks[i], part, cut)
            graph[level[-1]] = (*task, rows_per_block, self._checked)
        depth = 0
        while len(level) > 1:
            depth += 1
            groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
            level = [(name, depth, i) for i in range(len(groups))]
            # sums of neighbours are added in the order of the rows
            for key, group in zip(level, groups, strict=True):
                graph[key] = (reduce, add_sums, group)
        with self._cells_by_row():
            total = add_sums(total, _run(name, graph, level, self._ready)[0])
        self._checked = self._checked or rows == range(self.n_rows)
        if after is not None:
            after(total, rows.stop)
        return total

    def pick(self, rows: Integers, *, what: str = "") -> Block:
        """Return some rows, by numbers in ascending order; workers send no others."""
        name = _task_name(what or "pick")
        graph: dict[Any, Any] = {}
        for i, part in self._partitions(range(int(rows[0]), int(rows[-1]) + 1)):
            low, high = np.searchsorted(rows, (part.rows.start, part.rows.stop))
            if high > low:
                graph[name, i] = (pick_rows, self._chunks[i], part, rows[low:high])
        with self._cells_by_row():
            return join_blocks(_run(name, graph, list(graph), self._ready))

    @contextmanager
    def _cells_by_row(self) -> Iterator[None]:
        """Name a cell that is no number by its row among all rows.

        A partition does not know its first row: the first such cell is looked for once more.
        """
        try:
            yield
        except CodedError as error:
            if error.code != "cell_not_a_number" or self._frame is None:
                raise
            delayed = dask_module("delayed").delayed
            cells = _computed([delayed(find_cell)(part) for part in self._frame.to_delayed()])
            starts = zip(cells, self._edges[:-1], strict=True)
            found = [cell._replace(row=cell.row + start) for cell, start in starts if cell]
            if not found:
                raise
            min(found, key=lambda cell: (cell.place, cell.row)).refuse("X")

    @cached_property
    def _edges(self) -> list[int]:
        """The first row of each partition, and the number of rows."""
        lengths: Sequence[float] = self._lengths_of.chunks[0]
        if np.isnan(lengths).any():
            name = _task_name("counting rows")
            keys = [row[0] for row in self._lengths_of.__dask_keys__()]
            graph = {(name, i): (len, key) for i, key in enumerate(keys)}
            lengths = _run(name, graph, list(graph), [self._lengths_of])
        return [0, *(int(edge) for edge in np.cumsum(lengths))]

    def _partitions(self, rows: range) -> list[tuple[int, Partition]]:
        """Return the partitions that hold some of the rows, with their numbers."""
        if not 0 <= rows.start < rows.stop <= self.n_rows:
            raise InputError(
                "no_such_rows",
                "rows {start} to {stop} were asked for, and there are {n_rows}",
                **{"start": rows.start, "stop": rows.stop, "n_rows": self.n_rows},
            )
        labels = {name: self._labels[name] for name in self._columns}
        first = int(np.searchsorted(self._edges, rows.start, side="right")) - 1
        last = int(np.searchsorted(self._edges, rows.stop, side="left"))
        spans = {i: range(self._edges[i], self._edges[i + 1]) for i in range(first, last)}
        return [(i, Partition(labels, span)) for i, span in spans.items() if span]

    @cached_property
    def _known(self) -> list[DaskArray]:
        """The columns, with chunks of known length."""
        da = dask_module("array")
        lengths = tuple(np.diff(self._edges).tolist())
        return [
            da.Array(c.dask, c.name, (lengths, *c.chunks[1:]), c.dtype, c._meta)
            for c in self._columns.values()
        ]

    @cached_property
    def _ready(self) -> tuple[DaskArray, ...]:
        """The columns, with the tasks of each chunk fused; used by every pass.

        Chunks that a cluster holds already have nothing to fuse, and Dask leaves them out of the
        fused graph; such a column stays as it is.
        """
        columns = list(self._columns.values())
        fused = dask_module("base").optimize(*columns)
        return tuple(
            new if set(_keys(new)) <= set(new.__dask_graph__()) else old
            for new, old in zip(fused, columns, strict=True)
        )

    @cached_property
    def _chunks(self) -> list[list[Any]]:
        """By partition and column, the task that computes the chunk, or its key if there is none.

        A fold that makes its rows within its own task leaves none for the scheduler to move.
        """

        def is_task(node: Any) -> bool:  # and no data, future or other key
            return hasattr(node, "func") or (isinstance(node, tuple) and callable(node[0]))

        columns = []
        for column in self._ready:
            graph = dict(column.__dask_graph__())
            columns.append([graph[k] if is_task(graph[k]) else k for k in _keys(column)])
        return [list(chunks) for chunks in zip(*columns, strict=True)]

    def __reduce__(self) -> tuple[Any, ...]:
        return ElsewhereSource, (self.__dict__.get("n_rows"), self.n_features)

    def __copy__(self) -> DaskSource:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DaskSource:
        return self


def _keys(column: DaskArray) -> list[Any]:
    """Return the key of each partition."""
    return [key[0] if isinstance(key, list) else key for key in column.__dask_keys__()]


def _task_name(what: str) -> str:
    """Name the tasks of a pass; no two passes share a name, since measures cannot be compared."""
    return f"{what.replace(' ', '_')}-{uuid4().hex}"


def _computed(collections: Sequence[Any]) -> list[Any]:
    """Compute by the active client or scheduler; avoid oversubscription by BLAS threads."""
    with threads_for_folds(1):
        return list(dask_module("base").compute(*collections))


def _run(
    name: str, graph: dict[Any, Any], keys: Sequence[Any], columns: Sequence[DaskArray]
) -> list[Any]:
    """Compute some keys of a graph on top of the columns."""
    graphs, delayed = dask_module("highlevelgraph"), dask_module("delayed")
    whole = graphs.HighLevelGraph.from_collections(name, graph, dependencies=columns)
    return _computed([delayed.Delayed(key, whole, layer=name) for key in keys])
