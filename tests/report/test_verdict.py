"""What speaks for a fit and what against it, by estimator."""

import copy
import re

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.report.evidence import evidence_of
from implicitmoments.report.model_names import name_of
from implicitmoments.report.verdict import verdict_of


def changed(fitted, name, **stats):
    model = copy.copy(fitted[name].model)
    model.stats_ = model.stats_ | {"notes": []} | stats
    return model


def sales(seed=0, n=900):
    """Three lines with a noise of 4."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(18, 5, n), rng.normal(25, 10, n)])
    lines = np.array([[120, -3, 0.5], [40, -0.5, 2], [80, 1, 0.1]])
    own = lines[rng.choice(3, n, p=[0.5, 0.3, 0.2])]
    return X, own[:, 0] + np.einsum("nd,nd->n", X, own[:, 1:]) + 4 * rng.normal(size=n)


def test_a_good_fit_has_facts_for_it(fitted):
    good = verdict_of(fitted["SphericalMixture"].model, 1500)
    assert good.good
    assert good.against == ()
    assert good.judgement == "Nothing that was measured speaks against it."
    assert good.found == (
        "The fit found a mixture of 4 spherical Gaussians in 1,500 rows of 4 columns."
    )
    assert any("times the noise" in fact for fact in good.in_favour)


def test_the_verdict_says_what_the_fit_said(fitted):
    notes = ["look here", "a polish did not converge.", "n_components=4 is few", "y is the same"]
    bad = verdict_of(changed(fitted, "SphericalMixture", notes=notes), 1500)
    assert not bad.good
    assert bad.judgement == "There are 4 things to look at:"
    assert bad.against == (
        "Look here.",
        "A polish did not converge.",
        "n_components=4 is few.",
        "y is the same.",
    )
    long = "components " + ", ".join(map(str, range(45))) + ": faint"
    one = verdict_of(changed(fitted, "SphericalMixture", notes=[long]), 1500)
    assert one.against == ("Components 0, 1, 2, 3, 4, 5, … (45 in all): faint.",)
    assert one.judgement == "There is one thing to look at:"


@pytest.mark.parametrize("k", [1, 2])
def test_lines_that_are_missing_make_it_amber(k):
    X, y = sales()
    model = im.RegressionMixture(k, random_state=0).fit(X, y)
    verdict = verdict_of(model, 900, "units")
    assert not verdict.good
    assert sum("a line may be missing" in fact for fact in verdict.against) == 1
    model.stats_["notes"] = []
    verdict = verdict_of(model, 900, "units")
    assert not verdict.good
    assert any("more than noise makes" in fact for fact in verdict.against)
    assert not any("noise makes" in fact for fact in verdict.in_favour)
    assert "of units in 900 rows of 2 columns" in verdict.found


@pytest.mark.parametrize("k", [3, "auto"])
def test_as_many_lines_as_there_are_make_it_green(k):
    X, y = sales()
    model = im.RegressionMixture(k, random_state=0).fit(X, y)
    values, floor, rank = (model.stats_[s][0] for s in ("spectra", "noise_floor", "ranks"))
    assert values[rank - 1] < floor  # a weak direction, which the lines do not rest on
    verdict = verdict_of(model, 900)
    assert verdict.good, verdict
    assert any("no peak is left" in fact for fact in verdict.in_favour)
    assert any("best by BIC" in fact for fact in verdict.in_favour) == (k == "auto")
    assert not any(re.search(r"[-−]\d", fact) for fact in verdict.in_favour)


@pytest.mark.parametrize("weakest", [-2.5, 0.0, 0.7])
def test_components_that_the_moments_do_not_tell(fitted, weakest):
    spectrum = np.array([9.0, 8.0, 7.0, weakest, -3.0])
    model = changed(fitted, "SphericalMixture", spectra=[spectrum], noise_floor=[1.0])
    verdict = verdict_of(model, 1500)
    (fact,) = verdict.against
    assert "not clear of the noise" in fact
    assert ("0.7 times" in fact) == (weakest > 0)
    assert "-" not in fact
    assert "−" not in fact


def test_more_components_than_were_asked_for(fitted):
    spectrum = np.array([900.0, 800.0, 700.0, 600.0, 9.0, -3.0])
    stats = {"spectra": [spectrum], "noise_floor": [1.0]}
    (fact,) = verdict_of(changed(fitted, "SphericalMixture", **stats), 1500).against
    assert "more than 4 components" in fact
    assert "9.0 times the noise" in fact
    said = changed(fitted, "SphericalMixture", **stats, notes=["there are more than 4"])
    assert len(verdict_of(said, 1500).against) == 1
    assert not any("tell the 4" in fact for fact in verdict_of(said, 1500).in_favour)


def test_a_start_from_scattered_rows_is_no_merit(fitted):
    began = [
        any("EM started from" in fact for fact in evidence_of(model).pro)
        for model in (
            changed(fitted, "SphericalMixture"),
            changed(fitted, "SphericalMixture", start="scattered"),
        )
    ]
    assert began == [True, False]


def test_round_components_that_do_not_overlap(fitted):
    widths, name = [1.0, 1.1, 1.2, 1.05], "SphericalMixture"
    good = evidence_of(changed(fitted, name, width_by_component=widths, doubt=0.02)).pro
    assert any("No component is wider" in fact for fact in good)
    assert any("Of the rows, 2.00%" in fact for fact in good)
    wide = changed(fitted, name, width_by_component=[2.0, *widths[1:]], doubt=0.2)
    assert not any("wider" in fact or "Of the rows" in fact for fact in evidence_of(wide).pro)


def test_a_number_that_the_criterion_hardly_tells(fitted):
    def told(**bics):
        return evidence_of(changed(fitted, "SphericalMixture", sample_bic=bics["by"]))

    assert "hardly tells 4 from 5 components" in told(by={4: 100.0, 5: 100.5, 3: 150.0}).con[0]
    clear = told(by={4: 100.0, 5: 130.0, 3: 150.0})
    assert clear.con == ()
    assert "the next, 5, has 30 more" in clear.pro[-1]
    model = changed(fitted, "SphericalMixture", sample_bic={4: 100.0, 3: 150.0})
    model.max_components = 4
    assert "the most that is allowed" in evidence_of(model).con[0]


def test_clusters(fitted):
    name = "SphericalMixtureClusterer"
    assert verdict_of(changed(fitted, name), 1500).good
    doubt = evidence_of(changed(fitted, name, doubt=0.2)).con
    assert doubt == tuple(fact for fact in doubt if "20.00% of the rows" in fact)
    assert len(doubt) == 1
    assert "30.00% of pairs of one" in evidence_of(changed(fitted, name, split_rate=0.3)).con[0]
    wide = evidence_of(changed(fitted, name, within_variance=92.9))
    assert "92.9 times" in wide.con[0]
    assert wide.pro == ()  # in units of a noise that is not that of the clusters


@pytest.mark.parametrize("name", ["SphericalMixtureDensity", "RegressionMixtureDensity"])
def test_densities(fitted, name):
    model = changed(fitted, name, distance=0.01)
    assert "chance alone makes up to 0.052" in evidence_of(model).pro[0]
    far = evidence_of(changed(fitted, name, distance=0.09))
    assert "0.09 from the rows" in far.con[0]
    assert not any("from the rows" in fact for fact in far.pro)
    near = changed(fitted, name, distance=0.01, rows_counted=1e9)
    assert "less than epsilon=0.05" in evidence_of(near).pro[0]
    said = changed(fitted, name, distance=0.09, notes=["at least 0.09 in total variation"])
    assert not any("from the rows" in fact for fact in evidence_of(said).con)
    end = changed(fitted, name, truncation_error=0.3, scores={2: -7.0, 4: -6.0})
    end.degree_ = 4
    assert "larger max_degree" in evidence_of(end).con[-1]


def test_what_predicts(fitted):
    name = "ActivationSumRegressor"
    good = verdict_of(changed(fitted, name), 1500)
    assert good.good
    assert "network's expected squared error" in good.in_favour[0]
    errors = {"network_error": 14_560.0, "polynomial_error": 750.0, "hypothesis": "polynomial"}
    bad = verdict_of(changed(fitted, name, **errors), 1500)
    assert not bad.good
    assert "polynomial predicts" in bad.against[0]
    assert "a polynomial of degree" in bad.found
    _, X, y = fitted[name]
    asked = im.ActivationSumRegressor(n_components=3, refine=False).fit(X, y)
    assert verdict_of(asked, 1500).good


def test_where_nothing_was_measured(rng):
    X = rng.normal(size=(300, 2))
    for model in (im.SphericalMixtureClusterer(1), im.SphericalMixtureDensity(1)):
        verdict = verdict_of(model.fit(X), 300)
        assert verdict.good
        assert verdict.in_favour == ()
        assert "look at the pictures" in verdict.judgement


def test_names(fitted):
    models = {name: each.model for name, each in fitted.items()}
    assert name_of(models["RegressionMixture"], "units") == (
        "a mixture of 3 linear regressions of units"
    )
    assert name_of(models["SphericalMixtureClusterer"]) == "4 spherical clusters"
    assert (
        name_of(models["ActivationSumRegressor"], "b") == "a positive sum of 3 activations for b"
    )
    degree = models["RegressionMixtureDensity"].degree_
    assert name_of(models["RegressionMixtureDensity"], "b") == (
        f"a density of degree {degree} for a mixture of regressions of b"
    )
    one = im.RegressionMixture(1).fit(*fitted["RegressionMixture"][1:])
    assert name_of(one) == "one linear regression"
