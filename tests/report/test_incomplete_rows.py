"""The page on files with incomplete rows: rows have their numbers in the files."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from implicitmoments.cli.app import app


def run(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output


def typical_rows(page):
    """Return the rows of the table of rows: number of the row, and its numbers."""
    text = page.read_text("utf-8")
    table = text[text.index("Typical and ambiguous rows") :]
    cells = (
        re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        for row in re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")], re.DOTALL)
    )
    found = [
        [re.sub(r"<[^>]*>|,", "", cell).replace("−", "-").strip() for cell in c] for c in cells
    ]
    return [(int(row[-5]), float(row[-2]), float(row[-1])) for row in found if len(row) > 4]


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    """Two files of one mixture of long ellipses, with names of rows and cells that are missing."""
    folder = tmp_path_factory.mktemp("shops")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2)) * [1.0, 6.0] + 30.0 * rng.integers(0, 2, 900)[:, None]
    cells = np.char.mod("%.6f", X).astype(object)
    cells[rng.permutation(900)[:90], rng.integers(0, 2, 90)] = "-"
    lines = [f"shop {i};{a};{b}" for i, (a, b) in enumerate(cells)]
    for name, part in (("north.csv", lines[:400]), ("south.csv", lines[400:])):
        (folder / name).write_text("\n".join(["name;price;ads", *part]) + "\n")
    return folder, X


READ = ("--sep", ";", "--na-values", "-", "--drop-missing")


def test_rows_are_counted_in_the_files(shops, monkeypatch):
    folder, X = shops
    monkeypatch.chdir(folder)
    given = ("north.csv", "south.csv", *READ)
    run("fit", "mixture", *given, "--columns", "price,ads", "-k", "2", "-o", "rows.im")
    run("report", "rows.im", *given, "-o", "rows.html")
    found = typical_rows(folder / "rows.html")
    assert len(found) >= 6
    for row, price, ads in found:
        np.testing.assert_allclose([price, ads], X[row - 1], rtol=1e-3, atol=1e-3)
