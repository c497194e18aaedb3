"""What SphericalMixture says of a fit: nothing where it is right, and what to do where not."""

import pandas as pd
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_spherical_mixture


def notes(k, X, **options):
    return im.SphericalMixture(k, random_state=0, **options).fit(X).stats_["notes"]


@pytest.fixture(scope="module")
def rows():
    return make_spherical_mixture(3_000, 5, 4, radius=8.0, separation=6.0, random_state=0)


def test_nothing_is_said_of_a_right_fit(rows):
    assert notes(5, rows[0]) == []
    assert notes("auto", rows[0]) == []


def test_a_missing_component_is_noticed(rows):
    for k in (1, 3, 4):
        assert any(
            "hold more than one group; try more components" in each for each in notes(k, rows[0])
        )


def test_columns_of_other_units_are_named(rows, rng):
    truth = rows[1]
    X = truth.vectors[truth.labels] + rng.normal(size=rows[0].shape) * [1.0, 1.0, 1.0, 0.1]
    frame = pd.DataFrame(1e3 * X, columns=["height", "weight", "age", "sleep"])
    said = [each for each in notes(5, frame) if "columns spread" in each]
    assert len(said) == 1
    assert "(sleep) to" in said[0]
    assert "from 9" in said[0] or "from 1" in said[0]  # about 100, in the user's units
    assert any("(column 3) to" in each for each in notes(5, frame.to_numpy()))


def test_a_number_that_stops_at_its_bound_is_said(rows):
    said = notes("auto", rows[0], max_components=3)
    assert any("stopped at max_components=3" in each for each in said)


def test_groups_that_are_not_round_are_said_where_their_number_is_chosen(rng):
    X = rng.normal(size=(2_500, 2))
    X[:2_000, 0] *= 8
    X[2_000:, 1] += 30
    model = im.SphericalMixture("auto", random_state=0).fit(X)
    assert model.n_components_ > 2
    assert any("Groups that are not round" in each for each in model.stats_["notes"])


def test_few_rows_are_said(rows):
    assert "1 row is few for 1 component" in notes(1, rows[0][:1])[0]
    assert "9 rows are few for 2 components" in notes(2, rows[0][:9])[0]
    assert not any("few for" in each for each in notes(2, rows[0][:10]))


def test_what_the_moments_could_not_tell_is_kept_apart():
    X, _ = make_spherical_mixture(1_500, 30, 3, radius=20.0, separation=5.0, random_state=0)
    model = im.SphericalMixture(30, random_state=0).fit(X)
    assert model.stats_["start"] == "scattered"
    assert model.stats_["moments_say"]
    assert model.stats_["notes"] == []  # what was found from scattered rows is right


@pytest.mark.parametrize("seed", range(3))
def test_a_chosen_number_is_measured_as_a_given_one(seed):
    X, _ = make_spherical_mixture(4_000, 4, 10, radius=6.0, separation=6.0, random_state=seed)
    auto = im.SphericalMixture("auto", random_state=0).fit(X)
    assert auto.n_components_ == 4
    assert auto.stats_["resolved"] == 4
    assert auto.stats_["gap"] > 2
    assert len(auto.components_read_.resolved) == 4
    assert auto.stats_["notes"] == []


def test_one_component_that_was_chosen_has_no_moments_of_several(rng):
    auto = im.SphericalMixture("auto", random_state=0).fit(rng.normal(size=(2_000, 3)))
    assert auto.n_components_ == 1
    assert auto.components_read_ is None
    assert "gap" not in auto.stats_


def test_components_that_few_rows_leave_open_are_said():
    X, _ = make_spherical_mixture(1_500, 40, 20, radius=4.5, separation=4.0, random_state=0)
    model = im.SphericalMixture(40, random_state=0).fit(X)
    assert model.stats_["resolved"] < 40
    assert "of 40 components apart, and rows are too few" in model.stats_["notes"][-1]
