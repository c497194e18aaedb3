"""Formulas are typeset on all pages, in docstrings and in examples: MathML, without network."""

import inspect
import re
import runpy
import warnings
from html.parser import HTMLParser
from operator import attrgetter
from pathlib import Path

import pytest
from sphinx.application import Sphinx

import implicitmoments

ROOT = Path(__file__).parents[1]
# signs of a formula, or of its source, in plain text
PLAIN = re.compile(
    r"[Σ∑∏⊗‖⟨⟩√ᵀ∈$\\]|\b[A-Za-z]_[A-Za-z0-9](?!\w)|[A-Za-z][²³⁴]|\w\^\w|\b[dkmnNx] [=≤≥<>] \w"
)
typeset = runpy.run_path(str(ROOT / "docs/_ext/mathml.py"))["typeset"]
ELSEWHERE = {"api.md"}  # its docstrings are checked below


class Prose(HTMLParser):
    """The text of a page without code, formulas and scripts."""

    def __init__(self, page):
        super().__init__()
        self.skipped, self.text, self.n_formulas = 0, "", 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.n_formulas += tag == "math"
        self.skipped += tag in ("code", "pre", "math", "script", "style")

    def handle_endtag(self, tag):
        self.skipped -= tag in ("code", "pre", "math", "script", "style")

    def handle_data(self, data):
        self.text += " · " if self.skipped else data


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages in Markdown, as the site shows their formulas."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Sphinx and its extensions
        patch.syspath_prepend(str(ROOT / "docs/_ext"))
        Sphinx(
            ROOT / "docs",
            None,
            folder,
            folder / "doctrees",
            "html",
            confoverrides={
                "extensions": ["mathml", "myst_parser"],
                "html_math_renderer": "mathml",
                "myst_enable_extensions": ["dollarmath"],
                "html_theme": "basic",
                "exclude_patterns": ["_build", "gallery", "generated", *ELSEWHERE],
            },
            status=None,
            warning=None,
        ).build()
    return folder


# the page of the command line has no formula but R², for readers of a terminal
PAGES = sorted(
    path.name
    for path in (ROOT / "docs").glob("*.md")
    if path.name not in ELSEWHERE | {"command_line.md"}
)


@pytest.mark.parametrize("name", PAGES)
def test_formulas_of_a_page_are_typeset(site, name):
    page = (site / name).with_suffix(".html").read_text()
    prose = Prose(page)
    assert PLAIN.findall(prose.text) == []
    assert "merror" not in page
    written = (ROOT / "docs" / name).read_text()
    without_code = re.sub(r"^```.*?^```$|`[^`\n]*`", "", written, flags=re.M | re.S)
    assert (prose.n_formulas > 0) == ("$" in without_code or "{include}" in written)


def test_pages_load_nothing_for_formulas(site):
    assert not re.search(
        "<script[^>]*(mathjax|katex|https?:)", (site / "closed_form.html").read_text(), re.I
    )


def prose_of(text):
    """Return reStructuredText without code, formulas and doctests."""
    text = re.sub(r"^ *>>>.*?(?:\n\s*\n|\Z)", "", text, flags=re.M | re.S)
    text = re.sub(r"\.\. math::.*?\n\s*\n", "", text, flags=re.S)
    text = re.sub(r"::\n\n(?: {4,}.*\n?|\n)+", "", text)
    return re.sub(r":math:`[^`]*`|``[^`]*``|:\w+:`[^`]*`", "", text)


def formulas_of(text):
    """Return the formulas in a text."""
    displayed = re.findall(r"\.\. math::(.*?)(?:\n\s*\n|\Z)", text, re.S)
    return re.findall(r":math:`([^`]*)`", text) + displayed


LISTED = re.findall(r"^   ([A-Za-z_][\w.]*)$", (ROOT / "docs/api.md").read_text(), re.M)


def docstrings(name):
    """Yield the docstrings of a public name and of its public members."""
    found = attrgetter(name)(implicitmoments)
    yield inspect.getdoc(found)
    if inspect.isclass(found):
        for member, value in inspect.getmembers(found):
            if not member.startswith("_") and callable(value):
                yield inspect.getdoc(value) or ""


@pytest.mark.parametrize("name", LISTED)
def test_formulas_of_docstrings_are_typeset(name):
    for text in docstrings(name):
        assert PLAIN.findall(prose_of(text)) == []
        for formula in formulas_of(text):
            assert "<math" in typeset(" ".join(formula.split()))


EXAMPLES = sorted((ROOT / "examples").glob("*/*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_formulas_of_examples_are_typeset(path):
    text = path.read_text()
    cells = re.findall(r"^# %%\n((?:#.*\n)*)", text, re.M)
    for piece in [text.split('"""')[1], *(re.sub("^# ?", "", cell, flags=re.M) for cell in cells)]:
        assert PLAIN.findall(prose_of(piece)) == []
        for formula in formulas_of(piece):
            assert "<math" in typeset(" ".join(formula.split()))


@pytest.mark.parametrize("text", ["M_t = a", "Σ w", "k = 3", r"\alpha", "$x$", "x^2", "R²"])
def test_a_formula_in_plain_text_is_noticed(text):
    assert PLAIN.search(Prose(f"<p>the {text} of</p>").text)
    assert not PLAIN.search(Prose(f"<p>the <code>{text}</code> of</p>").text)


def test_an_index_stands_beside_a_letter_with_an_accent():
    for formula in (r"\hat{A}_n", r"\tilde M_{a,b}", r"\bar{w}_i^2"):
        shown = typeset(formula)
        assert re.search("<msub>|<msubsup>", shown)
        assert "<munder" not in shown
