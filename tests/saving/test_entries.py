"""Model files whose numbers no fit gives are refused when they are loaded."""

import builtins
import json

import numpy as np
import pytest
import safetensors.numpy

import implicitmoments as im
from implicitmoments.saving.descriptions import load_description
from implicitmoments.saving.files import pack
from implicitmoments.testing import refuses

X, _ = im.datasets.make_spherical_mixture(300, 3, 4, radius=6.0, separation=6.0, random_state=0)
U, u, _ = im.datasets.make_regression_mixture(400, 2, 3, noise=0.3, random_state=0)
MODELS = {
    "spherical": im.SphericalMixture(3, covariance_type="spherical", random_state=0),
    "full": im.GaussianMixture(3, random_state=0),
    "tied": im.GaussianMixture(3, covariance_type="tied", random_state=0),
    "lines": im.RegressionMixture(2, random_state=0),
    "clusters": im.SphericalMixtureClusterer(3, random_state=0),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rows = tmp_path_factory.mktemp("models"), {"lines": (U, u)}
    for name, model in MODELS.items():
        im.save(model.fit(*rows.get(name, (X,))), folder / name)
    return folder


def altered(path, change):
    """Write the file again with changed arrays, and a valid checksum; return its path."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    document = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["implicitmoments"])
    arrays = {name: np.array(each) for name, each in safetensors.numpy.load(data).items()}
    change(arrays, document)
    document.pop("checksum")
    new = path.with_name(f"{path.name} altered")
    new.write_bytes(pack(document, arrays))
    return new


def put(name, value):
    def change(arrays, document):
        if name in arrays:
            arrays[name].flat[0] = value
        else:
            document["fitted"][name] = value if np.isfinite(value) else {"float": repr(value)}

    return change


def cut(name):
    def change(arrays, document):
        arrays[name] = np.ascontiguousarray(arrays[name][..., :-1])

    return change


@pytest.mark.parametrize(
    ("model", "change", "code"),
    [
        ("spherical", put("variance_", 0.0), "not_positive"),
        ("spherical", put("variance_", -1.0), "not_positive"),
        ("spherical", put("variance_", np.nan), "not_finite"),
        ("spherical", cut("variance_"), "wrong_shape"),
        ("spherical", put("weights_", -0.1), "negative_weight"),
        ("spherical", put("means_", np.inf), "not_finite"),
        ("spherical", cut("means_"), "wrong_shape"),
        ("spherical", cut("weights_"), "wrong_shape"),
        ("full", put("covariances_", -1.0), "not_positive"),
        ("full", cut("covariances_"), "wrong_shape"),
        ("tied", put("covariances_", 0.0), "not_positive"),
        ("lines", put("noise_", 0.0), "not_positive"),
        ("lines", put("coef_", np.nan), "not_finite"),
        ("lines", cut("intercept_"), "wrong_shape"),
        ("clusters", put("variance_", 0.0), "not_positive"),
        ("clusters", put("variance_", np.nan), "not_finite"),
    ],
)
def test_numbers_that_no_fit_gives(files, model, change, code):
    path = altered(files / model, change)
    with refuses(code):
        im.load(path)
    with refuses(code):
        load_description(path)


@pytest.mark.parametrize("model", MODELS)
def test_files_written_again_without_a_change_are_read(files, model):
    im.load(altered(files / model, lambda *_: None))


def test_records_are_checked_like_attributes(library, tmp_path):
    def change_span(arrays, document):
        span = next(each for each in document["objects"] if each["class"] == "SphericalSpan")
        span["fields"]["variance"] = 0.0

    for name, change, code in (
        ("activation relu, refine=True", put("network_.weights", np.nan), "not_finite"),
        ("activation relu, refine=True", cut("network_.weights"), "wrong_shape"),
        ("density", change_span, "not_positive"),
    ):
        path = tmp_path / "model"
        im.save(library["fitted"](name), path)
        with refuses(code):
            im.load(altered(path, change))


def test_a_large_file_with_holes_is_hashed_in_pieces(files, tmp_path, monkeypatch):
    def change(arrays, document):
        arrays["means_"] = np.zeros((3, 10**7))  # 240 MB, of which nothing is written

    data = altered(files / "spherical", change).read_bytes()
    size = 8 + int.from_bytes(data[:8], "little")
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(data[:size])
        file.write(b"x")  # and else holes
        file.truncate(len(data))
    read = []

    def watch(name, *how, **more):
        file = opened(name, *how, **more)
        return Counted(file, read) if name == path else file

    opened = builtins.open
    monkeypatch.setattr(builtins, "open", watch)
    with refuses("checksum_differs"):
        im.load(path)
    assert max(read) <= 2**23
    with path.open("ab") as file:
        file.truncate(10**10)
    with refuses("file_too_long"):
        im.load(path)
    assert max(read) <= 2**23


class Counted:
    """A file that notes how many bytes are read at a time."""

    def __init__(self, file, read):
        self._file, self._read = file, read

    def read(self, *size):
        found = self._file.read(*size)
        self._read.append(len(found))
        return found

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
