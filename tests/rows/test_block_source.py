import errno

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from implicitmoments.rows import BlockSource, RowDraws
from implicitmoments.rows.files import spool

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
    with pytest.raises(ValueError, match="block 1 holds float64 and block 0 float32; give dtype"):
        BlockSource([single, X])
    with BlockSource([single, X], dtype="float32") as source:
        assert read(source)["x"].dtype == np.float32


def used():
    blocks = iter([X])
    list(blocks)
    return blocks


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (list, ValueError, "no blocks came, expected one row at the least"),
        (used, ValueError, "no blocks came.*used before gives none"),
        (lambda: [X[:0]], ValueError, "1 blocks came, without rows"),
        (lambda: [X, X[:, :2]], ValueError, "block 1 has 2 features and block 0 has 3"),
        (lambda: [(X, Y), X], ValueError, r"block 1 has columns \['x'\] and block 0 has \['x', "),
        (lambda: [X, X, (X, Y)], ValueError, r"block 2 has columns \['x', 'y'\]"),
        (lambda: [(X, Y[:3])], ValueError, "block 0: y has 3 rows and X has 8"),
        (lambda: [(X,)], ValueError, r"block 0 is a tuple of 1, expected \(X, y\)"),
        (lambda: [{"z": X}], ValueError, r"block 0 has columns \['z'\], expected the points"),
        (lambda: [X, Y], ValueError, "block 1: X has 1 axes"),
        (lambda: [X, [["a", "b", "c"]]], TypeError, "block 1: X holds entries of type"),
        (lambda: [X, X * np.nan], ValueError, "blocks: feature 0 contains NaN.*first is row 8"),
        (lambda: [(X, Y, -Y)], ValueError, "sample_weight is -1 in row 1"),
        (lambda: X, TypeError, r"got one ndarray; give \[block\]"),
        (lambda: frame(slice(8)), TypeError, r"got one DataFrame; give \[block\]"),
        (lambda: used, TypeError, "got function; call it first"),
        (lambda: 3, TypeError, "blocks is an iterator of blocks, got int"),
        (
            lambda: [frame(slice(8)), frame(slice(8)).rename(columns={"a": "z"})],
            ValueError,
            r"block 1 has features \('z', 'b', 'c'\) and block 0",
        ),
    ],
)
def test_blocks_that_do_not_fit(build, error, message):
    with pytest.raises(error, match=message):
        BlockSource(build())


def test_an_error_of_the_iterator_is_passed_on():
    def blocks():
        yield X
        raise RuntimeError("the wire broke")

    with pytest.raises(RuntimeError, match="the wire broke"):
        BlockSource(blocks())


def test_no_room_for_the_rows(monkeypatch):
    class Full:
        def write(self, left):
            raise OSError(errno.ENOSPC, "no space")

        def close(self):
            pass

    monkeypatch.setattr(spool.tempfile, "TemporaryFile", lambda **how: Full())
    with pytest.raises(OSError, match=r"no room left for rows in the temporary folder.*TMPDIR"):
        BlockSource([X])
