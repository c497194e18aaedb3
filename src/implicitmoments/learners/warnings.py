"""What a fit tells the user about the data."""

__all__ = ["AssumptionWarning"]


class AssumptionWarning(UserWarning):
    """The data do not look like what the model assumes of them; the message says what to do."""
