"""GaussianMixture keeps scikit-learn's contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from implicitmoments import GaussianMixture
from implicitmoments.mixture.gaussians import COVARIANCE_TYPES

ESTIMATORS = [
    GaussianMixture(2, covariance_type=name, random_state=0) for name in COVARIANCE_TYPES
]


@pytest.mark.filterwarnings("ignore::implicitmoments.AssumptionWarning")
@parametrize_with_checks(ESTIMATORS)
def test_contract(estimator, check):
    check(estimator)
