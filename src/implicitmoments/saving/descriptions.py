"""Read what a model file describes, without the class of its estimator."""

from __future__ import annotations

from os import PathLike
from typing import Any

from implicitmoments.registry import ESTIMATORS, description_class
from implicitmoments.saving.checks import COMMON, check_entries, expect, invalid, matches
from implicitmoments.saving.decoder import Arrays, Decoder
from implicitmoments.saving.files import Document, read_file


def load_description(path: str | PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return the description of a fitted model in a file, and the parameters of the model.

    scikit-learn is not imported, and no object of the model is built.
    """
    found: tuple[Any, dict[str, Any]] = read_file(path, _describe)
    return found


def _describe(document: Document, arrays: Arrays) -> tuple[Any, dict[str, Any]]:
    name = document["estimator"]
    if name not in ESTIMATORS.values():
        raise invalid("unknown_estimator", name)
    decoder, kind = Decoder(document["objects"], arrays), description_class(name)
    fitted, parameters = (decoder.decode({"map": document[s]}) for s in ("fitted", "parameters"))
    fitted["stats_"] = decoder.decode(document["statistics"])
    for key, hint in {**COMMON, **kind.saved}.items():
        expect(key in fitted, "missing_attribute", key)
        expect(matches(fitted[key], hint), "wrong_type", key)
    check_entries(fitted, kind.saved, d=int(fitted["n_features_in_"]))
    model = kind()
    vars(model).update({**parameters, **fitted})
    return model, parameters
