"""A model that was saved and loaded is the model that was saved, to the last bit."""

import dataclasses

import array_api_strict
import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.saving import apply_layout, layout_of
from implicitmoments.testing import refuses


def same(one, other):
    """Whether two values are of one type and equal bit for bit, also as they lie in memory."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and layout_of(one) == layout_of(other)
            and (one.dtype == object or one.tobytes() == other.tobytes())
            and bool(np.all((one == other) | (one != one)))
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if dataclasses.is_dataclass(one) and not isinstance(one, im.problems.Activation):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields_kept(one))
    if isinstance(one, im.problems.Activation):
        return one.name == other.name and one.mean_square == other.mean_square
    if isinstance(one, im.projections.RecursiveProjection):
        return same(vars(one), vars(other))
    if isinstance(one, np.random.Generator | np.random.RandomState):
        return one.random(8).tolist() == other.random(8).tolist()
    return one == other or (one != one and other != other)


def fields_kept(record):
    """Rows of the fit, which moments of the paper's algorithm hold, stay behind."""
    left = ("problem", "view") if isinstance(record, im.moments.PaperMoments) else ()
    return [field for field in dataclasses.fields(record) if field.name not in left]


def through_file(model, folder):
    im.save(model, folder / "model.safetensors")
    return im.load(folder / "model.safetensors")


def test_answers_parameters_and_attributes_are_equal_bit_for_bit(case, library, tmp_path):
    model, rows = case
    again = through_file(model, tmp_path)
    assert type(again) is type(model)
    assert again.stats_ is not model.stats_
    for name in sorted(vars(model)):
        if name != "random_state":
            assert same(getattr(model, name), getattr(again, name)), name
    assert set(vars(again)) == set(vars(model))
    ours, theirs = library["answers"](model, rows), library["answers"](again, rows)
    for name, answer in ours.items():
        assert same(answer, theirs[name]), name
    objects = im.problems.Activation | np.random.Generator | np.random.RandomState
    plain = {k: v for k, v in model.get_params().items() if not isinstance(v, objects)}
    found = again.get_params()
    assert all(same(value, found[name]) for name, value in plain.items())


def test_a_loaded_model_gives_the_same_file(case, tmp_path):
    model, _ = case
    again = through_file(model, tmp_path)
    im.save(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def test_a_model_that_answers_otherwise_is_noticed(library):
    model = library["fitted"]("mixture shared")
    other = library["fitted"]("mixture separate")
    rows = library["rows"]("apart")
    assert not same(library["answers"](model, rows), library["answers"](other, rows))
    assert not same(np.ones((2, 3)), np.ones((3, 2)).T)
    assert not same(1.0, np.float64(1.0))
    assert not same({1: 2}, {1.0: 2})


def test_what_is_shared_stays_shared(library, tmp_path):
    again = through_file(library["fitted"]("activation relu, refine=True"), tmp_path)
    assert again._hypothesis is again.network_
    assert again.network_.activation is again.activation_
    assert again.network_.weights is again.weights_


@pytest.mark.parametrize("n_first", [600, 22_000])
def test_partial_fit_goes_on_where_it_was(n_first, library, tmp_path):
    (X,) = library["rows"]("many")
    model = im.SphericalMixture(3, random_state=0).partial_fit(X[:n_first])
    again = through_file(model, tmp_path)
    rest = X[:2_000] + 0.1
    for pieces in (model, again):
        pieces.partial_fit(rest).partial_fit(rest[::2])
    assert same(library["answers"](model, (X,)), library["answers"](again, (X,)))
    timeless = [
        {key: value for key, value in pieces.stats_.items() if not key.startswith("seconds")}
        for pieces in (model, again)
    ]
    assert same(*timeless)


def test_names_of_features_are_kept(library, tmp_path):
    pandas = pytest.importorskip("pandas")
    (X,) = library["rows"]("apart")
    frame = pandas.DataFrame(X, columns=["a", "b", "ö"])
    model = im.SphericalMixture(3, random_state=0).fit(frame)
    again = through_file(model, tmp_path)
    assert same(again.feature_names_in_, model.feature_names_in_)
    assert same(again.predict(frame), model.predict(frame))
    with pytest.raises(ValueError):  # noqa: PT011 (of scikit-learn)
        again.predict(frame.rename(columns={"a": "z"}))


def test_single_precision_comes_back_as_it_was(library, tmp_path):
    X = library["rows"]("apart")[0].astype(np.float32)
    model = im.SphericalMixture(3, random_state=0).fit(X)
    again = through_file(model, tmp_path)
    assert same(again.score_samples(X), model.score_samples(X))


def test_arrays_of_other_libraries_become_numpy(library, tmp_path):
    (X,) = library["rows"]("apart")
    model = im.SphericalMixture(3, random_state=0).fit(X)
    means = model.means_.copy()
    model.means_ = array_api_strict.asarray(means)
    assert same(through_file(model, tmp_path).means_, means)


VALUES = {
    "numbers": [0.1, -0.0, 1e-320, float("inf"), -float("inf"), float("nan"), 2**100, True, None],
    "NumPy's": [np.float32(0.1), np.int8(-3), np.bool_(True), np.float64("nan"), np.uint64(2**63)],
    "nested": ({"a": [1, (2,)], 3: {(1, 2): "x", None: 1.5}, 2.5: ()}, range(3, 9, 2)),
    "words": 'a\n"b" ü \ud800 __class__',
    "types": [np.float32, np.int64],
    "empty": [np.empty((0, 3)), np.empty(0), np.array(3.0), {}, [], ()],
    "axes": [np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0), np.ones((4, 5))[:, 1:2]],
    "strided": [np.arange(20)[::2], np.arange(6).reshape(2, 3)[:, ::-1], np.ones((3, 1)).T],
    "big-endian": [np.arange(3, dtype=np.int32)],
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_all_kinds_come_back(name, library, tmp_path):
    model = library["fitted"]("mixture shared")
    value = VALUES[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "stats_", {**model.stats_, name: value})
        again = through_file(model, tmp_path)
        im.save(again, tmp_path / "again")
    assert same(value, again.stats_[name])
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("seed", range(30))
def test_layouts_are_kept_in_little_memory(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, size=rng.integers(1, 5)).tolist())
    base = rng.normal(size=[n + int(rng.integers(3)) for n in shape])
    parts = [slice(None, n) if rng.random() < 0.7 else slice(n, None, -1) for n in shape]
    array = base[tuple(parts)].transpose(rng.permutation(len(shape)))
    layout = layout_of(array)
    made = apply_layout(np.ascontiguousarray(array), layout)
    assert np.array_equal(made, array)
    assert layout_of(made) == layout
    assert made.flags.f_contiguous == array.flags.f_contiguous
    assert (made.base if made.base is not None else made).size <= 10 * array.size


def test_layouts_that_overlap_or_spread_are_refused():
    for shape, layout in {
        (2, 3): [0, 1],
        (3, 2): [1, 1],
        (2, 2): [10**12, 1],
        (2,): [3],
        (3,): [True],
        (4,): "1",
        (0, 2): [2, 1],
        (5,): [1, 5],
    }.items():
        with refuses("invalid_layout"):
            apply_layout(np.zeros(shape), layout)


def test_loaded_arrays_can_be_written_to(library, tmp_path):
    again = through_file(library["fitted"]("mixture shared"), tmp_path)
    again.means_[0] = 0.0
    assert again.means_.flags.aligned
