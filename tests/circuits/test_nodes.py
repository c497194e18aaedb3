import itertools

import pytest

from implicitmoments.circuits import hermite, power, scalar, unit, vector
from support import refuses

x, y, c = vector("x"), vector("y"), scalar("c")


def test_orders_follow_the_operations():
    assert (x.order, c.order, unit().order) == (1, 0, 0)
    assert x.append(y).append(x).order == 3
    assert (c * x.append(y)).order == (x.append(y) * c).order == 2
    assert (x.append(y) - 2 * y.append(x)).order == 2
    assert (-x / 3).order == 1
    assert (c * c).order == 0


def test_size_counts_operations_and_shared_wires_once():
    shared = x.append(y)
    assert x.size == 0
    assert shared.size == 1
    assert (shared + shared).size == 2
    assert (shared + x.append(y)).size == 3
    assert (2.0 * (c * shared)).size == 3


def test_circuits_are_summed():
    assert sum([x, y, x]).order == 1
    with pytest.raises(TypeError):
        1 + x


def test_hermite_has_six_operations_a_slot():
    sizes = [hermite(x, y, n).size for n in range(2, 40)]
    steps = {after - before for before, after in itertools.pairwise(sizes[1:])}
    assert steps == {6}
    assert hermite(x, y, 0).order == 0
    assert hermite(x, y, 1).inputs == {"x": 1}


def test_a_chain_of_thousands_does_not_meet_the_recursion_limit():
    assert power(x, 5_000).size == 5_000


def test_inputs_are_collected_with_their_orders():
    assert dict((c * hermite(x, y, 3)).inputs) == {"c": 0, "x": 1, "y": 1}


def test_repr_says_order_size_and_inputs():
    assert repr(c * x.append(y)) == "<circuit of order 2, size 2, inputs: c, x, y>"
    assert repr(unit()) == "<circuit of order 0, size 0, inputs: none>"


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: x + x.append(y), "orders_differ"),
        (lambda: x.append(y) * x, "factor_not_a_scalar"),
        (
            lambda: x.append(x.append(y)),
            "not_a_vector",
        ),
        (lambda: x.append(c), "not_a_vector"),
        (lambda: scalar("x") * vector("x"), "name_of_two_kinds"),
        (lambda: vector(""), "name_empty"),
        (lambda: power(c, 2), "not_a_vector"),
        (lambda: hermite(x, y, -1), "order_negative"),
        (lambda: hermite(x, y, 171), "order_too_high"),
    ],
)
def test_what_does_not_fit_is_said_when_it_is_built(build, code):
    with refuses(code):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: x.append("y"),
        lambda: x + 1,
        lambda: x * "2",
        lambda: x / x,
        lambda: vector(3),
        lambda: power(x, 2.5),
        lambda: hermite(x, y, True),
        lambda: hermite("x", y, 2),
    ],
)
def test_what_is_not_a_circuit_is_a_type_error(build):
    with pytest.raises(TypeError):
        build()
