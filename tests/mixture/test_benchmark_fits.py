"""What the benchmark of real data compares: parts of the fit, starts of scikit-learn, verdicts."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture as Peer

import implicitmoments as im

KINDS = ["spherical", "tied", "diag", "full"]


@pytest.fixture(scope="module")
def data(benchmark):
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=400)
    X = 1.5 * rng.normal(size=(4, 3))[labels] + rng.normal(size=(400, 3))
    return benchmark("real_fits").Data("made", X, [str(each) for each in labels], 4, 400, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_judge_has_the_likelihoods_of_the_estimator(benchmark, data, kind):
    fits = benchmark("real_fits")
    train, test = data.split(1)
    how = {"covariance_type": kind, "drop_outliers": False, "random_state": 1}
    model = im.GaussianMixture(4, **how).fit(train.X)
    fit = fits.judge_split(train, test, fits.fit_ours(train, kind, 4, 1))
    assert fit.log_likelihood == pytest.approx(model.score(train.X) * fit.n_fitted)
    assert fit.held_out == pytest.approx(model.score(test.X) * fit.n_held)
    assert fit.bic == pytest.approx(model.bic(train.X))


def test_a_split_has_every_row_once(data):
    train, test = data.split(3)
    assert (len(train.X), len(test.X)) == (280, 120)
    assert sorted(np.concatenate([train.X, test.X])[:, 0]) == sorted(data.X[:, 0])
    where = dict(zip(data.X[:, 0], data.labels, strict=True))
    assert train.labels == [where[value] for value in train.X[:, 0]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_starts_are_those_of_scikit_learn(benchmark, data, kind):
    found = benchmark("real_fits").fit_peer(data, kind, 5)
    for n, mixture in found.items():
        model = Peer(4, covariance_type=kind, n_init=n, random_state=5).fit(data.X)
        model.set_params(warm_start=True, tol=1e-7, max_iter=2000).fit(data.X)
        np.testing.assert_allclose(mixture.means, model.means_)


def test_types_that_scikit_learn_has_not_are_left_out(benchmark, data):
    found = benchmark("real_fits").fit_peer(data, "tied_diag", 0)
    assert list(found) == [1, 10, 20]
    assert not any(found.values())


def test_fits_are_counted_by_likelihoods_of_both_parts_of_the_rows(benchmark, data):
    fits, verdicts = benchmark("real_fits"), benchmark("verdicts")
    train, test = data.split(0)
    ours = fits.judge_split(train, test, fits.fit_ours(train, "full", 4, 0))
    assert not ours.collapsed
    worse = replace(ours, log_likelihood=ours.log_likelihood - 3, held_out=ours.held_out + 3)
    better = replace(ours, log_likelihood=ours.log_likelihood + 4, held_out=ours.held_out - 3)
    results = {"made full": {"ours": [ours] * 3, "other": [worse, better, None]}}
    lines = list(verdicts.summary(results, ["other"]))
    assert lines[2] == "| other | 2 | 1 | 0 | 1 | 0 | 0 | 1 | 0 | 1 |"
    assert "made full 4.0 (1)" in lines[4]
    assert "made full 3.0 (1)" in lines[6]
    collapsed = replace(better, eigenvalue=0.0)
    assert verdicts.verdict(ours, collapsed) == "lower, theirs collapsed"


def test_cells_are_differences_from_this_library(benchmark, data):
    fits, page = benchmark("real_fits"), benchmark("real_data")
    train, test = data.split(0)
    ours = fits.judge_split(train, test, fits.fit_ours(train, "full", 4, 0))
    other = replace(ours, log_likelihood=ours.log_likelihood - 3, eigenvalue=0.0)
    own = [ours, ours]
    assert page.cell("fitted", own, own) == f"{ours.log_likelihood:,.1f}"
    assert page.cell("fitted", own, [other, ours]) == "-1.5 (-3.0 to 0.0) †1"
    assert page.cell("held out", own, [other, None]) == "0.0, 1 of 2 seeds"
    assert page.cell("fitted", own, [None, None]) == "–"


def test_a_spread_has_no_negative_zero(benchmark):
    spread = benchmark("spreads").spread
    assert spread([-0.001, 0.001], 1) == "0.0"
    assert spread([-1_234.5, 0.0, 2.0], 1) == "0.0 (-1,234.5 to 2.0)"


def test_held_out_fits_of_a_file_are_not_repeated(benchmark, tmp_path, capsys, monkeypatch):
    held_out, results = benchmark("held_out"), tmp_path / "fits.jsonl"
    asked = "held_out.py fit rows.npz --sets fashion --types diag --sizes 50 --seeds 2"
    options = [*asked.split(), "--methods", "ours", "--results", str(results)]
    monkeypatch.setattr("sys.argv", options)
    monkeypatch.setattr(held_out, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    fitted = []

    def run(file, n, case, method, start):
        """Training likelihood rises from start to start, and held-out likelihood falls."""
        fitted.append((case.seed, method, start))
        if method == "ours":
            return held_out.Fit(-1.0, -2.0 - case.seed, 20.0)
        return held_out.Fit(-3 + 0.1 * start, -4 - case.seed - 0.1 * start, 2.0 + start)

    monkeypatch.setattr(held_out, "run", run)
    held_out.main()
    first = capsys.readouterr().out.splitlines()[-1]
    cells = [cell.strip() for cell in first.split("|")]
    assert cells[1:5] == ["fashion", "diag", "50", "-2.500 (-3.000 to -2.000)"]
    assert cells[5:7] == ["-4.500 (-5.000 to -4.000)", "-5.400 (-5.900 to -4.900)"]
    assert cells[7:10] == ["", "2 of 2 (training: 2)", "3.08"]  # of the median start
    assert len(fitted) == 22

    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join(lines[1:]))
    missing = json.loads(lines[0])[1]
    fitted.clear()
    monkeypatch.setattr("sys.argv", [*options, "--tables"])
    held_out.main()
    assert "1 of 1 (training: 1)" in capsys.readouterr().out  # the other seed is not complete
    assert fitted == []

    monkeypatch.setattr("sys.argv", options)
    held_out.main()
    assert capsys.readouterr().out.splitlines()[-1] == first
    assert fitted == [(missing[0][3], *missing[1:])]

    monkeypatch.setattr("sys.argv", [*options, "--rows", "1000"])
    fitted.clear()
    held_out.main()
    assert len(fitted) == 22
