import pickle

import pytest

from implicitmoments.notes import SENTENCES, InputError, Note, Notes, render
from implicitmoments.testing import refuses


def test_expressions_are_printed_in_the_words_of_the_reader():
    template = "use `n_components={k}`, or fewer than {n:count row}"
    assert render(template, {"k": 3, "n": 1}) == "use n_components=3, or fewer than 1 row"
    assert render(template, {"k": 3, "n": 2}, str.upper).startswith("use N_COMPONENTS=3,")


def test_values_with_marks_of_templates_are_printed_as_they_are():
    assert render("column {name}", {"name": "`a` {b}"}) == "column `a` {b}"


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
    for code, template in SENTENCES.items():
        assert template.count("`") % 2 == 0, code


def test_lists_are_listed_and_shapes_are_printed():
    assert render("rows {rows}; shape {shape}", {"rows": [1, 2], "shape": (3, 4)}) == (
        "rows 1, 2; shape (3, 4)"
    )
    assert render("given: {names}", {"names": []}) == "given: none"
