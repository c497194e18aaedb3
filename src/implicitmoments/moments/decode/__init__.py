"""From moments to parameters: weights and hidden vectors, resolved or not."""

from implicitmoments.moments.decode.components import (
    Components,
    find_components,
    resolve_components,
)
from implicitmoments.moments.decode.decoded import Decoded, decode
from implicitmoments.moments.decode.hidden_vectors import choose_frame, decompose, refine

__all__ = ["Components", "Decoded", "decode", "find_components"]
