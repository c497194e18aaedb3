"""From moments to parameters: components of the form v ⊗ … ⊗ v, told apart or not."""

from implicitmoments.moments.decode.components import Decoded, decode

__all__ = ["Decoded", "decode"]
