"""Conversion of a fitted estimator to a document with arrays, and back."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

from implicitmoments.notes import InputTypeError
from implicitmoments.registry import class_names
from implicitmoments.saving.declarations import declaration_of
from implicitmoments.saving.errors import ModelFileError, invalid
from implicitmoments.saving.migrations import SCHEMA
from implicitmoments.saving.values import Arrays, Decoder, Encoder, Json

SECTIONS = {
    *("checksum", "schema", "library", "estimator"),
    *("parameters", "fitted", "statistics", "objects"),
}
ATTRIBUTE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,99}")  # no special names


def to_document(model: Any) -> tuple[dict[str, Json], Arrays]:
    """Convert the state of a fitted estimator to a document and arrays.

    Attributes come in alphabetical order, public ones first: shared objects are then named by
    an attribute that users know, and equal models give equal documents.
    """
    name = type(model).__name__
    declaration = declaration_of(name)
    if declaration is None or declaration.estimator is not type(model):
        raise InputTypeError(
            "not_an_estimator",
            "`save` takes a fitted {estimators}, got {type}; of a pipeline or a search save the "
            "step that is one of these",
            estimators=sorted(class_names().values()),
            type=name,
        )
    held = dict(vars(model))
    if not declaration.required <= held.keys():  # also after a fit that was interrupted
        raise ModelFileError("not_fitted", "{name} is not fitted; call fit first", name=name)
    parameters = {key: held.pop(key) for key in declaration.parameters}
    statistics = held.pop("stats_")
    encoder = Encoder(declaration)
    fitted = {
        key: encoder.encode(held[key], key)
        for key in sorted(held, key=lambda key: (key.startswith("_"), key))
    }
    document = {
        "schema": SCHEMA,
        "library": version("implicitmoments"),
        "estimator": name,
        "parameters": {key: encoder.encode(value, key) for key, value in parameters.items()},
        "fitted": fitted,
        "statistics": encoder.encode(statistics, "stats_"),
        "objects": encoder.objects,
    }
    return document, encoder.arrays


def from_document(document: dict[str, Json], arrays: Arrays, *, migrated: bool = False) -> Any:
    """Build the estimator of a document; a migrated one may contain unused entries."""
    if set(document) != SECTIONS:
        raise invalid("wrong_sections", sorted(document))
    name = str(document["estimator"])
    declaration = declaration_of(name)
    if declaration is None:
        raise invalid("unknown_estimator", name)
    decoder = Decoder(declaration, document["objects"], arrays)
    fitted = _section(document, "fitted", decoder)
    parameters = _section(document, "parameters", decoder)
    statistics = decoder.decode(document["statistics"])
    if not migrated:
        decoder.check_all_used()
    if set(parameters) != set(declaration.parameters):
        raise invalid("wrong_parameters", sorted({*parameters} ^ {*declaration.parameters}))
    for key in fitted:
        # a file must not replace what a class has, such as a method
        defined = key in parameters or hasattr(declaration.estimator, key) or key == "stats_"
        if defined or not ATTRIBUTE.fullmatch(key):
            raise invalid("invalid_attribute", key)
    fitted["stats_"] = statistics
    for key in declaration.required - fitted.keys():
        raise invalid("missing_attribute", key)
    for key, value in fitted.items():
        if not declaration.accepts(key, value):
            raise invalid("wrong_type", key)
    model = declaration.estimator(**parameters)
    vars(model).update(fitted)
    return model


def _section(document: dict[str, Json], name: str, decoder: Decoder) -> dict[str, Any]:
    section = document[name]
    if not isinstance(section, dict):
        raise invalid("not_a_mapping", name)
    return {key: decoder.decode(value) for key, value in section.items()}
