"""What separates the columns and the decimals of a text file, by its first lines."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

SEPARATORS = (",", ";", "\t", "|")
COMPARED = 200  # lines whose numbers of cells are compared
TRIED = 2_000  # cells that are tried as numbers where separators do equally well
QUOTE = '"'
LINE_END = re.compile(r"[\r\n]+")


def find_separator(text: str, decimal: str | None = None) -> str:
    """Return the character that cuts most lines into the same number of cells.

    Of several that do equally well, the one that gives more numbers is taken. ``decimal`` is the
    decimal separator, if it is known: no column is separated by it.
    """
    lines = [line for line in LINE_END.split(text, maxsplit=COMPARED)[:COMPARED] if line]
    usual = [sep for sep in SEPARATORS if sep != decimal]
    shares = {sep: _agreement(lines, sep) for sep in usual}
    best = [sep for sep in usual if shares[sep] == max(shares.values())]
    if len(best) == 1 or not shares[best[0]]:
        return best[0]
    return max(best, key=lambda sep: _share_of_numbers(lines, sep))  # the first of equals


def better_separator(text: str, sep: str) -> str | None:
    """Return a separator that cuts more lines alike than the given one; None if there is none."""
    lines = [line for line in LINE_END.split(text, maxsplit=COMPARED)[:COMPARED] if line]
    found = find_separator(text)
    return found if _agreement(lines, found) > _agreement(lines, sep) else None


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
    """Return whether a text is a finite number, with no other decimal separator."""
    if decimal != ".":
        text = text.replace(".", "_.").replace(decimal, ".")
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _agreement(lines: Sequence[str], sep: str) -> float:
    """Return the share of lines with the most frequent number of cells; 0 if that is one."""
    widths = Counter(
        len(cut(line, sep)) if QUOTE in line else line.count(sep) + 1 for line in lines
    )
    width, n = max(widths.items(), key=lambda item: item[1], default=(0, 0))
    return n / len(lines) if width > 1 else 0.0


def _share_of_numbers(lines: Sequence[str], sep: str) -> float:
    """Return the share of numbers among the first cells that are not empty."""
    every = (cell for line in lines for cell in cut(line, sep) if cell)
    cells, decimals = list(islice(every, TRIED)), (".",) if sep == "," else (".", ",")
    numbers = sum(any(is_number_text(cell, mark) for mark in decimals) for cell in cells)
    return numbers / max(len(cells), 1)
