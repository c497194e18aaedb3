"""The names of the package, which are imported when they are asked for."""

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

import implicitmoments as im


def test_every_name_is_there():
    assert dir(im) == im.__all__
    assert len({id(getattr(im, name)) for name in im.__all__}) == len(im.__all__)
    there = {}
    exec("from implicitmoments import *", there)
    assert set(im.__all__) <= set(there)
    assert im.SphericalMixture is im.mixture.SphericalMixture
    with pytest.raises(AttributeError) as missing:
        _ = im.nothing
    assert (missing.value.name, missing.value.obj) == ("nothing", im)
    with pytest.raises(ImportError) as missing:
        exec("from implicitmoments import nothing")
    assert missing.value.name == "implicitmoments"


# What users may rely on; a name is added here, in docs/api.md and in the __all__ of its folder.
PUBLIC = {
    "": """ActivationSumRegressor AssumptionWarning FitWarning GaussianMixture HermiteProblem
        ModelFileError MomentProblem RegressionMixture RegressionMixtureDensity SphericalMixture
        SphericalMixtureClusterer SphericalMixtureDensity __version__ circuits datasets
        implicit_moments load moments plot problems projections report rows save theory""",
    "circuits": "Circuit describe hermite power scalar unit vector",
    "datasets": """Truth make_activation_sum make_pairwise_differences make_regression_mixture
        make_spherical_mixture""",
    "moments": """ClosedFormMoments Components HermiteProblem MomentProblem PaperMoments
        implicit_moments""",
    "plot": "components convergence fit spectra",
    "problems": """Activation ActivationSumProblem LiLiuMixtureProblem PairwiseDifferenceProblem
        PopulationProblem RegressionMixtureProblem SphericalMixtureProblem as_activation cosine
        from_function leaky_relu""",
    "projections": "RecursiveProjection evaluate evaluate_dense hermite_dense project_dense",
    "report": "write_report",
    "rows": """ArraySource BlockSource CallableSource DaskSource RowDraws Rows Source Whitening
        open_file""",
    "theory": """Bound activation_bound clustering_bound error_bound least_separation
        log10_hermite_second_moment mixture_density_bound moment_bound regression_density_bound""",
    "testing": "random_circuit random_inputs random_projection",
}


@pytest.mark.parametrize("home", PUBLIC)
def test_public_names_are_these(home):
    module = importlib.import_module(f"implicitmoments.{home}".rstrip("."))
    assert sorted(module.__all__) == sorted(PUBLIC[home].split())
    assert all(hasattr(module, name) for name in module.__all__)


def _constants(path):
    for node in ast.parse(path.read_text("utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (name.id for name in names if isinstance(name, ast.Name))


def test_no_module_binds_a_name_twice():
    source = Path(im.__file__).parent
    twice = {
        str(path.relative_to(source)): again
        for path in sorted(source.rglob("*.py"))
        if (again := [name for name, n in Counter(_constants(path)).items() if n > 1])
    }
    assert twice == {}
