"""The page: its contents by ids and codes, that it is well formed, and needs no network."""

import copy
import re
from collections import Counter, defaultdict
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import implicitmoments as im
from implicitmoments.notes import Note, Notes
from implicitmoments.report import verdict_of, write_report
from support import PICTURED

NAMES = list(PICTURED)
VOID = {"meta", "br", "img", "link", "input", "hr"}
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
LABELS = "units & <more>"  # what y is called
GROUPED = {
    *("SphericalMixture", "GaussianMixture", "SphericalMixtureClusterer", "RegressionMixture"),
}
STEPPED = {"SphericalMixtureDensity", "RegressionMixtureDensity", "ActivationSumRegressor"}


class Page(HTMLParser):
    """Elements, tables and codes of a page; an element left open is a fault."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.elements, self.text = [], [], [], []
        self.tables, self.pieces = {}, defaultdict(list)
        self.feed(text)
        self.close()
        self.by_id = {key: "".join(parts) for key, parts in self.pieces.items()}
        self.faults += [f"{tag} is not closed" for tag, _ in self.open]

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag not in VOID:
            self.open.append((tag, attrs))
        if tag == "table":
            self.rows = self.tables[attrs.get("id", f"part-{len(self.tables)}")] = []
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop()[0] != tag:
            self.faults.append(f"{tag} closes something else")

    def handle_data(self, data):
        tags = [tag for tag, _ in self.open]
        if not tags or tags[-1] not in ("style", "script"):
            self.text.append(data)
        if tags and tags[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        for tag, attrs in self.open:
            drawn = tag == "title" and "svg" in tags  # of a mark
            self.pieces[attrs.get("id") or ("mark" if drawn else tag)].append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def codes(self):
        return [attrs["data-code"] for attrs in self.all("li")]

    @property
    def points(self):
        return int(self.all("section")[0]["data-points"])


def write(model, X, y=None, **options):
    return Page(write_report(model, X, y, **options).read_text("utf-8"))


def dated(model, X, y, path):
    """Return the text of a page of a certain day, on rows whose labels have a name."""
    labels = None if y is None else pd.Series(y, name=LABELS)
    return write_report(model, X, labels, path=path, date="2026-01-31").read_text("utf-8")


@pytest.fixture(scope="module")
def texts(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    return {
        name: dated(*each, folder / f"{name}.html")
        for name, each in fitted.items()
        if name in NAMES
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_whole(fitted, texts, name):
    page = Page(texts[name])
    assert texts[name].startswith("<!DOCTYPE html>")
    assert page.faults == []
    ids = Counter(attrs["id"] for _, attrs in page.elements if "id" in attrs)
    for _, attrs in page.elements:  # what is pointed at is there, once
        target = attrs.get("xlink:href", "#found")
        assert target.startswith("data:") or ids[target[1:]] == 1
        for pointed in re.findall(r"url\(#([^)]*)\)", " ".join(v or "" for v in attrs.values())):
            assert ids[pointed] == 1
    assert {"parameters-0", "found", "settings", "statistics"} <= set(page.tables)
    assert page.by_id["date"] == "2026-01-31"
    assert im.__version__ in page.by_id["footer"]
    assert page.all("html")[0]["lang"] == "en"
    assert "width=device-width" in page.all("meta")[2]["content"]
    model, X, y = fitted[name]
    verdict = verdict_of(model, X, y)
    assert page.codes == [each.code for each in (*verdict.points, *verdict.passed)]
    assert page.points == len(verdict.points)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_there_and_their_captions_are_text_alternatives(fitted, texts, name):
    page, model = Page(texts[name]), fitted[name].model
    ids = {attrs["id"] for attrs in page.all("figure")}
    assert {"components", "fit"} <= ids
    assert ("spectra" in ids) == ("spectra" in model.captions)
    # that EM converged is in the table of findings; other steps are drawn
    assert ("convergence" in ids) == (name in STEPPED)
    assert ("pairs" in ids) == (name in GROUPED and not model.labelled)
    columns = {f"column-{j}" for j in range(model.n_features_in_ + model.labelled)}
    assert {each for each in ids if each.startswith("column-")} == (
        columns if name in GROUPED else set()
    )
    assert ("residuals" in ids) == (name == "RegressionMixture")
    described = [attrs["aria-label"] for attrs in page.all("div") if attrs.get("role") == "img"]
    assert len(described) == len(ids) == len(page.all("figcaption"))
    captions = page.by_id["figcaption"]
    assert all(words.endswith(".") and words in captions for words in described)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_asked_of_the_network(texts, name):
    text = texts[name]
    assert set(re.findall(r"https?://[^\s\"'<)]*", text)) == NAMESPACES
    policy = Page(text).all("meta")[1]["content"]
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    script = policy.split("script-src")[1].split(";")[0]
    assert script.strip().startswith("'sha256-")
    assert "unsafe-inline" not in script
    loading = ("link", "iframe", "object", "embed")
    assert not [tag for tag, attrs in Page(text).elements if "src" in attrs or tag in loading]


def test_notes_of_the_fit_come_first(fitted, texts, tmp_path):
    model, X, _ = fitted["SphericalMixture"]
    model = copy.copy(model)
    stopped, quiet = Note("not_converged", {"max_iter": 7}), Note("columns_left_out", COLUMNS)
    model.notes_ = Notes([quiet, stopped])
    page = write(model, X, path=tmp_path / "r.html")
    assert page.codes[0] == "not_converged"
    assert page.codes[-1] == "columns_left_out"
    assert page.points == 1
    assert page.all("section")[0]["class"] == "verdict look"
    page = Page(texts["SphericalMixture"])
    assert page.points == 0
    assert page.all("section")[0]["class"] == "verdict"


COLUMNS = {"columns": ["<script>alert(1)</script>"]}


def test_text_of_the_user_is_escaped(tmp_path):
    (bad,) = COLUMNS["columns"]
    X, _ = im.datasets.make_spherical_mixture(800, 2, 2, radius=6.0, random_state=0)
    X = X @ np.linalg.svd(X, full_matrices=False)[2].T
    frame = pd.DataFrame(X, columns=[bad, 'a "$" & b'])
    model = im.SphericalMixture(2, random_state=0).fit(frame)
    model.notes_ = Notes([Note("columns_left_out", COLUMNS)])
    page = write(model, frame, path=tmp_path / "r.html", title=f"<b>{bad}", date="x<y")
    assert page.faults == []
    assert len(page.all("script")) == 1
    assert bad in page.by_id["columns"]
    assert not page.all("b")
    assert page.by_id["title"] == page.by_id["h1"] == f"<b>{bad}"
    assert page.by_id["li"].count(bad) == 1
    assert page.tables["parameters-0"][0][-2:] == list(frame.columns)
    assert page.by_id["date"] == "x<y"


def test_numbers_are_copied_with_all_digits(fitted, texts):
    model = fitted["SphericalMixture"].model
    table = texts["SphericalMixture"].split('id="parameters-0"')[1].split("</table>")[0]
    exact = [float(value) for value in re.findall(r'data-v="([^"]*)"', table)]
    expected = np.column_stack([model.weights_, np.full(4, model.variance_), model.means_])
    np.testing.assert_array_equal(np.reshape(exact, (4, 6)), expected)
    page = Page(texts["SphericalMixture"])
    buttons = page.all("button")
    targets = {button["data-copies"] for button in buttons if "data-copies" in button}
    assert targets | {"heat"} == set(page.tables)


def test_large_tables_are_cut(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 150))
    model = im.SphericalMixture(2, n_moves=0, tol=1e-3, random_state=0).fit(X)
    model.means_, model.weights_ = rng.normal(size=(320, 150)), np.full(320, 1 / 320)
    path = write_report(model, X, path=tmp_path / "r.html", date="", max_rows=500)
    page = Page(path.read_text("utf-8"))
    assert [attrs for attrs in page.all("p") if attrs.get("data-code") == "table_cut"]
    first = page.tables["parameters-0"]
    assert len(first) == 301  # a head, and as many as docs/report.md says
    assert len(first[0]) <= 9  # what fits on a printed page
    assert path.stat().st_size < 2_000_000


def test_the_file_is_replaced_at_once(fitted, tmp_path, monkeypatch):
    model, X, _ = fitted["SphericalMixture"]
    path = tmp_path / "r.html"
    path.write_text("before")
    with monkeypatch.context() as broken:
        broken.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError):  # noqa: PT011 (raised above)
            write_report(model, X, path=path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    assert write_report(model, X, path=path).read_text("utf-8").endswith("</html>")


def test_the_title_and_the_origin(fitted, texts, tmp_path):
    model, X, _ = fitted["SphericalMixture"]
    np.save(tmp_path / "people.npy", X)
    path = tmp_path / "r.html"
    page = write(model, tmp_path / "people.npy", path=path)
    assert page.by_id["h1"].lower() == model._title().lower()
    assert page.by_id["origin"] == "people.npy"
    assert page.by_id["data"].startswith("SphericalMixture: 1,500 rows of 4 columns")
    page = write(model, X, path=path, title="My title", subtitle="rows <b>")
    assert page.by_id["h1"] == page.by_id["title"] == "My title"
    assert page.by_id["origin"] == "rows <b>"
    assert "origin" not in Page(texts["SphericalMixture"]).by_id


@pytest.mark.parametrize("name", [n for n in NAMES if getattr(im, n).labelled])
def test_labels_are_called_by_their_name(texts, name):
    page = Page(texts[name])
    for part in ("h1", "data", "main"):
        assert LABELS in page.by_id[part]
    assert not re.search(r"<text[^>]*>y</text>", texts[name])
