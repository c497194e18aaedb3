"""Names in files hold no sequences that a terminal obeys."""

import json

import numpy as np
import pytest

import implicitmoments as im
from implicitmoments.notes import Note
from support import refuses

CLEAR = "\x1b[2J"  # clears a screen
CSI = "\x9b31m"  # red, by one character
LINK = "[link=http://x]c[/link]"  # of rich
NAMES = [f"a{CLEAR}", f"b{CSI}", f"{LINK}\x1b]0;title\x07"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(60, 3)), rng.normal(size=(60, 3)) + 9])
    path = tmp_path / "rows.csv"
    lines = [",".join(NAMES), *(",".join(map(str, row)) for row in X.tolist())]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def is_clean(text):
    return all(c.isprintable() or c in "\n\t" for c in text)


def test_names_of_columns_and_models_are_printed_without_control_characters(call, table, tmp_path):
    model = tmp_path / "m.im"
    for words in (
        ("fit", "mixture", table, "-k", "2", "-o", model),
        ("describe", model),
        ("describe", model, "--json"),
        ("predict", model, table),
        ("sample", model, "-n", "3"),
        ("sample", model, "-n", "3", "--json"),
    ):
        result = call(*words)
        assert result.exit_code == 0, result.stderr
        assert is_clean(result.stdout), words
        assert is_clean(result.stderr), words
        assert "http://x" in result.stdout or words[0] == "predict"
    document = json.loads(call("describe", model, "--json").stdout)
    assert document["features"] == NAMES  # as they are, by JSON's own escapes


def test_errors_are_printed_without_control_characters(call, table, tmp_path):
    text = table.read_text(encoding="utf-8")
    table.write_text(text + f"\n1,2,{CLEAR}\n", encoding="utf-8")
    result = call("fit", "mixture", table, "-k", "2", "-o", tmp_path / "m.im")
    assert result.exit_code == 2
    assert is_clean(result.stderr)
    result = call("describe", tmp_path / f"no{CLEAR}")
    assert result.exit_code == 2
    assert is_clean(result.stderr)


def test_errors_and_notes_of_the_library_have_no_control_characters(table):
    with refuses("no_such_column") as caught:
        im.SphericalMixture(2).fit(table, sample_weight=f"w{CLEAR}")
    assert is_clean(str(caught.error))
    assert is_clean(str(Note("columns_left_out", {"columns": list(NAMES[:2])})))
