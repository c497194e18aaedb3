"""Files of every schema that there was are read, and migrations are taken one at a time."""

import json
from pathlib import Path

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.saving import MIGRATIONS, SCHEMA, check_schema
from implicitmoments.testing import refuses

DATA = Path(__file__).parents[1] / "data"
FILES = sorted(DATA.glob("schema_*/*.safetensors"))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_files_of_all_schemas_are_read_and_answer_the_same(path, library, tmp_path):
    model = im.load(path)
    im.save(model, tmp_path / "again")
    again = im.load(tmp_path / "again")
    expected = json.loads((path.parent / "answers.json").read_text())[path.stem]
    for answers in (library["told"](model), library["told"](again)):
        for name, expect in expected.items():
            assert np.allclose(answers[name], expect, rtol=1e-7, atol=1e-9), name


SINCE = {"GaussianMixture": 4}  # estimators of which older schemas have no files


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_every_estimator_has_a_file_of_every_schema(schema):
    found = {
        type(im.load(path)).__name__ for path in (DATA / f"schema_{schema}").glob("*.safetensors")
    }
    estimators = {name for name in im.__all__ if hasattr(getattr(im, name), "get_params")}
    assert found == {name for name in estimators if SINCE.get(name, 1) <= schema}


def test_names_in_files_change_with_the_schema_only(library):
    """Files of a release keep their names: others need another schema and a migration."""
    stored = (DATA / f"schema_{SCHEMA}" / "names.txt").read_text()
    assert library["names"]() == stored.splitlines()


def test_a_file_read_and_saved_has_the_present_schema(kept, tmp_path):
    im.save(im.load(DATA / "schema_1" / f"{kept}.safetensors"), tmp_path / "model")
    assert f'\\"schema\\":{SCHEMA},'.encode() in (tmp_path / "model").read_bytes()


def test_sentences_of_schema_1_are_notes():
    notes = im.load(DATA / "schema_1" / "mixture_notes.safetensors").notes_
    assert set(notes.codes) == {"stored_sentence"}
    assert "notes" not in im.load(DATA / "schema_1" / "mixture_notes.safetensors").stats_


def test_a_stream_of_schema_1_goes_on(library):
    X = library["rows"]("many")[0]
    for name, columns in (("partial_held", 3), ("partial_stream_small", 1)):
        model = im.load(DATA / "schema_1" / f"{name}.safetensors")
        before = model.score(X[:, :columns])
        model.partial_fit(X[:, :columns])
        assert model.score(X[:, :columns]) > before - 1e-3


def test_names_of_schema_2_are_those_of_today():
    note = ["separation_too_small", {"map": {"doubt": 0.2, "separation": 1.0}}]
    document = {
        "schema": 2,
        "estimator": "SphericalMixtureClusterer",
        "parameters": {"n_components": 2},
        "fitted": {"notes_": {"notes": [note]}},
        "statistics": {"map": {"doubt": 0.2}},
        "objects": [],
    }
    found = MIGRATIONS[2](document)
    assert found["parameters"] == {
        "n_components": 2,
        "rows_per_block": None,
        "drop_outliers": True,
    }
    ((_, held),) = found["fitted"]["notes_"]["notes"]
    assert held["map"] == {"misclassification_rate": 0.2, "separation": 1.0}
    assert found["statistics"] == {"map": {"misclassification_rate": 0.2}}
    document |= {"estimator": "SphericalMixture", "parameters": {"order": 2}}
    gone = ["moments_unusable", {"map": {"error": "x"}}]
    document["fitted"] = {"notes_": {"notes": [gone]}}
    document["statistics"] = {"map": {"start": "scattered", "far_rows": 0.1}}
    found = MIGRATIONS[2](document)
    assert found["parameters"]["order"] == 4
    assert found["statistics"] == {"map": {"start": "kmeans++"}}
    assert found["fitted"]["notes_"] == {"notes": []}
    document |= {"estimator": "ActivationSumRegressor", "parameters": {"degree": "epsilon"}}
    document["statistics"] = {"map": {"converged": True, "n_rows": 9}}
    found = MIGRATIONS[2](document)
    assert found["statistics"] == {"map": {"rows_used": 9}}
    assert (found["parameters"]["degree"], found["fitted"]["converged_"]) == ("auto", True)


def test_what_schema_4_lacks_has_its_default():
    document = {
        "estimator": "ActivationSumRegressor",
        "parameters": {"activation": "relu", "positive": False},
        "fitted": {},
        "statistics": {"map": {"rows_used": 7}},
        "objects": [
            {"class": "Network", "fields": {"weights": 1}},
            {"class": "Fold", "fields": {"errors": 2}},
        ],
    }
    found = MIGRATIONS[5](MIGRATIONS[4](document))
    expected = im.ActivationSumRegressor(positive=False).get_params()
    assert found["parameters"] == expected
    fields = found["objects"][0]["fields"]
    assert found["objects"][1]["fields"] == {"n_rows": 7.0}
    assert fields == {"weights": 1, "biases": None, "positive": True, "affine": None}


@pytest.mark.parametrize("schema", range(1, 5))
def test_networks_of_schema_4_and_before_have_no_biases(schema):
    model = im.load(DATA / f"schema_{schema}" / "activation.safetensors")
    assert model.network_.biases is model.biases_ is model.bias_errors_ is None
    polynomial = im.load(DATA / f"schema_{schema}" / "polynomial.safetensors")
    assert not hasattr(polynomial, "biases_")


def test_there_is_a_migration_from_every_older_schema():
    assert sorted(MIGRATIONS) == list(range(1, SCHEMA))


@pytest.mark.parametrize("schema", [0, -1, True, "1", None, 1.0])
def test_schemas_that_are_none(schema):
    with refuses("invalid_schema"):
        check_schema({"schema": schema})
