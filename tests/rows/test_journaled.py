import os
import pickle
import subprocess
import sys

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from implicitmoments.rows import (
    ArrayTable,
    GeneratedTable,
    Journal,
    JournaledSource,
    Rows,
    Table,
    describe_rows,
)
from support import refuses

pytestmark = pytest.mark.usefixtures("_one_thread")

N, D = 47, 3
X = np.random.default_rng(0).normal(size=(N, D))


@pytest.fixture
def _one_thread():
    """Measure one block at a time: blocks that threads have begun may be measured twice."""
    with threadpool_limits(1, user_api="blas"):
        yield


class Interruption(Exception):  # noqa: N818
    pass


class Gram:
    """Counts the blocks it measures, and is interrupted before a given one."""

    def __init__(self, stop_at=None):
        self.stop_at, self.seen = stop_at, []

    def __call__(self, block, rows):
        if len(self.seen) == self.stop_at:
            raise Interruption
        self.seen.append(rows)
        x = block["x"]
        return {"gram": (x.T @ x) / 3, "x": x.sum(), "n": len(rows), "half": len(rows) / 3}


def same(one, other):
    assert list(one) == list(other)
    for name in one:
        assert type(one[name]) is type(other[name])
        assert np.asarray(one[name]).dtype == np.asarray(other[name]).dtype
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(other[name]))


def three_passes(source, measure):
    """Run a fit: each pass goes by the one before."""
    first = source.fold(measure, range(N), 5, what="first")
    turned = Rows(source, linear=first["gram"], rows_per_block=7)
    some = turned.pick(np.array([1, 4, 40]), what="some")
    second = turned.fold_numbered(measure, range(2, N), what="second")
    return {**second, "some": some["x"]}


@pytest.mark.parametrize("every", [0, 1e9])
def test_an_interruption_anywhere_changes_no_bit(tmp_path, every):
    whole = Gram()
    expected = three_passes(ArrayTable(X), whole)
    for i in range(len(whole.seen)):
        measured = []
        for stop_at in (i, None):
            measure = Gram(stop_at)
            with Journal(tmp_path / f"{i}", every=every) as journal:
                source = JournaledSource(ArrayTable(X), journal)
                if stop_at is None:
                    same(three_passes(source, measure), expected)
                else:
                    with pytest.raises(Interruption):
                        three_passes(source, measure)
            measured += measure.seen
        if every == 0:  # every block is kept, so none is measured twice
            assert measured == whole.seen
        else:  # finished passes are
            assert len(measured) == len(whole.seen) + (i if i < 10 else i - 10)


def test_a_finished_fit_is_answered_without_measuring(tmp_path):
    for _ in range(2):
        measure = Gram()
        with Journal(tmp_path / "j") as journal:
            found = three_passes(JournaledSource(ArrayTable(X), journal), measure)
    same(found, three_passes(ArrayTable(X), Gram()))
    assert measure.seen == []


@pytest.mark.parametrize(
    "other",
    [
        {"what": "else"},
        {"rows": range(1, N)},
        {"rows_per_block": 6},
        {"seed": 1},
    ],
)
def test_another_pass_under_the_same_number_is_measured_and_drops_the_rest(tmp_path, other):
    usual = {"rows": range(N), "rows_per_block": 5, "what": "a", "seed": 0}
    measured = []
    for first in (usual, {**usual, **other}, {**usual, **other}):
        measure = Gram()
        with Journal(tmp_path / "j") as journal:
            source = JournaledSource(ArrayTable(X), journal)
            same(source.fold(measure, **first), ArrayTable(X).fold(Gram(), **first))
            source.fold(measure, **{**usual, "what": "b"})
        measured.append(len(measure.seen))
    assert measured[0] >= 20
    assert measured[1] >= 18
    assert measured[2] == 0


def test_other_rows_are_not_answered_by_those_picked_before(tmp_path):
    for rows in ([1, 2], [1, 3], [1, 3]):
        with Journal(tmp_path / "j") as journal:
            block = JournaledSource(ArrayTable(X, y=X[:, 0]), journal).pick(np.array(rows))
        np.testing.assert_array_equal(block["x"], X[rows])
        np.testing.assert_array_equal(block["y"], X[rows, 0])


@given(
    passes=st.lists(
        st.one_of(
            st.tuples(st.integers(0, 20), st.integers(21, N), st.integers(1, 30)),
            st.sets(st.integers(0, N - 1), min_size=1).map(sorted),
        ),
        min_size=1,
        max_size=5,
    ),
    stop_at=st.integers(0, 60),
    every=st.sampled_from([0, 5.0]),
    library=st.sampled_from([np, array_api_strict]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_a_journal_changes_nothing(tmp_path_factory, passes, stop_at, every, library, dtype):
    x = library.asarray(X.astype(dtype))
    counted = ArrayTable(x, y=x[:, 0], counts=library.arange(N))

    def measure(block, rows):
        xp = library
        weighted = block["x"] * block["counts"][:, None]
        return {"g": xp.matrix_transpose(weighted) @ block["x"], "y": xp.sum(block["y"]), "n": 1}

    def interrupted(block, rows):
        nonlocal stop_at
        stop_at -= 1
        if stop_at == 0:
            raise Interruption
        return measure(block, rows)

    def run(source, measure):
        for one in passes:
            if isinstance(one, list):
                yield source.pick(np.array(one))
            else:
                yield source.fold(measure, range(*one[:2]), one[2])

    expected = list(run(counted, measure))
    path = tmp_path_factory.mktemp("journal") / "j"
    for measured in (interrupted, measure, measure):
        with Journal(path, every=every) as journal:
            try:
                found = list(run(JournaledSource(counted, journal), measured))
            except Interruption:
                continue
        for one, other in zip(found, expected, strict=True):
            same(one, other)


KILLED = """
import hashlib, os, signal, sys
import numpy as np
from implicitmoments.rows import GeneratedTable, Journal, JournaledSource, describe_rows

source = GeneratedTable(lambda rows, rng: rng.normal(4), n_rows=2_000)

def fit(source, started=None):
    A, blocks = np.eye(4), []
    def measure(block, rows):
        if started is not None:
            os.write(started, b"!")
        blocks.append(rows)
        return {"g": block["x"].T @ np.tanh(block["x"] @ A)}
    for i in range(12):
        sums = source.fold(measure, range(2_000), 200, what=f"pass {i}")
        A = sums["g"] / np.linalg.norm(sums["g"])
    return len(blocks), hashlib.sha256(A.tobytes()).hexdigest()

def journaled(started=None):
    journal = Journal(sys.argv[1], describe_rows(source), every=0)
    return fit(JournaledSource(source, journal), started)

# each child is killed somewhere after it has kept n - 1 blocks more
for n in (3, 1, 12, 10, 7, 2, 21, 9):
    heard, started = os.pipe()
    child = os.fork()
    if not child:
        journaled(started)
        os._exit(0)
    os.close(started)
    while n and (part := os.read(heard, n)):  # a child that was slow to be killed may have ended
        n -= len(part)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(*journaled(), *fit(source))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="takes fork")
def test_a_fit_killed_eight_times_ends_with_the_same_bits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "j")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    blocks, found, all_blocks, expected = done.stdout.split()
    assert found == expected
    assert int(blocks) <= 120 - (3 + 1 + 12 + 10 + 7 + 2 + 21 + 9 - 8)
    assert int(all_blocks) == 120


class Rarely(Table):
    """Adds up elsewhere, and tells at the end alone."""

    n_rows, n_features = N, D

    def read(self, rows, rng):
        return {"x": X[rows.start : rows.stop]}

    def fold(self, measure, rows, rows_per_block, *, after=None, **how):
        sums = super().fold(measure, rows, 13, **how)
        if after is not None:
            after(sums, rows.stop)
        return sums


def test_sources_that_tell_at_the_end_keep_whole_passes(tmp_path):
    measure = Gram(6)
    with Journal(tmp_path / "j", every=0) as journal, pytest.raises(Interruption):
        three_passes(JournaledSource(Rarely(), journal), measure)
    with Journal(tmp_path / "j", every=0) as journal:
        found = three_passes(JournaledSource(Rarely(), journal), measure := Gram())
    assert len(measure.seen) == 4
    same(found, three_passes(Rarely(), Gram()))


LAST_BLOCKS = """
from threadpoolctl import threadpool_info, threadpool_limits
import sys
import numpy as np
from implicitmoments.rows import ArrayTable, Journal, JournaledSource

X, seen, interrupted, few = np.zeros((47, 3)), [], [], []

def threads():
    return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

def measure(block, rows):
    if rows.start == 40 and not interrupted:
        interrupted.append(rows)
        raise KeyError
    seen.append(threads())
    return {"n": 1}

with threadpool_limits(2, user_api="blas"):
    for _ in range(2):
        with Journal(sys.argv[1], every=0) as journal:
            try:
                sums = JournaledSource(ArrayTable(X), journal).fold(measure, range(47), 2)
            except KeyError:
                continue
    ArrayTable(X).fold(lambda block, rows: few.append(threads()) or {}, range(4), 2)
print(sums, set(seen), set(few))
"""


def test_the_last_blocks_are_measured_with_as_many_threads_as_in_a_whole_pass(tmp_path):
    # the threads of BLAS are those of a process, and other tests set them too
    command = [sys.executable, "-c", LAST_BLOCKS, str(tmp_path / "j")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # a pass of few blocks leaves BLAS its threads
    assert done.stdout == "{'n': 24} {1} {2}\n", done.stderr


def test_large_sums_that_are_computed_at_once_are_not_kept(tmp_path):
    large = np.broadcast_to(1.0, (10**9,))  # would take 80 s to write
    calls = []

    def measure(block, rows):
        calls.append("large")
        return {"a": large}

    for _ in range(2):
        with Journal(tmp_path / "j") as journal:
            source = JournaledSource(ArrayTable(X), journal)
            assert source.fold(measure, range(1), 1)["a"].shape == (10**9,)
            source.fold(lambda b, r: calls.append("small") or {"a": 1.0}, range(1), 1)
    assert calls == ["large", "small", "large"]


def test_rows_are_read_and_counted_as_before(tmp_path):
    plain = ArrayTable(X, counts=np.arange(N))
    with Journal(tmp_path / "j") as journal:
        source = JournaledSource(plain, journal)
        assert (source.n_rows, source.n_features) == (N, D)
        assert Rows(source).total == N * (N - 1) / 2
        np.testing.assert_array_equal(source.read(range(3), None)["x"], X[:3])
        same(source.pick(np.array([3, 5])), plain.pick(np.array([3, 5])))


def test_a_source_travels_without_its_rows(tmp_path):
    with Journal(tmp_path / "j") as journal:
        journaled = JournaledSource(ArrayTable(np.ones((10_000, 2))), journal)
        sent = pickle.dumps(journaled)
        assert len(sent) < 200
        there = pickle.loads(sent)
        assert (there.n_rows, there.n_features) == (10_000, 2)
        with refuses("rows_elsewhere"):
            there.read(range(1), None)
        view = pickle.loads(pickle.dumps(Rows(journaled, progress=lambda *told: None)))
        assert (view.n, view.n_features, view.progress) == (10_000, 2, None)


def test_progress_is_told_after_blocks_and_at_the_end(tmp_path):
    told, heard = [], []
    for stop_at in (3, None):
        with Journal(tmp_path / "j", every=0) as journal:
            source = JournaledSource(ArrayTable(X), journal)
            rows = Rows(source, rows_per_block=10, progress=lambda *words: told.append(words))
            try:
                for _ in range(2):
                    rows.fold_numbered(
                        Gram(stop_at),
                        range(7, N),
                        what="sums",
                        after=lambda *at: heard.append(at),
                    )
            except Interruption:
                told.append("again")
    blocks = [("sums", done, 40) for done in (10, 20, 30, 40)]
    assert told == [*blocks[:3], "again", blocks[3], *blocks]
    assert [row for _, row in heard] == [17, 27, 37, 47, 17, 27, 37, 47]
    with Journal(tmp_path / "j") as journal:  # answered: the end is told
        told.clear()
        source = JournaledSource(ArrayTable(X), journal)
        rows = Rows(source, rows_per_block=10, progress=lambda *words: told.append(words))
        rows.fold_numbered(Gram(0), range(7, N), what="sums")
    assert told == [("sums", 40, 40)]


def test_rows_are_told_apart_by_their_description(tmp_path):
    described = describe_rows(ArrayTable(X))
    assert (described["rows"], described["columns"]) == (N, D)
    assert (described["library"], described["type"]) == ("numpy", "float64")
    assert describe_rows(ArrayTable(X.copy(order="F"))) == described
    long = np.zeros((1_000, 2))
    digests = set()
    for row in (None, 0, 500, 999):
        changed = long.copy()
        if row is not None:
            changed[row, 1] = 1e-300
        digests.add(describe_rows(ArrayTable(changed))["digest"])
    assert len(digests) == 4
    endless = GeneratedTable(lambda rows, rng: rng.normal(2))
    assert describe_rows(endless)["rows"] is None
    Journal(tmp_path / "j", described).close()
    with refuses("checkpoint_of_another_fit") as caught:
        Journal(tmp_path / "j", describe_rows(ArrayTable(X.astype("f4"))))
    assert caught.error.values["differences"]["type"] == ['"float64"', '"float32"']
    assert os.listdir(tmp_path) == ["j"]
