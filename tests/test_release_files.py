"""Files that state versions, dependencies or commands agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT, TOOLS = SETTINGS["project"], SETTINGS["tool"]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))


def read(path):
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_the_version_is_the_same_everywhere():
    assert read("CITATION.cff")["version"] == PROJECT["version"]
    assert read("recipe/recipe.yaml")["context"]["version"] == PROJECT["version"]
    released = re.findall(
        r"^## (\d\S*) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M
    )
    citation = read("CITATION.cff")
    assert released[0] == (citation["version"], citation["date-released"])


def test_links_of_the_long_description_are_absolute():
    """PyPI shows it, where links to files of the repository lead nowhere."""
    hook = TOOLS["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    (fragment,) = hook["fragments"]
    text = (ROOT / fragment["path"]).read_text("utf-8")
    assert "](docs/" in text
    for each in hook["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S))
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    source = PROJECT["urls"]["Source"]
    assert f"]({source}/blob/main/docs/tutorial.md)" in text


def test_the_versions_of_python_are_the_same_everywhere():
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    supported = SpecifierSet(PROJECT["requires-python"])
    minors = [f"3.{minor}" for minor in range(30)]
    assert claimed == [v for v in minors if v in supported and v in claimed]
    assert claimed[0] == next(version for version in minors if version in supported)
    for job in ("test", "windows"):
        assert WORKFLOW["jobs"][job]["strategy"]["matrix"]["python"] == claimed
    page = (ROOT / "docs/development.md").read_text("utf-8")
    assert re.findall(r"^\| (3\.\d+) \|", page, re.M) == claimed


def test_the_recipe_has_the_dependencies_of_the_package():
    recipe = read("recipe/recipe.yaml")["requirements"]
    python = f"python {PROJECT['requires-python']}"
    own = [Requirement(each) for each in PROJECT["dependencies"]]
    assert recipe["run"] == [python, *(f"{each.name} {each.specifier}" for each in own)]
    extras = PROJECT["optional-dependencies"]
    bounds = {
        f"{r.name} {r.specifier}" for each in extras.values() for r in map(Requirement, each)
    }
    assert set(recipe["run_constraints"]) <= bounds


def bounds_of(requirements, operator):
    """Return the versions that requirements have after an operator, by name."""
    found = {}
    for requirement in map(Requirement, requirements):
        for bound in requirement.specifier:
            if bound.operator == operator:
                found.setdefault(requirement.name, set()).add(Version(bound.version))
    return found


def test_the_lowest_versions_are_the_lower_bounds():
    """`make test-lowest` installs them."""
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    direct = [each for some in lists for each in some if Requirement(each).name != PROJECT["name"]]
    bounds = bounds_of(direct, ">=")
    assert set(bounds) == {Requirement(each).name for each in direct}
    assert all(len(versions) == 1 for versions in bounds.values())
    lines = (ROOT / "constraints/lowest.txt").read_text("utf-8").splitlines()
    pinned = bounds_of([each for line in lines if (each := line.split("#")[0].strip())], "==")
    assert {name: pinned.get(name) for name in bounds} == bounds


@pytest.mark.parametrize("path", [".pre-commit-config.yaml", ".github/workflows/ci.yml"])
def test_targets_of_make_that_are_named_exist(path):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"\bmake ([\w-]+)", (ROOT / path).read_text("utf-8"))
    assert targets
    assert set(targets) - {"and"} <= set(re.findall(r"^([\w-]+):", makefile, re.M))
