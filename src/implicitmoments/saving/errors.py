"""Error class for model files."""

from __future__ import annotations

from typing import Any

from implicitmoments.notes import CodedError


class ModelFileError(CodedError, ValueError):
    """A model cannot be written, or a file cannot be read; the message says what to try.

    Examples
    --------
    >>> import implicitmoments as im
    >>> try:
    ...     im.load("nowhere.im")
    ... except im.ModelFileError as error:
    ...     print(error.code, error.values["file"])
    cannot_open nowhere.im
    """

    def within(self, before: str, after: str = "", **values: Any) -> ModelFileError:
        """Return the error with its reason in a sentence of the function that was called."""
        template = f"{before}{self.template}{after}"
        return ModelFileError(self.code, template, **{**self.values, **values})


def expect(valid: bool, code: str, what: object = "") -> None:
    """Raise an error unless content is as saved models have it; the code is the reason."""
    if not valid:
        raise invalid(code, what)


def invalid(code: str, what: object = "") -> ModelFileError:
    """Return an error for content that no saved model has; the code is the reason."""
    template = "its content is invalid ({reason}" + (": {what})" if what != "" else ")")
    return ModelFileError(code, template, reason=code.replace("_", " "), what=str(what)[:80])
