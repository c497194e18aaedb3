"""The public names, with parameters and attributes, as a list that a test compares with.

``python tests/public_names.py`` writes the list, tests/data/public_names.txt.
"""

import importlib
import inspect
import re
from functools import cached_property
from pathlib import Path

LIST = Path(__file__).parent / "data/public_names.txt"
HOMES = [
    "implicitmoments",
    *(
        f"implicitmoments.{folder}"
        for folder in (*("datasets", "moments", "paper", "plot", "report", "rows"),)
    ),
]
ROUTING = re.compile("set_.*_request")  # written by scikit-learn, which may change them
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def parameters_of(function):
    """Yield the parameters as a signature has them, without defaults and types."""
    keyword_only = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*"
        if name != "self":
            yield STARS.get(parameter.kind, "") + name


def attributes_of(kind):
    """Return the names in the section Attributes of a docstring."""
    text = inspect.getdoc(kind) or ""
    section = re.search(r"^Attributes\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", text, re.M | re.S)
    found = re.findall(r"^(\w+(?:, \w+)*) : ", section.group(1), re.M) if section else []
    return {name for names in found for name in names.split(", ")}


def members_of(name, kind):
    """Yield the public methods and attributes that this library defines."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("implicitmoments")]
    held = {each for base in own for each in vars(base) if each[0] != "_"}
    held = {each for each in held if not ROUTING.fullmatch(each)}
    methods = {each for each in held if callable(getattr(kind, each))}
    for each in sorted(methods):
        yield f"{name}.{each}({', '.join(parameters_of(getattr(kind, each)))})"
    computed = (property, cached_property)
    answers = {each for each in held - methods if isinstance(getattr(kind, each), computed)}
    yield from (f"{name}.{each}" for each in sorted(answers | attributes_of(kind)))


def public_names():
    """Return one line for each public name, method and documented attribute."""
    lines = set()
    for home in HOMES:
        module = importlib.import_module(home)
        for name in module.__all__:
            found, full = getattr(module, name), f"{home}.{name}"
            if not callable(found):
                lines.add(full)
                continue
            error = inspect.isclass(found) and issubclass(found, Exception)
            lines.add(full if error else f"{full}({', '.join(parameters_of(found))})")
            if inspect.isclass(found) and not error:
                lines |= set(members_of(full, found))
    return sorted(lines)


if __name__ == "__main__":
    LIST.write_text("\n".join(public_names()) + "\n", encoding="utf-8")
