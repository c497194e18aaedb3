"""Files that cannot be loaded are refused by one error that says what to try."""

import json
import os
from hashlib import sha256

import numpy as np
import pytest
import safetensors.numpy

import implicitmoments as im
from implicitmoments.saving import migrations
from implicitmoments.saving.container import LARGEST_HEADER

ENTRY, BLANK = "implicitmoments", "0" * 64


@pytest.fixture
def data(model, path):
    im.save(model, path)
    return path.read_bytes()


def parts(data):
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    return header, json.loads(header.pop("__metadata__")[ENTRY]), data[8 + size :]


def join(header, document, arrays):
    """A file with a checksum that fits, whatever it holds."""
    text = document
    if not isinstance(document, str):
        text = json.dumps({**document, "checksum": BLANK})
    written = header
    if not isinstance(header, str):
        written = json.dumps({**header, "__metadata__": {ENTRY: text}})
    data = len(written).to_bytes(8, "little") + written.encode() + arrays
    return data.replace(BLANK.encode(), sha256(data).hexdigest().encode(), 1)


def refused(path, data, words):
    path.write_bytes(data)
    with pytest.raises(im.ModelFileError) as caught:
        im.load(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert "; " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_file_joined_again_is_read(path, data):
    path.write_bytes(join(*parts(data)))
    assert im.load(path).n_components_ == 3


# files that are damaged, or something else


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.3, 0.9, 0.999])
def test_files_that_are_cut_short(share, path, data):
    words = "is empty" if share == 0 else "model file" if share == 0.001 else "is cut short"
    refused(path, data[: int(share * len(data))], words)


def test_files_with_more_at_their_end(path, data):
    refused(path, data + b"x", "it has 1 bytes too many")


def test_any_altered_byte_is_noticed(path, data):
    for place in range(0, len(data), 7):
        altered = bytearray(data)
        altered[place] ^= 1
        refused(path, bytes(altered), "model file")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b\n1,2\n" * 10, "is no model file"),
        (b"\x80\x04\x95" + bytes(50), "is no model file"),
        (b"PK\x03\x04" + bytes(50), "is no model file"),
        (b"{" * 100, "is no model file"),
        ((2**63).to_bytes(8, "little") + b"{}" + bytes(30), "its header is said to have"),
        ((LARGEST_HEADER).to_bytes(8, "little") + b"{}" + bytes(30), "is said to have"),
        ((50).to_bytes(8, "little") + b"{" * 50, "its header cannot be read"),
        ((2).to_bytes(8, "little") + b"{}", "but not of a model of implicitmoments"),
    ],
)
def test_other_files(content, words, path):
    refused(path, content, words)


def test_safetensors_of_another_project(path):
    tensors = {"weight": np.ones((2, 3))}
    for metadata in (None, {"format": "pt"}, {ENTRY: "{}", "format": "pt"}):
        data = safetensors.numpy.save(tensors, metadata=metadata)
        refused(path, data, "is a safetensors file, but not of a model of implicitmoments")
    refused(path, safetensors.numpy.save(tensors, metadata={ENTRY: "[]"}), "no mapping")
    refused(path, safetensors.numpy.save(tensors, metadata={ENTRY: "{}"}), "checksum is missing")


def test_missing_files_folders_and_pipes(tmp_path):
    with pytest.raises(im.ModelFileError, match=r"none cannot be opened \(No such file"):
        im.load(tmp_path / "none")
    with pytest.raises(im.ModelFileError, match="it is no file"):
        im.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(im.ModelFileError, match="it is no file"):
        im.load(tmp_path / "pipe")


# files that were made to harm, with checksums that fit


def set_in(document, place, value):
    *holders, last = place
    for key in holders:
        document = document[key]
    document[last] = value


HOSTILE = {
    "estimator of another name": (["estimator"], "Popen", "is not one that model files hold"),
    "estimator by import path": (["estimator"], "os.system", "is not one that model files hold"),
    "no estimator": (["estimator"], ["SphericalMixture"], "is not one that model files hold"),
    "unknown class": (["objects", 0, "class"], "Popen", "'Popen' is not one that"),
    "dunder class": (["objects", 0, "class"], "__import__", "'__import__' is not one that"),
    "an estimator inside": (["objects", 0, "class"], "SphericalMixture", "is not one that"),
    "class of no kind": (["objects", 0, "class"], {}, "'{}' is not one that"),
    "no fields": (["objects", 0, "fields"], {}, "has not the fields"),
    "field of another type": (["objects", 0, "fields", "weights"], "x", "Decoded.weights is of"),
    "no objects": (["objects"], {}, "a list is expected"),
    "too many objects": (["objects"], [{}] * 10_001, "more than 10000"),
    "object ahead": (["objects", 0, "fields", "r"], {"object": 0}, "no object 0 so far"),
    "dunder attribute": (["fitted", "__class__"], 1, "'__class__' is no attribute"),
    "method": (["fitted", "predict"], 1, "'predict' is no attribute"),
    "attribute of no name": (["fitted", "a b"], 1, "'a b' is no attribute"),
    "missing attribute": (["fitted"], {}, "nothing refers to"),
    "statistics": (["statistics"], 3, "stats_ of SphericalMixture is missing or of another type"),
    "more parameters": (["parameters", "x"], 1, "the parameters of SphericalMixture are"),
    "more sections": (["code"], "import os", "a document has the sections"),
    "unknown tag": (["parameters", "tol"], {"pickle": "x"}, "the tag 'pickle' is not known"),
    "type of objects": (["parameters", "tol"], {"type": "object"}, "is not one of a number"),
    "number of objects": (["parameters", "tol"], {"scalar": "O", "value": 1}, "not one of a"),
    "scalar of words": (["parameters", "tol"], {"scalar": "int8", "value": "1"}, "is a str"),
    "scalar out of range": (["parameters", "tol"], {"scalar": "int8", "value": 999}, "out of"),
    "float": (["parameters", "tol"], {"float": "1"}, "there is no '1' to refer to"),
    "words": (["parameters", "tol"], {"words": [1]}, "words are something else"),
    "equal keys": (["parameters", "tol"], {"dict": [[1, 1], [1, 2]]}, "stands twice"),
    "colliding keys": (["parameters", "tol"], {"dict": [[1, 1]] * 1_001}, "is too large"),
    "key that is a list": (["parameters", "tol"], {"dict": [[[], 1]]}, "unhashable"),
    "a string for a tuple": (["parameters", "tol"], {"tuple": "abc"}, "a list is expected"),
    "no array": (["fitted", "means_"], {"array": "x"}, "there is no 'x' to refer to"),
    "array by number": (["fitted", "means_"], {"array": 3}, "there is no '3' to refer to"),
    "layout": (["fitted", "means_", "layout"], [10**15, 1], "has the layout"),
    "deep": (["parameters", "tol"], "DEEP", "its document cannot be read"),
    "schema": (["schema"], "1", "its schema is '1'"),
    "negative schema": (["schema"], -1, "its schema is '-1'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents(name, path, data):
    place, value, words = HOSTILE[name]
    header, document, arrays = parts(data)
    set_in(document, place, value)
    text = json.dumps({**document, "checksum": BLANK})
    text = text.replace('"DEEP"', '{"tuple":[' * 100_000 + "]}" * 100_000)
    refused(path, join(header, text, arrays), words)


@pytest.mark.parametrize("name", ["variance_", "n_features_in_"])
def test_attributes_that_answers_read_must_be_there(name, path, data):
    header, document, arrays = parts(data)
    del document["fitted"][name]
    refused(path, join(header, document, arrays), f"{name} of SphericalMixture is missing")


def test_a_layout_that_differs_at_a_second_place(path, data):
    header, document, arrays = parts(data)
    document["statistics"]["map"]["x"] = {"array": "means_", "layout": [1, 3]}
    refused(path, join(header, document, arrays), "has two layouts")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "9" * 5_000, "1e999", '"a', "\x00"])
def test_what_json_or_python_has_no_number_for(text, path, data):
    header, document, arrays = parts(data)
    document["parameters"]["tol"] = "HERE"
    written = json.dumps({**document, "checksum": BLANK}).replace('"HERE"', text)
    words = "out of range" if text == "1e999" else "its document cannot be read"
    refused(path, join(header, written, arrays), words)


def test_names_that_stand_twice(path, data):
    header, document, arrays = parts(data)
    text = json.dumps({**document, "checksum": BLANK})
    for piece in ('"schema": 1', '"tol": 1e-07'):
        assert piece in text
        twice = text.replace(piece, f"{piece}, {piece}", 1)
        refused(path, join(header, twice, arrays), "a name stands twice")
    whole = json.dumps({**header, "__metadata__": {ENTRY: text}})
    doubled = whole.replace('"means_"', f'"means_": {json.dumps(header["means_"])}, "means_"', 1)
    refused(path, join(doubled, text, arrays), "a name stands twice")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("shape", [-3, -3], "has no sizes"),
        ("shape", [3.0, 3], "has no sizes"),
        ("shape", [True, 9], "has no sizes"),
        ("shape", [2**40, 2**40], "bytes and others"),
        ("shape", [3, 4], "bytes and others"),
        ("shape", None, "has no sizes"),
        ("shape", [2**62] * 50_000, "has no sizes"),
        ("data_offsets", [0], "has no sizes"),
        ("data_offsets", [0, 2**62], "bytes and others"),
        ("data_offsets", [2**40, 2**40 + 72], "is cut short"),
        ("data_offsets", [0, 72], "model"),
        ("dtype", "F64x", "has entries of type 'F64x'"),
        ("dtype", "BF16", "has entries of type 'BF16'"),
        ("dtype", {}, "has entries of type '{}'"),
        ("dtype", "I64", "means_ of SphericalMixture"),
        ("more", 1, "is not described"),
    ],
)
def test_arrays_that_are_not_what_they_say(key, value, words, path, data):
    header, document, arrays = parts(data)
    header["means_"][key] = value
    if words == "means_ of SphericalMixture":  # whole numbers do for means; words do not
        header["means_"]["dtype"] = "BOOL"
        header["means_"]["shape"] = [9, 8]
    refused(path, join(header, document, arrays), words)


def test_arrays_that_nothing_refers_to(path, data):
    header, document, arrays = parts(data)
    header["more"] = {"dtype": "U8", "shape": [8], "data_offsets": [len(arrays), len(arrays) + 8]}
    refused(path, join(header, document, arrays + bytes(8)), "nothing refers to 'more'")


@pytest.mark.parametrize(
    ("state", "value"),
    [("pos", 10**9), ("pos", -1), ("has_gauss", 2), ("key", {"array": "means_"})],
)
def test_random_states_that_would_read_beyond_their_memory(state, value, library, path):
    im.save(library["fitted"]("mixture RandomState"), path)
    header, document, arrays = parts(path.read_bytes())
    held = next(o["fields"] for o in document["objects"] if o["class"] == "RandomState")
    held[state] = value
    refused(path, join(header, document, arrays), "model")


def test_activations_that_are_not_the_library_s(library, path):
    im.save(library["fitted"]("activation cosine(1.3, 0.2), refine=False"), path)
    for name, numbers, words in [
        ("eval", [], "the activation 'eval' is not known"),
        ("cos", [1.0, 2.0, 3.0], "positional argument"),
        ("cos", [1e300, 0.0], "holds what no model has"),
        ("cos", ["x"], "Activation.parameters is of another type"),
        ("relu", [1.0], "positional argument"),
    ]:
        header, document, arrays = parts(path.read_bytes())
        held = next(o["fields"] for o in document["objects"] if o["class"] == "Activation")
        held["name"], held["parameters"] = name, {"tuple": numbers}
        refused(path.with_name("x"), join(header, document, arrays), words)


# versions


def test_files_of_a_newer_version(path, data):
    header, document, arrays = parts(data)
    document |= {"schema": migrations.SCHEMA + 1, "library": "99.0", "new": 1}
    words = f"newer version of implicitmoments (99.0, schema {migrations.SCHEMA + 1})"
    refused(path, join(header, document, arrays), words)
    with pytest.raises(im.ModelFileError, match="update implicitmoments, or fit and save"):
        im.load(path)
