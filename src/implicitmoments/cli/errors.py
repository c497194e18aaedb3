"""Errors of the command line, with one sentence per code."""

from __future__ import annotations

from typing import Any

from implicitmoments.notes import CodedError, InputError

SENTENCES = {
    # models and parameters
    "kind_missing": "{word} is not a KIND; did you forget mixture? The kinds are {kinds}",
    "unknown_model": "there is no model {word!r}, expected one of {kinds}{near}",
    "number_required": "{kind} does not choose the number of components; give -k N",
    "unknown_parameter": "{kind} has no parameter {name!r}, given by {option}; --set takes "
    "{known}{near}",
    "setting_without_value": "--set takes name=value, got {text!r}",
    "parameter_twice": "{name!r} was given twice; give it once",
    "seed_by_setting": "the seed is given by --seed, not by --set",
    "value_of_another_type": "{option} takes {expected}, got {text!r}",
    # columns
    "no_names": "{option} takes names separated by commas, got {text!r}",
    "target_required": "{kind} has labels; name their column by --target",
    "target_not_used": "{kind} has no labels, so --target does not apply; name the features by "
    "--columns",
    "features_differ": "the rows have {found:count feature} and the model takes {expected}; "
    "choose them by --columns",
    "model_column_missing": "the model was fitted to column {wanted!r}, which {file} does not "
    "have; it has {names}; choose others by {option}",
    # input
    "not_rows": "{file} {advice}",
    "rows_missing": "the file ends before its last row; it changed while it was read",
    "standard_input_closed": "standard input is closed; pipe rows into it",
    "model_from_standard_input": "- is standard input, from which rows can be read; a model has "
    "to be a file",
    "model_columns_damaged": "the model file is damaged: its columns have no names",
    "model_scale_damaged": "the model file is damaged: its scale is not one positive number per "
    "column",
    # output
    "output_not_a_file": "{path} is not a plain file; {instead}",
    "output_kind": "{path} has the suffix {suffix!r}, expected one of {kinds}",
    "output_is_folder": "{path} is a folder, expected a file to write to",
    "output_not_a_folder": "{path} is a file, expected a folder to write to",
    "output_without_folder": "{path} cannot be written: there is no folder {folder}",
    "output_not_permitted": "{path} cannot be written: permission denied",
    "output_is_input": "{path} is an input file; give {option} another name",
    "output_is_checkpoint": "{path} is given by -o and by --checkpoint; give one of them another "
    "name",
    # answers
    "no_answer": "a model of kind {kind} gives no {question}; {instead}",
    "numbers_only": "{path} can hold numbers only, so --keep does not apply",
    "output_without_rows": "-o requires --rows; the score is printed",
    "rows_not_dropped": "--rows answers for every row, so --drop-missing does not apply",
}


class MissingError(CodedError, ImportError):
    """A library that a command needs is not installed."""


class UnwritableError(CodedError, RuntimeError):
    """The result cannot be written; the input was good."""


def bad_input(code: str, **values: Any) -> InputError:
    """Return the error of a code for what a user typed."""
    return InputError(code, SENTENCES[code], **values)
