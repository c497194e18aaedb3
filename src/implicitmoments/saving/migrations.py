"""Migration of files of older versions to the current schema, one version at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from implicitmoments.saving.declarations import ModelFileError, invalid
from implicitmoments.saving.values import Json

SCHEMA = 3  # raised by 1 when the format changes, with an entry in MIGRATIONS

Document: TypeAlias = dict[str, Json]
Renames: TypeAlias = Mapping[str, Mapping[str, str | None]]


def check_schema(document: Document) -> int:
    """Return the schema of a document, unless it is one that cannot be read."""
    own = document.get("schema")
    if type(own) is not int or own < 1:
        raise invalid("invalid_schema", own)
    if own > SCHEMA:
        raise ModelFileError(
            "newer_schema",
            "it was written by a newer version of implicitmoments ({library}, schema {schema}), "
            "and this version reads schemas up to {newest}",
            library=str(document.get("library"))[:40],
            schema=own,
            newest=SCHEMA,
        )
    return own


def migrate(document: Document) -> Document:
    """Return a document in the present schema. Arrays keep their names."""
    for number in range(check_schema(document), SCHEMA):
        document = {**MIGRATIONS[number](document), "schema": number + 1}
    return document


# Schema 1 to 2: new names, None for what is left out. Fields by the old name of their class;
# parameters, fitted attributes and statistics by estimator, "" for all of them.
CLASSES = {"LeftBehind": "MomentProblem", "Sums": "MixtureSums"}
FIELDS: Renames = {
    "Components": {"reasons": "notes"},
    "Conditions": {"warning": None},
    "Sample": {"block_rows": "rows_per_block"},
}
PARAMETERS: Renames = {
    "": {"block_rows": "rows_per_block"},
    "RegressionMixture": {"noise": "noise_type"},
    "SphericalMixture": {"n_repairs": "n_moves", "variance_type": "covariance_type"},
}
FITTED: Renames = {
    "": {"columns_": "columns_in_", "_doubts": None},
    "RegressionMixture": {"log_likelihood_": "lower_bound_"},
}
STATISTICS: Renames = {
    "": {
        "notes": None,
        "moments_say": None,  # also in ``decoded_components_.notes``
        "repairs": "n_moves",
        "repairs_tried": "n_moves_tried",
        "seconds_polish": "seconds_em",
    },
    "RegressionMixture": {"double_by_line": None},  # not comparable to the gain of a split
}
COVARIANCE_TYPES = {"shared": "tied_spherical", "separate": "spherical"}


def _from_1(document: Document) -> Document:
    own = document["estimator"]
    statistics = document["statistics"]["map"]
    fitted = _renamed(document["fitted"], FITTED, own)
    fitted["notes_"] = _stored_notes(statistics.get("notes", []))
    parameters = _renamed(document["parameters"], PARAMETERS, own)
    if own == "SphericalMixture":
        given = parameters["covariance_type"]
        parameters["covariance_type"] = COVARIANCE_TYPES.get(given, given)
    objects = [_object_from_1(held["class"], held["fields"]) for held in document["objects"]]
    if own == "RegressionMixture":  # the sum over rows becomes a mean
        standard = objects[fitted["_standard"]["object"]]["fields"]
        fitted["lower_bound_"] /= standard["mass"]
    return {
        **document,
        "objects": objects,
        "parameters": parameters,
        "fitted": fitted,
        "statistics": {"map": _renamed(statistics, STATISTICS, own)},
    }


def _object_from_1(name: str, held: dict[str, Json]) -> Json:
    held = _renamed(held, FIELDS, name)
    if name == "Components":  # sentences in a tuple
        held["notes"] = _stored_notes(held["notes"]["tuple"])
    return {"class": CLASSES.get(name, name), "fields": held}


def _stored_notes(sentences: list[str]) -> Json:
    return {"notes": [["stored_sentence", {"map": {"text": text}}] for text in sentences]}


def _renamed(held: dict[str, Json], table: Renames, own: str) -> dict[str, Json]:
    names = {**table.get("", {}), **table.get(own, {})}
    pairs = ((names.get(name, name), value) for name, value in held.items())
    return {name: value for name, value in pairs if name is not None}


# Schema 2 to 3: the same name for the same thing in all estimators.
CLASSES_3 = {"Sample": "Rows"}
FITTED_3: Renames = {
    "SphericalMixture": {"components_read_": "decoded_components_", "n_components_": None},
    "RegressionMixtureDensity": {"slope_": "coef_"},
}
STATISTICS_3: Renames = {
    "": {"doubt": "misclassification_rate", "sample_bic": "bic_by_n_components"},
    "ActivationSumRegressor": {"converged": None},
}
OUTLIERS = {"SphericalMixtureClusterer", "SphericalMixtureDensity", "RegressionMixtureDensity"}


def _from_2(document: Document) -> Document:
    own, parameters = document["estimator"], {"rows_per_block": None, **document["parameters"]}
    fitted = _renamed(document["fitted"], FITTED_3, own)
    notes = [
        [code, {"map": _renamed(held["map"], STATISTICS_3, "")}]
        for code, held in fitted["notes_"]["notes"]
    ]
    fitted["notes_"] = {"notes": notes}
    statistics = document["statistics"]["map"]
    if own in OUTLIERS:
        parameters["drop_outliers"] = True
    elif own == "SphericalMixture":  # r of the moments of orders 2r and 3r before
        r = parameters["order"]
        parameters["order"] = "auto" if r is None else 2 * r
    elif own == "ActivationSumRegressor":
        if parameters["degree"] == "epsilon":
            parameters["degree"] = "auto"
        if "converged" in statistics:
            fitted["converged_"] = statistics["converged"]
    return {
        **document,
        "objects": [
            {**held, "class": CLASSES_3.get(held["class"], held["class"])}
            for held in document["objects"]
        ],
        "parameters": parameters,
        "fitted": fitted,
        "statistics": {"map": _renamed(statistics, STATISTICS_3, own)},
    }


# By the schema that a migration starts from. A change of what is saved increases SCHEMA by 1 and
# adds an entry; files of all schemas are in tests/data and are read by the tests.
MIGRATIONS: dict[int, Callable[[Document], Document]] = {1: _from_1, 2: _from_2}
