"""Model files: fitted estimators as safetensors with a JSON document, without code."""

from implicitmoments.saving.models import ModelFileError, load, replace_file, save

__all__ = ["ModelFileError", "load", "replace_file", "save"]
