"""The tables of docs/paper.md name files, code and tests that exist."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/paper.md"
ROOM = ROOT / "src/implicitmoments/paper"
FILES = sorted(path.name for path in ROOM.glob("*.py") if path.name != "__init__.py")
# statements with an implementation; the paper map has the others
NUMBERED = {
    *("2.2", "3.1", "3.2", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "3.10", "4.1", "4.2", "4.3"),
    *("4.7", "4.9", "4.10", "4.11", "4.12", "4.16", "4.17", "4.19", "4.22", "4.23"),
}


def table(heading):
    """Yield the cells of the rows of the table in a section."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def functions(path):
    return {
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)
    }


def missing_test(name):
    """Return whether a test, named as ``file.py::function``, is not there."""
    file, _, function = name.partition("::")
    path = Path(__file__).parent / file
    return not path.is_file() or function not in functions(path)


@pytest.mark.parametrize("row", table("Statements"), ids=lambda row: row[0])
def test_each_file_and_test_exists(row):
    _, file, code, test = (cell.strip("`") for cell in row)
    assert file in FILES
    assert hasattr(importlib.import_module(f"implicitmoments.paper.{file[:-3]}"), code)
    assert not missing_test(test)


@pytest.mark.parametrize("row", table("Errata"), ids=lambda row: row[0])
def test_each_erratum_names_code_or_a_test(row):
    name = row[-1].strip("`")
    if name.startswith("test_"):
        assert not missing_test(name)
    else:
        assert any(
            re.search(rf"^def {name}\(", path.read_text(), re.M) for path in ROOM.glob("*.py")
        )


def test_every_statement_file_and_erratum_is_there():
    statements = table("Statements")
    assert {n for row in statements for n in re.findall(r"\b\d\.\d+", row[0])} - {
        "3.3"
    } == NUMBERED
    assert {row[1].strip("`") for row in statements} == set(FILES)
    assert [row[0] for row in table("Errata")] == [str(n) for n in range(1, 13)]


@pytest.mark.parametrize("file", FILES)
def test_the_first_line_of_a_file_has_its_statement(file):
    first = ast.get_docstring(ast.parse((ROOM / file).read_text())).splitlines()[0]
    assert (
        re.search(r"(Definitions?|Lemma|Proposition|Theorem) \d\.\d", first)
        or "Li and Liu" in first
    )


def test_a_name_that_does_not_exist_is_noticed():
    assert missing_test("test_map.py::test_that_is_not_there")
    assert missing_test("test_nothing.py::test_that_is_not_there")
    assert not missing_test("test_map.py::test_a_name_that_does_not_exist_is_noticed")


def test_the_page_is_short():
    assert len(PAGE.read_text().split()) <= 1_500
