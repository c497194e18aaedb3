"""Checkpoints: a fit that was interrupted ends with the same bits, and repeats one pass."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.rows.checkpoint import Checkpoint
from support import refuses

X, _ = im.datasets.make_spherical_mixture(40_000, 4, 5, radius=4.0, random_state=0)
Y = X @ np.ones(5) + np.random.default_rng(0).normal(size=len(X))


class Stopped(Exception):  # noqa: N818 (stands for any interruption)
    """Ends a fit."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "x.npy"
    np.save(path, np.column_stack([X, Y]))
    return path


MODELS = {
    "SphericalMixture": lambda: im.SphericalMixture(4, random_state=0),
    "GaussianMixture": lambda: im.GaussianMixture(3, covariance_type="diag", random_state=1),
    "RegressionMixture": lambda: im.RegressionMixture(2, random_state=0),
    "SphericalMixtureClusterer": lambda: im.SphericalMixtureClusterer(4, random_state=0),
}


def digest(model):
    values = vars(model)
    names = ("means_", "weights_", "coef_", "intercept_", "covariances_", "variance_", "n_iter_")
    return {name: np.asarray(values[name]) for name in names if name in values}


def labels_of(model):
    return 5 if model.labelled else None


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_is_stopped_often_ends_with_the_same_bits(name, path, tmp_path):
    undisturbed, passes = MODELS[name](), []
    undisturbed.fit(path, labels_of(undisturbed), progress=lambda *at: passes.append(at))
    done, attempts = [], 0

    def stop_in_third_pass(what, n_done, n_total):
        done.append(n_done == n_total)
        if sum(done) == 2 and n_done < n_total:
            raise Stopped

    while attempts < 500:
        attempts, done = attempts + 1, []
        model = MODELS[name]()
        try:
            how = {"checkpoint": tmp_path / "fit", "progress": stop_in_third_pass}
            model.fit(path, labels_of(model), **how)
            break
        except Stopped:
            continue
    assert attempts > 1
    for attribute, value in digest(undisturbed).items():
        np.testing.assert_array_equal(digest(model)[attribute], value)


KILLED = """
import os, signal, sys
import implicitmoments as im
seen = []
def progress(what, done, total):
    seen.append(done)
    if len(seen) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
im.SphericalMixture(4, random_state=0).fit(
    sys.argv[1], checkpoint=sys.argv[2], progress=progress
)
"""


def test_a_process_that_is_killed_leaves_a_whole_file(path, tmp_path):
    np.save(tmp_path / "x.npy", X)
    for blocks in (3, 9, 20):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "x.npy"), str(tmp_path / "fit")]
        done = subprocess.run([*command, str(blocks)], capture_output=True, check=False)
        assert done.returncode in (-signal.SIGKILL, 0)
    model = im.SphericalMixture(4, random_state=0)
    model.fit(tmp_path / "x.npy", checkpoint=tmp_path / "fit")
    np.testing.assert_array_equal(
        model.means_, im.SphericalMixture(4, random_state=0).fit(tmp_path / "x.npy").means_
    )
    assert [name for name in os.listdir(tmp_path) if name.startswith(".fit")] == []


def test_a_finished_fit_passes_over_nothing(path, tmp_path):
    model = im.SphericalMixture(4, random_state=0).fit(path, checkpoint=tmp_path / "fit")
    seen = []
    again = im.SphericalMixture(4, random_state=0)
    again.fit(path, checkpoint=tmp_path / "fit", progress=lambda *at: seen.append(at))
    assert seen == []
    np.testing.assert_array_equal(again.means_, model.means_)


def test_a_random_seed_is_that_of_the_fit_that_was_interrupted(path, tmp_path):
    fits = [im.SphericalMixture(4).fit(path, checkpoint=tmp_path / "fit") for _ in range(2)]
    np.testing.assert_array_equal(fits[0].means_, fits[1].means_)


@pytest.mark.parametrize(
    ("change", "differing"),
    [
        (lambda: im.SphericalMixture(5, random_state=0), "n_components"),
        (lambda: im.SphericalMixture(4, random_state=1), "random_state"),
        (lambda: im.GaussianMixture(4, random_state=0), "class"),
    ],
)
def test_checkpoints_of_other_fits_are_refused(path, tmp_path, change, differing):
    im.SphericalMixture(4, random_state=0).fit(path, checkpoint=tmp_path / "fit")
    with refuses("checkpoint_of_another_fit") as error:
        change().fit(path, checkpoint=tmp_path / "fit")
    assert differing in error.error.values["differing"]
    with refuses("checkpoint_of_another_fit", differing=["rows"]):
        im.SphericalMixture(4, random_state=0).fit(
            np.column_stack([X, Y]) + 1.0, checkpoint=tmp_path / "fit"
        )


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("no checkpoint")
    with refuses("checkpoint_unreadable"):
        Checkpoint(tmp_path / "text", {}, np.ones(1))
    with refuses("checkpoint_no_folder"):
        Checkpoint(tmp_path / "absent" / "fit", {}, np.ones(1))


def test_sums_come_back_as_they_were(tmp_path, xp):
    given = {
        "n": 3,
        "total": 2.5,
        "scalar": np.float64(1.5),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "none": np.zeros((0, 2)),
        "foreign": xp.ones((2, 2)),
    }
    for _ in range(2):
        checkpoint = Checkpoint(tmp_path / "fit", {"class": "A"}, xp.ones(1))
        found = checkpoint.sums("pass", lambda: given)
    assert (type(found["n"]), type(found["total"])) == (int, float)
    assert type(found["foreign"]) is type(xp.ones(1))
    for name, value in given.items():
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value))


def test_a_loop_keeps_its_state_in_place_of_its_passes(tmp_path):
    def run(n_steps):
        checkpoint, calls = Checkpoint(tmp_path / "fit", {}, np.ones(1)), []
        state = checkpoint.begin_loop() or {"step": 0, "sum": 0.0}
        while state["step"] < n_steps:
            for _ in range(3):
                checkpoint.sums("pass", lambda: calls.append(1) or {"n": 1})
            state = {"step": state["step"] + 1, "sum": state["sum"] + 0.5}
            checkpoint.end_step(state)
        return state, len(calls), (tmp_path / "fit").stat().st_size

    state, n_calls, size = run(4)
    assert (state, n_calls) == ({"step": 4, "sum": 2.0}, 12)
    state, n_calls, later = run(40)
    assert (state["sum"], n_calls) == (20.0, 108)
    assert later == size


def test_arrays_keep_their_shapes_and_types(tmp_path):
    sums = {
        "scalar": np.asarray(2.5),
        "single": np.float32(1.5),
        "number": 3,
        "matrix": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    }
    for _ in range(2):
        found = Checkpoint(tmp_path / "fit", {}, np.ones(1)).sums("a pass", lambda: sums)
    assert type(found["number"]) is int
    for name, value in sums.items():
        assert np.shape(found[name]) == np.shape(value), name
        assert np.asarray(found[name]).dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(found[name], value)


def test_callers_may_compute_in_the_sums(tmp_path):
    for _ in range(3):  # the passes of earlier rounds come from the file
        checkpoint = Checkpoint(tmp_path / "fit", {}, np.ones(1))
        for name in ("first", "second"):
            found = checkpoint.sums(name, lambda: {"total": np.ones(3)})
            np.testing.assert_array_equal(found["total"], 1.0)
            found["total"] *= 2
