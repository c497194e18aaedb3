"""The page that compares packages has the rows that are probed; the probes are run by hand."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/comparison.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def features():
    """The script that prints the tables; the probes beside it are imported and not run."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("features", ROOT / "benchmarks/features.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "benchmarks"))


def found(features, page):
    """What probes would have to find for a page to be right."""
    cells = {}
    for (row, package), words in features.cells_of(page.splitlines()):
        cells.setdefault(package, {})[row] = (words, "the page")
    return cells


def test_the_page_has_every_row_and_package_once(features):
    cells = [key for key, _ in features.cells_of(PAGE.splitlines())]
    expected = [
        (row, package)
        for columns, rows in features.TABLES.values()
        for row in rows
        for package in columns
    ]
    assert cells == expected
    assert features.differences(PAGE, found(features, PAGE)) == []


def test_every_row_has_a_probe_in_r(features):
    script = (ROOT / "benchmarks/features.R").read_text(encoding="utf-8")
    probed = re.findall(r'^(?:row|neither)\("([^"]+)"', script, re.M)
    assert sorted(probed) == sorted(row for _, rows in features.TABLES.values() for row in rows)


def test_a_page_that_says_something_else_is_noticed(features):
    saw = found(features, PAGE)
    saw["pomegranate"]["missing values"] = ("no", "an error")
    (said,) = features.differences(PAGE, saw)
    assert said.startswith("missing values, pomegranate: the page says")


def test_a_row_that_is_not_probed_is_noticed(features):
    more = PAGE.replace("| licence |", "| colour | a | b | c | d | e | f |\n| licence |")
    assert len(features.differences(more, found(features, PAGE))) == 6
    unknown = found(features, PAGE)
    unknown["tensorly"]["known since"] = ("?", "PyPI did not answer")
    assert features.differences(PAGE, unknown) == []


def test_a_probe_that_fails_otherwise_than_expected_is_not_a_no(features):
    probing = importlib.import_module("feature_probes")
    tries, absent = probing.tries, probing.absent

    error = ValueError("Input contains NaN")

    def refuse():
        raise error

    assert tries(refuse, "contains NaN") == ("no", "ValueError: Input contains NaN")
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the same error is looked at)
        tries(refuse, "sparse")
    assert caught.value is error
    assert absent(["fit", "fit(sample_weight)"], "weight")[0] == "found fit(sample_weight)"
    assert absent(["fit", "fit(sample_weight)"], "prior")[0] == "no"
