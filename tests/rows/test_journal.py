import json
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from importlib.metadata import version
from pathlib import Path

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicitmoments.rows import Journal
from support import refuses


def like_numpy():
    return np.ones(1)


def recall(journal, number, task=""):
    return journal.recall(number, task, like_numpy)


def there_and_back(value, like=like_numpy):
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "j") as journal:
        journal.keep(0, "", {"a": value})
        sums, _ = journal.recall(0, "", like)
        return sums["a"]


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "i8", "u1", "?", "c16"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0), (2, 3, 4)])
def test_arrays_come_back_bit_for_bit(rng, dtype, shape):
    kept = np.asarray(9 * rng.normal(size=shape)).astype(dtype)
    back = there_and_back(kept)
    assert isinstance(back, np.ndarray)
    assert back.dtype == kept.dtype.newbyteorder("=")
    assert back.shape == kept.shape
    np.testing.assert_array_equal(back, kept)
    back[...] = 0  # what comes back can be written to


@given(st.one_of(st.floats(allow_nan=False), st.integers(), st.booleans()))
def test_numbers_of_python_come_back_as_such(number):
    back = there_and_back(number)
    assert type(back) is type(number)
    assert repr(back) == repr(number)


def test_scalars_odd_numbers_and_layouts_come_back(rng):
    assert type(there_and_back(np.float32(0.1))) is np.float32
    odd = np.array([np.nan, -0.0, np.inf, 5e-324])
    assert there_and_back(odd).tobytes() == odd.tobytes()
    assert np.isnan(there_and_back(float("nan")))
    cube = rng.normal(size=(2, 3, 4)).transpose(1, 2, 0)
    back = there_and_back(cube)
    assert back.strides == cube.strides
    np.testing.assert_array_equal(back, cube)
    np.testing.assert_array_equal(there_and_back(cube[::-1, ::2]), cube[::-1, ::2])


def test_arrays_of_a_library_come_back_in_it():
    xp = array_api_strict
    kept = xp.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=xp.float32)
    back = there_and_back(kept, lambda: xp.ones(1, dtype=xp.float64))
    assert type(back) is type(kept)
    assert back.dtype == xp.float32  # what was kept, and not what rows have
    np.testing.assert_array_equal(np.asarray(back), np.asarray(kept))


@pytest.mark.parametrize("value", [None, "words", [1.0], np.array(["a"]), np.array([None])])
def test_what_is_no_number_is_refused(value):
    with refuses("sum_not_numeric", name="a"):
        there_and_back(value)


def test_passes_are_recalled_by_number_and_task(tmp_path):
    with Journal(tmp_path / "j") as journal:
        assert [journal.number(), journal.number()] == [0, 1]
        journal.keep(0, "first", {"a": 1.5})
        journal.keep(1, "second", {"a": np.arange(3.0)}, next_row=7)
        journal.keep(1, "second", {"a": np.arange(4.0), "b": 2}, next_row=8)
    with Journal(tmp_path / "j") as journal:
        assert journal.number() == 0
        assert recall(journal, 0, "first") == ({"a": 1.5}, None)
        sums, next_row = recall(journal, 1, "second")
        assert next_row == 8
        assert list(sums) == ["a", "b"]
        np.testing.assert_array_equal(sums["a"], np.arange(4.0))
        assert recall(journal, 2, "third") is None


def test_another_task_drops_what_comes_after_it(tmp_path):
    with Journal(tmp_path / "j") as journal:
        for number in range(4):
            journal.keep(number, f"task {number}", {"a": number})
        assert recall(journal, 1, "another task") is None
        known = [recall(journal, n, f"task {n}") for n in range(4)]
    assert [entry is not None for entry in known] == [True, False, False, False]


def test_arrays_of_several_megabytes(tmp_path):
    kept = np.random.default_rng(0).normal(size=(3, 100_001))
    with Journal(tmp_path / "j") as journal:
        journal.keep(0, "", {"a": kept, "b": kept[0]})
        sums, _ = recall(journal, 0)
    np.testing.assert_array_equal(sums["a"], kept)
    np.testing.assert_array_equal(sums["b"], kept[0])


def test_the_first_value_is_remembered(tmp_path):
    with Journal(tmp_path / "j") as journal:
        assert journal.remember("seed", 7) == 7
    with Journal(tmp_path / "j") as journal:
        assert journal.remember("seed", 8) == 7


VERSION = version("implicitmoments")
FIT = {"estimator": "SphericalMixture", "n_components": 5, "tol": 1e-3, "digest": "ab" * 60}


def test_the_same_fingerprint_is_accepted_however_it_is_written(tmp_path):
    Journal(tmp_path / "j", {"a": (1, 2), "b": np.float64(0.5), "c": float("nan")}).close()
    Journal(tmp_path / "j", {"c": np.nan, "b": 0.5, "a": np.array([1, 2])}).close()


@pytest.mark.parametrize(
    ("change", "differences"),
    [
        ({"n_components": 6}, {"n_components": ["5", "6"]}),
        (
            {"tol": 1e-4, "n_components": 4},
            {"n_components": ["5", "4"], "tol": ["0.001", "0.0001"]},
        ),
        ({"init": "k"}, {"init": ["absent", '"k"']}),
        ({"digest": "cd" * 60}, {"digest": ['"' + "ab" * 39 + "a…", '"' + "cd" * 39 + "c…"]}),
        (
            {"implicitmoments": "0"},
            {"implicitmoments": [json.dumps(VERSION), json.dumps("0")]},
        ),
    ],
)
def test_a_journal_of_another_fit_is_refused(tmp_path, change, differences):
    Journal(tmp_path / "j", FIT).close()
    with refuses("checkpoint_of_another_fit", differences=differences):
        Journal(tmp_path / "j", {**FIT, **change})
    Journal(tmp_path / "j", FIT).close()  # and is left as it was


def database(path, application=0):
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE t (a)")
        file.execute(f"PRAGMA application_id = {application}")
    file.close()


def newer(path):
    Journal(path).close()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    file.close()


def truncated(path):
    with Journal(path) as journal:
        journal.keep(0, "", {"a": np.ones(100_000)})
    path.write_bytes(path.read_bytes()[:300_000])


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda p: p.write_text("1.0,2.0\n" * 400), "checkpoint_not_one"),
        (lambda p: p.write_bytes(b"\x80\x04" * 50), "checkpoint_not_one"),
        (database, "checkpoint_not_one"),
        (lambda p: database(p, 5), "checkpoint_not_one"),
        (newer, "checkpoint_format"),
        (truncated, "checkpoint_damaged"),
        (lambda p: p.mkdir(), "checkpoint_is_folder"),
    ],
)
def test_files_that_are_no_journal_are_refused_and_left_alone(tmp_path, make, code):
    path = tmp_path / "j"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with refuses(code, path=str(path)):
        Journal(path)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_an_empty_file_becomes_a_journal(tmp_path):
    (tmp_path / "j").touch()
    Journal(tmp_path / "j", FIT).close()
    with refuses("checkpoint_of_another_fit"):
        Journal(tmp_path / "j")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE arrays SET bytes = zeroblob(24)",
        "UPDATE arrays SET bytes = substr(bytes, 1, 140)",
        "UPDATE arrays SET crc = crc + 1",
        "UPDATE arrays SET axes = 'no json'",
        "UPDATE arrays SET kind = 'python'",
        "DROP TABLE arrays",
    ],
)
def test_damaged_entries_are_refused(tmp_path, change):
    with Journal(tmp_path / "j") as journal:
        journal.keep(0, "", {"a": np.ones(3)})
    with sqlite3.connect(tmp_path / "j") as file:
        file.execute(change)
    file.close()
    with Journal(tmp_path / "j") as journal, refuses("checkpoint_damaged"):
        recall(journal, 0)


def test_pickled_objects_are_not_loaded(tmp_path):
    with Journal(tmp_path / "j") as journal:
        journal.keep(0, "", {"a": np.ones(3)})
    np.save(tmp_path / "harm.npy", np.array([None]), allow_pickle=True)
    data = (tmp_path / "harm.npy").read_bytes()
    with sqlite3.connect(tmp_path / "j") as file:
        file.execute("UPDATE arrays SET bytes = ?, crc = ?", (data, zlib.crc32(data)))
    file.close()
    with Journal(tmp_path / "j") as journal, refuses("checkpoint_damaged"):
        recall(journal, 0)


def test_places_that_cannot_be_written_are_refused_at_once(tmp_path):
    with refuses("checkpoint_no_folder", folder=str(tmp_path / "no")):
        Journal(tmp_path / "no" / "j")
    with refuses("checkpoint_unwritable", path="/proc/j"):
        Journal("/proc/j")
    with refuses("out_of_range", every=-1):
        Journal(tmp_path / "j", every=-1)
    with refuses("checkpoint_not_comparable", name="loss"):
        Journal(tmp_path / "j", {"loss": object()})


def test_a_closed_journal_keeps_nothing(tmp_path):
    with Journal(tmp_path / "j") as journal:
        pass
    with refuses("checkpoint_closed"):
        journal.keep(0, "", {"a": 1.0})


FULL = """
import resource, sys
import numpy as np
from implicitmoments.rows import Journal
with Journal(sys.argv[1]) as journal:
    journal.keep(0, "", {"a": 1.0}, next_row=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
    try:
        journal.keep(0, "", {"a": np.ones(100_000)}, next_row=2)
    except OSError as error:
        print(error.code)
"""


def test_a_full_disk_is_an_error_and_the_rest_is_kept(tmp_path):
    command = [sys.executable, "-c", FULL, str(tmp_path / "j")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "checkpoint_unwritable\n", done.stderr
    with Journal(tmp_path / "j") as journal:
        assert recall(journal, 0) == ({"a": 1.0}, 1)


HOLD = """
import sys
from implicitmoments.rows import Journal
journal = Journal(sys.argv[1])
journal.keep(0, "", {"a": 1.0}, next_row=1)
journal.keep(1, "", {"a": 2.0})
print("held", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_and_a_killed_one_is_no_obstacle(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / "j")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as other:
        assert other.stdout.readline() == "held\n"
        with refuses("checkpoint_in_use"):
            Journal(tmp_path / "j")
        other.kill()
    with Journal(tmp_path / "j") as journal:
        assert recall(journal, 0) == ({"a": 1.0}, 1)
        assert recall(journal, 1) == ({"a": 2.0}, None)
        with refuses("checkpoint_in_use"):
            Journal(tmp_path / "j")
