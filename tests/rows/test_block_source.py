import errno
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from implicitmoments.rows import BlockSource, RowDraws
from support import refuses

X = np.arange(24.0).reshape(8, 3)
Y = np.arange(8.0)


def read(source):
    rows = range(source.n_rows)
    return source.read(rows, RowDraws(0, rows))


def frame(rows):
    return pd.DataFrame(X[rows], columns=["a", "b", "c"])


def test_blocks_in_any_library(xp):
    with BlockSource((xp.asarray(X[i : i + 3]), xp.asarray(Y[i : i + 3])) for i in (0, 3, 6)) as s:
        np.testing.assert_array_equal(read(s)["x"], X)
        np.testing.assert_array_equal(read(s)["y"], Y)


@pytest.mark.parametrize(
    ("blocks", "columns"),
    [
        ([X[:3], X[3:3], X[3:]], {"x"}),  # one of them without rows
        ([X[:3].tolist(), X[3:].astype(int)], {"x"}),
        ([{"y": Y[:3], "x": X[:3]}, {"x": X[3:], "y": Y[3:]}], {"x", "y"}),
        ([(X[:3], None, Y[:3]), {"x": X[3:], "counts": Y[3:]}], {"x", "counts"}),
        ([(frame(slice(3)), Y[:3]), (frame(slice(3, 8)), Y[3:])], {"x", "y"}),
        ([pa.table(frame(slice(3))), pa.RecordBatch.from_pandas(frame(slice(3, 8)))], {"x"}),
    ],
)
def test_kinds_of_blocks(blocks, columns):
    with BlockSource(iter(blocks)) as source:
        block = read(source)
        assert set(block) == columns
        np.testing.assert_array_equal(block["x"], X)
        for name in columns - {"x"}:
            np.testing.assert_array_equal(block[name], Y)


def test_names_of_features_are_kept():
    with BlockSource([frame(slice(3)), frame(slice(3, 8))]) as source:
        assert source.feature_names == ("a", "b", "c")
    with BlockSource([pa.table(frame(slice(8)))]) as source:
        assert source.feature_names == ("a", "b", "c")
    with BlockSource([X]) as source:
        assert source.feature_names is None


def test_single_precision_may_be_widened_and_is_not_narrowed():
    single = X.astype(np.float32)
    with BlockSource([X, single]) as source:
        assert read(source)["x"].dtype == np.float64
    with refuses("block_precision_differs", number=1, found="float64"):
        BlockSource([single, X])
    with BlockSource([single, X], dtype="float32") as source:
        assert read(source)["x"].dtype == np.float32


def used():
    blocks = iter([X])
    list(blocks)
    return blocks


@pytest.mark.parametrize(
    ("build", "code", "values"),
    [
        (list, "no_blocks", {"n_blocks": 0}),
        (used, "no_blocks", {"n_blocks": 0}),
        (lambda: [X[:0]], "no_blocks", {"n_blocks": 1}),
        (lambda: [X, X[:, :2]], "block_features_differ", {"number": 1, "found": 2, "expected": 3}),
        (lambda: [(X, Y), X], "block_columns_differ", {"number": 1, "found": ["x"]}),
        (lambda: [X, X, (X, Y)], "block_columns_differ", {"number": 2, "found": ["x", "y"]}),
        (lambda: [(X, Y[:3])], "wrong_length", {"what": "y", "n_rows": 3, "expected": 8}),
        (lambda: [(X,)], "block_tuple", {"number": 0, "length": 1}),
        (lambda: [{"z": X}], "block_without_points", {"number": 0, "columns": ["z"]}),
        (lambda: [X, X * np.nan], "not_finite", {"name": "feature 'x0'", "first": 8}),
        (lambda: [(X, Y, -Y)], "negative_weight", {"weight": -1.0, "first": 1}),
        (lambda: X, "one_block", {"kind": "ndarray"}),
        (lambda: frame(slice(8)), "one_block", {"kind": "DataFrame"}),
        (lambda: used, "not_blocks", {"kind": "function"}),
        (lambda: 3, "not_blocks", {"kind": "int"}),
        (
            lambda: [frame(slice(8)), frame(slice(8)).rename(columns={"a": "z"})],
            "block_names_differ",
            {"number": 1, "found": ["z", "b", "c"], "expected": ["a", "b", "c"]},
        ),
    ],
)
def test_blocks_that_do_not_fit(build, code, values):
    with refuses(code, **values):
        BlockSource(build())


@pytest.mark.parametrize(("block", "error"), [(Y, ValueError), ([["a", "b", "c"]], TypeError)])
def test_blocks_that_are_no_tables_of_numbers(block, error):
    with pytest.raises(error):
        BlockSource([X, block])


def test_an_error_of_the_iterator_is_passed_on():
    def blocks():
        yield X
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        BlockSource(blocks())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_no_room_for_the_rows(monkeypatch):
    full = partial(open, "/dev/full", "wb")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with refuses("no_room", errno=errno.ENOSPC) as caught:
        BlockSource([X])
    assert isinstance(caught.error, OSError)
