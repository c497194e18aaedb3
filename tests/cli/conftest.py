"""Files of rows and of fitted models that the commands are tried on."""

from typing import NamedTuple

import numpy as np
import pytest

from implicitmoments.cli import main

MEANS = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 2.0], [0.0, 7.0, -3.0]])


class Result(NamedTuple):
    status: int
    out: str
    err: str


def call(*arguments):
    """Run a command in this process, and return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return ended.value.code or 0


@pytest.fixture
def run(capsys):
    """Run a command in this process."""

    def run(*arguments):
        capsys.readouterr()
        return Result(call(*arguments), *capsys.readouterr())

    return run


def write_csv(path, names, rows, sep=",", decimal="."):
    lines = [sep.join(f"{v:.6f}".replace(".", decimal) for v in row) for row in rows]
    path.write_text("\n".join([sep.join(names), *lines]) + "\n")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with rows.csv (three clusters), lines.csv (two lines), and both as .npy."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = MEANS[rng.integers(0, 3, 1_500)] + rng.normal(size=(1_500, 3))
    write_csv(folder / "rows.csv", ["height", "width", "depth"], X)
    np.save(folder / "rows.npy", X.round(6))
    x, side = rng.normal(size=(1_500, 2)), rng.integers(0, 2, 1_500) == 0
    y = np.where(side, 1 + x @ [2.0, -1.0], -1 + x @ [-1.0, 3.0]) + 0.2 * rng.normal(size=1_500)
    write_csv(folder / "lines.csv", ["a", "b", "price"], np.column_stack([x, y]))
    np.save(folder / "lines.npy", np.column_stack([x, y]).round(6))
    return folder


@pytest.fixture(scope="session")
def models(data):
    """Fitted models in files, by their kind."""
    rows, lines = [data / "rows.csv", "-k", "3"], [data / "lines.csv", "--y", "price", "-k", "2"]
    given = {
        "mixture": rows,
        "spherical-mixture": rows,
        "clusters": rows,
        "density": [*rows, "--set", "degree=2"],
        "regressions": lines,
        "regression-density": [*lines, "--set", "degree=2"],
        "other": [data / "lines.csv", "--y", "a", "-k", "2"],
        "activations": [*lines, "--activation", "relu"],
    }
    for kind, arguments in given.items():
        kind_of = "regressions" if kind == "other" else kind
        assert call("fit", kind_of, *arguments, "-o", data / f"{kind}.im", "-q") == 0
    return {kind: data / f"{kind}.im" for kind in given}
