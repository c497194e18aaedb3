"""TableMixture: kinds of columns, missing cells, what it answers, and what it refuses."""

import numpy as np
import pytest
from scipy.stats import norm, poisson
from sklearn.metrics import adjusted_rand_score

import implicitmoments as im
from support import refuses

pytestmark = pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
KINDS = {"age": "gaussian", "price": "lognormal", "visits": "poisson", "hits": "binomial"}
KINDS |= {"plan": "categorical", "member": "categorical"}
TRIALS = {"hits": "shots"}


def table(seed, missing=0.15, n=1_500):
    """Three groups in columns of every kind, and the group of each row."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n)
    shares = np.array([[0.7, 0.9], [0.1, 0.8], [0.2, 0.3]])  # summed up
    columns = {
        "age": rng.normal(np.array([30, 50, 70])[group], 5),
        "price": np.exp(rng.normal(np.array([1.0, 2.0, 3.0])[group], 0.4)),
        "visits": rng.poisson(np.array([2, 9, 25])[group]).astype(float),
        "plan": np.array([*"abc"], dtype=object)[(shares[group] < rng.random((n, 1))).sum(1)],
        "member": (rng.random(n) < np.array([0.2, 0.5, 0.8])[group]).astype(object),
        "hits": rng.binomial(20, np.array([0.2, 0.5, 0.8])[group]).astype(float),
        "shots": np.full(n, 20.0),
    }
    for name, cells in columns.items():
        if name != "shots":
            cells[rng.random(n) < missing] = None if cells.dtype == object else np.nan
    return columns, group


def fitted(X, /, **how):
    return im.TableMixture(**{"random_state": 0, "trials": TRIALS} | how).fit(X)


@pytest.mark.parametrize("missing", [0.0, 0.15, 0.4])
def test_groups_and_kinds_are_found(missing):
    columns, group = table(0, missing)
    model = fitted(columns)
    assert (model.columns_, model.notes_.codes) == (KINDS, ["kinds_guessed"])
    assert model.n_components_ == 3
    goal = fitted(table(0, 0.0)[0], n_components=3).predict(columns)  # parameters of all cells
    found = model.predict(columns)
    assert adjusted_rand_score(group, found) > adjusted_rand_score(group, goal) - 0.02


def test_the_density_is_that_of_the_cells_that_are_there():
    columns, _ = table(1)
    kinds = {name: KINDS[name] for name in ("age", "visits")}
    model = fitted(columns, n_components=1, columns=kinds, trials=None)
    mean, deviation = np.nanmean(columns["age"]), np.nanstd(columns["age"])
    expected = np.nan_to_num(norm(mean, deviation).logpdf(columns["age"]))
    expected += np.nan_to_num(poisson(np.nanmean(columns["visits"])).logpmf(columns["visits"]))
    np.testing.assert_allclose(model.score_samples(columns), expected, atol=0.01)
    assert model.score(columns) == pytest.approx(model.lower_bound_, abs=1e-9)
    model = fitted(columns, n_components=3)  # a row without cells has the weights
    empty = {name: [None] for name in KINDS} | {"shots": [np.nan]}
    np.testing.assert_allclose(model.predict_proba(empty)[0], model.weights_, rtol=1e-12)
    assert model.score_samples(empty)[0] == pytest.approx(0, abs=1e-12)


def test_parameters_are_estimated_at_the_predicted_rate():
    errors = []
    for n in (500, 8_000):
        found = []
        for seed in range(4):
            model = fitted(table(seed, n=n)[0], n_components=3, columns=KINDS)
            profile = model.profiles_
            at = list(zip(profile["column"], profile["parameter"], strict=True))
            parts = np.array([profile[f"component {i}"] for i in range(3)]).T
            order = parts[at.index(("age", "mean"))].argsort()
            truth = {("age", "mean"): [30, 50, 70], ("visits", "rate"): [2, 9, 25]}
            found += [parts[at.index(key)][order] / value - 1 for key, value in truth.items()]
        errors.append(np.sqrt(np.mean(np.square(found))))
    assert errors[0] < 0.05
    assert 2 < errors[0] / errors[1] < 8  # four, but for chance


def test_weights_are_repetitions():
    columns, _ = table(3, n=300)
    weights = np.random.default_rng(0).integers(1, 4, 300)
    whole = {name: np.repeat(cells, weights) for name, cells in columns.items()}
    model = im.TableMixture(3, columns=KINDS, trials=TRIALS, random_state=0, tol=1e-10)
    level = model.fit(columns, sample_weight=weights).lower_bound_
    assert level == pytest.approx(model.fit(whole).lower_bound_, abs=1e-5)


def test_exposures_scale_counts():
    rng = np.random.default_rng(4)
    days, group = rng.uniform(1, 30, 2_000), rng.integers(2, size=2_000)
    visits = rng.poisson(np.array([0.5, 2.0])[group] * days).astype(float)
    model = im.TableMixture(2, exposure={"visits": "days"}, random_state=0)
    model.fit({"visits": visits, "days": days})
    rates = sorted(model.profiles_[f"component {i}"][1] for i in range(2))
    np.testing.assert_allclose(rates, [0.5, 2.0], rtol=0.05)
    without = im.TableMixture(2, columns={"visits": "poisson"}, random_state=0)
    wrong = without.fit({"visits": visits}).predict({"visits": visits})
    right = model.predict({"visits": visits, "days": days})
    assert adjusted_rand_score(group, wrong) < 0.5 < adjusted_rand_score(group, right)


def test_samples_and_filled_cells_are_like_the_rows():
    columns, _ = table(5)
    complete, _ = table(5, 0.0)
    model = fitted(columns, n_components=3)
    drawn, labels = model.sample(20_000, 1)
    assert (set(drawn), set(drawn["plan"])) == (set(columns), {"a", "b", "c"})
    np.testing.assert_allclose(np.bincount(labels) / 20_000, model.weights_, atol=0.02)
    filled = model.impute(columns)
    gone = np.isnan(columns["age"])
    assert not np.isnan(filled["age"]).any()
    np.testing.assert_array_equal(filled["age"][~gone], columns["age"][~gone])
    apart = filled["age"][gone] - complete["age"][gone]
    assert np.sqrt(np.mean(apart**2)) < 8  # 5 within groups, 17 over all rows


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_come_back_as_frames(library):
    frames = pytest.importorskip(library)
    columns, _ = table(6, n=400)
    columns["member"] = [None if cell is None else bool(cell) for cell in columns["member"]]
    X = frames.DataFrame({name: list(cells) for name, cells in columns.items()})
    model = fitted(X, n_components=3)
    for found in (model.sample(5)[0], model.impute(X), model.profiles_):
        assert isinstance(found, frames.DataFrame)
    assert model.columns_ == KINDS
    plain = fitted(columns, n_components=3)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(columns), atol=1e-9)


def test_one_group_of_normal_columns_beside_a_scale_is_one_component():
    rng = np.random.default_rng(7)
    columns = {"x": rng.normal(size=800), "grade": rng.integers(1, 6, 800)}
    columns |= {"y": rng.normal(size=800), "income": np.exp(rng.normal(size=800))}
    assert im.TableMixture(random_state=0).fit(columns).n_components_ == 1


THREE = {"a": [1.0, 2.0, 3.0]}
BAD = {  # code, and what is given
    "cell_of_another_kind": [
        ({"a": [-1.0, 2.0, 3.0]}, {"columns": {"a": "poisson"}}),
        ({"a": [1.0, 0.0, 3.0]}, {"columns": {"a": "lognormal"}}),
        ({"a": ["1", "x", "3"]}, {"columns": {"a": "gaussian"}}),
        ({"a": ["u", "v", "w"]}, {"columns": {"a": "bernoulli"}}),
        (THREE | {"n": [2.0, 2.0, 2.0]}, {"trials": {"a": "n"}}),
    ],
    "column_of_one_value": [
        ({"a": ["u", "u", "u"], "b": [1.0, 2.5, 3.0]}, {}),
        ({"a": [np.nan, np.nan, None], "b": [1.0, 2.5, 3.0]}, {}),
    ],
    "unknown_column_kind": [(THREE, {"columns": {"a": "normal"}})],
    "trials_missing": [(THREE, {"columns": {"a": "binomial"}})],
    "no_such_table_column": [(THREE, {"columns": {"b": "gaussian"}})],
}


@pytest.mark.parametrize(
    ("code", "X", "how"), [(code, *case) for code, cases in BAD.items() for case in cases]
)
def test_what_does_not_fit_is_named(code, X, how):
    with refuses(code):
        im.TableMixture(1, **how).fit(X)


def test_new_levels_and_pictures_are_refused():
    columns, _ = table(8, n=300)
    model = fitted(columns, n_components=2)
    with refuses("cell_of_another_kind"):
        model.predict({name: cells[:1] for name, cells in columns.items()} | {"plan": ["z"]})
    with refuses("no_picture"):
        im.plot.components(model, columns)
