"""What the library says of parameters is said of options."""

import inspect

import numpy as np
import pytest

from implicitmoments.cli.build_model import MODELS
from implicitmoments.cli.wording import PARAMETERS, SPOKEN, spoken


def test_every_parameter_has_an_option():
    known = {name for model in MODELS.values() for name in inspect.signature(model).parameters}
    assert known == {*PARAMETERS, *SPOKEN}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "compare log_likelihood_ for some random_state",
            "compare the log-likelihood for some --seed",
        ),
        ("(try label_scale=1.4)", "(try --set label_scale=1.4)"),
        ("stopped at max_components=50", "stopped at --set max_components=50"),
        (
            "in max_iter=7 iterations; raise max_iter, or",
            "in --set max_iter=7 iterations; raise --set max_iter=…, or",
        ),
        ("keep refine=True", "keep --set refine=true"),
        ("give variance=...", "give --set variance=…"),
        ("use degree=4, or method='paper'", "use --degree 4, or --set method=paper"),
        ("SphericalMixture or SphericalMixtureClusterer.", "mixture or clusters."),
        ("columns=['a', 'b c']", "--columns a,b c"),
        # what is no parameter stays
        ("there is no file data/noise=3/SphericalMixture.csv", None),
        ("the variance of order 2 and the noise", None),
        ("--set max_iter=… takes a whole number", None),
        ("SphericalMixtureProblem", None),
    ],
)
def test_options_stand_for_parameters(said, told):
    assert spoken(said) == (said if told is None else told)


def test_notes_of_a_fit_name_options(call, data, tmp_path):
    X = np.load(data / "rows.npy") * [1.0, 1.0, 12.0]
    np.save(tmp_path / "wide.npy", X)
    how = ("fit", "mixture", tmp_path / "wide.npy", "-k", "3", "-o", tmp_path / "m.im")
    advice = "(--scale divides columns by their standard deviations)"
    result = call(*how)
    assert advice in result.stdout
    assert "random_state" not in result.stdout
    assert advice in call("describe", tmp_path / "m.im").stdout
    assert advice not in call(*how, "--scale").stdout
