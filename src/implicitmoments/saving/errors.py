"""Errors of model files: the one that users see, and what lies behind it."""

__all__ = ["ModelFileError", "UnreadableError"]


class ModelFileError(ValueError):
    """A model cannot be written, or a file cannot be read; the message says what to try.

    Examples
    --------
    >>> import implicitmoments as im
    >>> try:
    ...     im.load("nowhere.im")
    ... except im.ModelFileError as reason:
    ...     print("nowhere.im" in str(reason))
    True
    """


class UnreadableError(ValueError):
    """Words that go on after "the model file ...", and what to try; without the path.

    Parameters
    ----------
    words, advice : str
    """

    def __init__(
        self,
        words: str,
        advice: str = "give a file written by implicitmoments.save, or save the model again",
    ) -> None:
        super().__init__(words)
        self.advice = advice
