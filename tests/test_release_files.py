"""Files that state the version, the dependencies or the versions of Python agree."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT, TOOLS = SETTINGS["project"], SETTINGS["tool"]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))


def read(path):
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def pythons():
    """Return the versions of Python that the package claims."""
    stem = "Programming Language :: Python :: "
    found = [each.removeprefix(stem) for each in PROJECT["classifiers"] if each.startswith(stem)]
    return [version for version in found if "." in version]


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
    claimed = pythons()
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


def commands_of(target, makefile):
    """Return the commands of a target, without what only make knows."""
    body = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.M).group(1)
    return [line.strip() for line in body.splitlines()]


def test_windows_runs_the_commands_of_make_test():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    variables = dict(re.findall(r"^(\w+) :=\s+(.*)$", makefile, re.M))
    expected = []
    for target in ("lint", "types", "layers", "size", "docs", "unit"):
        for command in commands_of(target, makefile):
            whole = re.sub(r"\$\((PYTEST|SPHINX)\)", lambda name: variables[name[1]], command)
            expected.append(re.sub(r"\$\(BIN\)/|\b[A-Z_]+=\S+ ", "", whole))
    steps = WORKFLOW["jobs"]["windows"]["steps"]
    run = [step["run"] for step in steps if "run" in step]
    install, *checks = run
    assert checks == expected
    extras = re.search(r'"(\.\[[\w,]+\])"', commands_of(r"\$\(VENV\)/\.dev", makefile)[0])
    assert install == f'python -m pip install --editable "{extras.group(1)}"'
    assert [step["run"] for step in WORKFLOW["jobs"]["test"]["steps"] if "run" in step] == [
        ".ci/run"
    ]


@pytest.mark.parametrize("path", [".pre-commit-config.yaml", ".github/workflows/ci.yml"])
def test_targets_of_make_that_are_named_exist(path):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"\bmake ([\w-]+)", (ROOT / path).read_text("utf-8"))
    named = set(targets) - {"and"}
    assert named
    assert named <= set(re.findall(r"^([\w-]+):", makefile, re.M))


def test_issue_forms_have_what_github_needs():
    forms = [
        path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"
    ]
    assert len(forms) == 3
    for form in map(read, forms):
        assert {"name", "description", "body"} <= set(form)
        assert all(part["attributes"]["label"] for part in form["body"])
