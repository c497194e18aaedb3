"""What a fitted model shows of itself: findings and tables, without scikit-learn and SciPy.

Estimators inherit their description. The command ``describe`` reads a model file into the
description alone, since scikit-learn takes most of the time of a short command to import.
"""

from implicitmoments.description.base import (
    FOUND,
    LEVEL,
    Description,
    Table,
    as_floats,
    column_names,
    counted,
    error_table,
    findings_of,
    fit_columns,
    numbered_rows,
    short_number,
)
from implicitmoments.description.models import (
    ActivationSumRegressorDescription,
    DensityDescription,
    GaussianMixtureDescription,
    MeansDescription,
    RegressionMixtureDensityDescription,
    RegressionMixtureDescription,
    SphericalDescription,
    SphericalMixtureClustererDescription,
    SphericalMixtureDensityDescription,
    SphericalMixtureDescription,
)
from implicitmoments.description.units import FileUnits
