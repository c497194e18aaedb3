"""A fitted estimator as a document with arrays, and back."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from typing import Any

from implicitmoments.saving.classes import ESTIMATORS, REQUIRED
from implicitmoments.saving.decode import Decoder
from implicitmoments.saving.encode import Arrays, Encoder, Json
from implicitmoments.saving.errors import ModelFileError
from implicitmoments.saving.migrations import SCHEMA
from implicitmoments.saving.type_checks import matches

__all__ = ["from_document", "to_document"]

SECTIONS = {
    *("checksum", "schema", "library", "estimator"),
    *("parameters", "fitted", "statistics", "objects"),
}
ATTRIBUTE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,99}")


def to_document(model: Any) -> tuple[dict[str, Json], Arrays]:
    """Write all that a fitted estimator holds as a document and arrays.

    Attributes come in the order of their names, public ones first: what is shared is then
    named by what a user knows, and equal models give equal documents.
    """
    name = type(model).__name__
    if ESTIMATORS.get(name) is not type(model):
        raise TypeError(
            f"save takes a fitted {', '.join(ESTIMATORS)}, got {name}; of a pipeline or a search "
            "save the step that is one of these"
        )
    held = dict(vars(model))
    if not REQUIRED[name].keys() <= held.keys():  # also after a fit that was interrupted
        raise ModelFileError(f"{name} is not fitted; call fit before save")
    parameters = {key: held.pop(key) for key in _parameters(type(model))}
    statistics = held.pop("stats_")
    encoder = Encoder()
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


def from_document(document: dict[str, Json], arrays: Arrays) -> Any:
    """Build the estimator of a document; a ValueError says what is wrong with it."""
    if set(document) != SECTIONS:
        raise ValueError(f"a document has the sections {', '.join(sorted(SECTIONS))}")
    name = document["estimator"]
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ValueError(f"the estimator {str(name)[:40]!r} is not one that model files hold")
    estimator = ESTIMATORS[name]
    decoder = Decoder(document["objects"], arrays)
    fitted = _section(document, "fitted", decoder)
    parameters = _section(document, "parameters", decoder)
    statistics = decoder.decode(document["statistics"])
    decoder.check_all_used()
    if set(parameters) != set(_parameters(estimator)):
        raise ValueError(f"the parameters of {name} are {', '.join(_parameters(estimator))}")
    for key in fitted:
        # what a class has, such as a method, is not for a file to replace
        if not ATTRIBUTE.fullmatch(key) or hasattr(estimator, key) or key in parameters:
            raise ValueError(f"{key[:40]!r} is no attribute of a fitted {name}")
    if "stats_" in fitted:
        raise ValueError("statistics stand twice")
    fitted["stats_"] = statistics
    for key, hint in REQUIRED[name].items():
        if key not in fitted or not matches(fitted[key], hint):
            raise ValueError(f"{key} of {name} is missing or of another type")
    model = estimator(**parameters)
    vars(model).update(fitted)
    return model


def _parameters(estimator: type[Any]) -> list[str]:
    return [name for name in inspect.signature(estimator).parameters if name != "self"]


def _section(document: dict[str, Json], name: str, decoder: Decoder) -> dict[str, Any]:
    section = document[name]
    if not isinstance(section, dict):
        raise ValueError(f"the section {name} is a {type(section).__name__}")
    return {key: decoder.decode(value) for key, value in section.items()}
