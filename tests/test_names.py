"""The public names of the package."""

from pathlib import Path

import pytest

import implicitmoments as im
import public_names

HERE = Path(__file__).parent


def test_every_name_is_there():
    assert dir(im) == im.__all__
    assert len({id(getattr(im, name)) for name in im.__all__}) == len(im.__all__)
    there = {}
    exec("from implicitmoments import *", there)
    assert set(im.__all__) <= set(there)
    with pytest.raises(AttributeError) as missing:
        _ = im.nothing
    assert (missing.value.name, missing.value.obj) == ("nothing", im)


def test_public_names_and_parameters_are_those_of_the_list():
    listed = public_names.LIST.read_text("utf-8").splitlines()
    found = public_names.public_names()
    assert listed == found, "`python tests/public_names.py` writes the list anew"


def test_a_parameter_or_attribute_of_another_name_is_noticed():
    class Before:
        """A model.

        Attributes
        ----------
        means_, weights_ : arrays
        """

        def fit(self, X, *, checkpoint=None): ...

    class After(Before):
        """A model.

        Attributes
        ----------
        means_, mixing_ : arrays
        """

        def fit(self, X, *, journal=None): ...

    Before.__module__ = After.__module__ = "implicitmoments.example"
    lines = [set(public_names.members_of("Model", kind)) for kind in (Before, After)]
    assert lines[0] - lines[1] == {"Model.fit(X, *, checkpoint)", "Model.weights_"}
    assert lines[0] & lines[1] == {"Model.means_"}


def test_slow_tests_are_named_as_they_are():
    listed = {name.partition("[")[0] for name in (HERE / "slow.txt").read_text().splitlines()}
    for name in listed:
        file, _, function = name.partition("::")
        assert f"\ndef {function}(" in (HERE.parent / file).read_text(), name
