"""The page: what is on it, that it is whole, and that it asks nobody for anything."""

import copy
import datetime
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import implicitmoments as im
from implicitmoments.report import drawing, write_report
from implicitmoments.report.tables import MOST_COLUMNS, MOST_ROWS
from implicitmoments.report.verdict import verdict_of

NAMES = [
    "SphericalMixture",
    "SphericalMixtureClusterer",
    "SphericalMixtureDensity",
    "RegressionMixture",
    "RegressionMixtureDensity",
    "ActivationSumRegressor",
]
VOID = {"meta", "br", "img", "link", "input", "hr"}
NAMESPACE = "http://www.w3.org/2000/svg"


class Reader(HTMLParser):
    """Elements of a page; an element that is not closed, or not open, is a fault."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.elements, self.text = [], [], [], []
        self.feed(text)
        self.close()
        self.faults += [f"{tag} is not closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"{tag} closes something else")

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def pages(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    texts = {}
    for name, (model, X, y) in fitted.items():
        path = write_report(model, X, y, path=folder / f"{name}.html", date="2026-01-31")
        texts[name] = path.read_text("utf-8")
    return texts


def test_a_fault_is_noticed():
    assert Reader("<p><b>x</p></b>").faults
    assert Reader("<div>").faults
    assert not Reader('<meta charset="utf-8"><p>x</p>').faults


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_whole(pages, name):
    page = Reader(pages[name])
    assert page.faults == []
    ids = Counter(attrs["id"] for _, attrs in page.elements if "id" in attrs)
    assert [each for each, n in ids.items() if n > 1] == []
    for _, attrs in page.elements:  # what is pointed at is there
        target = attrs.get("href", "#found")
        assert target.startswith("data:") or target[1:] in ids
        for pointed in re.findall(r"url\(#([^)]*)\)", " ".join(v or "" for v in attrs.values())):
            assert pointed in ids
    text = " ".join(page.text)
    for heading in ("Pictures", "Parameters", "Numbers", "Statistics", "Settings", "2026-01-31"):
        assert heading in text
    assert "The fit found" in text
    assert f"implicitmoments {im.__version__}" in text
    assert page.all("html")[0]["lang"] == "en"
    assert "width=device-width" in page.all("meta")[2]["content"]


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_there_and_described(pages, name):
    page = Reader(pages[name])
    drawn = page.all("svg")
    missing = name == "SphericalMixtureClusterer"  # a test of pairs has no steps
    assert len(drawn) == 4 - missing
    assert "no steps to show" not in pages[name]
    assert 'class="note">this' not in pages[name]
    assert all(svg["role"] == "img" and len(svg["aria-label"]) > 30 for svg in drawn)
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(drawn)
    for sentinel in (drawing.INK, drawing.PAPER):
        assert sentinel not in pages[name]
    assert "var(--ink)" in pages[name]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_asked_of_the_network(pages, name):
    text = pages[name]
    assert set(re.findall(r"https?://[^\s\"'<)]*", text)) == {NAMESPACE}
    policy = Reader(text).all("meta")[1]["content"]
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    script = policy.split("script-src")[1].split(";")[0]
    assert script.strip().startswith("'sha256-")
    assert "unsafe-inline" not in script
    loading = ("link", "iframe", "object", "embed")
    assert not [tag for tag, attrs in Reader(text).elements if "src" in attrs or tag in loading]


def test_text_of_the_user_is_escaped(tmp_path):
    bad = "<script>alert(1)</script>"
    X, _ = im.datasets.make_spherical_mixture(800, 2, 2, radius=6.0, random_state=0)
    X = X @ np.linalg.svd(X, full_matrices=False)[2].T
    frame = pd.DataFrame(X, columns=[bad, 'a "$" & b'])
    model = im.SphericalMixture(2, random_state=0).fit(frame)
    model.stats_["notes"] = (f"look at {bad}",)
    path = write_report(model, frame, path=tmp_path / "r.html", title=f"<b>{bad}", date="x<y")
    page = Reader(path.read_text("utf-8"))
    assert page.faults == []
    assert len(page.all("script")) == 1
    assert not page.all("b")
    shown = " ".join(page.text)
    assert f"<b>{bad}" in shown  # the title
    assert f"Look at {bad}." in shown
    assert shown.count(bad) >= 5  # title twice, words, summary of the data, table


def test_the_same_twice(fitted, tmp_path):
    model, X, y = fitted["RegressionMixtureDensity"]
    model = copy.copy(model)
    model.random_state = None
    paths = [
        write_report(model, X, y, path=tmp_path / f"{i}.html", date=datetime.date(2026, 1, 31))
        for i in range(2)
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    today = write_report(model, X, y, path=tmp_path / "today.html").read_text("utf-8")
    assert re.search(r"<footer><p>\d{4}-\d\d-\d\d\.", today)


def test_numbers_are_copied_with_all_digits(fitted, pages):
    model = fitted["SphericalMixture"].model
    table = pages["SphericalMixture"].split('id="parameters-0"')[1].split("</table>")[0]
    exact = [float(value) for value in re.findall(r'data-v="([^"]*)"', table)]
    expected = np.column_stack([model.weights_, np.full(4, model.variance_), model.means_])
    np.testing.assert_array_equal(np.reshape(exact, (4, 6)), expected)
    page = Reader(pages["SphericalMixture"])
    targets = {button["data-copies"] for button in page.all("button")}
    assert targets == {attrs["id"] for attrs in page.all("table")}


def test_many_rows_and_columns_are_bounded(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 150))
    model = im.SphericalMixture(2, n_moves=0, max_iter=500, tol=1e-3, random_state=0).fit(X)
    model.means_ = rng.normal(size=(400, 150))
    model.weights_ = np.full(400, 1 / 400)
    model.n_components_ = 400
    path = write_report(model, X, path=tmp_path / "r.html", date="", max_rows=500)
    text = path.read_text("utf-8")
    assert "500 of 20,000 rows" in text
    assert "The first 300 of 400 rows and 120 of 153 columns" in text
    page = Reader(text)
    assert page.all("details")
    shown = text.split('id="parameters-0"')[1].split("</table>")[0]
    assert shown.count("<tr>") == MOST_ROWS + 1
    assert shown.count("<th ") == MOST_ROWS + MOST_COLUMNS
    points = text.split('<figure id="components">')[1].split("</figure>")[0].count("<use")
    assert points < 1_000


def test_the_file_is_replaced_at_once(fitted, tmp_path, monkeypatch):
    model, X, _ = fitted["SphericalMixture"]
    path = tmp_path / "r.html"
    path.write_text("before")
    monkeypatch.setattr("implicitmoments.report.write.page_of", lambda *_, **__: "after")
    with monkeypatch.context() as broken:
        broken.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            write_report(model, X, path=path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    assert write_report(model, X, path=path) == path
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o400
    with pytest.raises(FileNotFoundError):
        write_report(model, X, path=tmp_path / "none" / "r.html")


def test_a_model_of_an_older_version_has_a_page(fitted, tmp_path):
    model, X, y = fitted["ActivationSumRegressor"]
    model = copy.copy(model)
    model.stats_ = {k: v for k, v in model.stats_.items() if k not in ("ranks", "moment_orders")}
    text = write_report(model, X, y, path=tmp_path / "r.html").read_text("utf-8")
    assert 'id="spectra"' not in text
    assert "older version" not in text
    assert Reader(text).faults == []


def test_a_saved_model_has_the_same_page(fitted, tmp_path):
    model, X, y = fitted["RegressionMixture"]
    im.save(model, tmp_path / "model")
    texts = [
        write_report(each, X, y, path=tmp_path / "r.html", date="").read_bytes()
        for each in (model, im.load(tmp_path / "model"))
    ]
    assert texts[0] == texts[1]


def test_inputs_that_are_not_gaussian_are_in_the_verdict():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(2_000, 3))
    with pytest.warns(im.AssumptionWarning, match="not Gaussian"):
        model = im.ActivationSumRegressor(n_components=1).fit(X, np.maximum(X[:, 0], 0))
    assert any("not Gaussian" in words for words in verdict_of(model, 2_000).against)


def test_the_title_and_what_is_beneath_it(fitted, tmp_path):
    model, X, _ = fitted["SphericalMixture"]
    np.save(tmp_path / "people.npy", X)
    path = tmp_path / "r.html"
    words = write_report(model, tmp_path / "people.npy", path=path).read_text("utf-8")
    assert "<h1>A mixture of 4 spherical Gaussians</h1><p>people.npy</p>" in words
    assert "SphericalMixture: 1,500 rows, 4 columns" in words
    how = {"title": "Of mine", "subtitle": "rows <b>"}
    words = write_report(model, X, path=path, **how).read_text("utf-8")
    assert "<h1>Of mine</h1><p>rows &lt;b&gt;</p>" in words
    assert "<title>Of mine</title>" in words
    plain = write_report(model, X, path=path).read_text("utf-8")
    assert "<h1>A mixture of 4 spherical Gaussians</h1><p>SphericalMixture: 1,500" in plain


@pytest.mark.parametrize("name", NAMES[3:])
def test_labels_are_named_wherever_they_are_told(fitted, tmp_path, name):
    model, X, y = fitted[name]
    named = pd.Series(y, name="units & <more>")
    text = write_report(model, X, named, path=tmp_path / "r.html").read_text("utf-8")
    shown = " ".join(Reader(text).text)
    assert Reader(text).faults == []
    assert "labels: units & <more>" in shown
    assert "units & <more> in 1,500 rows" in shown  # the verdict
    assert shown.count("units & <more>") >= 6  # titles, captions and axes
    assert not re.search(r"<text[^>]*>y</text>", text)


def test_what_is_not_known_is_a_dash(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.maximum(X[:, 0], 0)
    models = [
        (im.RegressionMixture(1).fit(X, X[:, 0]), X[:, 0]),  # no noise, and no standard errors
        (
            im.ActivationSumRegressor(n_components=1, degree=2, method="paper", refine=False).fit(
                X, y
            ),
            y,
        ),
        (im.ActivationSumRegressor(n_components=1).fit(X, np.ones(200)), np.ones(200)),
    ]
    for model, labels in models:
        text = write_report(model, X, labels, path=tmp_path / "r.html").read_text("utf-8")
        assert ">nan<" not in text
    assert "Fit against data" in text


def test_one_of_everything_is_said_in_the_singular(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = 2 * X[:, 0] + rng.normal(size=300)
    models = [
        im.SphericalMixture(1, random_state=0).fit(X),
        im.SphericalMixtureClusterer(1).fit(X),
        im.RegressionMixture(1, random_state=0).fit(X, y),
        im.ActivationSumRegressor(n_components=1).fit(X, np.maximum(X[:, 0], 0)),
    ]
    for model in models:
        labels = None if hasattr(model, "means_") else y
        text = write_report(model, X, labels, path=tmp_path / "r.html").read_text("utf-8")
        shown = " ".join(Reader(text).text)
        plural = r"\b1 (spherical|linear|component|column|activation|direction|line|row)\w*s\b"
        assert not re.search(plural, shown)
        assert not re.search(r"\b1 (spherical|linear) ", shown)
        assert "two dimensions" not in shown
        assert "300 rows, 1 column" in shown


def test_what_is_refused(fitted, tmp_path, monkeypatch):
    model, X, y = fitted["RegressionMixture"]
    with pytest.raises(ValueError, match="give the picture y too"):
        write_report(model, X, path=tmp_path / "r.html")
    with pytest.raises(ValueError, match="max_rows"):
        write_report(model, X, y, path=tmp_path / "r.html", max_rows=-1)
    monkeypatch.chdir(tmp_path)
    means, rows, _ = fitted["SphericalMixture"]
    with pytest.raises(
        TypeError, match=r"y is for models with labels, .*given by name: ax=…, path"
    ):
        write_report(means, rows, "pos.html")
    with pytest.raises(TypeError, match="positional"):
        write_report(model, X, y, "pos.html")
    assert list(tmp_path.iterdir()) == []
