"""Migration of files of older versions to the current schema, one version at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from implicitmoments.saving.declarations import declaration_of
from implicitmoments.saving.decoder import Json
from implicitmoments.saving.files import SCHEMA, check_schema

Document: TypeAlias = dict[str, Json]
Renames: TypeAlias = Mapping[str, Mapping[str, str | None]]


def migrate(document: Document) -> Document:
    """Return a document in the present schema. Arrays keep their names."""
    for number in range(check_schema(document), SCHEMA):
        document = {**MIGRATIONS[number](document), "schema": number + 1}
    return document


def _renamed(held: dict[str, Json], table: Renames, own: str) -> dict[str, Json]:
    names = {**table.get("", {}), **table.get(own, {})}
    pairs = ((names.get(name, name), value) for name, value in held.items())
    return {name: value for name, value in pairs if name is not None}


def _rename(document: Document, tables: Mapping[str, Renames]) -> Document:
    """Rename entries of a document, None for what is left out; "" is for all estimators."""
    own, classes = document["estimator"], tables["classes"].get("", {})
    statistics = document["statistics"]["map"]
    objects = [
        {"class": classes.get(name, name), "fields": _renamed(held, tables["fields"], name)}
        for name, held in ((each["class"], each["fields"]) for each in document["objects"])
    ]
    return {
        **document,
        "objects": objects,
        "parameters": _renamed(document["parameters"], tables["parameters"], own),
        "fitted": _renamed(document["fitted"], tables["fitted"], own),
        "statistics": {"map": _renamed(statistics, tables["statistics"], own)},
    }


TO_2: dict[str, Renames] = {
    "classes": {"": {"LeftBehind": "MomentProblem", "Sums": "MixtureSums"}},
    "fields": {  # by the old name of their class
        "Components": {"reasons": "notes"},
        "Conditions": {"warning": None},
        "Sample": {"block_rows": "rows_per_block"},
    },
    "parameters": {
        "": {"block_rows": "rows_per_block"},
        "RegressionMixture": {"noise": "noise_type"},
        "SphericalMixture": {"n_repairs": "n_moves", "variance_type": "covariance_type"},
    },
    "fitted": {
        "": {"columns_": "columns_in_", "_doubts": None},
        "RegressionMixture": {"log_likelihood_": "lower_bound_"},
    },
    "statistics": {
        "": {
            "notes": None,
            "moments_say": None,  # also in ``decoded_components_.notes``
            "repairs": "n_moves",
            "repairs_tried": "n_moves_tried",
            "seconds_polish": "seconds_em",
        },
        "RegressionMixture": {"double_by_line": None},  # not comparable to the gain of a split
    },
}
COVARIANCE_TYPES = {"shared": "tied_spherical", "separate": "spherical"}


def _from_1(document: Document) -> Document:
    sentences = document["statistics"]["map"].get("notes", [])
    document = _rename(document, TO_2)
    own, fitted, parameters = (document[s] for s in ("estimator", "fitted", "parameters"))
    fitted["notes_"] = _stored_notes(sentences)
    for held in document["objects"]:
        if held["class"] == "Components":
            held["fields"]["notes"] = _stored_notes(held["fields"]["notes"]["tuple"])
    if own == "SphericalMixture":
        given = parameters["covariance_type"]
        parameters["covariance_type"] = COVARIANCE_TYPES.get(given, given)
    elif own == "RegressionMixture":  # the sum over rows becomes a mean
        standard = document["objects"][fitted["_standard"]["object"]]["fields"]
        fitted["lower_bound_"] /= standard["mass"]
    return document


def _stored_notes(sentences: list[str]) -> Json:
    return {"notes": [["stored_sentence", {"map": {"text": text}}] for text in sentences]}


TO_3: dict[str, Renames] = {  # the same name for the same thing in all estimators
    "classes": {"": {"Sample": "Rows"}},
    "fields": {},
    "parameters": {},
    "fitted": {
        "SphericalMixture": {"components_read_": "decoded_components_", "n_components_": None},
        "RegressionMixtureDensity": {"slope_": "coef_"},
    },
    "statistics": {
        "": {
            "doubt": "misclassification_rate",
            "sample_bic": "bic_by_n_components",
            "moments_say": None,
        },
        "SphericalMixture": {"far_rows": None},
        "ActivationSumRegressor": {"converged": None, "n_rows": "rows_used"},
        "RegressionMixture": {"n_rows": "rows_used"},
    },
}
DROPPED_NOTES = {"moments_too_few_rows", "moments_unusable"}  # no reader could act on them
OUTLIERS = {"SphericalMixtureClusterer", "SphericalMixtureDensity", "RegressionMixtureDensity"}


def _from_2(document: Document) -> Document:
    statistics = document["statistics"]["map"]
    document = _rename(document, TO_3)
    own, fitted, parameters = (document[s] for s in ("estimator", "fitted", "parameters"))
    notes = fitted["notes_"]["notes"]
    fitted["notes_"]["notes"] = [note for note in notes if note[0] not in DROPPED_NOTES]
    for note in fitted["notes_"]["notes"]:
        note[1] = {"map": _renamed(note[1]["map"], TO_3["statistics"], "")}
    parameters.setdefault("rows_per_block", None)
    if own in OUTLIERS:
        parameters["drop_outliers"] = True
    elif own == "SphericalMixture":  # r of the moments of orders 2r and 3r before
        r = parameters["order"]
        parameters["order"] = "auto" if r is None else 2 * r
        if statistics.get("start") == "scattered":
            document["statistics"]["map"]["start"] = "kmeans++"
    elif own == "ActivationSumRegressor":
        if parameters["degree"] == "epsilon":
            parameters["degree"] = "auto"
        if "converged" in statistics:
            fitted["converged_"] = statistics["converged"]
    return document


TO_4: dict[str, Renames] = {  # one engine for all mixtures
    "classes": {"": {"Mixture": "Gaussians", "MixtureSums": "GaussianSums"}},
    "fields": {
        "Mixture": {"variances": "covariances"},
        "MixtureSums": {"squares": "products"},
        "Stream": {"moments": None, "read_at": "searched_at"},
    },
    "parameters": {},
    "fitted": {"": {"_placing": None}},
    "statistics": {"SphericalMixture": {"spectral_components": None}},
}


def _from_3(document: Document) -> Document:
    placing = document["fitted"].get("_placing")
    document = _rename(document, TO_4)
    fitted, statistics = document["fitted"], document["statistics"]["map"]
    if statistics.get("start") == "kmeans++":
        statistics["start"] = "k-means++"
    if fitted.get("_stream") is not None:
        fitted["_stream"] = _stream_with_view(document, placing["tuple"])
    return document


def _stream_with_view(document: Document, placing: list[Json]) -> Json:
    """Add the coordinates of a stream to it; return the object that stands for it."""
    parameters, objects = document["parameters"], document["objects"]
    (center, scale), variance = placing, parameters["variance"]
    known = None if variance is None else variance / scale**2
    stream = objects[document["fitted"]["_stream"]["object"]]["fields"]

    def added(written: str, **held: Json) -> Json:
        objects.append({"class": written, "fields": held})
        return {"object": len(objects) - 1}

    kind = added("CovarianceType", name=parameters["covariance_type"])
    family = added("GaussianFamily", kind=kind, least=1e-6, known=known)
    view = added("View", center=center, scale=scale, family=family)
    return added("Stream", **stream, view=view)


TO_5: dict[str, Renames] = {
    "classes": {},
    "fields": {"Fold": {"errors": None}},
    "parameters": {},
    "fitted": {},
    "statistics": {},
}


def _from_4(document: Document) -> Document:
    """Give folds and decoded vectors the fields that they did not have."""
    document = _rename(document, TO_5)
    for held in document["objects"]:
        fields = held["fields"]
        if held["class"] == "Fold":  # rows of the fit, of which a sample may have been used
            fields["n_rows"] = float(document["statistics"]["map"].get("rows_used", 0))
        elif held["class"] == "Decoded":  # not in units of the noise, which was not measured
            fields["impurities"] = fields["ratios"]
    fitted = document["fitted"]
    if "network_" in fitted:  # networks had no biases
        fitted = {"biases_": None, "bias_errors_": None} | fitted
    return {**document, "fitted": fitted}


# Fitted attributes that were added, for the models that did not have them.
ADDED_IN_6: dict[str, dict[str, Json]] = {
    "RegressionMixture": {"degrees_of_freedom_": {"float": "inf"}},
    "GaussianMixture": {"degrees_of_freedom_": {"float": "inf"}},
}


def _from_5(document: Document) -> Document:
    """Give parameters, attributes and fields that were added since their defaults."""
    declaration = declaration_of(document["estimator"])
    if declaration is None:  # an error later
        return document
    objects = [
        {**held, "fields": _defaults(declaration.codecs[held["class"]].build) | held["fields"]}
        if held["class"] in declaration.codecs
        else held
        for held in document["objects"]
    ]
    parameters = _defaults(declaration.estimator) | document["parameters"]
    fitted = document["fitted"]
    if fitted:  # an estimator that was not fitted has no attributes
        fitted = ADDED_IN_6.get(document["estimator"], {}) | fitted
    return {**document, "objects": objects, "parameters": parameters, "fitted": fitted}


def _defaults(build: Callable[..., Any]) -> dict[str, Json]:
    """Return the default values of a constructor that a file holds as they are."""
    plain = (bool, int, float, str, type(None))
    given = inspect.signature(build).parameters.items()
    return {name: each.default for name, each in given if isinstance(each.default, plain)}


# By the schema that a migration starts from. A change of what is saved increases SCHEMA by 1 and
# adds an entry; files of all schemas are in tests/data and are read by the tests.
MIGRATIONS: dict[int, Callable[[Document], Document]] = {
    1: _from_1,
    2: _from_2,
    3: _from_3,
    4: _from_4,
    5: _from_5,
}
