"""Models go through a file with the same bits, and damaged files are refused by one error."""

import copy
import errno
import json
import math
import os
from dataclasses import replace

import array_api_strict
import numpy as np
import pandas
import pytest
import safetensors.numpy
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import implicitmoments as im
from implicitmoments.saving import replace_file
from support import refuses

ENTRY = "implicitmoments"
FUZZED = 300


def through_file(model, path):
    im.save(model, path)
    return im.load(path)


def answers(model, data):
    """All that a model answers about rows."""
    X, *y = (column[:200] for column in data)
    labelled = isinstance(model, im.RegressionMixture | im.RegressionMixtureDensity)
    found = []
    for method in ("predict", "predict_proba", "predict_component", "score_samples"):
        if hasattr(model, method):
            given = (X,) if method == "predict" or not labelled else (X, *y)
            found.append(getattr(model, method)(*given))
    if hasattr(model, "sample"):
        drawn = model.sample(20)
        found += drawn if isinstance(drawn, tuple) else [drawn]
    return found


def split(path):
    """Return the document and the arrays of a file."""
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"][ENTRY]), safetensors.numpy.load(data)


def join(path, document, arrays):
    safetensors.numpy.save_file(arrays, path, metadata={ENTRY: json.dumps(document)})


def test_answers_and_attributes_have_the_same_bits(case, path):
    model, data = case
    again = through_file(model, path)
    assert type(again) is type(model)
    left = set(vars(model)) - set(vars(again))
    assert all(getattr(model, name) is None for name in left)
    pairs = list(zip(answers(model, data), answers(again, data), strict=True))
    assert all(np.array_equal(*pair, equal_nan=True) for pair in pairs)
    assert all(one.dtype == other.dtype for one, other in pairs)
    assert again.notes_ == model.notes_
    assert repr(again.stats_) == repr(model.stats_)


def test_a_model_that_answers_otherwise_is_noticed(case):
    model, data = case
    if isinstance(model, im.SphericalMixture | im.GaussianMixture | im.RegressionMixture):
        other, fitted = copy.copy(model), model._mixture
        changed = {name: 1.1 * part for name, part in fitted.parameters.items()}
        other._mixture = replace(fitted, parameters=changed)
        found = zip(answers(model, data), answers(other, data), strict=True)
        assert not all(np.array_equal(*pair) for pair in found)


def test_partial_fit_goes_on_where_it_was(path):
    X, _ = im.datasets.make_spherical_mixture(2_000, 3, 3, radius=6.0, random_state=0)
    model = im.SphericalMixture(3, random_state=0).partial_fit(X)
    again = through_file(model, path)
    for each in (model, again):
        each.partial_fit(X[::2] + 0.1)
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))


def test_names_of_features_are_kept(path):
    X, _ = im.datasets.make_spherical_mixture(500, 2, 3, radius=6.0, random_state=0)
    frame = pandas.DataFrame(X, columns=["a", "b", "ö"])
    again = through_file(im.SphericalMixture(2, random_state=0).fit(frame), path)
    assert again.feature_names_in_.tolist() == ["a", "b", "ö"]
    with pytest.raises(ValueError):  # noqa: PT011 (of scikit-learn)
        again.predict(frame.rename(columns={"a": "z"}))


VALUES = {
    "numbers": [0.1, -0.0, 1e-320, math.inf, -math.inf, math.nan, 2**100, True, None],
    "nested": ({"a": [1, (2,)], 3: {(1, 2): "x", None: 1.5}, 2.5: ()}, []),
    "words": 'a\n"b" ü \ud800 __class__',
    "arrays": [np.empty((0, 3)), np.array(3.0), np.ones((3, 2), np.float32).T, np.arange(9)[::2]],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_all_kinds_come_back(name, model, path):
    changed = copy.copy(model)
    changed.stats_ = {**model.stats_, name: VALUES[name]}
    assert repr(through_file(changed, path).stats_) == repr(changed.stats_)


def test_arrays_of_other_libraries_become_numpy(model, path):
    changed = copy.copy(model)
    changed.means_ = array_api_strict.asarray(model.means_)
    found = through_file(changed, path).means_
    assert np.array_equal(found, model.means_)
    found[0] = 0.0  # and can be written to


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("random_state", np.random.default_rng(0)),
        ("stats_", {"when": object()}),
        ("means_", np.ones((3, 3), dtype=complex)),
    ],
)
def test_what_a_file_cannot_hold_is_refused(name, value, model, path):
    changed = copy.copy(model)
    setattr(changed, name, value)
    with refuses("type_not_saved"):
        im.save(changed, path)
    assert not path.exists()


def test_a_users_function_is_refused(path):
    X, y, _ = im.datasets.make_activation_sum(400, 1, 2, random_state=0)
    model = im.ActivationSumRegressor(lambda u: u * (u > 0), 1, degree=2, refine=False)
    with refuses("type_not_saved", attribute="activation"):
        im.save(model.fit(X, y), path)


def test_only_fitted_estimators_of_the_library_are_saved(model, path):
    with pytest.raises(NotFittedError):
        im.save(im.SphericalMixture(), path)
    for other in (make_pipeline(StandardScaler(), model), StandardScaler(), None):
        with refuses("not_an_estimator"):
            im.save(other, path)


def test_files_of_other_kinds_are_refused(model, path, tmp_path):
    im.save(model, path)
    whole = path.read_bytes()
    others = {
        "empty": b"",
        "text": b"x,y\n1,2\n",
        "truncated": whole[:-5],
        "header": b"\xff" * 40,
        "arrays": safetensors.numpy.save({"a": np.ones(3)}),
        "deep": safetensors.numpy.save({}, metadata={ENTRY: "[" * 100_000}),
    }
    for data in others.values():
        path.write_bytes(data)
        with refuses("not_a_model_file", file=str(path)):
            im.load(path)
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path, tmp_path / "nowhere", tmp_path / "pipe"):
        with refuses("cannot_read"):
            im.load(name)


@pytest.mark.parametrize(
    "change",
    [
        {"estimator": "os"},
        {"estimator": "Mapping"},
        {"parameters": {"n": 3}},
        {"fitted": {}},
        {"fitted": {"predict": 3}},
        {"fitted": {"__class__": 3}},
        {"fitted": {"means_": {"array": "nothing", "turned": False}}},
        {"fitted": {"means_": {"record": "Path", "fields": {}}}},
        {"fitted": {"means_": {"code": "1"}}},
        {"fitted": {"weights_": "a word"}},
        {"fitted": []},
    ],
)
def test_documents_of_other_content_are_refused(change, model, path):
    im.save(model, path)
    document, arrays = split(path)
    (name, value), *_ = change.items()
    merged = isinstance(value, dict) and value and name == "fitted"
    join(path, {**document, name: {**document[name], **value} if merged else value}, arrays)
    with refuses("invalid_content"):
        im.load(path)


@pytest.mark.parametrize("name", ["spherical", "density", "activation"])
def test_mutated_files_give_a_model_or_the_error(name, path, request):
    model = request.getfixturevalue("fitted_by_name")(name)
    im.save(model, path)
    data, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    size = 8 + int.from_bytes(data[:8], "little")
    for _ in range(FUZZED):
        changed = bytearray(data)
        for place in rng.integers(size, size=rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        path.write_bytes(changed)
        try:
            assert type(im.load(path)) is type(model)
        except im.ModelFileError:
            refused += 1
    assert refused > FUZZED / 2


def test_a_file_is_replaced_when_it_is_complete(path):
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="full"), replace_file(path) as file:  # noqa: PT012
        file.write(b"new")
        raise OSError(errno.ENOSPC, "full")
    assert path.read_bytes() == b"old"
    link = path.with_name("link")
    link.symlink_to(path)
    with replace_file(link) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert link.is_symlink()
    assert len(list(path.parent.iterdir())) == 2


def test_a_folder_that_cannot_be_written_is_named(model, tmp_path):
    for target in (tmp_path / "missing" / "model.im", tmp_path):
        with refuses("cannot_write", file=str(target)):
            im.save(model, target)
