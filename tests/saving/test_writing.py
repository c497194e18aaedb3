"""What cannot be saved is refused by one error, and files are written whole or not at all."""

import errno
import os
import stat

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import implicitmoments as im
from implicitmoments.problems import Activation, cosine
from implicitmoments.rows import Whitening
from implicitmoments.saving import MAX_HEADER
from implicitmoments.testing import refuses


def test_functions_of_the_user(library, path):
    X, y = library["rows"]("activation")

    def hinge(u):
        return np.maximum(0, u - 0.3)

    model = im.ActivationSumRegressor(hinge, 2, degree=2).fit(X, y)
    with refuses("function_not_saved", attribute="activation_", function="hinge"):
        im.save(model, path)
    model.activation_ = model.network_ = model._hypothesis = None
    with refuses("function_not_saved", attribute="activation") as caught:
        im.save(model, path)
    assert isinstance(caught.error, im.ModelFileError)
    assert not path.exists()


def test_an_activation_that_only_looks_like_one_of_the_library_s(library, path):
    model = library["fitted"]("activation relu(), refine=True")
    real = model.activation
    for false in (
        Activation("relu", real.function, lambda t: 0.0, real.derivative, 0.5),
        Activation("relu", real.function, real.coefficient, None, 0.5),
        Activation("cos(1u + 0)", cosine().function, real.coefficient, None, 0.5),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model, "activation", false)
            with refuses("function_not_saved", attribute="activation", function=false.name):
                im.save(model, path)


@pytest.mark.parametrize(
    ("value", "code", "values"),
    [
        (object(), "type_not_saved", {"attribute": "note_", "type": "object"}),
        ({"a": [1, {2}]}, "type_not_saved", {"attribute": "note_['a'][1]", "type": "set"}),
        (1 + 2j, "type_not_saved", {"type": "complex"}),
        (np.array([1j]), "dtype_not_saved", {"attribute": "note_", "dtype": "complex128"}),
        (np.array([{}], dtype=object), "dtype_not_saved", {"dtype": "object"}),
        (np.array(["a"]), "dtype_not_saved", {"dtype": "<U1"}),
        (np.longdouble(1), "dtype_not_saved", {}),
        (lambda: 1, "function_not_saved", {"attribute": "note_"}),
        (int, "function_not_saved", {"function": "int"}),
        (Whitening(*3 * [np.ones((1, 1))]), "type_not_saved", {"type": "Whitening"}),
        (np.random.Generator(np.random.Philox(0)), "random_state_not_saved", {"found": "Philox"}),
        ({i: i for i in range(2_000)}, "not_readable_again", {}),
        ("x" * MAX_HEADER, "header_full", {"most": MAX_HEADER}),
    ],
)
def test_attributes_that_are_not_kept(value, code, values, model, path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "note_", value, raising=False)
        with refuses(code, **values):
            im.save(model, path)
    assert not path.exists()


def test_what_is_no_fitted_model(library, path):
    for other in (3, make_pipeline(StandardScaler(), im.SphericalMixture())):
        with refuses("not_an_estimator", type=type(other).__name__) as caught:
            im.save(other, path)
        assert isinstance(caught.error, TypeError)
    with refuses("not_fitted", name="SphericalMixture"):
        im.save(im.SphericalMixture(), path)

    begun = im.ActivationSumRegressor()
    begun.activation_ = cosine()
    with refuses("not_fitted"):
        im.save(begun, path)

    class Mine(im.SphericalMixture):
        pass

    with refuses("not_an_estimator", type="Mine"):
        im.save(Mine(3, random_state=0).fit(*library["rows"]("apart")), path)

    same_name = type("SphericalMixture", (im.SphericalMixture,), {"__init__": Mine.__init__})
    with refuses("not_an_estimator"):
        im.save(same_name(), path)


# files are written whole or not at all


def test_folders_that_cannot_be_written(model, tmp_path):
    with refuses("cannot_write", file=str(tmp_path / "none" / "model")):
        im.save(model, tmp_path / "none" / "model")
    (tmp_path / "file").write_text("x")
    with refuses("cannot_write"):
        im.save(model, tmp_path / "file" / "model")
    with refuses("cannot_write", file=str(tmp_path), reason="Is a directory"):
        im.save(model, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_that_may_not_be_written(model, tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with refuses("cannot_write", reason="Permission denied"):
        im.save(model, tmp_path / "model")
    tmp_path.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_what_is_interrupted_leaves_the_old_file_and_nothing_else(
    call, error, model, library, path, monkeypatch
):
    im.save(model, path)
    before = path.read_bytes()

    def fail(*_):
        raise error

    monkeypatch.setattr(os, call, fail)
    full = refuses("cannot_write", reason="No space left")
    with full if isinstance(error, OSError) else pytest.raises(KeyboardInterrupt):
        im.save(library["fitted"]("mixture separate"), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_replaced_and_a_link_is_followed(model, library, path):
    im.save(library["fitted"]("mixture separate"), path)
    link = path.with_name("link")
    link.symlink_to(path)
    im.save(model, str(link))
    assert link.is_symlink()
    assert np.ndim(im.load(path).variance_) == 0
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
