"""Files of rows as they are typed: several of them, patterns, and how text files are written."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from implicitmoments.cli.console import bad_input, joined
from implicitmoments.rows import TextFormat

ARRAYS = (".npy", ".zarr")  # have no column names
TAB = {"\\t": "\t", "tab": "\t"}  # how a tab is typed


@dataclass(frozen=True)
class InputFiles:
    """Files whose rows a command reads, one after the other."""

    typed: tuple[str, ...]  # patterns as they are
    paths: tuple[str, ...]  # patterns replaced by the files that match; ``-`` is standard input
    text: TextFormat

    @classmethod
    def of(
        cls,
        files: Sequence[str],
        sep: str | None = None,
        decimal: str | None = None,
        na_values: Iterable[str] | None = None,
    ) -> InputFiles:
        """Find the files that words and patterns name; raise if one is named twice."""
        paths = tuple(path for word in files for path in _matches(word))
        seen = set[str]()
        for path in paths:
            place = path if path == "-" else os.path.realpath(path)
            if place in seen:
                raise bad_input("file_twice", file=path)
            seen.add(place)
        markers = tuple(_cells(na_values or ()))
        text = TextFormat(None if sep is None else TAB.get(sep, sep), decimal, markers)
        return cls(tuple(files), paths, text)

    @property
    def unnamed(self) -> bool:
        """Whether columns have no names, by the suffixes of the files."""
        return all(path.rstrip("/").lower().endswith(ARRAYS) for path in self.paths)

    @property
    def name(self) -> str:
        """What a title calls the files."""
        if len(self.paths) > 1:
            return f"{len(self.paths):,} files"
        return "standard input" if self.paths == ("-",) else Path(self.paths[0]).name

    @property
    def words(self) -> list[str]:
        """The files and the options of text files, as they are typed."""
        words = list(self.typed)
        for option, given in (("--sep", self.text.sep), ("--decimal", self.text.decimal)):
            words += [] if given is None else [option, "tab" if given == "\t" else given]
        if self.text.na_values:
            words += ["--na-values", joined(self.text.na_values)]
        return words


def _matches(word: str) -> Iterator[str]:
    """Yield the files that match a pattern in the order of their names; others as they are."""
    if word == "-" or not glob.has_magic(word) or os.path.exists(word):
        yield word
        return
    found = sorted(glob.glob(word, recursive=True))
    if not found:
        raise bad_input("no_match", pattern=word, folder=Path.cwd())
    yield from found


def _cells(given: Iterable[str]) -> Iterator[str]:
    """Yield cells that are separated by commas, except between quotes, as in CSV."""
    for text in given:
        yield from next(csv.reader([text]), [])
