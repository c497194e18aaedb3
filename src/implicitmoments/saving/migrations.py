"""Files of older versions, brought up to date one schema at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from implicitmoments.saving.encode import Arrays, Json
from implicitmoments.saving.errors import UnreadableError

__all__ = ["MIGRATIONS", "SCHEMA", "check_schema", "migrate"]

SCHEMA = 1

Migration: TypeAlias = Callable[[dict[str, Json], Arrays], tuple[dict[str, Json], Arrays]]

# By the schema that a migration starts from: it returns the document and arrays of the next one.
# A change to what a class or an estimator holds raises SCHEMA by 1 and adds an entry here; files
# of all schemas are kept in tests/data and read by the tests.
MIGRATIONS: dict[int, Migration] = {}


def check_schema(document: dict[str, Json], schema: int = SCHEMA) -> int:
    """Return the schema of a document, unless it is one that cannot be read."""
    own = document.get("schema")
    if type(own) is not int or own < 1:
        raise UnreadableError(f"is damaged: its schema is {str(own)[:40]!r}")
    if own > schema:
        raise UnreadableError(
            f"was written by a newer version of implicitmoments "
            f"({str(document.get('library'))[:40]}, schema {own}), and this one reads schemas up "
            f"to {schema}",
            "update implicitmoments, or fit and save the model with this version",
        )
    return own


def migrate(
    document: dict[str, Json],
    arrays: Arrays,
    schema: int = SCHEMA,
    migrations: Mapping[int, Migration] = MIGRATIONS,
) -> tuple[dict[str, Json], Arrays]:
    """Return document and arrays as ``schema`` has them."""
    for number in range(check_schema(document, schema), schema):
        document, arrays = migrations[number](document, arrays)
        document = {**document, "schema": number + 1}
    return document, arrays
