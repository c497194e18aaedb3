"""What the library says, in words of the command line: options in place of parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from implicitmoments.cli.options import KINDS

__all__ = ["PARAMETERS", "SPOKEN", "forgotten_kind", "option_of", "spoken"]

Replacement: TypeAlias = str | Callable[[re.Match[str]], str]

# parameters of estimators that have options of their own; --set gives the others
SPOKEN = {
    "n_components": "-k",
    "activation": "--activation",
    "degree": "--degree",
    "random_state": "--seed",
}
PARAMETERS = (
    *("block_rows", "clip", "drop_outliers", "epsilon", "fit_intercept", "floor", "label_scale"),
    *("max_components", "max_degree", "max_iter", "max_proposals", "method", "n_draws"),
    *("n_landmarks", "n_moves", "n_starts", "noise", "order", "refine", "tol", "variance"),
    *("covariance_type", "whiten"),
)
PYTHON = {"None": "none", "True": "true", "False": "false", "...": "…"}

# where a word stands alone, and is no part of a path or of an option
BEGIN, END = r"(?<![\w/.'\"=-])(?<!--set )", r"(?![\w/'\"-]|\.\w)"
_NAME = "|".join((*SPOKEN, *PARAMETERS))
_UNLIKE_WORDS = "|".join(name for name in PARAMETERS if "_" in name)  # others are English too


def option_of(name: str, value: str = "…") -> str:
    """Return how the command line gives a parameter a value.

    Examples
    --------
    >>> option_of("degree", "cv"), option_of("tol", "0.1"), option_of("whiten", "False")
    ('--degree cv', '--set tol=0.1', '--set whiten=false')
    """
    told = PYTHON.get(value, value)
    return f"{SPOKEN[name]} {told}" if name in SPOKEN else f"--set {name}={told}"


def forgotten_kind(word: str) -> str:
    """Return what is said where a file stands in the place of the kind of a model."""
    return f"{word} is no KIND; did you forget mixture? The kinds are {', '.join(KINDS)}"


def _set(found: re.Match[str]) -> str:
    return option_of(found[1], found[2] or found[3])


def _kind(found: re.Match[str]) -> str:
    return next(word for word, name in KINDS.items() if name == found[0])


def _listed(found: re.Match[str]) -> str:
    return "--columns " + ",".join(name.strip().strip("'\"") for name in found[1].split(","))


RULES: tuple[tuple[str, Replacement], ...] = (
    (r"columns=\[([^\]]*)\]", _listed),
    (r"\bcolumns=", "--columns "),
    (r"\bcolumns (?=names column|is (?:a )?column)", "--columns "),
    (r"\by (?=names column|is (?:a )?column|is \d|is ')", "--target "),
    (r"\bsample_weight (?=names column|is (?:a )?column|is \d+,|is ')", "--weight "),
    (r"\bsample_weight (?=is -)", "the weight "),
    (r"\bas y; leave it out of columns", "by --target; leave it out of --columns"),
    (r"\bas sample_weight; leave it out of columns", "by --weight; leave it out of --columns"),
    (r"name the column of labels, y='…'", "name their column by --target"),
    (r"written by implicitmoments.save, or save the model again", "that fit wrote"),
    (
        r"; drop or fill those rows first",
        "; fill those cells, or have fit, score and report leave such rows out by --drop-missing",
    ),
    (r", cosine\(frequency, phase\) or a function of arrays", ""),
    (r"; BlockSource takes .*", "; - takes CSV from standard input"),
    (rf"{BEGIN}({_NAME})=(?:'([^']*)'|(\.\.\.|[\w.+-]*\w))", _set),
    (rf"\b(raise|lower|larger|smaller|give) ({_UNLIKE_WORDS}){END}", r"\1 --set \2=…"),
    (rf"{BEGIN}n_components{END}", "-k"),
    (rf"{BEGIN}random_state{END}", "--seed"),
    (rf"{BEGIN}lower_bound_{END}", "the mean log-likelihood"),
    (rf"{BEGIN}log_likelihood_{END}", "the log-likelihood"),
    (r"\bn_samples=(\d+)(?: rows)?", r"\1 rows"),
    (r"\bn_features=(\d+)", r"\1 features"),
    (rf"{BEGIN}(?:{'|'.join(KINDS.values())}){END}", _kind),
)
COMPILED = [(re.compile(pattern), told) for pattern, told in RULES]


def spoken(words: str) -> str:
    """Return an error or a note with options where the library names parameters.

    Examples
    --------
    >>> spoken("use more rows and degree='cv', or RegressionMixture")
    'use more rows and --degree cv, or regressions'
    >>> spoken("compare lower_bound_ for a few values of random_state")
    'compare the mean log-likelihood for a few values of --seed'
    """
    for pattern, told in COMPILED:
        words = pattern.sub(told, words)
    return words
