"""Shares of rows, which depend on their content alone."""

from dataclasses import replace

import numpy as np
import pytest

from implicitmoments.rows import Rows, Whitening, shares_of


@pytest.fixture(name="X")
def make_points(rng):
    return rng.standard_normal((1_000, 3)) + 5.0


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
        view = view.keyed_on(Whitening.of(view).grid) if grid else view
        found = np.full(len(rows), -1)
        for i in range(3):
            kept = view.split(i, 3).keep[0]({"x": rows})
            found[kept] = i
            # mapped, held, and weighed with all rows: the same rows
            every = np.arange(len(rows))
            mapped = view.mapped(X.mean(axis=0), 2.0)
            single = view.hold(single=grid)  # keys by bits are those of the precision
            for held in (mapped.hold(), single, view.take(every)):
                assert held.split(i, 3).kept == kept.sum()
        return found

    np.testing.assert_array_equal(shares(X, grid=True), shares(there, grid=True))
    assert np.mean(shares(X, grid=False) == shares(there, grid=False)) < 0.6
    sizes = np.bincount(shares(X, grid=True), minlength=3)
    assert np.all(np.abs(sizes / len(X) - 1 / 3) < 4 * np.sqrt(2 / 9 / len(X)))


def test_keys_on_a_grid_do_not_depend_on_blocks(X):
    rows = Rows.of(X)
    rows = rows.keyed_on(Whitening.of(rows).grid).mapped(X.mean(axis=0), np.eye(X.shape[1]))

    def by_share(block):
        return {"n": np.bincount(shares_of(block, 3), minlength=3)}

    whole = rows.fold(by_share, keyed=True)["n"]
    pieces = replace(rows, rows_per_block=7).fold(by_share, keyed=True)["n"]
    np.testing.assert_array_equal(whole, pieces)
    np.testing.assert_array_equal(whole, [rows.split(i, 3).kept for i in range(3)])
