"""Files of every schema that there was are read, and migrations are taken one at a time."""

import json
from pathlib import Path

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.saving.errors import UnreadableError
from implicitmoments.saving.migrations import MIGRATIONS, SCHEMA, check_schema, migrate

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_files_of_all_schemas_are_read(schema, kept, library):
    folder = DATA / f"schema_{schema}"
    model = im.load(folder / f"{kept}.safetensors")
    expected = json.loads((folder / "answers.json").read_text())[kept]
    assert np.allclose(library["told"](model), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_every_estimator_has_a_file_of_every_schema(schema):
    found = {
        type(im.load(path)).__name__ for path in (DATA / f"schema_{schema}").glob("*.safetensors")
    }
    assert found == {name for name in im.__all__ if hasattr(getattr(im, name), "get_params")}


def test_a_file_read_and_saved_has_the_present_schema(kept, tmp_path):
    im.save(im.load(DATA / "schema_1" / f"{kept}.safetensors"), tmp_path / "model")
    assert f'\\"schema\\":{SCHEMA},'.encode() in (tmp_path / "model").read_bytes()


def test_there_is_a_migration_from_every_older_schema():
    assert sorted(MIGRATIONS) == list(range(1, SCHEMA))


def test_migrations_are_taken_one_at_a_time():
    def rename(document, arrays):
        return {**document, "new": document["old"]}, {"b": arrays["a"]}

    def double(document, arrays):
        return {**document, "new": 2 * document["new"]}, arrays

    table = {1: rename, 2: double}
    document, arrays = migrate({"schema": 1, "old": 3}, {"a": 0}, 3, table)
    assert document == {"schema": 3, "old": 3, "new": 6}
    assert arrays == {"b": 0}
    assert migrate({"schema": 2, "new": 3}, {}, 3, table)[0]["new"] == 6
    assert migrate({"schema": 3, "new": 3}, {}, 3, table)[0]["new"] == 3


@pytest.mark.parametrize("schema", [0, -1, True, "1", None, 1.0])
def test_schemas_that_are_none(schema):
    with pytest.raises(UnreadableError, match="its schema is"):
        check_schema({"schema": schema})
