"""``fit -k 2-8``: several numbers of components, and the choice among them."""

import json

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.cli.sweep import MOST_FITS, compare_fits, swept_numbers
from implicitmoments.rows import ArrayTable


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2-5", [2, 3, 4, 5]),
        ("2,4,8", [2, 4, 8]),
        ("1, 3-4", [1, 3, 4]),
        ("4,2,4", [2, 4]),
        ("3", None),
        ("auto", None),
        (None, None),
    ],
)
def test_ranges_and_lists(text, numbers):
    assert swept_numbers(text) == numbers


@pytest.mark.parametrize("text", ["5-2", "0-3", "2,,4", "2-", "a,b", "2-x"])
def test_what_is_no_range_is_refused(text, refused, data):
    refused("not_a_range", "fit", "mixture", data / "rows.csv", "-k", text, text=text)


def test_a_range_has_an_end(refused, data):
    text = f"1-{MOST_FITS + 1}"
    refused("too_many_fits", "fit", "mixture", data / "rows.csv", "-k", text, text=text)


def test_the_least_bic_is_written(call, data, tmp_path):
    out = tmp_path / "model.im"
    result = call("fit", "mixture", data / "rows.csv", "-k", "2-4", "-o", out, "--json")
    document = json.loads(result.stdout)
    scores = {int(k): score for k, score in document["bic_by_components"].items()}
    assert list(scores) == [2, 3, 4]
    assert min(scores, key=scores.get) == 3 == document["found"]["n_components"]
    assert document["smallest_within_noise"] == 3
    model = im.load(out)
    rows = np.load(data / "rows.npy")
    del model.feature_names_in_
    assert scores[3] == pytest.approx(model.bic(rows), rel=1e-6)
    assert model.stats_["bic_by_n_components"] == pytest.approx(scores)
    # the same as a fit of that number alone
    alone = im.SphericalMixture(3, random_state=0).fit(rows)
    np.testing.assert_allclose(model.means_, alone.means_, atol=1e-4)


def test_the_table_has_a_row_per_number(call, data, tmp_path):
    out = tmp_path / "model.im"
    result = call("fit", "mixture", data / "rows.csv", "-k", "3,4", "-o", out)
    table = result.stdout.split("component   weight")[0]
    numbers = [line.split()[0] for line in table.splitlines() if line.split()[:1] != []]
    assert {"3", "4"} <= set(numbers)
    assert str(out) in result.stdout


def test_scaled_columns_have_bic_in_the_units_of_the_file(call, data, tmp_path):
    # a covariance per column does not depend on the units
    how = ("-k", "2,3", "--covariance", "diag", "--json", "-o", tmp_path / "m.im")
    plain, scaled = (
        json.loads(call("fit", "mixture", data / "rows.csv", *how, *more).stdout)
        for more in ((), ("--scale",))
    )
    for k in ("2", "3"):
        one, other = plain["bic_by_components"][k], scaled["bic_by_components"][k]
        assert one == pytest.approx(other, abs=1.0)


def test_numbers_within_noise(call, tmp_path):
    """Two components so near one another that one has as low a BIC but for noise."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    X[:200, 0] += 2.6
    np.save(tmp_path / "near.npy", X)
    how = ("-k", "1-3", "-o", tmp_path / "m.im", "--json")
    document = json.loads(call("fit", "mixture", tmp_path / "near.npy", *how).stdout)
    scores = {int(k): score for k, score in document["bic_by_components"].items()}
    errors = {int(k): error for k, error in document["bic_standard_error"].items()}
    best = min(scores, key=scores.get)
    within = [k for k in scores if scores[k] - scores[best] <= 2 * errors[k]]
    assert document["smallest_within_noise"] == min(within)
    assert errors[best] == 0.0
    assert all(errors[k] > 0 for k in scores if k != best)


def test_kinds_without_a_criterion_are_refused(refused, data):
    refused("no_criterion", "fit", "clusters", data / "rows.csv", "-k", "2-3", kind="clusters")


def test_each_number_has_its_own_checkpoint(call, data, tmp_path):
    journal = tmp_path / "rows.journal"
    how = ("-k", "2,3", "-o", tmp_path / "m.im", "--checkpoint", journal)
    assert call("fit", "mixture", data / "rows.csv", *how).exit_code == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert {"rows.journal.k2", "rows.journal.k3"} <= names


def test_quiet_keeps_warnings(call, data, tmp_path):
    result = call("fit", "mixture", data / "rows.csv", "-k", "2", "-q", "-o", tmp_path / "m.im")
    assert result.stdout == ""
    codes = im.load(tmp_path / "m.im").notes_.codes
    assert "component_missing" in codes
    assert len(result.stderr.splitlines()) == len(codes)
    good = call("fit", "mixture", data / "rows.csv", "-k", "3", "-q", "-o", tmp_path / "m.im")
    assert good.stderr == ""


def test_parameters_of_a_kind_are_listed(call, data):
    result = call("fit", "mixture", data / "rows.csv", "--set", "help")
    names = {line.split()[0] for line in result.stdout.splitlines() if line.split()}
    known = set(im.SphericalMixture().get_params()) - {"n_components", "random_state"}
    assert {"tol", "max_iter", "n_moves"} <= names & known
    shaped = call("fit", "mixture", data / "rows.csv", "--covariance", "full", "--set", "help")
    assert "reg_covar" in shaped.stdout
    assert "reg_covar" not in result.stdout


def test_a_shell_completes_kinds(call):
    env = {
        "_IMPLICITMOMENTS_COMPLETE": "complete_bash",
        "COMP_WORDS": "implicitmoments fit reg",
        "COMP_CWORD": "2",
    }
    result = call(env=env, prog_name="implicitmoments")
    assert result.stdout.split() == ["regressions", "regression-density"]


@pytest.mark.parametrize(("numbers", "at_end"), [("2-3", True), ("2-4", False)])
def test_a_choice_at_the_end_of_the_range_is_said(data, numbers, at_end):
    """Three groups: of 2 and 3 components the most are best, of 2 to 4 they are not."""
    X = np.load(data / "rows.npy")
    models = [im.SphericalMixture(k, random_state=0).fit(X) for k in swept_numbers(numbers)]
    note = compare_fits(models, ArrayTable(X), 0.0).choice()
    assert (note.code == "number_chosen_at_end") == at_end
    if at_end:
        assert note.values == {"k": 3, "further": "3-6"}
