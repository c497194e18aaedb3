"""Sizes to which the record batches of an Arrow file or stream expand, by their messages.

Arrow decodes a compressed batch as a whole. The sizes are those that its buffers state, which
Arrow allocates. Messages are flatbuffers (Arrow's Message.fbs and File.fbs).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["expanded_sizes"]

CONTINUES = 0xFFFFFFFF  # before the length of a message, since Arrow 0.15
DICTIONARIES, BATCHES = 2, 3  # fields of the footer, and kinds of messages
BLOCK = struct.Struct("<qi4xq")  # of the footer: where a message is, its length, that of its body


def expanded_sizes(data: Any, *, is_stream: bool) -> Iterator[int]:
    """Yield to how many bytes each compressed batch of a mapped file expands; 0 for others."""
    for metadata, body in _stream(data) if is_stream else _file(data):
        message = _root(data, metadata)
        kind, table = _byte(data, message, 1), _table(data, message, 2)
        if kind == DICTIONARIES:
            table = _table(data, table, 1)
        if kind in (DICTIONARIES, BATCHES):
            yield _expanded(data, table, body)


def _stream(data: Any) -> Iterator[tuple[int, int]]:
    """Yield where the metadata and the body of each message begin, one after the other."""
    at = 0
    while at + 4 <= len(data):
        metadata, size = _length(data, at)
        if size == 0:
            return
        body = metadata + size
        yield metadata, body
        place = _field(data, _root(data, metadata), 3)
        length = _number("<q", data, place) if place else 0
        if length < 0:
            raise ValueError(f"a message claims a body of {length} bytes")
        at = body + length


def _file(data: Any) -> Iterator[tuple[int, int]]:
    """Yield the same for the messages that the footer lists."""
    end = len(data) - 10  # the length of the footer, and the magic bytes
    footer = _root(data, end - _number("<i", data, end))
    for field in (DICTIONARIES, BATCHES):
        start, n = _vector(data, footer, field)
        for i in range(n):
            at, length, _ = BLOCK.unpack_from(data, start + BLOCK.size * i)
            yield _length(data, at)[0], at + length


def _length(data: Any, at: int) -> tuple[int, int]:
    """Return where the metadata of a message begin, and their length."""
    first = _number("<I", data, at)
    return (at + 8, _number("<i", data, at + 4)) if first == CONTINUES else (at + 4, first)


def _expanded(data: Any, table: int, body: int) -> int:
    start, n = _vector(data, table, 2)
    if not _field(data, table, 3) or not n:  # not compressed, and mapped as it is
        return 0
    buffers = np.frombuffer(data, "<i8", 2 * n, start).reshape(n, 2)
    places = body + buffers[buffers[:, 1] > 0, 0]
    if not len(places):
        return 0
    if places.min() < 0 or places.max() + 8 > len(data):
        raise ValueError("a buffer lies outside the file")
    whole = np.frombuffer(data, np.uint8)
    stated = whole[places[:, None] + np.arange(8)].view("<i8")[:, 0]
    return int(np.maximum(stated, 0).astype(float).sum())  # -1 for one that is not compressed


def _root(data: Any, at: int) -> int:
    return at + _number("<I", data, at)


def _field(data: Any, table: int, i: int) -> int:
    """Return where field i of a table is; 0 if the table has none."""
    entries = table - _number("<i", data, table)
    inside = 4 + 2 * i < _number("<H", data, entries)
    offset = _number("<H", data, entries + 4 + 2 * i) if inside else 0
    return table + offset if offset else 0


def _byte(data: Any, table: int, i: int) -> int:
    place = _field(data, table, i)
    return _number("<B", data, place) if place else 0


def _table(data: Any, table: int, i: int) -> int:
    place = _field(data, table, i)
    if not place:
        raise ValueError("a message has no content")
    return place + _number("<I", data, place)


def _vector(data: Any, table: int, i: int) -> tuple[int, int]:
    """Return where the entries of a vector begin, and their number."""
    place = _field(data, table, i)
    if not place:
        return 0, 0
    start = place + _number("<I", data, place)
    return start + 4, _number("<I", data, start)


def _number(kind: str, data: Any, at: int) -> int:
    if at < 0:
        raise ValueError("an offset is negative")
    return int(struct.unpack_from(kind, data, at)[0])
