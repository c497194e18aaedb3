"""What separates the columns and the decimals of a text file, by its first lines."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Sequence

SEPARATORS = (",", ";", "\t", "|")
COMPARED = 200  # lines whose numbers of cells are compared
LINE_END = re.compile(r"[\r\n]+")


def find_separator(text: str, decimal: str | None = None) -> str:
    """Return the character that cuts most lines into the same number of cells.

    Of several that do equally well, the one that gives more numbers is taken. ``decimal`` is the
    decimal separator, if it is known: no column is separated by it.
    """
    lines = [line for line in LINE_END.split(text, maxsplit=COMPARED)[:COMPARED] if line]
    usual = [sep for sep in SEPARATORS if sep != decimal]
    scores = {sep: _agreement([cut(line, sep) for line in lines], sep) for sep in usual}
    return max(usual, key=lambda sep: scores[sep])  # the first of equals


def find_decimal(text: str, sep: str) -> str:
    """Return the decimal separator that more cells have, a point or a comma."""
    if sep == ",":
        return "."
    mark = re.escape(sep)
    number = r"[+-]?[0-9]*([.,])[0-9]+(?:[eE][+-]?[0-9]+)?"
    cell = rf"(?:^|{mark})[ \"]*{number}[ \"]*(?={mark}|[\r\n]|\Z)"
    found = Counter(re.findall(cell, text, re.MULTILINE))
    return "," if found[","] > found["."] else "."


def cut(line: str, sep: str) -> list[str]:
    """Return the cells of a line; separators within quotes do not count."""
    try:
        return next(csv.reader([line], delimiter=sep), [])
    except csv.Error:  # a cell of more than 131,072 characters
        return line.split(sep)


def is_number_text(text: str, decimal: str = ".") -> bool:
    """Return whether a text is a finite number."""
    try:
        return math.isfinite(float(text if decimal == "." else text.replace(decimal, ".")))
    except ValueError:
        return False


def _agreement(rows: Sequence[Sequence[str]], sep: str) -> tuple[float, float]:
    """Return the share of lines with the usual number of cells, and that of numbers in them."""
    ((width, n),) = Counter(map(len, rows)).most_common(1) or [(0, 0)]
    if width < 2:
        return 0.0, 0.0
    cells = [cell for row in rows if len(row) == width for cell in row if cell]
    decimals = (".",) if sep == "," else (".", ",")
    numbers = sum(any(is_number_text(cell, mark) for mark in decimals) for cell in cells)
    return n / len(rows), numbers / max(len(cells), 1)
