"""2 · Circuits: a small language for sequential tensor computations.

A circuit is a plan. It knows its order, inputs and cost, and uses no array library.
"""

from implicitmoments.circuits.build import hermite, power, scalar, unit, vector
from implicitmoments.circuits.describe import describe
from implicitmoments.circuits.nodes import Circuit

__all__ = ["Circuit", "describe", "hermite", "power", "scalar", "unit", "vector"]
