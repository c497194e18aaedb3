"""Save fitted models to files, and load them."""

from __future__ import annotations

import re
from importlib.metadata import version
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

from implicitmoments.notes import InputTypeError
from implicitmoments.registry import ESTIMATORS
from implicitmoments.saving.checks import ModelFileError, expect, invalid
from implicitmoments.saving.declarations import declaration_of
from implicitmoments.saving.decoder import Arrays, Json
from implicitmoments.saving.files import (
    SCHEMA,
    Document,
    pack,
    read_file,
    read_parts,
    write_whole,
)
from implicitmoments.saving.values import Encoder, ModelDecoder

SECTIONS = {
    "checksum",
    "schema",
    "library",
    "estimator",
    "parameters",
    "fitted",
    "statistics",
    "objects",
}
ATTRIBUTE = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,99}")  # no special names


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted model to a file.

    The file is safetensors with a JSON document: arrays, numbers and strings, and no code. It is
    written completely or not at all. Models whose activation is a user's function are refused.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    path : str or path
        An existing file is replaced.

    Raises
    ------
    ModelFileError
        If the model has an attribute that a file cannot hold, or the file cannot be written.

    See Also
    --------
    load : Read a fitted model from a file.
    ModelFileError : Raised if a model cannot be written or read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import implicitmoments as im
    >>> X, truth = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> model = im.SphericalMixture(3, random_state=0).fit(X)
    >>> path = Path(tempfile.mkdtemp()) / "mixture.safetensors"
    >>> im.save(model, path)
    >>> again = im.load(path)
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    try:
        data = pack(*to_document(model))
    except ModelFileError as error:
        raise error.within("the model cannot be saved: ") from error
    try:
        from_document(*read_parts(BytesIO(data), len(data)))  # what cannot be read is not written
    except Exception as error:
        raise ModelFileError(
            "not_readable_again",
            "the model cannot be saved, since it could not be read again: {reason}",
            reason=str(error),
        ) from error
    try:
        write_whole(Path(path), data)
    except OSError as error:
        raise ModelFileError(
            "cannot_write",
            "the model file {file} cannot be written ({reason}); give a path in a folder that "
            "exists, is writable and has space",
            file=str(path),
            reason=error.strerror or str(error),
        ) from error


def load(path: str | PathLike[str]) -> Any:
    """Read a fitted model from a file.

    No code is run: a file has none. Classes are known by name, and only those that the estimator
    declares are built.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    estimator
        As it was saved; arrays are NumPy arrays.

    Raises
    ------
    ModelFileError
        If there is no file, or it is damaged, altered, of another version or of another kind.

    See Also
    --------
    save : Write a fitted model to a file.
    ModelFileError : Raised if a model cannot be written or read.

    Examples
    --------
    >>> import tempfile
    >>> import implicitmoments as im
    >>> X, _ = im.datasets.make_spherical_mixture(2_000, 3, 4, radius=5.0, random_state=0)
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     im.save(im.SphericalMixture(3, random_state=0).fit(X), file.name)
    ...     im.load(file.name).means_.shape
    (3, 4)
    """
    return read_file(path, from_document)


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
            estimators=sorted(ESTIMATORS.values()),
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


def from_document(document: Document, arrays: Arrays) -> Any:
    """Build the estimator of a document."""
    expect(set(document) == SECTIONS, "wrong_sections", sorted(document))
    name = str(document["estimator"])
    declaration = declaration_of(name)
    if declaration is None:
        raise invalid("unknown_estimator", name)
    decoder = ModelDecoder(declaration, document["objects"], arrays)
    fitted, parameters = (decoder.decode({"map": document[s]}) for s in ("fitted", "parameters"))
    statistics = decoder.decode(document["statistics"])
    decoder.check_all_used()
    different = sorted({*parameters} ^ {*declaration.parameters})
    expect(not different, "wrong_parameters", different)
    for key in fitted:
        # a file must not replace what a class has, such as a method
        defined = key in parameters or hasattr(declaration.estimator, key) or key == "stats_"
        expect(not defined and ATTRIBUTE.fullmatch(key) is not None, "invalid_attribute", key)
    fitted["stats_"] = statistics
    for key in declaration.required:
        expect(key in fitted, "missing_attribute", key)
    for key, value in fitted.items():
        expect(declaration.accepts(key, value), "wrong_type", key)
    declaration.check_entries(fitted)
    model = declaration.estimator(**parameters)
    vars(model).update(fitted)
    return model
