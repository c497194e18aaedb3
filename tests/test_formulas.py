"""Formulas on pages and in docstrings are marked as such, and can be typeset."""

import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# signs of a formula, or of its source, in plain text
PLAIN = re.compile(
    r"[Σ∑∏⊗‖⟨⟩√ᵀ∈$\\]|\b[A-Za-z]_[A-Za-z0-9](?!\w)|[A-Za-z][²³⁴]|\w\^\w|\b[dkmnNx] [=≤≥<>] \w"
)
typeset = runpy.run_path(str(ROOT / "docs/_ext/mathml.py"))["typeset"]
# the README is shown without formulas, and pages for readers of a terminal have none but R²
PAGES = [path for path in (ROOT / "docs").glob("*.md") if path.stem not in ("api", "command_line")]
LISTED = re.findall(r"^   ([A-Za-z_][\w.]*)$", (ROOT / "docs/api.md").read_text(), re.M)


def split_markdown(text):
    """Return the prose of a page, and its formulas."""
    text = re.sub(
        r"^```.*?^```$|^    [^\n]*$|`+[^`\n]*`+|\]\([^)]*\)", "", text, flags=re.M | re.S
    )
    formulas = re.findall(r"\$\$(.+?)\$\$|\$(.+?)\$", text, re.S)
    prose = re.sub(r"\$\$.+?\$\$|\$.+?\$|<[^>]*>", "", text, flags=re.S)
    return prose, ["".join(pair) for pair in formulas]


def split_docstring(text):
    """Return the prose of reStructuredText without code and doctests, and its formulas."""
    text = re.sub(r"^ *>>>.*?(?:\n\s*\n|\Z)", "", text, flags=re.M | re.S)
    displayed = re.findall(r"\.\. math::(.*?)(?:\n\s*\n|\Z)", text, re.S)
    formulas = re.findall(r":math:`([^`]*)`", text) + displayed
    prose = re.sub(r"\.\. math::.*?(?:\n\s*\n|\Z)", "", text, flags=re.S)
    prose = re.sub(r"::\n\n(?: {4,}.*\n?|\n)+", "", prose)
    return re.sub(r":math:`[^`]*`|``[^`]*``|:\w+:`[^`]*`", "", prose), formulas


def check(prose, formulas):
    assert PLAIN.findall(prose) == []
    for formula in formulas:
        assert "<math" in typeset(" ".join(formula.split()))


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_formulas_of_a_page_are_typeset(page):
    check(*split_markdown(page.read_text()))


@pytest.mark.parametrize("name", LISTED)
def test_formulas_of_docstrings_are_typeset(name):
    home, _, last = f"implicitmoments.{name}".rpartition(".")
    found = getattr(importlib.import_module(home), last)
    members = inspect.getmembers(found) if inspect.isclass(found) else []
    methods = [value for member, value in members if member[0] != "_" and callable(value)]
    for each in (found, *methods):
        check(*split_docstring(inspect.getdoc(each) or ""))


@pytest.mark.parametrize("text", ["M_t = a", "Σ w", "k = 3", r"\alpha", "x^2", "R²"])
def test_a_formula_in_plain_text_is_noticed(text):
    for split in (split_markdown, split_docstring):
        assert PLAIN.search(split(f"the {text} of")[0])
        assert not PLAIN.search(split(f"the ``{text}`` of")[0])


def test_an_index_stands_beside_a_letter_with_an_accent():
    assert "<msub>" in typeset(r"\hat{A}_n")
    assert "<munder" not in typeset(r"\hat{A}_n")
