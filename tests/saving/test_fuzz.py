"""No file makes the loader do anything but return a model or raise a ModelFileError.

``python benchmarks/attack.py fuzz loader --inputs 10000`` tries more; here are a few hundred.
"""

import contextlib
import importlib
import json
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import implicitmoments as im

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks/attack.py"


sys.path.insert(0, str(SCRIPT.parent))
changes, models, watching = (
    importlib.import_module(f"attacks.fuzzing.{name}") for name in ("changes", "models", "watch")
)
with TemporaryDirectory() as folder, warnings.catch_warnings():
    warnings.simplefilter("ignore")
    FILES = models.examples(Path(folder))


@pytest.fixture(scope="module")
def attempt(tmp_path_factory):
    """Loads bytes under watch; True for a model, False for a ModelFileError."""
    path, watch = tmp_path_factory.mktemp("fuzz") / "file", watching.Watch()
    for data in FILES:
        path.write_bytes(data)
        im.load(path)

    def load(data):
        path.write_bytes(data)
        try:
            with watching.time_limit(5.0):
                watch.on = True
                model = im.load(path)
        except im.ModelFileError:
            return False
        finally:
            watch.on = False
            assert not watch.seen
        return isinstance(model.get_params(), dict)

    return load


few = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 2**32 - 1)
files = st.sampled_from(FILES)

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
tags = st.sampled_from(
    [
        *("array", "class", "dict", "fields", "float", "layout", "maker", "map", "notes"),
        *("object", "range", "scalar", "tuple", "type", "value", "words", "__class__"),
    ]
)
documents = st.recursive(
    leaves | tags,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(tags, inner, max_size=3),
    max_leaves=12,
)


@few
@given(st.binary(max_size=400))
def test_bytes_of_no_kind(attempt, data):
    assert not attempt(data)


@few
@given(files, seeds, st.booleans())
def test_files_with_other_bytes(attempt, data, seed, sealed):
    rng = np.random.default_rng(seed)
    if not sealed:
        assert not attempt(changes.mutate_bytes(data, rng))
    else:
        attempt(models.seal(changes.mutate_bytes(models.unseal(data), rng)))


@few
@given(files, seeds)
def test_files_with_another_document_or_header(attempt, data, seed):
    _, mutated = models.mutations(data, np.random.default_rng(seed))
    attempt(mutated)


@few
@given(files, seeds, documents)
def test_files_with_anything_in_a_place_of_their_document(attempt, data, seed, value):
    header, document, arrays = models.split(data)
    del header["__metadata__"]
    spots = list(changes.spots(document))
    holder, key = spots[seed % len(spots)]
    holder[key] = value
    document["checksum"] = models.BLANK
    attempt(models.join(header, json.dumps(document), arrays))


def test_the_watch_notices_what_a_reader_must_not_do(tmp_path):
    watch = watching.Watch()
    watch.on = True
    try:
        exec("1 + 1")
        (tmp_path / "x").write_text("x")
        (tmp_path / "x").read_text()
        (tmp_path / "x").unlink()
        subprocess.run([sys.executable, "-c", ""], check=True)
    finally:
        watch.on = False
    assert {"exec", "compile", "open for writing", "os.remove", "subprocess.Popen"} <= {
        *watch.seen
    }
    assert watch.seen["open for writing"] < 10


def never_ends():
    while True:
        with contextlib.suppress(Exception):
            sum(range(10_000))


def test_the_time_limit_is_no_error_that_a_reader_could_catch():
    with pytest.raises(watching.LateError), watching.time_limit(0.01):
        never_ends()


@pytest.mark.slow
def test_ten_thousand_inputs():
    command = [sys.executable, "-W", "ignore", str(SCRIPT), "fuzz", "loader", "--inputs", "10000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
