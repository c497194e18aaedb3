"""Which large modules the package and its commands import: never what they do not use."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import implicitmoments as im

# an estimator inherits from scikit-learn, which imports SciPy, and the others if installed
SCIENTIFIC = ("numpy", "scipy", "scipy.stats", "sklearn", "pandas", "pyarrow", "rich")
TERMINAL = ("typer", "rich")
PICTURES = ("matplotlib", "jinja2")
NEVER = ("torch", "dask", "distributed", "zarr", "matplotlib.pyplot")
MODELS = ("activation", "clustering", "density")
OTHER_MODELS = tuple(f"implicitmoments.{name}" for name in MODELS)
ALL = (*SCIENTIFIC, *TERMINAL, *PICTURES, *NEVER, *OTHER_MODELS)
RUN = """
import contextlib, io, sys
def imported():
    print(*[name for name in {all!r} if name in sys.modules], file=sys.stderr)
def run(*arguments):
    from implicitmoments.cli import main
    out = io.TextIOWrapper(io.BytesIO())
    sys.argv[1:] = arguments
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(out):
        main()
    imported()
"""


def imported(code):
    """Return the large modules of a new process, after each time that code asks."""
    command = [sys.executable, "-c", f"{RUN.format(all=ALL)}\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stderr.splitlines()]


def test_the_package_alone_imports_nothing_large():
    assert imported("import implicitmoments, implicitmoments.cli\nimported()") == [set()]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["fit", "--help"], ["fti"]])
def test_help_imports_nothing_large(arguments):
    assert imported(f"run(*{arguments!r})")[-1] <= {"typer", "rich"}


def test_commands_import_what_they_use(tmp_path):
    rows = tmp_path / "rows.csv"
    X = np.random.default_rng(0).normal(size=(200, 3))
    np.savetxt(rows, X, delimiter=",", header="a,b,c", comments="")
    model = tmp_path / "model.safetensors"
    im.save(im.SphericalMixture(1, random_state=0).fit(X), model)
    out = {kind: str(tmp_path / f"out.{kind}") for kind in ("csv", "html", "im")}
    commands = [  # in one process: a module that one imports, later ones have
        ["describe", str(model)],
        ["predict", str(model), str(rows), "-o", out["csv"], "--quiet"],
        ["fit", "mixture", str(rows), "-k", "1", "-o", out["im"], "--quiet"],
        ["report", str(model), str(rows), "-o", out["html"], "--quiet"],
    ]
    found = imported("\n".join(f"run(*{each!r})" for each in commands))
    assert len(found) == len(commands)
    assert all(Path(path).exists() for path in out.values())
    assert all(each <= {*SCIENTIFIC, *TERMINAL, *OTHER_MODELS} for each in found[:-1])
    assert found[-1] <= {*SCIENTIFIC, *TERMINAL, *PICTURES}
