"""Model files: fitted estimators as safetensors with a JSON document, without code."""

from implicitmoments.saving.errors import ModelFileError
from implicitmoments.saving.files import load, save

__all__ = ["ModelFileError", "load", "save"]
