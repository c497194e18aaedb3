"""Columns divided by their spread before a fit: answers are in the units of the file."""

import io
import json
import re

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.cli.input_rows import ModelRows, column_scales
from implicitmoments.rows import ArrayTable

UNITS = np.array([1.0, 50.0, 0.01])
KINDS = {
    "mixture": ["-k", "3"],
    "clusters": ["-k", "3"],
    "density": ["-k", "3", "--degree", "2"],
    "regressions": ["-k", "2", "--target", "price"],
    "regression-density": ["-k", "2", "--degree", "2", "--target", "price"],
    "activations": ["-k", "2", "--activation", "relu", "--target", "price"],
}
LABELLED = ("regressions", "regression-density", "activations")


def table(text):
    return np.genfromtxt(io.StringIO(text), delimiter=",", names=True)


def columns_of(word):
    return (["a", "b"], "price") if word in LABELLED else (["height", "width", "depth"], None)


@pytest.fixture(scope="module")
def scaled(data, call, tmp_path_factory):
    """Files in unlike units, the same divided by hand, and models of both, by their word."""
    folder = tmp_path_factory.mktemp("scaled")
    made = {}
    for word, how in KINDS.items():
        names, target = columns_of(word)
        d = len(names)
        given = np.load(data / ("lines.npy" if target else "rows.npy"))
        X, y = given[:, :d] * UNITS[:d], given[:, d:]
        header = [*names, *([target] if target else [])]
        write_exactly(folder / f"{word}.csv", header, np.column_stack([X, y]))
        fitted = folder / f"{word}.im"
        result = call("fit", word, folder / f"{word}.csv", *how, "--scale", "-o", fitted)
        assert result.exit_code == 0, result.stderr
        scale = im.load(fitted).columns_in_["scale"]
        np.testing.assert_allclose(scale, X.std(axis=0), rtol=1e-12)
        by_hand = np.column_stack([X / scale, y])
        write_exactly(folder / f"{word}_by_hand.csv", header, by_hand)
        twin = folder / f"{word}_by_hand.im"
        assert call("fit", word, folder / f"{word}_by_hand.csv", *how, "-o", twin).exit_code == 0
        made[word] = folder
    return made


def write_exactly(path, names, rows):
    lines = [",".join(names), *(",".join(map(repr, row)) for row in rows.tolist())]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("word", KINDS)
def test_a_scaled_fit_is_the_fit_of_columns_divided_by_hand(word, scaled):
    one, two = (im.load(scaled[word] / f"{word}{end}.im") for end in ("", "_by_hand"))
    assert "scale" not in getattr(two, "columns_in_", {})
    for name, value in vars(two).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            np.testing.assert_array_equal(getattr(one, name), value, err_msg=name)


@pytest.mark.parametrize("word", KINDS)
def test_answers_are_those_of_columns_divided_by_hand(word, scaled, call):
    folder = scaled[word]
    model, twin = folder / f"{word}.im", folder / f"{word}_by_hand.im"
    rows, by_hand = folder / f"{word}.csv", folder / f"{word}_by_hand.csv"
    scale = im.load(model).columns_in_["scale"]
    volume = 0.0 if word in ("regressions", "activations") else np.log(scale).sum()
    if word not in ("density", "regression-density"):
        assert call("predict", model, rows).stdout == call("predict", twin, by_hand).stdout
    if word != "clusters":
        one, two = (
            float(call("score", *each).stdout) for each in ((model, rows), (twin, by_hand))
        )
        assert one == pytest.approx(two - volume, abs=1e-9)
    if word not in ("clusters", "activations"):
        one, two = (
            table(call("score", *each, "--rows").stdout)["log_density"]
            for each in ((model, rows), (twin, by_hand))
        )
        np.testing.assert_allclose(one, two - volume, atol=1e-9)
        assert one.mean() == pytest.approx(float(call("score", model, rows).stdout))
        one, two = (
            table(call("sample", each, "-n", "40", "--seed", "3").stdout) for each in (model, twin)
        )
        for name, s in zip(columns_of(word)[0], scale, strict=True):
            np.testing.assert_allclose(one[name], two[name] * s, rtol=1e-12)


def test_the_density_is_one_of_the_columns_as_they_are(scaled, call):
    """With other units of the file it changes by their logarithms, and by nothing else."""
    folder = scaled["mixture"]
    X = np.loadtxt(folder / "mixture.csv", delimiter=",", skiprows=1)
    write_exactly(folder / "cm.csv", ["height", "width", "depth"], X * [100.0, 1.0, 1.0])
    how = ("fit", "mixture", folder / "cm.csv", "-k", "3", "--scale", "-o", folder / "cm.im")
    assert call(*how).exit_code == 0
    before = float(call("score", folder / "mixture.im", folder / "mixture.csv").stdout)
    after = float(call("score", folder / "cm.im", folder / "cm.csv").stdout)
    assert after == pytest.approx(before - np.log(100.0), abs=1e-6)


def test_parameters_are_given_in_units_of_the_file(scaled, call):
    folder = scaled["mixture"]
    model = im.load(folder / "mixture.im")
    scale = model.columns_in_["scale"]
    document = json.loads(call("describe", folder / "mixture.im", "--json").stdout)
    np.testing.assert_allclose(document["found"]["means"], model.means_)
    np.testing.assert_allclose(document["in_file_units"]["means"], model.means_ * scale)
    np.testing.assert_allclose(
        document["in_file_units"]["standard_deviations"], np.sqrt(model.variance_) * scale
    )
    assert document["scale"] == pytest.approx(dict(zip(document["features"], scale, strict=True)))
    assert "found_is_scaled" in [note["code"] for note in document["notes"]]
    shown = call("describe", folder / "mixture.im").stdout
    for number in (*(model.means_ * scale).ravel(), *scale):
        assert f"{number:.4g}" in shown


def test_coefficients_are_given_in_units_of_the_file(scaled, call):
    model = im.load(scaled["regressions"] / "regressions.im")
    document = json.loads(
        call("describe", scaled["regressions"] / "regressions.im", "--json").stdout
    )
    coefficients = np.array(document["in_file_units"]["coef"])
    np.testing.assert_allclose(coefficients, model.coef_ / model.columns_in_["scale"])
    first = coefficients[np.argmax(coefficients[:, 0])]
    np.testing.assert_allclose(first, np.array([2.0, -1.0]) / UNITS[:2], rtol=0.05)


def test_a_scaled_model_is_asked_from_python(scaled, call):
    """X is divided by the scale that the model remembers."""
    folder = scaled["mixture"]
    model = im.load(folder / "mixture.im")
    X = np.loadtxt(folder / "mixture.csv", delimiter=",", skiprows=1)
    del model.feature_names_in_
    labels = table(call("predict", folder / "mixture.im", folder / "mixture.csv").stdout)
    np.testing.assert_array_equal(
        labels["component"], model.predict(X / model.columns_in_["scale"])
    )


@pytest.mark.parametrize("word", ["mixture", "regressions"])
def test_a_report_is_in_the_units_of_the_file(word, scaled, call, tmp_path):
    folder, out = scaled[word], tmp_path / "page.html"
    result = call("report", folder / f"{word}.im", folder / f"{word}.csv", "-o", out)
    assert result.exit_code == 0, result.stderr
    page, model = out.read_text("utf-8"), im.load(folder / f"{word}.im")
    names, scale = columns_of(word)[0], model.columns_in_["scale"]
    assert not [name for name in names if f"{name} / " in page]
    table = page.split('id="parameters-0"')[1].split("</table>")[0]
    exact = [float(value) for value in re.findall(r'data-v="([^"]*)"', table)]
    own = model.means_ * scale if word == "mixture" else model.coef_ / scale
    shown = np.reshape(exact, (len(own), -1))[:, -len(names) :]
    np.testing.assert_allclose(shown, own)
    # rows are those of the file
    X = np.loadtxt(folder / f"{word}.csv", delimiter=",", skiprows=1)
    cells = page.split('id="rows"')[1].split("</table>")[0].split("<tr>")[2]
    values = [float(value) for value in re.findall(r'data-v="([^"]*)"', cells)]
    row = int(values[0])  # then the next group, and the columns
    np.testing.assert_allclose(values[2:], X[row - 1])
    # no name of Python: options of the command line instead
    text = re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", page, flags=re.S)
    assert not re.findall(r"\b(?:[a-z]+_)+(?![a-z])|n_components|random_state", text)
    command = re.search(r'id="next".*?<code>(.*?)</code>', page, flags=re.S)[1]
    assert command.startswith("implicitmoments ")
    assert str(folder / f"{word}.csv") in command


def test_arrays_weights_and_single_precision(call, data, tmp_path):
    X = np.load(data / "rows.npy") * UNITS
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    np.save(tmp_path / "rows.npy", np.column_stack([X, weights]).astype(np.float32))
    how = ("--weight", "3", "-k", "3", "--scale", "-o", tmp_path / "m.im")
    assert call("fit", "mixture", tmp_path / "rows.npy", *how).exit_code == 0
    model = im.load(tmp_path / "m.im")
    repeated = np.repeat(X, weights, axis=0)
    np.testing.assert_allclose(model.columns_in_["scale"], repeated.std(axis=0), rtol=1e-5)
    result = call("predict", tmp_path / "m.im", tmp_path / "rows.npy", "--columns", "0,1,2")
    assert result.exit_code == 0, result.stderr
    divided = X.astype(np.float32) / model.columns_in_["scale"].astype(np.float32)
    np.testing.assert_array_equal(table(result.stdout)["component"], model.predict(divided))


def test_constant_columns_are_divided_by_1():
    rng = np.random.default_rng(0)
    far = 1e9 + rng.normal(size=500)
    X = np.column_stack([np.full(500, 0.1), far, rng.normal(size=500)])
    scales = column_scales(ArrayTable(X))
    assert scales[0] == 1
    np.testing.assert_allclose(scales[1:], X[:, 1:].std(axis=0), rtol=1e-6)


def test_rows_for_a_model_are_ordered_and_divided():
    X = np.arange(12.0).reshape(4, 3)
    source = ModelRows(ArrayTable(X), [2, 0, 1], np.array([1.0, 2.0, 4.0]))
    expected = X[:, [2, 0, 1]] / [1.0, 2.0, 4.0]
    np.testing.assert_array_equal(source.pick(np.array([1, 3]))["x"], expected[[1, 3]])


@pytest.mark.parametrize("stored", ["wide", {"target": 3}, [1]])
def test_columns_that_are_none_are_refused(stored, refused, models, data, tmp_path):
    model = im.load(models["mixture"])
    model.columns_in_ = stored
    im.save(model, tmp_path / "m.im")
    refused("model_columns_damaged", "predict", tmp_path / "m.im", data / "rows.csv")


@pytest.mark.parametrize("scale", [np.ones(2), np.array([1.0, 0.0, 1.0]), "wide", np.arange(3)])
def test_a_scale_that_is_none_is_refused(scale, refused, models, data, tmp_path):
    model = im.load(models["mixture"])
    model.columns_in_ = {"scale": scale}
    im.save(model, tmp_path / "m.im")
    refused("model_scale_damaged", "predict", tmp_path / "m.im", data / "rows.csv")


@pytest.mark.parametrize("scaled", [True, False])
def test_an_account_number_hides_no_groups_in_silence(call, tmp_path, rng, scaled):
    """With --scale the groups are found; without, the fit says that units differ."""
    X = rng.normal(size=(300, 3))
    X[:100, :2] += 12.0
    X[:, 2] = 2e10 + rng.integers(10**6, size=300)
    write_exactly(tmp_path / "rows.csv", ["height", "width", "account"], X)
    fitted = tmp_path / "model.im"
    how = ["-k", "2", *(["--scale"] if scaled else []), "-o", fitted]
    assert call("fit", "mixture", tmp_path / "rows.csv", *how).exit_code == 0
    model = im.load(fitted)
    if not scaled:
        assert "not_round" in model.notes_.codes
        return
    labels = call("predict", fitted, tmp_path / "rows.csv").stdout.split()[1:]
    np.testing.assert_array_equal(np.array(labels, dtype=int) == 1, np.arange(300) < 100)
