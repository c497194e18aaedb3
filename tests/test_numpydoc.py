"""Docstrings of the public names document every parameter and the return value."""

import dataclasses
import importlib
import inspect
import re
import sys
from types import ModuleType

import pytest
from numpydoc.validate import validate

from public_names import HOMES

# parameters missing, unknown or out of order; no section Returns or Yields
CHECKED = {"PR01", "PR02", "PR03", "RT01", "YD01"}
PUBLIC = [
    found
    for home in map(importlib.import_module, HOMES)
    for found in (getattr(home, name) for name in home.__all__)
    if callable(found) and not (inspect.isclass(found) and issubclass(found, Exception))
]
RECORDS = sorted({each for each in PUBLIC if dataclasses.is_dataclass(each)}, key=str)


def methods_of(kind):
    """Yield the public methods that this library defines, where they are defined first."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("implicitmoments")]
    for name in sorted({name for base in own for name in vars(base) if name[0] != "_"}):
        *_, first = (base for base in own if name in vars(base))
        if inspect.isroutine(getattr(first, name)):
            yield f"{first.__module__}.{first.__qualname__}.{name}"


def documented():
    """Yield the dotted names of public functions, classes and methods."""
    for found in PUBLIC:
        yield f"{found.__module__}.{found.__qualname__}"
        yield from methods_of(found) if inspect.isclass(found) else ()


def errors_of(name):
    """Return the codes of what numpydoc finds; fields of records stand under Attributes."""
    module, _, last = name.rpartition(".")
    record = dataclasses.is_dataclass(getattr(sys.modules.get(module), last, None))
    checked = CHECKED - {"PR01"} if record else CHECKED
    return [error for error in validate(name)["errors"] if error[0] in checked]


@pytest.mark.parametrize("name", sorted(set(documented())))
def test_parameters_and_returns_are_documented(name):
    assert errors_of(name) == []


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_fields_of_records_are_documented(record):
    text = "\n".join(base.__doc__ or "" for base in record.__mro__)
    named = re.findall(r"^ *(\w+(?:, \w+)*) : ", text, re.M)
    documented = {name for names in named for name in names.split(", ")}
    assert {field.name for field in dataclasses.fields(record)} <= documented


def test_what_is_not_documented_is_noticed(monkeypatch):
    def half(x, y):
        """Halve a number.

        Parameters
        ----------
        x : float
            The number.
        """
        return x / 2

    module = ModuleType("undocumented")
    module.half = half
    monkeypatch.setitem(sys.modules, "undocumented", module)
    assert [code for code, _ in errors_of("undocumented.half")] == ["PR01", "RT01"]
