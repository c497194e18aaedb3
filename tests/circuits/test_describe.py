import subprocess
import sys

from implicitmoments.circuits import describe, hermite, power, scalar, unit, vector
from support import refuses

x, y, c = vector("x"), vector("y"), scalar("c")


def test_every_wire_is_listed_once_with_its_order():
    circuit = c * hermite(x, y, 3)
    said = describe(circuit, n_features=10, width=4)
    operations = [wire for wire in said.wires if wire.flops]
    assert len(operations) == said.size == circuit.size
    assert said.wires[-1].order == said.order == 3
    assert len(str(said).splitlines()) > len(said.wires)  # a line each, and a head


def test_cost_is_linear_in_the_order_and_never_dense():
    costs = [describe(hermite(x, y, m), n_features=50, width=8).flops for m in (10, 20, 30)]
    assert costs[2] - costs[1] == costs[1] - costs[0]
    said = describe(hermite(x, y, 12), n_features=50, width=8)
    assert said.largest_wire == 50
    assert said.dense_numbers == 50**12
    assert "2.4e+20" in str(said)


def test_counts_of_hundreds_of_digits_are_written_short():
    assert "~1e400" in str(describe(power(x, 400), n_features=10, width=2))


def test_a_circuit_without_inputs_is_described():
    assert describe(2 * unit(), n_features=3, width=1).flops == 1


def test_widths_below_one_are_refused():
    with refuses("not_positive"):
        describe(x, n_features=3, width=0)


def test_circuits_need_no_array_library():
    code = (
        "import sys, types;"
        "package = types.ModuleType('implicitmoments');"
        "import importlib.util as u;"
        "package.__path__ = list(u.find_spec('implicitmoments').submodule_search_locations);"
        "sys.modules['implicitmoments'] = package;"
        "import implicitmoments.circuits;"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
