"""The same thing has the same name, default and description in every estimator."""

import inspect
import re

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.datasets import make_regression_mixture, make_spherical_mixture
from support import ESTIMATORS

CLASSES = [getattr(im, name) for name in ESTIMATORS]
# Defaults that differ: what is counted and measured depends on the algorithm.
OWN_DEFAULT = {
    "covariance_type": "the paper's model has one variance; scikit-learn's class is full",
    "n_components": "sums of activations are pruned by the network, so that counting is safe",
    "max_iter": "EM, or steps of least squares",
    "tol": "a rise of the likelihood, or a fall of the squared error",
    "max_degree": "labels are one more variable, and the number of terms grows with it",
    "errors": "coefficients have few, covariances many: those of mixtures come on request",
}
# noise: of components, of lines; order: of decoded means, of clusters
OWN_DESCRIPTION = {*OWN_DEFAULT, "noise", "order"} - {"n_components"}
# Attributes whose shape or content depends on the model.
OWN_ATTRIBUTE = {"stats_", "variance_", "coef_", "intercept_", "noise_", "hypothesis_"}
OWN_ATTRIBUTE |= {"weight_errors_"}


def described(section, names_apart):
    """First sentences in the docstrings of all estimators, by the name they describe."""
    found = {}
    for each in CLASSES:
        pattern = rf"^{section}\n-+\n(.*?)(?=^\w+\n---|\Z)"
        text = re.search(pattern, inspect.getdoc(each), re.M | re.S).group(1)
        entries = re.findall(r"^(\w+(?:, \w+)*) : .*\n((?:    .*\n)*)", text, re.M)
        for names, body in entries:
            first = re.split(r"[.;] |\.$", " ".join(body.split()))[0]
            for name in set(names.split(", ")) - set(names_apart):
                found.setdefault(name, set()).add(first)
    return found


def test_common_parameters_have_one_default():
    defaults = {}
    for each in CLASSES:
        for name, parameter in inspect.signature(each).parameters.items():
            defaults.setdefault(name, set()).add(parameter.default)
    differ = {name for name, values in defaults.items() if len(values) > 1}
    assert differ == set(OWN_DEFAULT)


@pytest.mark.parametrize(
    ("section", "apart"), [("Parameters", OWN_DESCRIPTION), ("Attributes", OWN_ATTRIBUTE)]
)
def test_common_names_have_one_description(section, apart):
    found = described(section, apart)
    assert len(found) > 15
    assert {name: words for name, words in found.items() if len(words) > 1} == {}


def test_all_estimators_have_what_all_can_have():
    for each in CLASSES:
        names = set(inspect.signature(each).parameters)
        assert {"n_components", "random_state", "rows_per_block"} <= names


X, _ = make_spherical_mixture(1_000, 2, 3, radius=2.0, random_state=0)
LINES = make_regression_mixture(1_000, 2, 3, noise=1.0, random_state=0)[:2]
SAMPLED = {  # rows first, then labels
    "SphericalMixture": (im.SphericalMixture(2), (X,), ((5, 3), (5,))),
    "GaussianMixture": (im.GaussianMixture(2), (X,), ((5, 3), (5,))),
    "TableMixture": (im.TableMixture(2), (X,), ((5, 3), (5,))),
    "RegressionMixture": (im.RegressionMixture(2), LINES, ((5, 3), (5,), (5,))),
    "SphericalMixtureDensity": (im.SphericalMixtureDensity(2, degree=2), (X,), ((5, 3),)),
    "RegressionMixtureDensity": (
        im.RegressionMixtureDensity(2, degree=2),
        LINES,
        ((5, 3), (5,)),
    ),
}


def test_every_estimator_that_samples_is_here():
    assert {each.__name__ for each in CLASSES if hasattr(each, "sample")} == set(SAMPLED)


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@pytest.mark.parametrize("name", SAMPLED)
def test_samples_are_rows_then_labels(name):
    model, data, shapes = SAMPLED[name]
    model.set_params(random_state=0).fit(*data)
    drawn = model.sample(5, 7)
    parts = (drawn,) if isinstance(drawn, np.ndarray) else drawn
    assert tuple(part.shape for part in parts) == shapes
    if hasattr(model, "weights_"):  # labels last
        assert set(parts[-1].tolist()) <= set(range(model.n_components_))
    again = model.sample(5, random_state=7)
    again = (again,) if isinstance(again, np.ndarray) else again
    for part, other in zip(parts, again, strict=True):
        np.testing.assert_array_equal(part, other)
