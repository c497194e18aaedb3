"""Files that cannot be loaded are refused by one error, with a code for the reason."""

import json
import os
from hashlib import sha256

import numpy as np
import pytest
import safetensors.numpy

import implicitmoments as im
from implicitmoments.saving import MAX_HEADER, SCHEMA, check_schema
from implicitmoments.testing import refuses

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


def refused(path, data, *codes, **values):
    path.write_bytes(data)
    with refuses(*codes, file=str(path), **values) as caught:
        im.load(path)
    assert isinstance(caught.error, im.ModelFileError)
    assert isinstance(caught.error, ValueError)
    assert str(path) in str(caught.error)
    assert "\n" not in str(caught.error)


def test_a_file_joined_again_is_read(path, data):
    path.write_bytes(join(*parts(data)))
    assert im.load(path).n_components_ == 3


# files that are damaged, or something else


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.3, 0.9, 0.999])
def test_files_that_are_cut_short(share, path, data):
    codes = {0.0: "empty_file", 0.001: "not_a_model_file"}
    refused(path, data[: int(share * len(data))], codes.get(share, "file_truncated"))


def test_files_with_more_at_their_end(path, data):
    refused(path, data + b"x", "file_too_long")
    refused(path, join(*parts(data)) + b"x", "file_too_long")
    header, document, arrays = parts(data)
    refused(path, join(header, document, arrays + b"x"), "file_too_long")


def test_any_altered_byte_is_noticed(path, data):
    for place in range(0, len(data), 7):
        altered = bytearray(data)
        altered[place] ^= 1
        path.write_bytes(altered)
        with pytest.raises(im.ModelFileError):
            im.load(path)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"a,b\n1,2\n" * 10, "not_a_model_file"),
        (b"\x80\x04\x95" + bytes(50), "not_a_model_file"),
        (b"PK\x03\x04" + bytes(50), "not_a_model_file"),
        (b"{" * 100, "not_a_model_file"),
        ((2**63).to_bytes(8, "little") + b"{}" + bytes(30), "not_a_model_file"),
        ((MAX_HEADER).to_bytes(8, "little") + b"{}" + bytes(30), "not_a_model_file"),
        ((50).to_bytes(8, "little") + b"{" * 50, "invalid_json"),
        ((2).to_bytes(8, "little") + b"{}", "other_safetensors"),
    ],
)
def test_other_files(content, code, path):
    refused(path, content, code)


def test_safetensors_of_another_project(path):
    tensors = {"weight": np.ones((2, 3))}
    for metadata in (None, {"format": "pt"}, {ENTRY: "{}", "format": "pt"}):
        refused(path, safetensors.numpy.save(tensors, metadata=metadata), "other_safetensors")
    for text, code in {"[]": "invalid_json", "{}": "no_checksum"}.items():
        refused(path, safetensors.numpy.save(tensors, metadata={ENTRY: text}), code)


def test_missing_files_folders_and_pipes(tmp_path):
    with refuses("cannot_open", file=str(tmp_path / "none")):
        im.load(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe"):
        with refuses("not_a_file", file=str(other)):
            im.load(other)


# files that were made to harm, with checksums that fit


def set_in(document, place, value):
    *holders, last = place
    for key in holders:
        document = document[key]
    document[last] = value


OBJECT, TOL = ["objects", 0], ["parameters", "tol"]
HOSTILE = {
    "estimator of another name": (["estimator"], "Popen", "unknown_estimator"),
    "estimator by import path": (["estimator"], "os.system", "unknown_estimator"),
    "no estimator": (["estimator"], ["SphericalMixture"], "unknown_estimator"),
    "unknown class": ([*OBJECT, "class"], "Popen", "unknown_class"),
    "dunder class": ([*OBJECT, "class"], "__import__", "unknown_class"),
    "an estimator inside": ([*OBJECT, "class"], "SphericalMixture", "unknown_class"),
    "record of another estimator": ([*OBJECT, "class"], "Network", "unknown_class"),
    "class of no kind": ([*OBJECT, "class"], {}, "unknown_class"),
    "no fields": ([*OBJECT, "fields"], {}, "wrong_fields"),
    "field of another type": ([*OBJECT, "fields", "weights"], "x", "wrong_type"),
    "no object": (OBJECT, {}, "invalid_object"),
    "no objects": (["objects"], {}, "not_a_list"),
    "too many objects": (["objects"], [{}] * 10_001, "too_many_objects"),
    "object ahead": ([*OBJECT, "fields", "r"], {"object": 0}, "no_such_object"),
    "dunder attribute": (["fitted", "__class__"], 1, "invalid_attribute"),
    "method": (["fitted", "predict"], 1, "invalid_attribute"),
    "attribute of no name": (["fitted", "a b"], 1, "invalid_attribute"),
    "statistics twice": (["fitted", "stats_"], {"map": {}}, "invalid_attribute"),
    "missing attribute": (["fitted"], {}, "unused"),
    "statistics": (["statistics"], 3, "wrong_type"),
    "more parameters": (["parameters", "x"], 1, "wrong_parameters"),
    "parameters that are none": (["parameters"], 3, "not_a_mapping"),
    "more sections": (["code"], "import os", "wrong_sections"),
    "unknown tag": (TOL, {"pickle": "x"}, "unknown_tag"),
    "type of objects": (TOL, {"type": "object"}, "unknown_dtype"),
    "number of objects": (TOL, {"scalar": "O", "value": 1}, "unknown_dtype"),
    "scalar of words": (TOL, {"scalar": "int8", "value": "1"}, "invalid_scalar"),
    "scalar out of range": (TOL, {"scalar": "int8", "value": 999}, "invalid_content"),
    "float": (TOL, {"float": "1"}, "no_such_name"),
    "words": (TOL, {"words": [1]}, "not_strings"),
    "equal keys": (TOL, {"dict": [[1, 1], [1, 2]]}, "duplicate_key"),
    "colliding keys": (TOL, {"dict": [[1, 1]] * 1_001}, "too_many_keys"),
    "key that is a list": (TOL, {"dict": [[[], 1]]}, "invalid_content"),
    "a string for a tuple": (TOL, {"tuple": "abc"}, "not_a_list"),
    "a list for a mapping": (TOL, {"map": [1]}, "not_a_mapping"),
    "note without a code": (TOL, {"notes": [[1, {"map": {}}]]}, "invalid_note"),
    "notes that are none": (["fitted", "notes_"], [], "wrong_type"),
    "no array": (["fitted", "means_"], {"array": "x"}, "no_such_name"),
    "array by number": (["fitted", "means_"], {"array": 3}, "no_such_name"),
    "layout": (["fitted", "means_", "layout"], [10**15, 1], "invalid_layout"),
    "deep": (TOL, "DEEP", "invalid_json"),
    "schema": (["schema"], "1", "invalid_schema"),
    "negative schema": (["schema"], -1, "invalid_schema"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents(name, path, data):
    place, value, code = HOSTILE[name]
    header, document, arrays = parts(data)
    set_in(document, place, value)
    text = json.dumps({**document, "checksum": BLANK})
    text = text.replace('"DEEP"', '{"tuple":[' * 100_000 + "]}" * 100_000)
    refused(path, join(header, text, arrays), code)


@pytest.mark.parametrize("name", ["variance_", "n_features_in_"])
def test_attributes_that_answers_read_must_be_there(name, path, data):
    header, document, arrays = parts(data)
    del document["fitted"][name]
    refused(path, join(header, document, arrays), "missing_attribute", what=name)


def test_a_layout_that_differs_at_a_second_place(path, data):
    header, document, arrays = parts(data)
    document["statistics"]["map"]["x"] = {"array": "means_", "layout": [1, 3]}
    refused(path, join(header, document, arrays), "two_layouts")


def test_notes_that_this_version_does_not_know_are_shown(path, data):
    header, document, arrays = parts(data)
    written = [
        ["a_code_of_tomorrow", {"map": {"k": 3}}],
        ["not_converged", {"map": {"max_iter": 7}}],
        ["not_converged", {"map": {}}],  # its sentence needs a value
    ]
    document["fitted"]["notes_"] = {"notes": written}
    path.write_bytes(join(header, document, arrays))
    notes = im.load(path).notes_
    assert notes.codes == ["unknown_note", "not_converged", "unknown_note"]
    assert notes[0].values == {"code": "a_code_of_tomorrow", "values": {"k": 3}}
    assert "a_code_of_tomorrow" in str(notes)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "9" * 5_000, "1e999", '"a', "\x00"])
def test_what_json_or_python_has_no_number_for(text, path, data):
    header, document, arrays = parts(data)
    document["parameters"]["tol"] = "HERE"
    written = json.dumps({**document, "checksum": BLANK}).replace('"HERE"', text)
    code = "number_out_of_range" if text == "1e999" else "invalid_json"
    refused(path, join(header, written, arrays), code)


def test_names_that_stand_twice(path, data):
    header, document, arrays = parts(data)
    text = json.dumps({**document, "checksum": BLANK})
    for piece in (f'"schema": {SCHEMA}', '"tol": 1e-07'):
        assert piece in text
        twice = text.replace(piece, f"{piece}, {piece}", 1)
        refused(path, join(header, twice, arrays), "duplicate_name")
    whole = json.dumps({**header, "__metadata__": {ENTRY: text}})
    doubled = whole.replace('"means_"', f'"means_": {json.dumps(header["means_"])}, "means_"', 1)
    refused(path, join(doubled, text, arrays), "duplicate_name")


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("shape", [-3, -3], "invalid_content"),
        ("shape", [3.0, 3], "invalid_content"),
        ("shape", [True, 9], "invalid_content"),
        ("shape", [2**40, 2**40], "invalid_content"),
        ("shape", [3, 4], "invalid_content"),
        ("shape", None, "invalid_content"),
        ("shape", [2**62] * 50_000, "invalid_content"),
        ("data_offsets", [0], "invalid_content"),
        ("data_offsets", [0, 2**62], "file_truncated"),
        ("data_offsets", [2**40, 2**40 + 72], "file_truncated"),
        ("data_offsets", [0, 72], "invalid_content"),
        ("dtype", "F64x", "invalid_content"),
        ("dtype", {}, "invalid_content"),
        ("dtype", "BOOL", "wrong_type"),
    ],
)
def test_arrays_that_are_not_what_they_say(key, value, code, path, data):
    header, document, arrays = parts(data)
    header["means_"][key] = value
    if code == "wrong_type":  # the same bytes as booleans
        header["means_"]["shape"] = [9, 8]
    refused(path, join(header, document, arrays), code)


@pytest.mark.parametrize("dtype", ["BF16", "C64"])
def test_entries_that_numpy_does_not_have_or_files_do_not_hold(dtype, path, data):
    header, document, arrays = parts(data)
    header["means_"].update(dtype=dtype, shape=[9, {"BF16": 4, "C64": 1}[dtype]])
    refused(path, join(header, document, arrays), "invalid_content", "unknown_dtype")


def test_arrays_that_nothing_refers_to(path, data):
    header, document, arrays = parts(data)
    header["more"] = {"dtype": "U8", "shape": [8], "data_offsets": [len(arrays), len(arrays) + 8]}
    refused(path, join(header, document, arrays + bytes(8)), "unused", what="more")


@pytest.mark.parametrize(
    ("state", "value"),
    [("pos", 10**9), ("pos", -1), ("has_gauss", 2), ("key", {"array": "means_"})],
)
def test_random_states_that_would_read_beyond_their_memory(state, value, library, path):
    im.save(library["fitted"]("mixture RandomState"), path)
    header, document, arrays = parts(path.read_bytes())
    held = next(o["fields"] for o in document["objects"] if o["class"] == "RandomState")
    held[state] = value
    refused(path, join(header, document, arrays), "invalid_random_state", "invalid_layout")


def test_activations_that_are_not_the_library_s(library, path):
    im.save(library["fitted"]("activation cosine(1.3, 0.2), refine=False"), path)
    for name, numbers, code in [
        ("eval", [], "unknown_activation"),
        ("cos", [1.0, 2.0, 3.0], "invalid_content"),
        ("cos", [1e300, 0.0], "invalid_content"),
        ("cos", ["x"], "wrong_type"),
        ("relu", [1.0], "invalid_content"),
    ]:
        header, document, arrays = parts(path.read_bytes())
        held = next(o["fields"] for o in document["objects"] if o["class"] == "Activation")
        held["name"], held["parameters"] = name, {"tuple": numbers}
        refused(path.with_name("x"), join(header, document, arrays), code)


# versions


@pytest.mark.parametrize("schema", [1, SCHEMA - 1, SCHEMA + 1])
def test_files_of_another_version(schema, path, data):
    header, document, arrays = parts(data)
    document |= {"schema": schema, "library": "99.0", "new": 1}
    refused(path, join(header, document, arrays), "other_schema", library="99.0", schema=schema)


@pytest.mark.parametrize("schema", [0, -1, True, "1", None, 1.0])
def test_schemas_that_are_none(schema):
    with refuses("invalid_schema"):
        check_schema({"schema": schema})
