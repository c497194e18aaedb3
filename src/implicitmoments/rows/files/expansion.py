"""To how many bytes a compressed part of a file expands, known before it is decoded as a whole."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["COMPRESSORS", "MOST_DECODED", "ExpansionError", "check_expansion"]

MOST_DECODED = 2**30  # bytes of one Zarr chunk or Arrow batch
PIECE = 2**16  # bytes that are decoded at a time to count them
ZSTD_MAGIC, ZSTD_BLOCK = 0xFD2FB528, 2**17  # a block expands to no more
RAW, RLE = 0, 1  # kinds of blocks; others are compressed


class ExpansionError(ValueError):
    """A part of a file expands to more than ``MOST_DECODED`` bytes."""


def check_expansion(compressor: str, data: memoryview, most: int = MOST_DECODED) -> None:
    """Raise if compressed data expand to more than ``most`` bytes; ValueError if they are none.

    Examples
    --------
    >>> check_expansion("gzip", memoryview(zlib.compress(bytes(1_000))), most=1_000)
    """
    n = 0
    for found in COMPRESSORS[compressor](data):
        n += found
        if n > most:
            raise ExpansionError(f"{len(data)} bytes expand to more than {most}")


def _stated(start: int) -> Callable[[memoryview], Iterator[int]]:
    """Return a function that reads the size at a place of the data: that much is allocated."""

    def read(data: memoryview) -> Iterator[int]:
        yield int.from_bytes(data[start : start + 4], "little")

    return read


def _counted(decompressor: Callable[[], Any]) -> Callable[[memoryview], Iterator[int]]:
    """Return a function that decodes streams in pieces, and yields the sizes of these."""

    def count(data: memoryview) -> Iterator[int]:
        left = bytes(data)
        while left:
            one, fed = decompressor(), left
            while not one.eof:
                piece = one.decompress(fed, PIECE)
                fed = getattr(one, "unconsumed_tail", b"")
                if not piece and not fed:
                    return  # cut off, which the decoder will say
                yield len(piece)
            left = one.unused_data

    return count


def _zstd_blocks(data: memoryview) -> Iterator[int]:
    """Yield the most that each block of each frame expands to, by their headers (RFC 8878)."""
    at = 0
    while at + 4 <= len(data):
        magic = int.from_bytes(data[at : at + 4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a frame that is skipped
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if magic != ZSTD_MAGIC:
            raise ValueError("this is no frame of zstd")
        about = data[at + 4]
        single, size, dictionary = about >> 5 & 1, about >> 6, about & 3
        at += 5 + (not single) + (0, 1, 2, 4)[dictionary] + (single, 2, 4, 8)[size]
        last = 0
        while not last:
            header = int.from_bytes(data[at : at + 3], "little")
            last, kind, length = header & 1, header >> 1 & 3, header >> 3
            yield length if kind in (RAW, RLE) else ZSTD_BLOCK
            at += 3 + (1 if kind == RLE else length)
            if at > len(data):
                raise ValueError("a frame of zstd is cut off")
        at += 4 * (about >> 2 & 1)  # a checksum


# by the name of the codec in Zarr: what yields sizes whose sum is at least that of the result
COMPRESSORS: dict[str, Callable[[memoryview], Iterator[int]]] = {
    "blosc": _stated(4),
    "lz4": _stated(0),
    "gzip": _counted(lambda: zlib.decompressobj(wbits=47)),  # gzip or zlib
    "zlib": _counted(lambda: zlib.decompressobj(wbits=47)),
    "bz2": _counted(bz2.BZ2Decompressor),
    "lzma": _counted(lzma.LZMADecompressor),
    "zstd": _zstd_blocks,
}
