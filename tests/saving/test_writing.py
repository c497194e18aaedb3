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
from implicitmoments.saving.container import LARGEST_HEADER


def test_functions_of_the_user(library, path):
    X, y = library["rows"]("activation")

    def hinge(u):
        return np.maximum(0, u - 0.3)

    model = im.ActivationSumRegressor(hinge, 2, degree=2).fit(X, y)
    with pytest.raises(im.ModelFileError, match="activation_ is the activation 'hinge', made of"):
        im.save(model, path)
    model.activation_ = model.network_ = model._hypothesis = None
    with pytest.raises(im.ModelFileError, match=r"activation is the function .*hinge, and a"):
        im.save(model, path)
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
            with pytest.raises(im.ModelFileError, match="activation is the activation"):
                im.save(model, path)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), r"note_ is of type object"),
        ({"a": [1, {2}]}, r"note_\['a'\]\[1\] is of type set"),
        (1 + 2j, "note_ is of type complex"),
        (np.array([1j]), "note_ holds entries of type complex128"),
        (np.array([{}], dtype=object), "note_ holds entries of type object"),
        (np.array(["a"]), "note_ holds entries of type <U1"),
        (np.longdouble(1), "note_ holds entries of type"),
        (lambda: 1, "note_ is the function"),
        (int, "note_ is the class"),
        (np.random.Generator(np.random.Philox(0)), "of kind Philox, and model files keep PCG64"),
        ({i: i for i in range(2_000)}, "could not be read again"),
        ("x" * LARGEST_HEADER, "keep long lists as arrays"),
    ],
)
def test_attributes_that_are_not_kept(value, words, model, path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "note_", value, raising=False)
        with pytest.raises(im.ModelFileError, match=words):
            im.save(model, path)
    assert not path.exists()


def test_what_is_no_fitted_model(library, path):
    with pytest.raises(TypeError, match=r"save takes a fitted ActivationSumRegressor, .* got int"):
        im.save(3, path)
    with pytest.raises(TypeError, match="got Pipeline; of a pipeline or a search save the step"):
        im.save(make_pipeline(StandardScaler(), im.SphericalMixture()), path)
    with pytest.raises(im.ModelFileError, match="SphericalMixture is not fitted; call fit before"):
        im.save(im.SphericalMixture(), path)

    begun = im.ActivationSumRegressor()
    begun.activation_ = cosine()
    with pytest.raises(im.ModelFileError, match="ActivationSumRegressor is not fitted"):
        im.save(begun, path)

    class Mine(im.SphericalMixture):
        pass

    with pytest.raises(TypeError, match="got Mine"):
        im.save(Mine(3, random_state=0).fit(*library["rows"]("apart")), path)


# files are written whole or not at all


def test_folders_that_cannot_be_written(model, tmp_path):
    with pytest.raises(im.ModelFileError, match=r"cannot be written \(No such file.*folder that"):
        im.save(model, tmp_path / "none" / "model")
    (tmp_path / "file").write_text("x")
    with pytest.raises(im.ModelFileError, match="cannot be written"):
        im.save(model, tmp_path / "file" / "model")
    with pytest.raises(im.ModelFileError, match="it is a folder"):
        im.save(model, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folders_that_may_not_be_written(model, tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(im.ModelFileError, match=r"\(Permission denied\); give a path"):
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
    kind = im.ModelFileError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(kind, match="No space left" if kind is im.ModelFileError else None):
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
