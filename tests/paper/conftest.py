"""Random circuits and projections, and problems whose moments are known exactly."""

import functools

import numpy as np
import pytest

from implicitmoments.paper import Problem, number, power, scalar, vector
from implicitmoments.paper.projections import Projection


def build_circuit(rng, order):
    """Return a circuit of random operations with shared wires, in x, y, c and s."""
    vectors = [vector("x"), vector("y"), vector("x") + scalar("c") * vector("y")]
    scalars = [scalar("c"), scalar("s"), number(-1.5), scalar("c") * scalar("s")]
    wires = [number(1.0), scalars[3]]
    for _ in range(order):
        appended = [wire.append(vectors[rng.integers(3)]) for wire in wires]
        total = appended[0] + scalars[rng.integers(4)] * appended[1]
        wires = [total, scalars[rng.integers(4)] * (total - 2.0 * appended[rng.integers(2)])]
    return wires[0] + wires[1]


def draw_inputs(rng, n, d):
    return {
        "x": rng.normal(size=(n, d)),
        "y": rng.normal(size=(n, d)),
        "c": rng.normal(size=n),
        "s": rng.normal(size=n),
    }


def build_projection(rng, d, order, width):
    """Return a random recursive pseudo-projection of dimensions up to ``width``."""
    projection = Projection(d)
    for _ in range(order):
        columns = projection.dim * d
        rows = min(columns, int(rng.integers(1, width + 1)))
        projection = projection.extend(np.linalg.qr(rng.normal(size=(columns, rows)))[0].T)
    return projection


def build_population(weights, vectors):
    """Return the problem whose k samples are the hidden vectors: averages are the moments."""
    k, d = vectors.shape

    def draw(order, n, rng):
        assert n == k
        return {"v": vectors, "c": k * weights}

    return Problem(d, lambda order: scalar("c") * power(vector("v"), order), draw)


def find_gauss_nodes(n, d):
    """Return nodes (n ** d, d) and weights, exact under N(0, I) to degree 2n − 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    points = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    products = functools.reduce(np.multiply.outer, [weights / weights.sum()] * d)
    return points, np.ravel(products)


@pytest.fixture(scope="session")
def random_circuit():
    return build_circuit


@pytest.fixture(scope="session")
def random_inputs():
    return draw_inputs


@pytest.fixture(scope="session")
def random_projection():
    return build_projection


@pytest.fixture(scope="session")
def population():
    return build_population


@pytest.fixture(scope="session")
def gauss_nodes():
    return find_gauss_nodes
