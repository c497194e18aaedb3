"""Messages name options that their command has, and help lines are whole sentences."""

import inspect
import re
import types
from collections import defaultdict

import pytest
import typer.main

import implicitmoments.cli.app
from implicitmoments.cli import answers, console, fit_file
from implicitmoments.cli.app import COMMANDS, app
from implicitmoments.cli.console import as_typed
from implicitmoments.error_sentences import ERRORS
from implicitmoments.notes import SENTENCES, render
from implicitmoments.rows.files import columns
from implicitmoments.rows.files.errors import CLASSES, TEMPLATES
from implicitmoments.sentences import NOTES

GROUP = typer.main.get_command(app)
OPTIONS = {
    name: {option for each in command.params for option in each.opts}
    for name, command in GROUP.commands.items()
}
# modules whose messages a command prints, where it calls their functions
MODULES = ("implicitmoments.cli", "implicitmoments.rows.files")
FILES = {code: TEMPLATES[kind][code] for code, kind in CLASSES.items()}
ALL = {**SENTENCES, **FILES}
HINTS = {
    "column_not_numeric": columns.OTHERS_HINT + "".join(columns.REMEDY_HINTS.values()),
    "column_without_name": columns.OTHERS_HINT,
    "cell_not_a_number": columns.MARKER_HINT + columns.DECIMAL_HINT,
    "wrong_number_of_cells": columns.SEP_HINT,
    "target_required": fit_file.TARGETS_HINT,
}
# values of messages that name options
WORDS = {"no_answer": {"instead": list(answers.INSTEAD.values())}}
# What a command reaches and never prints, with the reason.
NEVER = {
    # it keeps rows that lack a number, and has no weights
    "predict": {"not_finite", "all_rows_incomplete", "kept_and_dropped", "negative_weight"},
    # none has an option for weights, and without one no weight is wrong
    **{name: {"negative_weight"} for name in ("evaluate", "compare", "report")},
    # they read no rows, and no columns are chosen
    **{name: {"columns_by_position", "target_required"} for name in ("describe", "sample")},
}
PROGRAMS = {"iconv"}  # which have options of their own
# No command asks for it: the arguments are those of Python.
PYTHON = {"kept_and_dropped", "not_a_path", "columns_not_a_list", "not_a_column", "one_block"}
PYTHON |= {"markers_not_a_list", "not_a_float_type", "block_precision_differs", "not_blocks"}
PYTHON |= {code for code in FILES if code.startswith("block_")} | {"no_blocks"}


class Blank(int):
    """A value of a message that is not known: it is formatted as any number or text would be."""

    def __format__(self, spec):
        return super().__format__(spec if not spec or spec[-1] in "dfeg%," else "")


class Blanks(dict):
    def __missing__(self, name):
        return Blank(1)


def sentences(code):
    """Return the sentences of a code, in the words of the command line."""
    template = ALL[code] + HINTS.get(code, "")
    given = WORDS.get(code, {})
    name = next(iter(given), None)
    values = [Blanks({name: words}) for words in given[name]] if given else [Blanks()]
    return [render(template, each, as_typed) for each in values]


def options_in(sentence):
    """Yield the options of a sentence, each with the command before it, if there is one."""
    words = re.findall(r"[\w-]+", sentence)
    for before, word in zip(["", *words], words, strict=False):
        if re.fullmatch(r"--[a-z][a-z-]*|-[a-z]", word) and before not in PROGRAMS:
            yield before if before in OPTIONS else None, word


def reached(function, seen):
    """Collect the functions that a function names, and so on, in the modules of messages."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or function in seen:
        return
    seen.add(function)
    for inner in codes_of(code):
        for name in inner.co_names:
            visit(function.__globals__.get(name), seen)
    for name in imported_by(code):
        visit(name, seen)


def codes_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def imported_by(code):
    """Yield what a function imports when it is called."""
    source = [name for inner in codes_of(code) for name in inner.co_names]
    modules = [name for name in source if name.startswith(MODULES)]
    for module in modules:
        namespace = vars(__import__(module, fromlist=["_"]))
        yield from (namespace[name] for name in source if name in namespace)


def visit(found, seen):
    if isinstance(found, type) and found.__module__.startswith(MODULES):
        for base in found.__mro__:
            if base.__module__.startswith(MODULES):
                for member in vars(base).values():
                    method = getattr(member, "fget", None) or getattr(member, "__func__", member)
                    if isinstance(method, types.FunctionType):
                        reached(method, seen)
    elif isinstance(found, types.FunctionType) and found.__module__.startswith(MODULES):
        reached(found, seen)
    elif isinstance(found, dict):
        for each in found.values():
            visit(each, seen)


def printed_by(command):
    """Return the codes of the messages that a command may print."""
    seen = set()
    reached(command, seen)
    constants = {
        text
        for function in seen
        for code in codes_of(function.__code__)
        for text in constants_of(code.co_consts)
    }
    return {code for code in constants if code in ALL}


def constants_of(constants):
    for each in constants:
        if isinstance(each, str):
            yield each
        elif isinstance(each, tuple):
            yield from constants_of(each)


PRINTED = {command.__name__: printed_by(command) for command in COMMANDS}


def missing_options(command, codes):
    """Return the options that sentences of a command name and it does not have."""
    found = defaultdict(set)
    for code in codes:
        for sentence in sentences(code):
            for other, option in options_in(sentence):
                if option not in OPTIONS[other or command]:
                    found[code].add(option)
    return dict(found)


@pytest.mark.parametrize("command", PRINTED)
def test_options_in_messages_exist_in_their_command(command):
    assert missing_options(command, PRINTED[command] - NEVER.get(command, set()) - PYTHON) == {}


def test_options_in_notes_of_a_fit_are_those_of_fit():
    of_fits = set(NOTES) - set.union(*PRINTED.values())
    assert len(of_fits) > 30
    assert missing_options("fit", of_fits) == {}


def test_every_message_of_the_command_line_is_found():
    shown = set.union(*PRINTED.values())
    names = {code for code in ERRORS if not code.startswith(("component", "stored", "unknown_n"))}
    printed_elsewhere = {"kind_missing"}  # where a command is not called: see _end_usage
    assert names - printed_elsewhere - shown == set()
    assert set(FILES) - PYTHON - shown <= {"not_installed", "source_closed", "not_copyable"}
    assert {"predict", "fit"} <= set(PRINTED)
    assert "no_match" in PRINTED["predict"]


def test_the_check_finds_an_option_that_is_missing():
    assert missing_options("describe", {"target_required"}) == {"target_required": {"--target"}}
    assert missing_options("predict", {"not_finite"}) == {"not_finite": {"--drop-missing"}}
    assert list(options_in("omit -q; score --rows gives it: -o")) == [
        (None, "-q"),
        ("score", "--rows"),
        (None, "-o"),
    ]


# what a help line asks for, as its first word
VERBS = {
    *("Compare", "Copy", "Describe", "Divide", "Draw", "Evaluate", "Find", "Fit", "Give"),
    *("Install", "Keep", "Leave", "Open", "Predict", "Print", "Read", "Run", "Score", "Separate"),
    *("Set", "Show", "Take", "Use", "Write"),
}
HELPS = {
    f"{name} {' '.join(each.opts)}": each.help
    for name, command in {**GROUP.commands, "implicitmoments": GROUP}.items()
    for each in (*command.params, command.get_help_option(typer.Context(command)))
}
HELPS |= {name: command.help for name, command in GROUP.commands.items()}
HELPS["implicitmoments"] = GROUP.help


@pytest.mark.parametrize("name", HELPS)
def test_help_lines_are_whole_sentences(name):
    text = " ".join(HELPS[name].split("\b")[0].split())
    assert text.endswith(".")
    assert not text.endswith("..")
    sentences = re.split(r"(?<=[a-z0-9\"'])\. (?=[A-Z-])", text)
    first, *others = sentences
    assert first.split()[0] in VERBS
    for sentence in others:  # they begin as sentences do, and are more than a phrase
        assert sentence[0].isupper() or sentence.startswith(("-", "auto"))
        assert len(sentence.split()) > 3
        assert not sentence.startswith("Default")


def test_commands_are_those_of_the_application():
    assert {command.__name__ for command in COMMANDS} == set(GROUP.commands)
    assert console.CommandGroup is type(GROUP)
    assert implicitmoments.cli.app.app is app
