"""Numbers of a pass that are no sums: the largest of all blocks."""

import numpy as np
import pytest

from implicitmoments.rows import LARGEST, ArrayTable, add_sums


def test_the_larger_is_kept_and_sums_are_added():
    one, other = {LARGEST + "a": 2.0, "a": 2.0}, {LARGEST + "a": -1.0, "a": -1.0, LARGEST + "b": 3}
    for total in (add_sums(one, other), add_sums(other, one)):
        assert total == {LARGEST + "a": 2.0, "a": 1.0, LARGEST + "b": 3}


@pytest.mark.parametrize("rows_per_block", [1, 7, 100])
def test_a_pass_finds_the_largest(rng, rows_per_block):
    x = rng.standard_normal((100, 2))

    def measure(block, rows):
        return {LARGEST + "x": float(np.max(block["x"])), "rows": len(rows)}

    sums = ArrayTable(x).fold(measure, range(100), rows_per_block)
    assert sums == {LARGEST + "x": x.max(), "rows": 100}
