"""Random circuits, inputs and projections, for tests."""

from __future__ import annotations

import numpy as np

from implicitmoments.arrays import Floats, outer_rows, to_numpy
from implicitmoments.circuits import Circuit, scalar, unit, vector
from implicitmoments.moments.chain import SymmetricChain
from implicitmoments.projections import RecursiveProjection

__all__ = [
    "random_circuit",
    "random_inputs",
    "random_projection",
]


def chain_of_powers(vectors: Floats, order: int, noise: Floats | None = None) -> SymmetricChain:
    """Return exactly symmetric nested subspaces, spanned by the powers of vectors (k, p).

    Step r spans their powers with r factors. ``noise`` (p, p) is the identity by default.
    """
    steps, image = [], np.ones((len(vectors), 1))
    for _ in range(order):
        joined = to_numpy(outer_rows(image, vectors))
        _, sizes, right = np.linalg.svd(joined, full_matrices=False)
        basis = right[sizes > 1e-10 * sizes[0]]
        # the identity is the basis of the whole space
        steps.append(np.eye(len(basis)) if len(basis) == joined.shape[1] else basis)
        image = joined @ steps[-1].T
    return SymmetricChain(tuple(steps), np.eye(vectors.shape[1]) if noise is None else noise)


def random_circuit(rng: np.random.Generator, order: int, *, extra: int = 2) -> Circuit:
    """Return a circuit of random operations on shared wires.

    Parameters
    ----------
    rng : numpy Generator
        Source of randomness.
    order : int
        Order of the circuit.
    extra : int, default 2
        Number of additions and scalings at every order, besides the appends.

    Returns
    -------
    Circuit

    See Also
    --------
    random_inputs : Random inputs of a circuit.
    random_projection : A random projection.

    Examples
    --------
    >>> random_circuit(np.random.default_rng(0), order=3).order
    3
    """
    scalars: list[Circuit] = [unit(), scalar("a"), scalar("b")]
    vectors: list[Circuit] = [vector("x"), vector("y"), vector("z")]

    def pick(pool: list[Circuit]) -> Circuit:
        return pool[int(rng.integers(len(pool)))]

    def mix(pool: list[Circuit]) -> None:
        for _ in range(extra):
            choice = rng.integers(4)
            if choice == 0:
                pool.append(pick(pool) + pick(pool))
            elif choice == 1:
                pool.append(pick(pool) - pick(pool))
            elif choice == 2:
                pool.append(pick(scalars) * pick(pool))
            else:
                pool.append(float(rng.normal()) * pick(pool))

    mix(scalars)
    vectors += [pick(scalars).append(pick(vectors)) for _ in range(2)]
    mix(vectors)
    pools = [scalars, vectors]
    for s in range(2, order + 1):
        pools.append([pick(pools[s - 1]).append(pick(vectors)) for _ in range(3)])
        mix(pools[s])
    return pick(pools[order]) + pick(pools[order])


def random_inputs(
    rng: np.random.Generator, circuit: Circuit, n_samples: int, n_features: int
) -> dict[str, Floats]:
    """Return standard normal inputs of a circuit.

    Parameters
    ----------
    rng : numpy Generator
        Source of randomness.
    circuit : Circuit
        The circuit.
    n_samples, n_features : int
        Shape of the vectors.

    Returns
    -------
    dict of str to array
        One array per input.

    See Also
    --------
    random_circuit : A random circuit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> circuit = vector("x").append(vector("y"))
    >>> {name: a.shape for name, a in random_inputs(rng, circuit, 5, 3).items()}
    {'x': (5, 3), 'y': (5, 3)}
    """
    return {
        name: rng.normal(size=(n_samples, n_features) if order else n_samples)
        for name, order in circuit.inputs.items()
    }


def random_projection(
    rng: np.random.Generator, n_features: int, order: int, *, width: int
) -> RecursiveProjection:
    """Return a projection with random orthonormal steps.

    Parameters
    ----------
    rng : numpy Generator
        Source of randomness.
    n_features, order : int
        Length and number of slots.
    width : int
        Largest number of rows of a step.

    Returns
    -------
    RecursiveProjection

    See Also
    --------
    random_circuit : A random circuit.

    Examples
    --------
    >>> P = random_projection(np.random.default_rng(0), n_features=3, order=4, width=2)
    >>> P.order, P.width <= 2
    (4, True)
    """
    projection = RecursiveProjection.identity(n_features, 0)
    for _ in range(order):
        columns = projection.dim * n_features
        rows = int(rng.integers(1, min(width, columns) + 1))
        q, _ = np.linalg.qr(rng.normal(size=(columns, rows)))
        projection = projection.extend(q.T)
    return projection
