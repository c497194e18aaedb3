"""The page in a browser: headless Chromium, where it is installed."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from implicitmoments.report import write_report

SCRIPT = Path(__file__).parents[2] / "benchmarks/page_checks.py"
spec = importlib.util.spec_from_file_location("page_checks", SCRIPT)
checks = importlib.util.module_from_spec(spec)
sys.modules["page_checks"] = checks
spec.loader.exec_module(checks)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(checks.CHROMIUM is None, reason="there is no chromium on the path"),
]
printed = pytest.mark.skipif(checks.PDFTOTEXT is None, reason="there is no pdftotext on the path")


@pytest.fixture(scope="module", params=["RegressionMixture", "ActivationSumRegressor"])
def report(request, fitted, tmp_path_factory):
    model, X, y = fitted[request.param]
    folder = tmp_path_factory.mktemp("page")
    page = write_report(model, X, y, path=folder / "report.html", date="2026-01-31")
    return model, page


@pytest.fixture(scope="module")
def groups(fitted, tmp_path_factory):
    model, X, _ = fitted["GaussianMixture"]
    folder = tmp_path_factory.mktemp("groups")
    return write_report(model, X, path=folder / "report.html", date="2026-01-31")


def test_faults_of_a_page_of_the_site_are_noticed(tmp_path):
    right = '<p style="width:200px">a</p><img src="a.svg" alt="a"><button>b</button>'
    wrong = '<p style="width:900px">a</p><img src="a.svg"><button></button>'
    (tmp_path / "a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    pages = {"right.html": right, "wrong.html": wrong + "<script>none()</script>"}
    for name, text in pages.items():
        (tmp_path / name).write_text(f"<!DOCTYPE html><body>{text}</body>")
    seen, console = checks.tour(tmp_path, list(pages), tmp_path / "profile", 390)
    assert seen["right.html"]["scroll"] <= 390 < seen["wrong.html"]["scroll"]
    assert seen["right.html"]["unlabelled"] == []
    assert len(seen["wrong.html"]["unlabelled"]) == 2
    assert len(console) == 1
    assert "wrong.html" in console[0]


def changed(page, folder, old, new):
    """Return a copy of a page with other text."""
    text = page.read_text("utf-8")
    assert old in text
    folder.mkdir()
    (folder / "report.html").write_text(text.replace(old, new, 1), "utf-8")
    return folder / "report.html"


def brightness(colour):
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


def test_on_a_phone(report, tmp_path):
    model, page = report
    seen, console = checks.look(page, tmp_path, 390)
    assert console == []
    assert seen["scroll"] <= 390
    assert seen["unlabelled"] == []
    assert len(seen["figures"]) == len(seen["pictures"]) >= 4
    assert all(300 < width <= 390 and height > 100 for width, height in seen["pictures"])
    assert brightness(seen["background"]) > 200
    assert brightness(seen["ink"]) < 80
    (copied,) = seen["copied"]
    lines = [line.split("\t") for line in copied.splitlines()]
    assert [float(line[1]) for line in lines[1:]] == list(model.weights_)
    assert seen["button"] == "Copied"


def test_in_the_dark_on_a_desk(report, tmp_path):
    _, page = report
    dark = "--blink-settings=preferredColorScheme=0"
    seen, console = checks.look(page, tmp_path, 1200, dark)
    assert console == []
    assert brightness(seen["background"]) < 60
    assert brightness(seen["ink"]) > 180
    assert all(400 < width < 620 for width, _ in seen["pictures"])  # two beside each other


def test_groups_and_columns_are_chosen(groups, tmp_path):
    seen, console = checks.look(groups, tmp_path / "profile", 1200)
    assert console == []
    assert seen["faded"] == seen["unfaded"] > 50  # marks of all other groups, in all pictures
    assert seen["wronglyFaded"] == 0
    assert set(seen["columns"]) == {seen["chosen"]}


def test_without_its_script_the_page_is_whole_and_has_no_controls(groups, tmp_path):
    text = groups.read_text("utf-8")
    script = text[text.index("<script>") : text.index("</script>") + len("</script>")]
    bare = changed(groups, tmp_path / "bare", script, "")
    seen, console = checks.look(bare, tmp_path / "profile", 1200)
    assert console == []
    assert seen["controls"] == 0
    with_script, _ = checks.look(groups, tmp_path / "profile", 1200)
    assert with_script["controls"] > 4
    assert seen["figures"] == with_script["figures"]
    assert seen["pictures"] == with_script["pictures"]


def test_a_page_that_breaks_its_own_rule_is_noticed(report, tmp_path):
    _, page = report
    wrong = '<script>1</script><div style="width:700px">x</div><button></button></main>'
    broken = changed(page, tmp_path / "other", "</main>", wrong)
    seen, console = checks.look(broken, tmp_path / "profile", 390)
    assert any("Content Security Policy" in line for line in console)
    assert seen["scroll"] > 390
    assert seen["unlabelled"] == ["BUTTON"]


def faults(page, profile):
    sheets = checks.print_sheets(page, profile)
    found = checks.print_faults(page.read_text("utf-8"), sheets)
    return {kind for kind, own in found.items() if own}


@printed
def test_printed_pages_have_everything(report, groups, tmp_path):
    for page in (report[1], groups):
        assert faults(page, tmp_path) == set()


@printed
@pytest.mark.parametrize(
    ("style", "kind"),
    [
        (".wide { width: 9rem !important; overflow: hidden !important; }", "not printed"),
        (".table .bar { break-after: page !important; }", "headings"),
        ("footer { break-before: page; color: transparent; visibility: hidden; }", "empty"),
    ],
)
def test_faults_of_printed_pages_are_noticed(groups, tmp_path, style, kind):
    broken = changed(groups, tmp_path / "broken", "</style>", f"@media print {{{style}}}</style>")
    assert any(kind in found for found in faults(broken, tmp_path / "profile"))
