"""`make test-lowest` installs the versions that pyproject.toml gives as the lowest."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def lowest(requirements, operator):
    """Return the version of each requirement that has the operator, by name."""
    found = {}
    for requirement in map(Requirement, requirements):
        for bound in requirement.specifier:
            if bound.operator == operator:
                found.setdefault(requirement.name, set()).add(Version(bound.version))
    return found


def direct_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        every += extra
    return [each for each in every if Requirement(each).name != project["name"]]


def test_the_lowest_versions_are_the_lower_bounds():
    lines = (ROOT / "constraints/lowest.txt").read_text().splitlines()
    pinned = [line.split("#")[0] for line in lines if line.split("#")[0].strip()]
    found, direct = lowest(pinned, "=="), lowest(direct_dependencies(), ">=")
    assert {name: found.get(name) for name in direct} == direct


def test_every_direct_dependency_has_one_lower_bound():
    bounds = lowest(direct_dependencies(), ">=")
    assert set(bounds) == {Requirement(each).name for each in direct_dependencies()}
    assert all(len(versions) == 1 for versions in bounds.values())


def test_versions_that_do_not_work_are_excluded():
    bounds = lowest(direct_dependencies(), ">=")
    # sees the BLAS of NumPy 2; reads arrays; prints help and suggests commands
    for name, version in (("threadpoolctl", "3.5"), ("zarr", "3.1.3"), ("typer", "0.20")):
        assert bounds[name] == {Version(version)}
