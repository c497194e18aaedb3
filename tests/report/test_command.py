"""The page that the command line writes names the files, the columns and the labels."""

import numpy as np
import pytest
from typer.testing import CliRunner

from implicitmoments.cli.app import app


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sales")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    lines = np.array([[3.0, -1.0], [-2.0, 2.0]])[rng.integers(0, 2, 600)]
    y = np.einsum("nd,nd->n", X, lines) + 0.2 * rng.normal(size=600)
    rows = [",".join(f"{v:.6f}" for v in row) for row in np.column_stack([X, y])]
    (folder / "sales.csv").write_text("\n".join(["price,ads,units", *rows]) + "\n")
    return folder


def run(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output


def test_files_and_labels_are_named(sales):
    model, page = sales / "lines.im", sales / "page.html"
    fit = ("fit", "regressions", sales / "sales.csv", "--y", "units", "-k", "2")
    run(*fit, "-o", model, "--quiet")
    run("report", model, sales / "sales.csv", "-o", page, "--quiet")
    text = page.read_text("utf-8")
    assert "A mixture of 2 linear regressions for units</h1>" in text
    assert '<p id="origin">Rows of sales.csv, model lines.im</p>' in text
    assert "600 rows, 2 columns (price, ads), labels: units" in text
    assert ">y</text>" not in text
    run("report", model, sales / "sales.csv", "-o", page, "--quiet", "--title", "My title")
    assert "My title</h1>" in page.read_text("utf-8")
