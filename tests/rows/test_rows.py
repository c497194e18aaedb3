"""The view of rows: table, affine map, rows kept, weights; samples and shares."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.arrays import row_keys
from implicitmoments.rows import (
    ArrayTable,
    GeneratedTable,
    MemoryBudget,
    Rows,
    mean_and_covariance,
    shares_of,
)
from support import refuses


def total(block):
    counts = block.get("counts", np.ones(len(block["x"])))
    sums = {
        "n": len(block["x"]),
        "x": counts @ block["x"],
        "xx": (block["x"].T * counts) @ block["x"],
    }
    return sums | ({"y": counts @ block["y"]} if "y" in block else {})


@pytest.fixture(name="X")
def make_points(rng):
    return rng.standard_normal((1_000, 3)) + 5.0


@pytest.mark.parametrize("rows_per_block", [1, 7, 256, 5_000])
def test_any_blocks_give_the_same_numbers(X, rows_per_block):
    rows = Rows.of(X, y=X[:, 0], counts=np.arange(1_000.0) % 3)
    rows = rows.mapped(X[0], 0.5, lambda _, y: (y - 1) / 2).kept_by(lambda b: b["x"][:, 1] > 5)
    other = Rows(**{**vars(rows), "rows_per_block": rows_per_block, "known": None})
    assert other.kept == rows.kept
    expected, found = rows.fold(total), other.fold(total)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10)
    np.testing.assert_array_equal(rows.sample(50, 3).points, other.sample(50, 3).points)
    np.testing.assert_array_equal(rows.split(1, 3).points, other.split(1, 3).points)


@pytest.mark.parametrize(
    "second",
    [
        (None, 2.0),
        (np.array([1.0, -2.0, 0.5]), None),
        (np.array([1.0, -2.0, 0.5]), np.diag([1.0, 2.0, 3.0])),
        (np.array([1.0, -2.0, 0.5]), np.arange(6.0).reshape(3, 2)),
    ],
)
@pytest.mark.parametrize(
    "first",
    [
        (None, None),
        (np.ones(3), 0.5),
        (np.ones(3), np.diag([2.0, 1.0, 4.0])),
        (None, np.eye(3) + 0.1),
    ],
)
def test_maps_compose(X, first, second):
    def apply(x, center, linear):
        x = x - (0 if center is None else center)
        return x if linear is None else x @ linear if np.ndim(linear) == 2 else x * linear

    rows = Rows.of(X).mapped(*first).mapped(*second)
    expected = apply(apply(X, *first), *second)
    assert rows.n_features == expected.shape[1] == rows.like.shape[1]
    np.testing.assert_allclose(rows.points, expected, rtol=1e-10, atol=1e-10)


def test_rules_see_the_table_whatever_the_map(X):
    rule = lambda block: block["x"][:, 0] > 5  # noqa: E731
    one = Rows.of(X).mapped(X.mean(axis=0), 0.1).kept_by(rule)
    other = Rows.of(X).kept_by(rule).mapped(X.mean(axis=0), 0.1)
    np.testing.assert_array_equal(one.points, other.points)
    both = one.kept_by(lambda block: block["x"][:, 1] > 5)
    np.testing.assert_allclose(
        both.points, ((X - X.mean(axis=0)) * 0.1)[(X[:, 0] > 5) & (X[:, 1] > 5)]
    )
    assert both.kept == len(both.points) == both.hold().n
    assert both.as_given().kept == both.kept


def test_labels_are_mapped_by_unmapped_points(X):
    slope = np.array([1.0, 2.0, 3.0])
    rows = Rows.of(X, y=4.0 + (X - 5.0) @ slope).mapped(
        np.full(3, 5.0), 2.0, lambda x, y: (y - 4.0 - (x - 5.0) @ slope) / 10
    )
    np.testing.assert_allclose(rows.hold().fold(total)["y"], 0.0, atol=1e-9)


def test_weights_multiply_and_zero_leaves_out(X):
    counts = np.arange(1_000.0) % 3
    rows = Rows.of(X, counts=counts)
    repeated = Rows.of(np.repeat(X, counts.astype(int), axis=0))
    assert rows.total == counts.sum() == repeated.n
    assert rows.kept == np.count_nonzero(counts)
    np.testing.assert_allclose(rows.fold(total)["xx"], repeated.fold(total)["xx"])
    assert rows.weighted(2.0).total == 2 * rows.total
    halved = Rows.of(X).weighted(counts).weighted(0.5)
    np.testing.assert_allclose(halved.fold(total)["x"], 0.5 * rows.fold(total)["x"])
    assert halved.sample(10, 0).total == pytest.approx(halved.sample(10, 0).counts.sum())


def test_samples_are_random_and_have_the_size(X):
    rows = Rows.of(X)
    some = rows.sample(100, 1)
    assert some.n == 100 == len(np.unique(some.points, axis=0))
    assert not np.array_equal(some.points, rows.sample(100, 2).points)
    np.testing.assert_array_equal(rows.sample(5_000, 0).points, X)
    kept = rows.kept_by(lambda block: block["x"][:, 0] > 5)
    assert 80 <= kept.sample(100, 0).n <= 120
    assert np.all(kept.sample(100, 0).points[:, 0] > 5)


def test_samples_depend_on_no_table(X):
    made = GeneratedTable(lambda rows, rng: X[rows.start : rows.stop], 1_000)
    np.testing.assert_array_equal(
        Rows(made).sample(64, 5).points, Rows(ArrayTable(X)).sample(64, 5).points
    )


@pytest.mark.parametrize("period", [2, 4, 10, 50])
def test_rows_ordered_by_unit_are_sampled_fairly(period):
    """Rows that come unit by unit, in one order: an even stride would see some places only."""
    place = np.arange(20_000) % period
    seen = np.bincount(Rows.of(place[:, None]).sample(2_000, 0).points[:, 0].astype(int))
    expected = 2_000 / period
    assert np.sum((seen - expected) ** 2) / expected < period + 5 * np.sqrt(2 * period)
    stride = np.bincount(place[::10], minlength=period)  # the negative control
    assert np.sum((stride - expected) ** 2) / expected > period + 5 * np.sqrt(2 * period)


def test_samples_are_limited_by_memory(X):
    rows = Rows(ArrayTable(X), budget=MemoryBudget(held=300))
    assert rows.sample(1_000, 0).n == 100
    assert rows.sample(1_000, 0, width=10).n == 30
    assert not rows.small
    assert Rows.of(X).small


def test_progress_is_reported(X):
    seen = []
    rows = Rows(ArrayTable(X), rows_per_block=400, progress=lambda *at: seen.append(at))
    rows.fold(total, what="rows")
    assert seen == [("rows", 400, 1_000), ("rows", 800, 1_000), ("rows", 1_000, 1_000)]


def test_nothing_is_kept(X):
    empty = Rows.of(X).kept_by(lambda block: block["x"][:, 0] > 1e9)
    assert (empty.kept, empty.total) == (0, 0.0)
    with refuses("no_rows_kept", n=1_000):
        empty.hold()
    with refuses("no_rows_kept"):
        mean_and_covariance(empty)


def test_mean_and_covariance(X, rng):
    counts = rng.integers(0, 3, 1_000).astype(float)
    y = rng.standard_normal(1_000) + 1e6
    rows = Rows.of(X + 1e6, y=y, counts=counts).kept_by(lambda block: block["x"][:, 0] > 1e6 + 4)
    chosen = (X[:, 0] + 1e6 > 1e6 + 4) & (counts > 0)
    table = np.column_stack([X + 1e6, y])[chosen]
    found = mean_and_covariance(rows, labelled=True)
    assert (found.n, found.total) == (chosen.sum(), counts[chosen].sum())
    np.testing.assert_allclose(found.mean, np.average(table, axis=0, weights=counts[chosen]))
    expected = np.cov(table.T, aweights=counts[chosen], ddof=0)
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mean_and_covariance(rows).covariance, found.covariance[:3, :3])


def test_views_of_every_library(xp, X):
    rows = Rows.of(xp.asarray(X), y=xp.asarray(X[:, 0])).mapped(X.mean(axis=0), np.eye(3)[:, :2])
    rows = rows.kept_by(lambda block: block["x"][:, 0] > 5).weighted(2.0)
    expected = (X - X.mean(axis=0))[X[:, 0] > 5, :2]
    np.testing.assert_allclose(rows.points, expected)
    assert type(rows.hold().block["x"]) is type(xp.ones(1))
    found = mean_and_covariance(rows)
    np.testing.assert_allclose(found.mean, expected.mean(axis=0))
    assert sum(rows.split(i, 3).kept for i in range(3)) == len(expected)


def test_rows_in_memory_are_held_as_they_are(X):
    rows = Rows.of(X, counts=np.ones(1_000))
    assert rows.held
    assert rows.hold() is rows.sample(1_000) is rows
    assert not rows.mapped(linear=2.0).held
    zeros = Rows.of(X, counts=np.arange(1_000.0) % 2)
    assert not zeros.held
    assert zeros.hold().n == 500
    some = rows.take(np.array([7, 3]), np.array([2.0, 0.5]))
    np.testing.assert_array_equal(some.points, X[[7, 3]])
    assert some.total == 2.5


@pytest.mark.parametrize("single", [False, True])
def test_equal_rows_are_counted_once(rng, single):
    X = rng.integers(4, size=(30_000, 3)).astype(np.float32 if single else np.float64)
    counts = rng.integers(3, size=len(X)).astype(float)
    merged = Rows.of(X, counts=counts).merged()
    assert merged.n == 64
    assert merged.total == counts.sum()
    for point, count in zip(merged.points, merged.counts, strict=True):
        assert count == counts[(point == X).all(axis=1)].sum()
    repeated = Rows.of(np.repeat(X, counts.astype(int), axis=0)[::-1]).merged()
    np.testing.assert_array_equal(repeated.points, merged.points)
    np.testing.assert_array_equal(repeated.counts, merged.counts)
    signed = Rows.of(np.array([[0.0], [-0.0], [1.0]])).merged()
    np.testing.assert_array_equal(signed.counts[signed.points[:, 0] == 0], [2.0])


def test_rows_of_which_none_are_equal_stay_as_they_are(xp, X):
    rows = Rows.of(xp.asarray(X))
    np.testing.assert_array_equal(rows.merged().points, X)
    twice = Rows.of(xp.asarray(np.vstack([X, X[::-1]]))).merged()
    np.testing.assert_array_equal(np.unique(twice.points, axis=0), np.unique(X, axis=0))
    assert type(twice.block["x"]) is type(xp.ones(1))
    assert twice.total == 2_000


def test_keys_do_not_depend_on_blocks_or_on_the_layout():
    X = np.random.default_rng(0).normal(size=(2_000, 40))
    keys = row_keys(X)
    for size in (1, 7, 300):
        pieces = [row_keys(X[start : start + size]) for start in range(0, len(X), size)]
        np.testing.assert_array_equal(keys, np.concatenate(pieces))
    np.testing.assert_array_equal(keys, row_keys(np.asfortranarray(X)))
    np.testing.assert_array_equal(keys[::2], row_keys(X[::2]))
    np.testing.assert_array_equal(keys[::-1], row_keys(np.asfortranarray(X)[::-1]))


def test_samples_are_mapped_in_pieces():
    """The memory of a sample is that of its rows, and of one piece while it is mapped."""
    X = np.random.default_rng(0).normal(size=(200_000, 8))
    rows = Rows(ArrayTable(X)).mapped(np.ones(8), np.eye(8)[:, ::-1])
    tracemalloc.start()
    try:
        some = rows.sample(150_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    whole = Rows(ArrayTable(X)).sample(150_000)
    np.testing.assert_allclose(some.points[:, ::-1] + 1, whole.points, atol=1e-12)
    assert peak < 2.2 * some.points.nbytes  # with its row numbers; 4 if all were mapped at once


def test_shares_part_the_rows_by_content(X):
    parts = [Rows.of(X).split(i, 4) for i in range(4)]
    assert sum(part.kept for part in parts) == 1_000
    assert min(part.kept for part in parts) > 180
    rest = Rows.of(X).split(0, 4, out=True)
    assert rest.kept == 1_000 - parts[0].kept
    turned = np.random.default_rng(0).permutation(1_000)
    again = Rows.of(X[turned]).split(0, 4)
    assert {tuple(x) for x in again.points} == {tuple(x) for x in parts[0].points}


def test_shares_outlive_maps_and_memory(X):
    mapped = Rows.of(X).mapped(X.mean(axis=0), np.linalg.qr(X[:3])[0])
    held = mapped.hold()
    np.testing.assert_allclose(held.split(1, 2).points, mapped.split(1, 2).points)
    again = held.mapped(None, 2.0).sample(600, 0)
    inside = {tuple(x) for x in held.mapped(None, 2.0).split(1, 2).points}
    assert all(tuple(x) in inside for x in again.split(1, 2).points)

    def by_share(block):
        return {"n": np.bincount(shares_of(block, 2), minlength=2)}

    np.testing.assert_array_equal(
        mapped.fold(by_share, keyed=True)["n"], [mapped.split(i, 2).kept for i in range(2)]
    )


def test_shares_on_a_grid_do_not_depend_on_units_and_origin(X):
    """Those by the bits of rows do: the control."""
    units, offsets = np.array([2.0**-20, -3.7, 1e6]), np.array([1e3, -2.0, 1e5])
    there = X * units + offsets * X.std(axis=0) * units

    def shares(rows, grid):
        view = Rows.of(rows)
        view = view.keyed_on(mean_and_covariance(view)) if grid else view
        found = np.full(len(rows), -1)
        for i in range(3):
            kept = view.split(i, 3).keep[0]({"x": rows})
            found[kept] = i
            # mapped, held, and weighed with all rows: the same rows
            every = np.arange(len(rows))
            mapped = view.mapped(X.mean(axis=0), 2.0)
            for held in (mapped.hold(), view.take(every)):
                assert held.split(i, 3).kept == kept.sum()
        return found

    np.testing.assert_array_equal(shares(X, grid=True), shares(there, grid=True))
    assert np.mean(shares(X, grid=False) == shares(there, grid=False)) < 0.6
    sizes = np.bincount(shares(X, grid=True), minlength=3)
    assert np.all(np.abs(sizes / len(X) - 1 / 3) < 4 * np.sqrt(2 / 9 / len(X)))


def test_keys_on_a_grid_do_not_depend_on_blocks(X):
    rows = Rows.of(X)
    rows = rows.keyed_on(mean_and_covariance(rows)).mapped(X.mean(axis=0), np.eye(X.shape[1]))

    def by_share(block):
        return {"n": np.bincount(shares_of(block, 3), minlength=3)}

    whole = rows.fold(by_share, keyed=True)["n"]
    pieces = replace(rows, rows_per_block=7).fold(by_share, keyed=True)["n"]
    np.testing.assert_array_equal(whole, pieces)
    np.testing.assert_array_equal(whole, [rows.split(i, 3).kept for i in range(3)])
