"""SphericalMixtureClusterer: options, errors and notes."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from implicitmoments import AssumptionWarning, SphericalMixtureClusterer
from implicitmoments.datasets import make_spherical_mixture
from support import refuses

quiet = pytest.mark.filterwarnings("ignore::implicitmoments.notes.AssumptionWarning")


def data(n=4_000, k=4, d=8, separation=8.0, seed=0, **options):
    return make_spherical_mixture(
        n, k, d, radius=separation, separation=separation, random_state=seed, **options
    )


def test_it_finds_means_weights_and_labels():
    X, truth = data(weights=[4, 3, 2, 1])
    model = SphericalMixtureClusterer(4, random_state=0).fit(X)
    assert adjusted_rand_score(truth.labels, model.labels_) > 0.999
    order = np.argsort(-model.weights_)
    np.testing.assert_allclose(model.weights_[order], truth.weights, atol=0.04)
    np.testing.assert_allclose(model.means_[order], truth.vectors, atol=0.25)
    assert model.variance_ == pytest.approx(1.0, abs=0.05)
    assert model.order_ in (2, 4, 6)
    assert model.stats_["separation"] == pytest.approx(8.0, abs=2.0)
    assert model.stats_["split_rate"] + model.stats_["merge_rate"] < 0.05
    assert model.notes_ == []
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict(truth.vectors), order)


def test_the_heaviest_comes_first():
    X, truth = data(weights=[1, 2, 3, 4])
    model = SphericalMixtureClusterer(4, random_state=0).fit(X)
    assert np.all(np.diff(model.weights_) < 0)
    np.testing.assert_allclose(model.weights_, truth.weights[::-1], atol=0.04)
    np.testing.assert_allclose(model.means_, truth.vectors[::-1], atol=0.25)
    np.testing.assert_array_equal(model.labels_, 3 - truth.labels)
    np.testing.assert_array_equal(np.argmin(model.transform(X), axis=1), model.labels_)


def test_rows_of_a_file_are_labelled_by_fit_predict(tmp_path):
    X, _ = data(1_000)
    np.save(tmp_path / "rows.npy", X)
    model = SphericalMixtureClusterer(4, random_state=0)
    labels = model.fit_predict(tmp_path / "rows.npy")
    assert not hasattr(model, "labels_")
    np.testing.assert_array_equal(labels, model.predict(X))
    np.testing.assert_array_equal(labels, model.fit_predict(X))
    with refuses("no_rows"):
        model.fit_predict(iter([{"x": X}]))


def test_it_is_repeatable_and_takes_rows_in_any_order():
    X, truth = data()
    labels = SphericalMixtureClusterer(4, random_state=3).fit_predict(X)
    np.testing.assert_array_equal(
        labels, SphericalMixtureClusterer(4, random_state=3).fit_predict(X)
    )
    order = np.argsort(truth.labels, kind="stable")
    other = SphericalMixtureClusterer(4, random_state=3).fit_predict(X[order])
    assert adjusted_rand_score(labels[order], other) == 1.0


@pytest.mark.parametrize("variance", [None, 4.0])
def test_more_components_than_features(variance):
    X, truth = data(k=6, d=3, separation=9.0)
    model = SphericalMixtureClusterer(6, variance=variance, random_state=0).fit(2.0 * X)
    assert adjusted_rand_score(truth.labels, model.labels_) > 0.99
    assert model.variance_ == pytest.approx(4.0, rel=0.05)
    assert model.notes_ == []


@pytest.mark.parametrize("options", [{"order": 2}, {"order": 4}, {"n_landmarks": 60}])
def test_options(options):
    X, truth = data()
    model = SphericalMixtureClusterer(4, random_state=0, **options).fit(X)
    assert adjusted_rand_score(truth.labels, model.labels_) > 0.99
    assert model.order_ == options.get("order", model.order_)


def test_a_separation_that_is_too_small_is_noted():
    X, _ = data(separation=2.0)
    with pytest.warns(AssumptionWarning):
        model = SphericalMixtureClusterer(4, random_state=0).fit(X)
    (note,) = (note for note in model.notes_ if note.code == "separation_too_small")
    assert note.values["misclassification_rate"] == model.stats_["misclassification_rate"] > 0.05


def test_two_components_in_one_cluster_are_noted():
    X, _ = data()
    with pytest.warns(AssumptionWarning):
        model = SphericalMixtureClusterer(3, variance=1.0, random_state=0).fit(X)
    assert "cluster_wide" in model.notes_.codes


def test_one_component():
    X, _ = data(k=1)
    model = SphericalMixtureClusterer(1, random_state=0).fit(X)
    assert set(model.labels_) == {0}
    np.testing.assert_allclose(model.means_[0], X.mean(axis=0))
    assert model.order_ is None
    assert model.threshold_ is None


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_kinds_of_numbers(dtype):
    X, truth = data()
    labels = SphericalMixtureClusterer(4, random_state=0).fit_predict(
        np.round(9 * X).astype(dtype)
    )
    assert adjusted_rand_score(truth.labels, labels) > 0.999


def test_a_far_outlier_is_left_out_and_noted():
    X, truth = data()
    X[7] = 1e6
    with pytest.warns(AssumptionWarning):
        model = SphericalMixtureClusterer(4, random_state=0).fit(X)
    assert [(note.code, note.values["n"]) for note in model.notes_] == [("outliers", 1)]
    keep = np.arange(len(X)) != 7
    assert adjusted_rand_score(truth.labels[keep], model.labels_[keep]) > 0.999
    assert np.max(np.abs(model.means_)) < 20
    # one that is kept does not spoil the clusters
    X[7] = 6.0
    labels = SphericalMixtureClusterer(4, drop_outliers=False, random_state=0).fit_predict(X)
    assert adjusted_rand_score(truth.labels[keep], labels[keep]) > 0.999


@quiet
def test_columns_without_noise_do_no_harm():
    X, truth = data()
    for further, code in ((np.ones(len(X)), "columns_left_out"), (X[:, 0], "flat_direction")):
        spoiled = np.column_stack([X, further])
        model = SphericalMixtureClusterer(4, random_state=0).fit(spoiled)
        assert adjusted_rand_score(truth.labels, model.labels_) > 0.999
        assert code in model.notes_.codes
        assert model.means_.shape == (4, spoiled.shape[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_and_infinite_entries_are_refused(bad):
    X, _ = data(100)
    X[3, 1] = bad
    with pytest.raises(ValueError):  # noqa: PT011 (scikit-learn's own error)
        SphericalMixtureClusterer(2).fit(X)


def test_too_few_rows_are_refused():
    X, _ = data(30)
    with refuses("too_few_rows", k=9, n=5):
        SphericalMixtureClusterer(9).fit(X[:5])
    with refuses("too_few_rows", least=4, n=3):
        SphericalMixtureClusterer(2).fit(X[:3])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"n_components": 0}, "invalid_parameter"),
        ({"variance": "x"}, "invalid_parameter"),
        ({"order": 3}, "invalid_parameter"),
        ({"order": "high"}, "invalid_parameter"),
        ({"n_landmarks": 1}, "invalid_parameter"),
        ({"n_landmarks": "all"}, "invalid_parameter"),
    ],
)
def test_parameters_are_checked(options, code):
    with refuses(code):
        SphericalMixtureClusterer(**options).fit(data(50)[0])
