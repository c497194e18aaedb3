"""What several tests use: checks of errors, and estimated vectors beside the true ones."""

from contextlib import contextmanager
from types import SimpleNamespace

import cloudpickle
import numpy as np
from scipy.optimize import linear_sum_assignment

from implicitmoments.notes import CodedError
from implicitmoments.rows import ArrayTable, Table


class Watched(Table):
    """Rows of arrays that are read a few at a time, and measured by copies that travelled.

    ``sizes`` has the bytes of every measure.
    """

    def __init__(self, most=65_536, **columns):
        self.near, self.most, self.sizes = ArrayTable(**columns), most, []
        self.n_rows, self.n_features = self.near.n_rows, self.near.n_features

    def blocks(self, size):
        """Read the rows, unless too many are asked for at once."""
        if size > self.most:
            raise MemoryError(f"{size} rows were asked for at once")
        yield from self.near.blocks(size)

    def fold(self, measure, size, after=None):
        """Measure by a copy."""
        sent = cloudpickle.dumps(measure)
        self.sizes.append(len(sent))
        return super().fold(cloudpickle.loads(sent), size, after)


@contextmanager
def refuses(*codes, **values):
    """Check that the body raises an error with one of the given codes.

    Parameters
    ----------
    *codes : str
        Any of them is accepted.
    **values : object
        Values that the error must carry.

    Yields
    ------
    namespace
        Its attribute ``error`` is the exception, after it was raised.
    """
    caught = SimpleNamespace(error=None)
    try:
        yield caught
    except CodedError as error:
        if error.code not in codes:
            raise AssertionError(f"expected {' or '.join(codes)}, got {error.code}") from error
        wrong = {
            name: error.values.get(name)
            for name in values
            if error.values.get(name) != values[name]
        }
        if wrong:
            raise AssertionError(f"{error.code} carries {wrong}, expected {values}") from error
        caught.error = error
        return
    raise AssertionError(f"nothing was raised; expected {' or '.join(codes)}")


def match_rows(found, true):
    """Match found vectors to the true ones, one to one, with the least sum of distances.

    ``found[order[i]]`` is matched to ``true[i]``, at ``distances[i]``.
    """
    apart = np.linalg.norm(found[:, None] - true[None], axis=2)
    rows, columns = linear_sum_assignment(apart)
    order = rows[np.argsort(columns)]
    return order, apart[order, np.sort(columns)]
