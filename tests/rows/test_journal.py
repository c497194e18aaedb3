import sqlite3
import subprocess
import sys

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicitmoments.rows.checkpoint.journal import Journal
from implicitmoments.rows.checkpoint.packing import pack, unpack


def numpy_probe():
    return np.ones(1)


def there_and_back(value, probe=numpy_probe):
    described, contents = pack({"a": value})
    return unpack(described, {i: bytes(c) for i, c in enumerate(contents)}, probe)["a"]


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
    with pytest.raises(TypeError, match=r"the sum 'a' .* a checkpoint keeps numbers"):
        pack({"a": value})


def test_passes_are_recalled_by_number_and_task(tmp_path):
    with Journal(tmp_path / "j") as journal:
        assert [journal.number(), journal.number()] == [0, 1]
        journal.keep(0, "first", {"a": 1.5})
        journal.keep(1, "second", {"a": np.arange(3.0)}, next_row=7)
        journal.keep(1, "second", {"a": np.arange(4.0), "b": 2}, next_row=8)
    with Journal(tmp_path / "j") as journal:
        assert journal.number() == 0
        assert journal.recall(0, "first", numpy_probe).sums == {"a": 1.5}
        entry = journal.recall(1, "second", numpy_probe)
        assert entry.next_row == 8
        np.testing.assert_array_equal(entry.sums["a"], np.arange(4.0))
        assert journal.recall(2, "third", numpy_probe) is None


def test_another_task_drops_what_comes_after_it(tmp_path):
    with Journal(tmp_path / "j") as journal:
        for number in range(4):
            journal.keep(number, f"task {number}", {"a": number})
        assert journal.recall(1, "another task", numpy_probe) is None
        known = [journal.recall(n, f"task {n}", numpy_probe) for n in range(4)]
    assert [entry is not None for entry in known] == [True, False, False, False]


def test_large_arrays_are_kept_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("implicitmoments.rows.checkpoint.journal.PART_BYTES", 100)
    kept = np.random.default_rng(0).normal(size=(5, 13))
    with Journal(tmp_path / "j") as journal:
        journal.keep(0, "", {"a": kept, "b": kept[0]})
        back = journal.recall(0, "", numpy_probe).sums
    np.testing.assert_array_equal(back["a"], kept)
    np.testing.assert_array_equal(back["b"], kept[0])


def test_an_interruption_while_writing_leaves_what_was_there(tmp_path, monkeypatch):
    with Journal(tmp_path / "j") as journal:
        journal.keep(0, "", {"a": 1.0}, next_row=2)
        journal.keep(1, "", {"a": 1.0})  # waits, and is lost
        monkeypatch.setattr(
            "implicitmoments.rows.checkpoint.journal.PART_BYTES", 0
        )  # range() fails
        with pytest.raises(ValueError, match="range"):
            journal.keep(0, "", {"a": np.ones(9)}, next_row=3)
        monkeypatch.undo()
        assert journal.recall(1, "", numpy_probe) is None
    with Journal(tmp_path / "j") as journal:
        assert journal.recall(0, "", numpy_probe).sums == {"a": 1.0}


def test_the_first_value_is_remembered(tmp_path):
    with Journal(tmp_path / "j") as journal:
        assert journal.remember("seed", 7) == 7
    with Journal(tmp_path / "j") as journal:
        assert journal.remember("seed", 8) == 7


FIT = {"estimator": "SphericalMixture", "n_components": 5, "tol": 1e-3, "digest": "ab" * 60}


def test_the_same_fingerprint_is_accepted_however_it_is_written(tmp_path):
    Journal(tmp_path / "j", {"a": (1, 2), "b": np.float64(0.5), "c": float("nan")}).close()
    Journal(tmp_path / "j", {"c": np.nan, "b": 0.5, "a": np.array([1, 2])}).close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 6}, "another fit: n_components was 5 and is 6. Give what was given"),
        ({"tol": 1e-4, "n_components": 4}, "n_components was 5 and is 4; tol was 0.001 and is"),
        ({"init": "k"}, 'init was not there and is "k"'),
        ({"digest": "cd" * 60}, "digest was .{80}… and is .{80}….*delete the file"),
        ({"implicitmoments": "0"}, 'implicitmoments was "0.*" and is "0"'),
    ],
)
def test_a_journal_of_another_fit_is_refused(tmp_path, change, message):
    Journal(tmp_path / "j", FIT).close()
    with pytest.raises(ValueError, match=message):
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
        file.execute("PRAGMA user_version = 2")
    file.close()


def truncated(path):
    with Journal(path) as journal:
        journal.keep(0, "", {"a": np.ones(100_000)})
    path.write_bytes(path.read_bytes()[:300_000])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p.write_text("1.0,2.0\n" * 400), "no checkpoint, or damaged; give another"),
        (lambda p: p.write_bytes(b"\x80\x04" * 50), "no checkpoint, or damaged; give another"),
        (database, "is a database and not a checkpoint; give another path"),
        (lambda p: database(p, 5), "is a database and not a checkpoint"),
        (newer, "has format 2, and this version of implicitmoments reads format 1; use the"),
        (truncated, r"is damaged \(.*\); delete the file to start anew"),
        (lambda p: p.mkdir(), "is a folder; give the path of a file"),
    ],
)
def test_files_that_are_no_journal_are_refused_and_left_alone(tmp_path, make, message):
    path = tmp_path / "j"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ValueError, match=message):
        Journal(path)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_an_empty_file_becomes_a_journal(tmp_path):
    (tmp_path / "j").touch()
    Journal(tmp_path / "j", FIT).close()
    with pytest.raises(ValueError, match="another fit"):
        Journal(tmp_path / "j")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE contents SET bytes = zeroblob(24)", "checksum of 'a'"),
        ("DELETE FROM contents", "checksum of 'a'"),
        ("UPDATE passes SET arrays = replace(arrays, 'f8', 'f4')", "cannot reshape|damaged"),
        ("UPDATE passes SET arrays = replace(arrays, '<f8', 'O')", "said to be of type O"),
        ("UPDATE passes SET arrays = '[{}]'", "damaged"),
        ("UPDATE passes SET arrays = 'no json'", "damaged"),
        ("DROP TABLE contents", r"damaged \(no such table"),
    ],
)
def test_damaged_entries_are_refused(tmp_path, change, message):
    with Journal(tmp_path / "j") as journal:
        journal.keep(0, "", {"a": np.ones(3)})
    with sqlite3.connect(tmp_path / "j") as file:
        file.execute(change)
    file.close()
    with Journal(tmp_path / "j") as journal, pytest.raises(ValueError, match=message) as error:
        journal.recall(0, "", numpy_probe)
    assert "delete the file to start anew, or give another path" in str(error.value)


def test_places_that_cannot_be_written_are_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"the folder .*/no of the checkpoint does not exist"):
        Journal(tmp_path / "no" / "j")
    with pytest.raises(ValueError, match=r"the checkpoint /proc/j cannot be written \("):
        Journal("/proc/j")
    with pytest.raises(ValueError, match="every is a number of seconds of at least 0, got -1"):
        Journal(tmp_path / "j", every=-1)
    with pytest.raises(TypeError, match=r"loss is <.*describe it by these"):
        Journal(tmp_path / "j", {"loss": object()})


def test_a_full_disk_is_said_and_the_rest_is_kept(tmp_path):
    with Journal(tmp_path / "j") as journal:
        journal.keep(0, "", {"a": 1.0}, next_row=1)
        journal._file.execute("PRAGMA max_page_count = 10")
        with pytest.raises(OSError, match=r"cannot be written \(database or disk is full\)"):
            journal.keep(1, "", {"a": np.ones(100_000)}, next_row=1)
    with pytest.raises(ValueError, match="is closed"):
        journal.keep(1, "", {"a": 1.0})
    with Journal(tmp_path / "j") as journal:
        assert journal.recall(0, "", numpy_probe).sums == {"a": 1.0}


HOLD = """
import sys
from implicitmoments.rows import Journal
journal = Journal(sys.argv[1])
journal.keep(0, "", {"a": 1.0}, next_row=1)
journal.keep(1, "", {"a": 1.0})
print("held", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time_and_a_killed_one_is_no_obstacle(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / "j")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="in use by another fit; wait until that ends"):
            Journal(tmp_path / "j")
        other.kill()
    with Journal(tmp_path / "j") as journal:
        assert journal.recall(0, "", numpy_probe).sums == {"a": 1.0}
        assert journal.recall(1, "", numpy_probe) is None  # it waited for others
        with pytest.raises(ValueError, match="in use"):
            Journal(tmp_path / "j")
