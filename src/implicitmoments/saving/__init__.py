"""Model files: fitted estimators as safetensors with a JSON document, without code."""

from implicitmoments.saving.declarations import Declaration, ModelFileError, declaration_of
from implicitmoments.saving.files import MAX_HEADER, load, save
from implicitmoments.saving.migrations import MIGRATIONS, SCHEMA, check_schema
from implicitmoments.saving.values import apply_layout, layout_of

__all__ = ["ModelFileError", "load", "save"]
