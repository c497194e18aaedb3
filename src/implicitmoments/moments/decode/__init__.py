"""From moments to parameters: components of the form v ⊗ … ⊗ v, told apart or not."""

from implicitmoments.moments.decode.choose_order import find_components
from implicitmoments.moments.decode.components import Decoded, decode
from implicitmoments.moments.decode.resolution import Components

__all__ = ["Components", "Decoded", "decode", "find_components"]
