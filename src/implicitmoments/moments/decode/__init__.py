"""From moments to parameters: weights and hidden vectors, resolved or not."""

from implicitmoments.moments.decode.components import Components, find_components
from implicitmoments.moments.decode.decoded import Decoded, decode

__all__ = ["Components", "Decoded", "decode", "find_components"]
