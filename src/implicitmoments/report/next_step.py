"""The one next step after a verdict: what to fit instead, or how to use the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from implicitmoments.notes import Note, Notes
from implicitmoments.registry import estimator_class
from implicitmoments.report.verdict import Verdict

FACTOR = 4  # by which a limit that was reached is raised
FURTHER_DEGREES = 4  # by which the largest degree is raised


@dataclass(frozen=True)
class NextStep:
    """Another fit, or the use of this one."""

    note: Note  # why
    estimator: str = ""  # the class to fit; empty if the model is to be used
    settings: Mapping[str, Any] = field(
        default_factory=dict
    )  # parameters that differ from the fit


# a model and the values of a note -> the class, or "" for the same one, and parameters to change
Change: TypeAlias = tuple[str, dict[str, Any]]
Changes: TypeAlias = Callable[[Any, Mapping[str, Any]], Change]


def _same(name: str, key: str) -> Changes:
    return lambda _, values: ("", {name: values[key]})


def _set(estimator: str = "", **settings: Any) -> Changes:
    return lambda *_: (estimator, settings)


def _raised(name: str) -> Changes:
    return lambda model, _: ("", {name: FACTOR * getattr(model, name)})


def _shaped(_: Any, values: Mapping[str, Any]) -> Change:
    lines = values["option"] == "noise_type"
    name = "RegressionMixture" if lines else "GaussianMixture"
    return name, {values["option"]: values["kind"]}


def _reseeded(model: Any, _: Mapping[str, Any]) -> Change:
    seed = model.random_state
    return "", {"random_state": seed + 1 if isinstance(seed, int) else 1}


def _further(model: Any, _: Mapping[str, Any]) -> Change:
    return "", {"max_degree": model.max_degree + FURTHER_DEGREES}


def _one_more(model: Any, _: Mapping[str, Any]) -> Change:
    return "", {"n_components": model._k() + 1}


def _other_shapes(model: Any, _: Mapping[str, Any]) -> Change:
    """Return a model with fewer assumptions on the shape of components, or on their number."""
    if model.vectors == "means_" and getattr(model, "covariance_type", "") != "auto":
        return "GaussianMixture", {"n_components": "auto", "covariance_type": "auto"}
    return _one_more(model, {})


def _components(model: Any, _: Mapping[str, Any]) -> Change:
    return ("RegressionMixture" if model.labelled else "SphericalMixture"), {}


ANSWERS: dict[str, Changes] = {
    "component_missing": _same("n_components", "more"),
    "components_are_one": _same("n_components", "fewer"),
    "bic_lower_elsewhere": _same("n_components", "other"),
    "not_round": _shaped,
    "not_converged": _raised("max_iter"),
    "bic_at_limit": _raised("max_components"),
    "cluster_wide": _one_more,
    "search_doubtful": _reseeded,
    "residuals_explained": _set(n_starts=20),
    "negative_weights_likely": _set(positive=False),
    "polynomial_predicts": _set(positive=False, fit_bias=True),
    "density_far_from_rows": _components,
    "density_differs": _further,
    "degree_at_limit": _further,
    "separation_too_small": _set("SphericalMixture"),
    "fewer_clusters": _same("n_components", "n"),
    "samples_differ": _other_shapes,
}


def _heavy(model: Any, _: Mapping[str, Any]) -> Change:
    name = "RegressionMixture" if model.labelled else "GaussianMixture"
    return name, {"noise": "student"}


ANSWERS["heavy_tails"] = _heavy


def next_step_of(model: Any, verdict: Verdict) -> NextStep:
    """Return the answer to the first point that has one; else how to use the model."""
    for note in verdict.against if verdict.doubted else Notes():
        if note.code not in ANSWERS:
            continue
        name, changes = ANSWERS[note.code](model, note.values)
        estimator = name or type(model).__name__
        if set(changes) <= set(estimator_class(estimator)().get_params(deep=False)):
            return NextStep(Note("next_fit"), estimator, _settings(model, estimator, changes))
    return NextStep(Note("next_use" if not verdict.doubted else "next_use_with_care"))


def _settings(model: Any, estimator: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a fit like that of a model but for some changes.

    Only those that differ from the default and can be typed: numbers, words and truth values.
    """
    default = estimator_class(estimator)().get_params(deep=False)
    given = model.get_params(deep=False)
    kept = given if estimator == type(model).__name__ else ("n_components", "random_state")
    own = {name: given[name] for name in default if name in kept and name in given}
    settings = {**own, **changes}
    return {
        name: value
        for name, value in settings.items()
        if isinstance(value, int | float | str) and (name in changes or value != default[name])
    }
