"""Sentences of errors that have no place of their own: model files and the command line."""

from __future__ import annotations

ERRORS: dict[str, str] = {
    # of model files: codes of another version
    "unknown_note": "a note that this version of the library does not know: {code} {values}",
    # command line: models and parameters
    "kind_missing": "{word} is not a KIND; did you forget mixture? The kinds are {kinds}",
    "unknown_model": "there is no model {word!r}, expected one of {kinds}{near}",
    "number_required": "{kind} does not choose the number of components; give -k N",
    "not_a_range": "-k takes a number, auto, a range such as 2-8 or a list such as 2,4,8, got "
    "{text!r}",
    "too_many_fits": "-k {text} asks for more than {most} fits; give a shorter range",
    "no_criterion": "{kind} has no BIC, by which a range of -k is compared; give one number",
    "unknown_parameter": "{kind} has no parameter {name!r}, given by {option}; --set takes "
    "{known}{near}",
    "setting_without_value": "--set takes name=value, got {text!r}",
    "parameter_twice": "{name!r} was given twice; give it once",
    "seed_by_setting": "the seed is given by --seed, not by --set",
    "value_of_another_type": "{option} takes {expected}, got {text!r}",
    # command line: columns
    "no_names": "{option} takes names separated by commas, got {text!r}",
    "target_required": "{kind} has labels; name their column by --target",
    "target_not_used": "{kind} has no labels, so --target does not apply; name the features by "
    "--columns",
    "features_differ": "the rows have {found:count feature} and the model takes {expected}; "
    "choose them by --columns",
    "model_column_missing": "the model was fitted to column {wanted!r}, which {file} does not "
    "have; it has {names}; choose others by {option}",
    # command line: input
    "no_match": "no file matches {pattern}; the current folder is {folder}",
    "file_twice": "{file} was given twice; give each file once",
    "not_rows": "{file} {advice}",
    "rows_missing": "the file ends before its last row; it changed while it was read",
    "standard_input_closed": "standard input is closed; pipe rows into it",
    "model_from_standard_input": "- is standard input, from which rows can be read; a model has "
    "to be a file",
    "model_columns_damaged": "the model file is damaged: its columns have no names",
    "model_scale_damaged": "the model file is damaged: its scale is not one positive number per "
    "column",
    # command line: output
    "output_not_a_file": "{path} is not a plain file; {instead}",
    "page_not_a_file": "--open opens a file; give -o a name",
    "output_kind": "{path} has the suffix {suffix!r}, expected one of {kinds}",
    "output_is_folder": "{path} is a folder, expected a file to write to",
    "output_not_a_folder": "{path} is a file, expected a folder to write to",
    "output_without_folder": "{path} cannot be written: there is no folder {folder}",
    "output_not_permitted": "{path} cannot be written: permission denied",
    "output_is_input": "{path} is an input file; give {option} another name",
    "output_is_checkpoint": "{path} is given by -o and by --checkpoint; give one of them another "
    "name",
    # command line: answers
    "no_answer": "a model of kind {kind} gives no {question}; {instead}",
    "nothing_measured": "a model of kind {kind} answers nothing that rows could be compared with",
    "models_not_comparable": "{one} and {other} measure different things; compare models of one "
    "kind, or two densities of the same columns",
    "rows_read_twice": "two models read the rows, so they cannot come from standard input; give a "
    "file",
    "numbers_only": "{path} can hold numbers only, so --keep does not apply",
    "output_without_rows": "-o requires --rows; the score is printed",
    "rows_not_dropped": "--rows answers for every row, so --drop-missing does not apply",
}
