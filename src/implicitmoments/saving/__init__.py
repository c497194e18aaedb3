"""Model files: fitted estimators as safetensors with a JSON document, without code."""

from typing import TYPE_CHECKING

from implicitmoments.lazy import import_on_use

if TYPE_CHECKING:
    from implicitmoments.saving.checks import ModelFileError
    from implicitmoments.saving.declarations import Declaration, declaration_of
    from implicitmoments.saving.decoder import apply_layout, layout_of
    from implicitmoments.saving.files import MAX_HEADER, SCHEMA, check_schema
    from implicitmoments.saving.models import load, save

__all__ = ["ModelFileError", "load", "save"]

_HOMES = {
    "Declaration": "declarations",
    "MAX_HEADER": "files",
    "ModelFileError": "checks",
    "SCHEMA": "files",
    "apply_layout": "decoder",
    "check_schema": "files",
    "declaration_of": "declarations",
    "layout_of": "decoder",
    "load": "models",
    "save": "models",
}
if not TYPE_CHECKING:  # with it every name would pass the type checker
    __getattr__ = import_on_use(__name__, _HOMES)
