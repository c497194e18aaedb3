"""Files of older versions, converted to the present schema one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from implicitmoments.saving.errors import ModelFileError, invalid
from implicitmoments.saving.values import Arrays, Json

__all__ = ["MIGRATIONS", "SCHEMA", "check_schema", "migrate"]

SCHEMA = 2

Migration: TypeAlias = Callable[[dict[str, Json], Arrays], tuple[dict[str, Json], Arrays]]


def check_schema(document: dict[str, Json], schema: int = SCHEMA) -> int:
    """Return the schema of a document, unless it is one that cannot be read."""
    own = document.get("schema")
    if type(own) is not int or own < 1:
        raise invalid("invalid_schema", own)
    if own > schema:
        raise ModelFileError(
            "newer_schema",
            "it was written by a newer version of implicitmoments ({library}, schema {schema}), "
            "and this version reads schemas up to {newest}",
            library=str(document.get("library"))[:40],
            schema=own,
            newest=schema,
        )
    return own


def migrate(
    document: dict[str, Json],
    arrays: Arrays,
    schema: int = SCHEMA,
    migrations: Mapping[int, Migration] | None = None,
) -> tuple[dict[str, Json], Arrays]:
    """Return document and arrays in a schema, by default the present one."""
    steps = MIGRATIONS if migrations is None else migrations
    for number in range(check_schema(document, schema), schema):
        document, arrays = steps[number](document, arrays)
        document = {**document, "schema": number + 1}
    return document, arrays


# Schema 1 to 2. New names of classes, and by class or estimator of fields, parameters, fitted
# attributes and statistics; None for those that are left out.
CLASSES = {"LeftBehind": "MomentProblem"}


def _from_1(document: dict[str, Json], arrays: Arrays) -> tuple[dict[str, Json], Arrays]:
    objects = [
        {"class": CLASSES.get(held["class"], held["class"]), "fields": held["fields"]}
        for held in document["objects"]
    ]
    return {**document, "objects": objects}, arrays


# By the schema that a migration starts from. A change of what is saved increases SCHEMA by 1 and
# adds an entry; files of all schemas are in tests/data and are read by the tests.
MIGRATIONS: dict[int, Migration] = {1: _from_1}
