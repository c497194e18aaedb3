"""Model files: fitted estimators as safetensors with a JSON document, without code."""

from implicitmoments.saving.files import ModelFileError, load, save

__all__ = ["ModelFileError", "load", "save"]
