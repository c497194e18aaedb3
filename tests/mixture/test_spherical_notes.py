"""What SphericalMixture says of a fit: nothing where it is right, and what to do where not."""

import numpy as np
import pandas as pd
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture
from implicitmoments.mixture import CovarianceType, Gaussians, make_view
from implicitmoments.rows import Rows
from implicitmoments.search import SEARCH, merge_cheapest, prefer, run_em

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")


def notes(k, X, **options):
    return im.SphericalMixture(k, random_state=0, **options).fit(X).notes_


@pytest.fixture(scope="module")
def rows():
    return make_spherical_mixture(3_000, 5, 4, radius=8.0, separation=6.0, random_state=0)


def test_nothing_is_said_of_a_right_fit(rows):
    assert notes(5, rows[0]) == []
    assert notes("auto", rows[0]) == []


@pytest.mark.parametrize("k", [1, 3, 4])
def test_a_missing_component_is_noticed(rows, k):
    X, truth = rows
    model = im.SphericalMixture(k, random_state=0).fit(X)
    (note,) = model.notes_
    assert note.code == "component_missing"
    groups = [set(truth.labels[model.predict(X) == c]) for c in note.values["which"]]
    assert all(len(group) > 1 for group in groups)  # each that is named holds several
    assert k < note.values["more"] <= 5


def test_a_missing_component_is_noticed_where_components_overlap():
    X, _ = make_spherical_mixture(4_000, 4, 3, radius=2.5, separation=2.5, random_state=2)
    assert "component_missing" in notes(3, X).codes
    assert set(notes(4, X).codes) <= {"moments_unresolved"}


def test_components_that_are_not_round_are_noted_with_their_direction(rows, rng):
    truth = rows[1]
    long = np.array([0.8, 0.6, 0.0, 0.0])
    X = 2 * truth.vectors[truth.labels] + rng.normal(size=rows[0].shape)
    X += 2 * rng.normal(size=(len(X), 1)) * long
    frame = pd.DataFrame(X, columns=["height", "weight", "age", "sleep"])
    (note,) = notes(5, frame)
    assert note.code == "components_not_round"
    assert note.values["columns"] == ["height", "weight"]
    assert note.values["ratio"] == pytest.approx(5**0.5, rel=0.2)
    assert note.values["kind"] == "full"
    better = im.GaussianMixture(5, covariance_type="full", random_state=0).fit(X)
    assert better.bic(X) < im.SphericalMixture(5, random_state=0).fit(X).bic(X)
    assert better.notes_ == []


def test_columns_of_other_units_are_named(rows, rng):
    truth = rows[1]
    X = truth.vectors[truth.labels] + rng.normal(size=rows[0].shape) * [1.0, 1.0, 1.0, 0.1]
    frame = pd.DataFrame(1e3 * X, columns=["height", "weight", "age", "sleep"])
    (note,) = (each for each in notes(5, frame) if each.code == "columns_differ_in_spread")
    assert note.values["least"] == "sleep"
    assert note.values["least_spread"] == pytest.approx(100, rel=0.1)  # in the user's units
    (note,) = notes(5, frame.to_numpy())
    assert note.values["least"] == "x3"


def test_notes_are_warnings(rows):
    with pytest.warns(im.AssumptionWarning) as caught:
        model = im.SphericalMixture(5, random_state=0).fit(rows[0] * [1.0, 1.0, 1.0, 9.0])
    (note,) = model.notes_
    assert (note.code, note.values["most"]) == ("columns_differ_in_spread", "x3")
    assert [str(each.message) for each in caught] == [str(note) for note in model.notes_]
    assert {each.filename for each in caught} == {__file__}
    assert [each.category for each in caught] == [im.FitWarning]


def test_a_number_that_stops_at_its_bound_is_said(rows):
    said = notes("auto", rows[0], max_components=3)
    assert "stopped_at_max_components" in said.codes


def test_groups_that_are_not_round_are_said_where_their_number_is_chosen():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_500, 2))
    X[:2_000, 0] *= 8
    X[2_000:, 1] += 30
    model = im.SphericalMixture("auto", random_state=0).fit(X)
    assert model.n_components_ > 2
    (note,) = model.notes_
    assert note.code == "columns_differ_in_spread"
    assert note.values["k"] == 2


def test_few_rows_are_said(rows):
    assert notes(1, rows[0][:2])[0].values == {"n": 2, "k": 1}
    (note,) = (each for each in notes(2, rows[0][:9]) if each.code == "few_rows_per_component")
    assert note.values == {"n": 9, "k": 2}
    assert "few_rows_per_component" not in notes(2, rows[0][:10]).codes


def test_what_the_moments_could_not_tell_is_kept_apart():
    X, _ = make_spherical_mixture(1_500, 30, 3, radius=20.0, separation=5.0, random_state=0)
    model = im.SphericalMixture(30, order=4, random_state=0).fit(X)
    assert model.stats_["start"] == "merge"
    assert model.decoded_components_.notes
    (note,) = model.notes_  # what was found from micro-components is right: no warning
    assert note.code == "moments_unresolved"
    assert note.values["start"] == "merge"


@pytest.mark.parametrize("seed", range(3))
def test_a_chosen_number_is_measured_as_a_given_one(seed):
    X, _ = make_spherical_mixture(4_000, 4, 10, radius=6.0, separation=6.0, random_state=seed)
    auto = im.SphericalMixture("auto", max_components=6, order=4, random_state=0).fit(X)
    assert auto.n_components_ == 4
    assert auto.stats_["resolved"] == 4
    assert auto.stats_["gap"] > 2
    assert len(auto.decoded_components_.resolved) == 4
    assert auto.notes_ == []


def test_one_component_that_was_chosen_has_no_moments_of_several(rng):
    auto = im.SphericalMixture("auto", random_state=0).fit(rng.normal(size=(2_000, 3)))
    assert auto.n_components_ == 1
    assert auto.decoded_components_ is None
    assert "gap" not in auto.stats_


def test_components_that_few_rows_leave_open_are_said():
    X, _ = make_spherical_mixture(1_700, 40, 20, radius=4.5, separation=4.0, random_state=0)
    model = im.SphericalMixture(40, order=4, random_state=0).fit(X)
    assert model.stats_["resolved"] < 40
    note = model.notes_[-1]
    assert note.code == "moments_unresolved"
    assert note.values["resolved"] == model.stats_["resolved"]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_extra_components_of_one_group_are_said(k, seed):
    X = np.random.default_rng(seed).normal(size=(2_000, 4))
    model = im.SphericalMixture(k, order=4, random_state=0).fit(X)
    assert model.stats_["resolved"] < k
    (note,) = model.notes_
    assert note.code == "components_are_one"
    assert note.values["fewer"] == k - 1


def test_the_two_components_that_are_one_are_named(rows):
    """Where BIC of two fits says so, and not for the components there are."""
    X, truth = rows
    model, fewer = (im.SphericalMixture(j, random_state=0).fit(X) for j in (6, 5))
    (note,) = model.notes_
    assert note.code == "components_are_one"
    means = truth.vectors[:, None] - model.means_
    group = np.argmin(np.sum(means**2, axis=2), axis=0)  # of each component
    a, b = note.values["which"]
    assert group[a] == group[b]
    loss = (model.lower_bound_ - fewer.lower_bound_) * len(X)
    assert note.values["loss"] == pytest.approx(max(loss, 0), abs=1)
    known = im.SphericalMixture(3, variance=1.0, random_state=0).fit(X[truth.labels < 2])
    assert "components_are_one" in known.notes_.codes


def test_a_component_that_only_all_rows_show_is_not_doubted():
    """Sixty rows of two groups pay for one component, 6,000 for two."""
    X, truth = make_spherical_mixture(6_000, 2, 3, radius=1.2, separation=1.8, random_state=0)
    view = make_view(Rows.of(X), CovarianceType("tied_spherical"), 1e-6)
    rows, few = view.hold(Rows.of(X)), view.hold(Rows.of(X[:60]))
    start = view.inside(Gaussians(np.full(2, 0.5), truth.vectors, np.ones((2, 3))))
    fitted = run_em(view.family, rows, start, SEARCH).state
    less = merge_cheapest(view.family, few, fitted)
    parts = [(part, view.family.e_step(part, fitted).level) for part in (few, rows)]
    assert prefer(view.family, fitted, less, parts[:1]).state.k == 1
    assert prefer(view.family, fitted, less, parts) is None


@pytest.mark.parametrize("weights", [None, [10, 1]])
def test_a_small_component_that_is_right_is_not_doubted(weights):
    X, _ = make_spherical_mixture(
        2_000, 2, 4, radius=5.0, separation=4.0, weights=weights, random_state=0
    )
    assert notes(2, X) == []


def test_columns_are_compared_in_all_rows_where_few_do_not_tell(rng):
    """Few rows show no entry of rare columns, and no difference where only rare rows differ."""
    X = rng.normal(size=(5_000, 4))
    rare = np.where(rng.random(5_000) < 0.002, rng.normal(size=5_000), 0.0)
    same = im.SphericalMixture(1).fit(np.column_stack([X, rare, 2 * rare]))
    assert [note.values for note in same.notes_ if note.code == "columns_repeated"] == [
        {"column": "x5", "other": "x4"}
    ]
    other = im.SphericalMixture(1).fit(np.column_stack([X, X[:, 0] + rare]))
    assert "columns_repeated" not in other.notes_.codes
