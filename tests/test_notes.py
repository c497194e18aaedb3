import pickle
import re
import warnings
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

from implicitmoments.notes import (
    FIT,
    NOTES,
    QUIET,
    AssumptionWarning,
    FitWarning,
    InputError,
    Note,
    Notes,
    render,
    warn_of,
)
from support import refuses


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("`n_components={k}` or {n:count row}", {"k": 3, "n": 1}, "n_components=3 or 1 row"),
        ("column {name}", {"name": "`a` {b}"}, "column `a` {b}"),
        ("rows {rows}; shape {s}", {"rows": [1, 2], "s": (3, 4)}, "rows 1, 2; shape (3, 4)"),
        ("given: {names}", {"names": []}, "given: none"),
    ],
)
def test_templates_are_rendered(template, values, text):
    assert render(template, values) == text


def test_a_note_needs_a_sentence():
    with pytest.raises(KeyError):
        Note("no_such_code")


def test_notes_print_as_sentences():
    notes = Notes([Note("not_converged", {"max_iter": 7})])
    assert str(notes) == str(notes[0])
    assert notes.codes == ["not_converged"]
    assert notes.without("not_converged") == []


def test_errors_travel_between_processes():
    error = InputError("some_code", "`k={k}` is too large", k=3)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.values, str(again)) == (error.code, error.values, str(error))
    assert isinstance(again, ValueError)


def test_a_refusal_is_checked_by_its_code_and_values():
    with refuses("one", "two", k=3) as caught:
        raise InputError("two", "{k}", k=3)
    assert caught.error.code == "two"
    with pytest.raises(AssertionError), refuses("one"):
        raise InputError("two", "{k}", k=3)
    with pytest.raises(AssertionError), refuses("two", k=4):
        raise InputError("two", "{k}", k=3)
    with pytest.raises(AssertionError), refuses("two"):
        pass


def test_every_template_is_balanced():
    for code, template in NOTES.items():
        assert template.count("`") % 2 == 0, code


PAGE = Path(__file__).parents[1] / "docs/notes.md"


def test_every_note_has_a_row_in_the_documentation():
    table = PAGE.read_text().split("## How the rates")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    found = [(code, row[0]) for row in rows for code in re.findall("`(.*?)`", row[0])]
    assert sorted(code for code, _ in found) == sorted(NOTES)
    for code, cell in found:
        assert ("(quiet)" in cell) == (code in QUIET)
        assert ("(fit)" in cell) == (code in FIT)
    assert set(NOTES) >= QUIET | FIT
    assert not QUIET & FIT
    assert all(len(row) == 5 for row in rows)


def test_harmless_notes_are_quiet_and_others_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of([Note(code) for code in QUIET if not NOTES[code].count("{")])
    with pytest.warns(AssumptionWarning):
        warn_of([Note("nearly_symmetric", {"name": "tanh", "parity": "odd"})])
    with pytest.warns(FitWarning):
        warn_of([Note("search_doubtful")])
    with pytest.warns(ConvergenceWarning):
        warn_of([Note("not_converged", {"max_iter": 7})])
