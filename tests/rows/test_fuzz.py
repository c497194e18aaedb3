"""No file makes a reader do anything but give rows or raise one error in its own words.

``python benchmarks/attack.py fuzz readers --inputs 10000`` tries more; here are a few hundred.
"""

import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SCRIPT = Path(__file__).parents[2] / "benchmarks/attack.py"
sys.path.insert(0, str(SCRIPT.parent))
changes, chunks, readers, reading, watching = (
    importlib.import_module(f"attacks.fuzzing.{name}")
    for name in ("changes", "chunks", "readers", "reading", "watch")
)


@pytest.fixture(scope="module")
def watch(tmp_path_factory):
    """A watch over all threads; what is imported on first use is imported before."""
    spool = tmp_path_factory.mktemp("spool")
    made = watching.Watch(everywhere=True, spool=str(spool), allowed=readers.HARMLESS)
    old, tempfile.tempdir = tempfile.tempdir, str(spool)
    readers.warm(watching.Watch(), 5.0, tmp_path_factory.mktemp("warm") / "files")
    yield made
    tempfile.tempdir = old
    assert not list(spool.iterdir())


@pytest.mark.parametrize("kind", readers.KINDS)
def test_files_that_were_changed(tmp_path, watch, kind):
    wrong, outcomes = [], set()
    for number in range(60):
        report = readers.read_one(kind, number, 7, watch, 5.0, tmp_path / "files")
        wrong += [report] if report["wrong"] else []
        outcomes.add(report["outcome"])
    assert not wrong
    assert {"rows", "ValueError"} <= outcomes


few = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
cells = st.text(max_size=8) | st.floats().map(str) | st.integers(-9, 9).map(str)
tables = st.lists(st.lists(cells, min_size=1, max_size=4), max_size=6)


def read_bytes(tmp_path, watch, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return reading.attempt(path, {}, watch, 5.0)


@few
@given(st.text(max_size=200), st.sampled_from(["utf-8", "utf-16", "latin1"]))
def test_any_text(tmp_path, watch, text, encoding):
    assert not read_bytes(tmp_path, watch, "x.csv", text.encode(encoding, "replace")).wrong


@few
@given(tables)
def test_any_table_of_text(tmp_path, watch, rows):
    text = "".join(",".join(row) + "\n" for row in rows)
    assert not read_bytes(tmp_path, watch, "x.csv", text.encode("utf-8", "replace")).wrong


@few
@given(st.binary(max_size=300), st.sampled_from(["npy", "parquet", "arrow", "csv", "csv.gz"]))
def test_bytes_of_no_kind(tmp_path, watch, data, suffix):
    assert not read_bytes(tmp_path, watch, f"x.{suffix}", data).wrong


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
documents = st.recursive(
    leaves | st.sampled_from(chunks.HOSTILE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=8,
)


@few
@given(st.sampled_from(range(9)), st.integers(0, 10**6), documents)
def test_anything_in_a_place_of_a_description(tmp_path, watch, example, seed, value):
    files = dict(chunks.examples()[example])
    name = "zarr.json" if "zarr.json" in files else ".zarray"
    document = json.loads(files[name])
    places = list(changes.spots(document))
    holder, key = places[seed % len(places)]
    holder[key] = value
    path = tmp_path / "x.zarr"
    chunks.write_files(path, {**files, name: json.dumps(document).encode()})
    assert not reading.attempt(path, {}, watch, 5.0).wrong


def test_files_that_were_not_changed_give_rows(tmp_path, watch):
    for number, files in enumerate(chunks.examples()[:-1]):  # the last is a group
        path = tmp_path / f"{number}.zarr"
        chunks.write_files(path, files)
        assert reading.attempt(path, {}, watch, 5.0).outcome == "rows"
    for module, kind in (("arrays", "npy"), ("tables", "parquet"), ("tables", "arrow")):
        examples = importlib.import_module(f"attacks.fuzzing.{module}")
        named = getattr(examples, "examples", None) or getattr(examples, f"{kind}_examples")
        outcomes = [read_bytes(tmp_path, watch, f"x.{kind}", data).outcome for data in named()]
        assert outcomes.count("rows") > 0.7 * len(outcomes)  # some tables have holes


def fail_otherwise(path):
    raise KeyError(path.name)


def fail_in_words_of_others(path):
    pa.ipc.open_file(pa.py_buffer(f"{path.name} expected;".encode()))


def fail_without_the_name(path):
    reading.open_file(path.with_name("other.npy"))


def run_code(path):
    exec("1 + 1")


def write_elsewhere(path):
    path.with_name("more").write_text("")


def take_for_ever(path):
    time.sleep(60)


def take_memory(path):
    np.ones(2**25)


@pytest.mark.parametrize(
    ("read", "wrong"),
    [
        (fail_otherwise, "other_class"),
        (fail_in_words_of_others, "other_class"),
        (fail_without_the_name, "file_not_named"),
        (run_code, "forbidden"),
        (write_elsewhere, "forbidden"),
        (take_for_ever, "late"),
        (take_memory, "memory"),
    ],
)
def test_a_reader_that_does_what_it_must_not(tmp_path, watch, read, wrong):
    limit = 1.0 if read is take_for_ever else 10.0
    done = reading.attempt(tmp_path / "x.npy", {}, watch, limit, read, memory_mb=100)
    assert done.wrong == wrong


class Restless:
    """A source whose rows are others in every pass, or none."""

    n_rows, n_features = 3, 2

    def __init__(self, fill):
        self.fill = fill

    def read(self, rows, rng):
        return {"x": np.full((len(rows), 2), next(self.fill))}

    def pick(self, rows):
        return self.read(rows, None)


@pytest.mark.parametrize(
    ("values", "wrong"),
    [((1.0, 2.0), "passes_differ"), ((np.nan, np.nan), "wrong_shape_or_not_finite")],
)
def test_rows_that_are_no_rows(tmp_path, watch, values, wrong):
    def read(path):
        reading.compare_passes(Restless(iter(values)))

    assert reading.attempt(tmp_path / "x.npy", {}, watch, 5.0, read).wrong == wrong


CHILD = """
import json, os, sys, time
first = int(sys.argv[sys.argv.index("--first") + 1])
last = first + int(sys.argv[sys.argv.index("--inputs") + 1])
print(json.dumps({"number": -1}), flush=True)
for number in range(first, last):
    if number == 3:
        os.abort()
    if number == 5:
        time.sleep(60)
    report = {"number": number, "how": "", "outcome": "rows", "wrong": "", "detail": ""}
    print(json.dumps({**report, "seconds": 0, "grown_mb": 0}), flush=True)
"""


def test_a_child_that_crashes_or_hangs_is_noticed(tmp_path):
    (tmp_path / "child.py").write_text(CHILD)
    found = list(readers.reports("npy", range(7), 0, 0.8, tmp_path / "child.py"))
    assert [report["number"] for report in found] == list(range(7))
    wrong = {report["number"]: report["wrong"] for report in found if report["wrong"]}
    assert wrong == {3: "crashed", 5: "hung"}


def test_a_child_that_crashes_before_the_first_input_is_noticed_once(tmp_path):
    (tmp_path / "child.py").write_text("import os; os.abort()")
    (found,) = readers.reports("npy", range(7), 0, 5.0, tmp_path / "child.py")
    assert found["wrong"] == "never_started"


@pytest.mark.slow
def test_two_thousand_inputs_of_each_kind():
    command = [sys.executable, str(SCRIPT), "fuzz", "readers", "--inputs", "2000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
