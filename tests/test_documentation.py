"""Documents that name code are checked against it, and the code they show is run."""

import ast
import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import runpy
import shlex
import sys
import warnings
from operator import attrgetter
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

import implicitmoments
from implicitmoments.cli.app import app
from public_names import HOMES

ROOT = Path(__file__).parents[1]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(implicitmoments.__path__, "implicitmoments.")
    if not module.name.endswith("__main__")
]
# numbered statements of the paper, by section
STATEMENTS = {"1": 8, "2": 4, "3": 10, "4": 23}


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


REFERENCE = (ROOT / "docs/api.md").read_text()
LISTED = re.findall(r"^   ([A-Za-z_][\w.]*)$", REFERENCE, re.M)
PAPER, PAPER_MAP = ROOT / "docs/paper.md", ROOT / "docs/paper_map.md"
PAPER_FILES = sorted((ROOT / "src/implicitmoments/paper").glob("[a-z]*.py"))


def table(page, heading):
    """Return the cells of the rows of the table below a heading of a page."""
    section = page.read_text().split(f"# {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip(" `") for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def has_function(path, name):
    return path.is_file() and bool(re.search(rf"^def {name}\(", path.read_text(), re.M))


def has_test(name):
    """Return whether a test, named as ``folder/file.py::function``, exists."""
    file, _, function = name.partition("::")
    return has_function(ROOT / "tests" / file, function)


@pytest.mark.parametrize("row", table(PAPER_MAP, "Paper map"), ids=lambda row: row[0])
def test_the_file_and_the_test_of_a_statement_exist(row):
    statement, file, test = row
    assert file == "—" or (ROOT / "src/implicitmoments" / file).is_file()
    assert test == "—" or has_test(test)
    assert test != "—" or "proofs only" in statement


@pytest.mark.parametrize("row", table(PAPER, "Errata"), ids=lambda row: row[0])
def test_an_erratum_names_code_or_a_test(row):
    name = row[-1]
    in_code = any(has_function(path, name) for path in PAPER_FILES)
    assert in_code or has_test(f"paper/{name}")


def test_every_statement_file_and_erratum_has_a_row():
    statements = table(PAPER_MAP, "Paper map")
    numbered = {number for row in statements for number in re.findall(r"^\w+ (\d\.\d+)", row[0])}
    assert numbered == {f"{s}.{i}" for s, n in STATEMENTS.items() for i in range(1, n + 1)}
    assert {f"paper/{path.name}" for path in PAPER_FILES} <= {row[1] for row in statements}
    assert [row[0] for row in table(PAPER, "Errata")] == [str(n) for n in range(1, 13)]


@pytest.mark.parametrize("path", PAPER_FILES, ids=lambda path: path.name)
def test_the_first_line_of_a_file_of_the_paper_has_its_statement(path):
    first = ast.get_docstring(ast.parse(path.read_text())).splitlines()[0]
    assert re.search(r"(Definitions?|Lemma|Proposition|Theorem) \d\.\d|Li and Liu", first)


def test_a_test_that_does_not_exist_is_noticed():
    assert has_test("test_documentation.py::test_a_test_that_does_not_exist_is_noticed")
    assert not has_test("test_documentation.py::test_that_is_not_there")


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))
# a block of code, and the block of output that follows it, if one does
SHOWN = re.compile(r"^```(python|console)\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.M | re.S)
# commands on these pages find their files; those on others are examples
TYPED = ("README.md", "tutorial.md")


def run_page(text, name="page", commands=False):
    """Run the blocks in one namespace; yield the line of each, what it printed and should have."""
    namespace = {"__name__": name}
    for block in SHOWN.finditer(text):
        kind, code, says = block.groups()
        line = text.count("\n", 0, block.start(2))
        out = io.StringIO()
        if kind == "python":
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * line + code, name, "exec"), namespace)
        elif commands:
            for command in re.findall(r"^\$ implicitmoments (.*)$", code, re.M):
                done = CliRunner().invoke(app, shlex.split(command))
                assert done.exit_code == 0, f"{command}: {done.output}"
        yield line + 1, out.getvalue(), says


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_code_on_a_page_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = page.read_text()
    assert len(SHOWN.findall(text)) == text.count("```python") + text.count("```console")
    for line, printed, says in run_page(text, str(page), commands=page.name in TYPED):
        if says is not None:
            assert printed == says, f"{page.name}, line {line}"


def test_a_page_that_says_something_else_is_noticed():
    text = "```python\nn = 1\n```\n\n```python\nprint(n)\n```\n\n```text\n2\n```\n"
    assert list(run_page(text)) == [(2, "", None), (6, "1\n", "2\n")]


def test_a_command_that_fails_is_noticed():
    text = "```console\n$ implicitmoments describe none.im\n```\n"
    with pytest.raises(AssertionError):
        list(run_page(text, commands=True))


NEEDED = {"start_hidden_markov": "hmmlearn"}  # which has no wheels for some versions of Python


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_examples_run(path, monkeypatch, capsys):
    pytest.importorskip(NEEDED.get(path.stem, "numpy"))
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setattr(plt, "show", lambda: None)  # pictures are drawn and not shown
    plt.close("all")  # those of pages
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        runpy.run_path(str(path), run_name="__main__")
    shown = [figure.get_label() for figure in map(plt.figure, plt.get_fignums())]
    plt.close("all")
    assert capsys.readouterr().out
    assert shown
    assert all(len(label.split()) >= 12 for label in shown), "what the picture shows"


def broken_links(text, folder):
    """Return the links of a page to files that are not there, or to headings that are not."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S)):
        place, _, heading = target.partition("#")
        if re.match(r"https?:", target):
            continue
        file = folder / place if place else None
        if file is not None and not file.is_file():
            yield target
        elif heading:
            page = text if file is None else file.read_text()
            words = [
                re.sub(r"[^\w\- ]", "", h).strip() for h in re.findall(r"^#+ (.*)$", page, re.M)
            ]
            if heading not in {w.lower().replace(" ", "-") for w in words}:
                yield target


POLICIES = ("CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")
LINKED = [*PAGES, *(ROOT / name for name in POLICIES)]


@pytest.mark.parametrize("page", LINKED, ids=[page.name for page in LINKED])
def test_links_between_pages_lead_somewhere(page):
    assert list(broken_links(page.read_text(), page.parent)) == []


def test_a_link_that_leads_nowhere_is_noticed():
    text = "# A title\n[a](README.md) [b](none.md) [c](#a-title) [d](#none) [e](https://e.org)"
    assert list(broken_links(text, ROOT)) == ["none.md", "#none"]


@pytest.mark.parametrize("home", HOMES)
def test_the_reference_has_every_public_name(home):
    module = importlib.import_module(home)
    for name in module.__all__:
        if callable(getattr(module, name)) and "paper" not in home:  # which has a page
            assert re.search(rf"^   ([a-z.]+\.)?{name}$", REFERENCE, re.M), name


ESTIMATORS = {
    "mixtures": [implicitmoments.GaussianMixture, implicitmoments.SphericalMixture],
    "regressions": [implicitmoments.RegressionMixture],
    "densities": [implicitmoments.SphericalMixtureDensity],
    "clustering": [implicitmoments.SphericalMixtureClusterer],
    "activations": [implicitmoments.ActivationSumRegressor],
}
LEARNER_HEADINGS = [
    *("What it is for", "Example", "Choosing parameters", "What it reports", "When it fails"),
    *("What to use instead", "Cost", "Data larger than memory", "See also", "Mathematics"),
]


@pytest.mark.parametrize("page", ESTIMATORS)
def test_pages_of_estimators_have_the_same_headings_in_the_same_order(page):
    text = (ROOT / f"docs/{page}.md").read_text()
    # all other headings are below these
    assert re.findall(r"^## (.*)$", text, re.M) == LEARNER_HEADINGS


def values(cell):
    """The values in a cell of a table; none where the cell has a dash."""
    text = re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", cell)
    return [] if text == "–" else ast.literal_eval(f"[{text}]")


@pytest.mark.parametrize("page", ESTIMATORS)
def test_parameters_on_a_page_have_the_defaults_of_the_estimators(page):
    """One column of defaults for each estimator of the page."""
    text = (ROOT / f"docs/{page}.md").read_text().split("## Choosing parameters")[1]
    for column, estimator in enumerate(ESTIMATORS[page], start=1):
        said = {}
        for line in re.findall(r"^\| `.*\|$", text.split("\n##")[0], re.M):
            cells = line.strip("| ").split(" | ")
            found = values(cells[column])
            said |= dict(zip(re.findall(r"`(\w+)`", cells[0]), found, strict=bool(found)))
        defaults = estimator().get_params()
        assert said == {name: defaults[name] for name in said}
        assert len(said) >= 5


FILES = [str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*.py")]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_scripts_and_modules_that_a_page_names_are_there(page):
    named = re.findall(r"`(?:python )?([\w/]+\.py)\b", page.read_text())
    there = {name for name in named for file in FILES if f"/{file}".endswith(f"/{name}")}
    assert set(named) == there


@pytest.mark.parametrize("name", LISTED)
def test_every_name_in_the_reference_has_an_example_and_names_related_ones(name):
    text = attrgetter(name)(implicitmoments).__doc__
    assert ">>>" in text
    section = re.search(r"^ *See Also\n *-+\n(.*?)\n *\n", text, re.M | re.S)
    related = re.findall(r"^ *([\w.]+) : \w", section[1], re.M)
    home = name.rpartition(".")[0]
    full = [
        other.removeprefix("implicitmoments.") if "." in other else f"{home}.{other}".lstrip(".")
        for other in related
    ]
    assert full
    assert set(full) <= set(LISTED) - {name}  # names with a page, to which they become links


def test_every_page_and_every_example_has_its_place():
    order = runpy.run_path(str(ROOT / "docs/_ext/gallery.py"))["ORDER"]
    places = {(section, name) for section, names in order.items() for name in names}
    assert {(path.parent.name, path.stem) for path in EXAMPLES} == places
    listed = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem}$", listed, re.M), page.name
    for path in EXAMPLES:  # what the gallery needs: a title, and pictures
        text = path.read_text()
        title, line = text.split("\n")[1:3]
        assert len(title) == len(line), path.name
        assert set(line) == {"="}, path.name
        assert "plt.show()" in text, path.name
