"""The names of the package, which are imported when they are asked for."""

import ast
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

import implicitmoments as im

HERE = Path(__file__).parent


def test_every_name_is_there():
    assert dir(im) == im.__all__
    assert len({id(getattr(im, name)) for name in im.__all__}) == len(im.__all__)
    there = {}
    exec("from implicitmoments import *", there)
    assert set(im.__all__) <= set(there)
    assert im.SphericalMixture is im.mixture.SphericalMixture
    with pytest.raises(AttributeError) as missing:
        _ = im.nothing
    assert (missing.value.name, missing.value.obj) == ("nothing", im)
    with pytest.raises(ImportError) as missing:
        exec("from implicitmoments import nothing")
    assert missing.value.name == "implicitmoments"


def load_script():
    spec = importlib.util.spec_from_file_location("public_names", HERE / "public_names.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script():
    return load_script()


def test_public_names_and_parameters_are_those_of_the_list(script):
    listed = script.LIST.read_text("utf-8").splitlines()
    assert listed == script.public_names(), "`python tests/public_names.py` writes the list anew"


def test_a_parameter_or_attribute_of_another_name_is_noticed(script):
    class Before:
        """A model.

        Attributes
        ----------
        means_, weights_ : arrays
        """

        def fit(self, X, *, checkpoint=None): ...

        @property
        def n(self): ...

    class After(Before):
        """A model.

        Attributes
        ----------
        means_, mixing_ : arrays
        """

        def fit(self, X, *, journal=None): ...

    Before.__module__ = After.__module__ = "implicitmoments.example"
    lines = [set(script.members_of("Model", kind)) for kind in (Before, After)]
    assert lines[0] - lines[1] == {"Model.fit(X, *, checkpoint)", "Model.weights_"}
    assert lines[0] & lines[1] == {"Model.means_", "Model.n"}


@pytest.mark.parametrize("home", load_script().HOMES)
def test_every_public_name_is_there(home):
    module = importlib.import_module(home)
    assert all(hasattr(module, name) for name in module.__all__)


def _constants(path):
    for node in ast.parse(path.read_text("utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (name.id for name in names if isinstance(name, ast.Name))


def test_no_module_binds_a_name_twice():
    source = Path(im.__file__).parent
    twice = {
        str(path.relative_to(source)): again
        for path in sorted(source.rglob("*.py"))
        if (again := [name for name, n in Counter(_constants(path)).items() if n > 1])
    }
    assert twice == {}


def test_slow_tests_are_named_as_they_are():
    listed = {name.partition("[")[0] for name in (HERE / "slow.txt").read_text().splitlines()}
    for name in listed:
        file, _, function = name.partition("::")
        assert f"\ndef {function}(" in (HERE.parent / file).read_text(), name
