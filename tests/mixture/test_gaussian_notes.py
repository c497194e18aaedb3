"""Notes appear where a fit is in doubt, and only there."""

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture

TYPES = ("full", "tied", "diag", "spherical")


def ring(rng):
    angle, radius = rng.uniform(0, 2 * np.pi, 2_000), 5 + 0.3 * rng.normal(size=2_000)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


NOT_GAUSSIAN = {
    "square": lambda rng: rng.uniform(size=(2_000, 2)),
    "heavy tails": lambda rng: rng.standard_t(2, size=(2_000, 2)),
    "ring": ring,
}


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("shape", NOT_GAUSSIAN)
def test_several_components_of_one_group_are_noted(rng, shape, name):
    X = NOT_GAUSSIAN[shape](rng)
    model = im.GaussianMixture("auto", covariance_type=name, random_state=0).fit(X)
    assert model.n_components_ > 1
    assert not {"moments_unresolved"} >= set(model.notes_.codes)


def groups(rng, sizes, apart):
    """Elongated groups on a line."""
    turned = np.array([[1.5, 0.3], [0.3, 0.8]])
    means = apart * np.arange(len(sizes))[:, None] * [0.5, 1.0]
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return means[labels] + rng.normal(size=(sum(sizes), 2)) @ turned


@pytest.mark.parametrize("k", [3, "auto"])
@pytest.mark.parametrize("name", ["full", "tied", "auto"])
def test_separated_components_have_no_note(rng, name, k):
    X = groups(rng, (700, 500, 300), 10.0)
    model = im.GaussianMixture(k, covariance_type=name, random_state=0).fit(X)
    assert model.n_components_ == 3
    assert model.notes_ == []


def test_a_light_component_that_nothing_confirms_is_noted(rng):
    model = im.GaussianMixture(3, covariance_type="tied", random_state=0)
    model.fit(groups(rng, (900, 600, 12), 7.0))
    assert "local_optimum" in model.notes_.codes


def test_components_that_overlap_without_another_optimum_are_not_noted():
    X, _ = make_spherical_mixture(500, 4, 2, radius=(0, 3.0), separation=2.0, random_state=1)
    model = im.GaussianMixture(4, covariance_type="tied_spherical", random_state=0).fit(X)
    assert model.stats_["misclassification_rate"] > 0.1
    assert model.stats_["n_moves"] == 0
    assert model.notes_ == []


def test_groups_that_several_rounds_of_splits_find_are_noted(rng):
    """Squares of four groups look like two at first; columns that differ in spread gain less."""
    centers = np.zeros((9, 4))
    centers[:, :2] = 40.0 * np.stack(np.meshgrid(range(3), range(3)), axis=-1).reshape(-1, 2)
    corners = 3.0 * np.array([[a, b, 0, 0] for a in (-1, 1) for b in (-1, 1)])
    means = np.vstack([(centers[:8, None] + corners).reshape(-1, 4), np.repeat(centers[8:], 4, 0)])
    X = np.repeat(means, 150, axis=0) + rng.normal(size=(5_400, 4))
    with pytest.warns(im.AssumptionWarning):
        model = im.GaussianMixture(9, covariance_type="spherical", random_state=0).fit(X)
    (note,) = model.notes_
    assert note.code == "component_missing"
    assert note.values["more"] > 17
