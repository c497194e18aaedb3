"""Fitted models in files: safetensors with a JSON document, no code."""

from implicitmoments.saving.errors import ModelFileError
from implicitmoments.saving.files import load, save

__all__ = ["ModelFileError", "load", "save"]
