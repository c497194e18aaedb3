"""Errors about files: their classes and message templates."""

from __future__ import annotations

from typing import Any

from implicitmoments.notes import CodedError, InputError, InputTypeError

QUOTED = 200  # characters of what a file holds or a library says, in a message


class UnreadableError(CodedError, OSError):
    """The system could not read a file, or the file changed while it was read."""

    def __init__(self, code: str, template: str, **values: Any) -> None:
        super().__init__(code, template, **values)
        # OSError takes its arguments for these
        self.errno, self.strerror, self.filename = values.get("errno"), None, None


class MissingFileError(UnreadableError, FileNotFoundError):
    """A file does not exist, or exists no more."""


class MissingLibraryError(CodedError, ImportError):
    """A file or a picture needs a library that is not installed."""


# By class and code. Every error about a file has the value ``file``.
TEMPLATES: dict[type[CodedError], dict[str, str]] = {
    InputError: {
        # paths and kinds
        "empty_path": "the path is empty; give the path of a file, or '.' for this folder",
        "unknown_kind": "{file} ends in {suffix!r}, expected one of {kinds}; `BlockSource` takes "
        "blocks of rows from anywhere",
        "no_tables": "{file} holds no file that ends in {kinds}",
        "not_an_array": "{file} is neither a .npy file nor a Zarr folder with a readable "
        "description; write it again",
        "keeps_tables_only": "`{what}` takes columns of CSV, Parquet and Arrow files, and {file} "
        "is none",
        "not_a_float_type": "`dtype` must be float32 or float64, got {dtype}",
        # columns
        "no_such_column": "`{what}` names column {wanted!r}, which {file} does not have; it has "
        "{names}",
        "no_such_column_number": "`{what}` asks for column {wanted}, and {file} has "
        "{n_columns:count column}; expected a smaller number",
        "column_without_name": "column {column} of {file} has no name: row labels are often "
        "written so; write the file without them",
        "no_features": "no column of {file} is a feature, expected at least one of {names}",
        "column_in_two_roles": "column {column!r} of {file} is asked for as a feature and as "
        "`{what}`; leave it out of `columns`",
        "column_twice": "column {column!r} exists or is asked for more than once in {file}, "
        "expected columns of different names",
        "columns_differ": "{file} and {other_file} have different columns, expected the same in "
        "every file: {columns} and {other_columns}, which differ in {column!r}; name those of all "
        "files by `columns=...`",
        "names_differ": "{file} has {found} and {other_file} has {expected}, expected the same in "
        "every file",
        "wrong_length": "`{what}` has {n_rows:count row} and {file} has {expected}; expected one "
        "value per row",
        # numbers
        "not_finite": "{file}: {name} contains {kind} in {n_rows:count row}, the first is {unit} "
        "{first}; drop or fill those rows, or leave them out by `drop_missing=True`",
        "negative_weight": "{file}: `sample_weight` is {weight:g} in {unit} {first}, expected at "
        "least 0",
        "kept_and_dropped": "`drop_missing=True` and `keep_missing=True` were both given; choose "
        "one",
        "all_rows_incomplete": "every row of {file} lacks a number, expected at least one "
        "complete row; leave out the column that is empty: `columns=...`",
        "no_rows": "{file} has no rows, expected at least one",
        "empty_file": "{file} is empty, expected a table with at least one row",
        "wrong_axes": "{file} holds an array of shape {shape}, expected {layout}",
        "impossible_shape": "{file} claims the shape {shape}; write it again",
        "cut_off": "{file} has {n_bytes} bytes, expected {expected}: it was cut off; write it "
        "again",
        "unreadable": "{file} cannot be read as {kind} ({reason}); it may be empty, cut off or "
        "damaged: write it again",
        # text
        "not_one_character": "`{name}` must be one character that is no letter and no digit, got "
        "{given!r}",
        "separators_equal": "`sep` and `decimal` are both {given!r}, expected different "
        "characters",
        "not_a_text_file": "`{name}` is for CSV files, and {file} is none; leave it out",
        "not_utf8": "{file} cannot be read as CSV: it is not text in UTF-8; save it in UTF-8, as "
        "iconv -t utf-8 does",
        "too_many_columns": "{file} has {n_columns} columns, expected at most {most} in a text "
        "file; write it as .npy or Parquet",
        "line_too_long": "{file} has a line of more than {most:,} bytes, expected shorter ones; "
        "write it as .npy or Parquet",
        "wrong_number_of_cells": "{file}, line {line}: expected {expected:count column}, got "
        "{found}",
        "cell_not_a_number": "{file}, line {line}: column {column!r} holds {cell!r}, expected a "
        "number",
        # Zarr
        "shape_too_large": "{file} claims {n_features} features in {n_chunks:count chunk} per "
        "row, expected at most {most_features} and {most_chunks}; write it with wider chunks",
        "expands_too_far": "a compressed {part} of {file} expands to more than {most:,} bytes, "
        "which are decoded at once; write it in smaller parts",
        "unknown_codec": "{file} is written with the codec {codec!r}, expected one of {known}",
        "zarr_group": "{file} is a group of arrays ({arrays}), expected one array; open one of "
        "them, such as {example}",
        # open sources
        "no_such_rows": "rows {start} to {stop} were asked for, and {file} has {n_rows}",
        "source_closed": "{file} is closed; open it again to read its rows",
        # blocks
        "no_blocks": "the iterator yielded {n_blocks:count block} and no rows, expected at least "
        "one row; was it already consumed?",
        "block_tuple": "block {number} is a tuple of {length}, expected (X, y) or "
        "(X, y, sample_weight)",
        "block_without_points": "block {number} has columns {columns}, expected the points under "
        "'x'",
        "block_columns_differ": "block {number} has columns {found} and block 0 has {expected}, "
        "expected the same in every block",
        "block_features_differ": "block {number} has {found:count feature} and block 0 has "
        "{expected}, expected the same in every block",
        "block_names_differ": "block {number} has features {found} and block 0 has {expected}, "
        "expected the same in every block",
        "block_precision_differs": "block {number} holds {found} and block 0 float32; "
        "`dtype='float32'` rounds it, or choose `dtype='float64'`",
    },
    InputTypeError: {
        "not_a_path": "`path` must be a path or a list of paths, got {given}; as_source takes "
        "arrays, and BlockSource blocks of rows",
        "markers_not_a_list": "`na_values` must be a list of strings, got {given!r}",
        "columns_not_a_list": "`columns` must be a list of columns, got {given!r}",
        "not_a_column": "`{what}` must be a column of {file} by name or number, got {given}",
        "column_not_numeric": "column {column!r} of {file} holds {found}, expected numbers",
        "pickled_objects": "{file} holds pickled Python objects, which are not loaded; save an "
        "array of numbers",
        "not_numeric": "{file} holds entries of type {dtype}, expected real numbers",
        "not_copyable": "{file} is an open file, which cannot be copied or sent to another "
        "process; open it there",
        "one_block": "`blocks` must be an iterator of blocks, got one {kind}; give [block]",
        "not_blocks": "`blocks` must be an iterator of blocks, got {kind}",
    },
    UnreadableError: {
        "ends_early": "{file} ends before its last row: it was cut off; write it again",
        "file_changed": "{file} was changed while its rows were read (it had {before} bytes and "
        "has {now}); open it again",
        "no_room": "there is no room left for rows in the temporary folder {folder}; set the "
        "environment variable TMPDIR to a folder on a larger disk",
    },
    MissingFileError: {
        "no_such_file": "there is no file {file}; the current folder is {folder}",
        "file_removed": "{file} was removed while its rows were read; put it back and start again",
    },
    MissingLibraryError: {
        "not_installed": "{kind} files need {library}, which cannot be imported; "
        "pip install 'implicitmoments[{extra}]'",
    },
}
CLASSES = {code: kind for kind, codes in TEMPLATES.items() for code in codes}


def refusal(code: str, hint: str = "", /, **values: Any) -> CodedError:
    """Return the error of a code, whose sentence may end with a hint."""
    kind = CLASSES[code]
    return kind(code, TEMPLATES[kind][code] + hint, **values)


def brief(text: object) -> str:
    """Return text on one line, or its beginning: what a file holds may have any length."""
    words = "".join(c if c.isprintable() else " " for c in str(text)[: QUOTED + 1]).strip()
    return words if len(words) <= QUOTED else f"{words[:QUOTED]}…"
