"""What several tests use: checks of errors, vectors beside the true ones, and dense tensors."""

from contextlib import contextmanager
from types import SimpleNamespace

import cloudpickle
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.utils._param_validation import InvalidParameterError

import implicitmoments
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.notes import CodedError
from implicitmoments.rows import ArrayTable, Table
from implicitmoments.saving.models import ESTIMATORS

__all__ = ["ESTIMATORS", "PICTURED", "Watched", "match_rows", "refuses"]
PICTURED = [name for name in ESTIMATORS if getattr(implicitmoments, name).captions]


class Watched(Table):
    """Rows of arrays that are read a few at a time, and measured by copies that travelled.

    ``sizes`` has the bytes of every measure.
    """

    def __init__(self, most=65_536, **columns):
        self.near, self.most, self.sizes = ArrayTable(**columns), most, []
        self.n_rows, self.n_features = self.near.n_rows, self.near.n_features

    def blocks(self, size):
        """Read the rows, unless too many are asked for at once."""
        if min(size, self.n_rows) > self.most:
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
        Any of them is accepted; ``"invalid_parameter"`` stands for scikit-learn's error.
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
    except InvalidParameterError as error:  # scikit-learn's, which has no code
        if "invalid_parameter" not in codes:
            raise AssertionError(f"expected {' or '.join(codes)}, got {error}") from error
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


def chain_of_powers(vectors, order, noise=None):
    """Return exactly symmetric nested subspaces, spanned by the powers of vectors (k, p).

    Step r spans their powers with r factors. ``noise`` (p, p) is the identity by default.
    """
    steps, image = [], np.ones((len(vectors), 1))
    for _ in range(order):
        joined = (image[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
        _, sizes, right = np.linalg.svd(joined, full_matrices=False)
        basis = right[sizes > 1e-10 * sizes[0]]
        # the identity is the basis of the whole space
        steps.append(np.eye(len(basis)) if len(basis) == joined.shape[1] else basis)
        image = joined @ steps[-1].T
    return SymmetricChain(tuple(steps), np.eye(vectors.shape[1]) if noise is None else noise)


def dense_basis(chain, n):
    """Return the first n steps of a chain as one matrix (k_n, p ** n)."""
    matrix = np.ones((1, 1))
    for step in chain.steps[:n]:
        matrix = np.asarray(step) @ np.kron(matrix, np.eye(chain.p))
    return matrix


def dense_hermite(x, order, noise):
    """Return He_n(x) of noise with a covariance (p, p), as (n_rows, p, ..., p)."""
    sums = [np.ones(len(x)), x]
    for n in range(2, order + 1):
        paired = np.einsum("n...,ab->n...ab", sums[n - 2], noise)
        pairs = sum(np.moveaxis(paired, -2, 1 + j) for j in range(n - 1))
        sums.append(np.einsum("n...,na->n...a", sums[n - 1], x) - pairs)
    return sums[order]
