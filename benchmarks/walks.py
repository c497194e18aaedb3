"""Modules that a call visits, and the size of the library.

Run: python benchmarks/walks.py
     python benchmarks/walks.py --without backends

A walk is one ``fit`` on small data, or the command ``implicitmoments fit mixture``, in a separate
process that has already imported every module. The script counts modules in which a function is
called, distinct functions (including comprehensions and lambdas), and changes of folder: with
functions in the order of their first calls, a change is a function whose top-level folder differs
from that of the function before it. Folders given by ``--without``, whose helpers are called from
everywhere, are skipped; figures in brackets include them. ``GaussianMixture.fit`` of
scikit-learn is counted in the same way.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "implicitmoments"
TESTS = ROOT / "tests"
LEAVES = ("backends", "arrays")  # helpers for arrays, by their old and new names
OPTIMIZED = 0x1  # flag of the code of functions; bodies of modules and classes are without it
PUBLIC = (
    *("circuits", "datasets", "models", "moments", "plot", "problems", "projections"),
    *("report", "rows", "samples", "testing"),
)
N, K, D = 2_000, 3, 5


def mixture() -> Callable[[], Any]:
    """Return a fit of SphericalMixture."""
    import implicitmoments as im  # noqa: PLC0415

    X, _ = im.datasets.make_spherical_mixture(N, K, D, radius=5.0, separation=4.0, random_state=0)
    model = im.SphericalMixture(K, random_state=0)
    return lambda: model.fit(X)


def regression() -> Callable[[], Any]:
    """Return a fit of RegressionMixture."""
    import implicitmoments as im  # noqa: PLC0415

    X, y, _ = im.datasets.make_regression_mixture(N, K, D, random_state=0)
    model = im.RegressionMixture(K, random_state=0)
    return lambda: model.fit(X, y)


def activation() -> Callable[[], Any]:
    """Return a fit of ActivationSumRegressor."""
    import implicitmoments as im  # noqa: PLC0415

    X, y, _ = im.datasets.make_activation_sum(N, K, D, random_state=0)
    model = im.ActivationSumRegressor("relu", K, random_state=0)
    return lambda: model.fit(X, y)


def command() -> Callable[[], Any]:
    """Return a fit from the command line; in a temporary working directory."""
    import numpy as np  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415
    from implicitmoments.cli import main  # noqa: PLC0415

    X, _ = im.datasets.make_spherical_mixture(N, K, D, radius=5.0, separation=4.0, random_state=0)
    np.savetxt("rows.csv", X, delimiter=",", header="a,b,c,d,e", comments="")

    def run() -> None:
        sys.argv = [
            "implicitmoments",
            "fit",
            "mixture",
            "rows.csv",
            "-k",
            str(K),
            "-o",
            "model.im",
        ]
        with contextlib.suppress(SystemExit):
            main()
        if not Path("model.im").exists():
            raise RuntimeError("the command wrote no model")

    return run


def peer() -> Callable[[], Any]:
    """Return a fit of GaussianMixture of scikit-learn."""
    import sklearn.mixture  # noqa: PLC0415

    import implicitmoments as im  # noqa: PLC0415

    X, _ = im.datasets.make_spherical_mixture(N, K, D, radius=5.0, separation=4.0, random_state=0)
    model = sklearn.mixture.GaussianMixture(K, random_state=0)
    return lambda: model.fit(X)


WALKS = {
    "SphericalMixture.fit": mixture,
    "RegressionMixture.fit": regression,
    "ActivationSumRegressor.fit": activation,
    "implicitmoments fit mixture": command,
    "GaussianMixture.fit (scikit-learn)": peer,
}


def import_all(package: ModuleType) -> None:
    """Import every module, so that nothing is imported during a walk."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)


def first_calls(call: Callable[[], Any], folder: Path) -> list[tuple[str, str]]:
    """Return files under a folder and functions in them, in the order of their first calls."""
    seen: dict[tuple[str, str], None] = {}
    prefix = f"{folder}{os.sep}"

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        inside = code.co_filename.startswith(prefix)
        if event == "call" and inside and code.co_flags & OPTIMIZED:
            seen.setdefault((code.co_filename.removeprefix(prefix), code.co_qualname))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def walk(name: str) -> list[tuple[str, str]]:
    """Take one walk in this process."""
    warnings.simplefilter("ignore")
    of = "sklearn" if WALKS[name] is peer else "implicitmoments"
    package = importlib.import_module(of)
    if of == "implicitmoments":
        import_all(package)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        call = WALKS[name]()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return first_calls(call, Path(str(package.__file__)).resolve().parent)


def folder_changes(calls: list[tuple[str, str]], without: list[str]) -> int:
    """Count the functions whose folder is not that of the one before."""
    folders = [Path(file).parts[0] for file, _ in calls]
    kept = [folder for folder in folders if folder not in without]
    return sum(a != b for a, b in pairwise(kept))


def print_walks(without: list[str]) -> None:
    """Print a table of all walks."""
    print("| walk | modules | functions | changes of folder |\n|---|---|---|---|")
    for name in WALKS:
        child = [sys.executable, __file__, "--walk", name]
        done = subprocess.run(child, check=True, capture_output=True, text=True)
        calls = [(file, function) for file, function in json.loads(done.stdout)]
        modules = len({file for file, _ in calls})
        changes = f"{folder_changes(calls, without)} ({folder_changes(calls, [])})"
        print(f"| {name} | {modules} | {len(calls)} | {changes} |", flush=True)


def trees(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    """Yield the text and the syntax tree of every Python file."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield text, ast.parse(text)


def constants(tree: ast.Module) -> int:
    """Count names in capitals that a module assigns to."""
    names: list[ast.expr] = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names += node.targets
        elif isinstance(node, ast.AnnAssign):
            names.append(node.target)
    return sum(
        isinstance(n, ast.Name) and bool(re.fullmatch("[A-Z][A-Z0-9_]*", n.id)) for n in names
    )


def complex_functions(above: int) -> int:
    """Count functions above a cyclomatic complexity, by ruff."""
    limit = f"lint.mccabe.max-complexity={above}"
    ruff = [sys.executable, "-m", "ruff", "check", "--select", "C901", "--ignore-noqa"]
    how = ["--no-cache", "--output-format", "json", "--config", limit, str(SOURCE)]
    done = subprocess.run([*ruff, *how], check=False, capture_output=True, text=True, cwd=ROOT)
    return len(json.loads(done.stdout))


def public_names() -> tuple[int, list[str]]:
    """Count the public names, without folders and each once, and return them by module."""
    counts: dict[str, int] = {}
    seen: set[int] = set()
    for name in ("", *PUBLIC):
        with contextlib.suppress(ModuleNotFoundError):
            module = importlib.import_module(f"implicitmoments.{name}".rstrip("."))
            found = [getattr(module, each) for each in getattr(module, "__all__", ())]
            new = {id(each) for each in found if not isinstance(each, ModuleType)} - seen
            seen |= new
            counts[name or "implicitmoments"] = len(new)
    return len(seen), [f"{name} {n}" for name, n in counts.items()]


def deep_imports(tree: ast.Module, levels: int) -> int:
    """Count imports from implicitmoments.a.b (three levels) or deeper."""
    modules: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.append(node.module)
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return sum(m.startswith("implicitmoments.") and m.count(".") + 1 >= levels for m in modules)


def print_sizes() -> None:
    """Print the size of the library and how its tests depend on it."""
    source, tests = list(trees(SOURCE)), list(trees(TESTS))
    nodes = [node for _, tree in source for node in ast.walk(tree)]
    total, by_module = public_names()
    uses = [re.findall(r"\bmonkeypatch\.\w+\(", text) for text, _ in tests]
    rows = {
        "lines": sum(text.count("\n") for text, _ in source),
        "files": len(source),
        "functions": sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in nodes),
        "classes": sum(isinstance(n, ast.ClassDef) for n in nodes),
        "module constants": sum(constants(tree) for _, tree in source),
        "functions of complexity above 15": complex_functions(15),
        "functions of complexity above 10": complex_functions(10),
        "public names": f"{total} ({', '.join(by_module)})",
        "test lines": sum(text.count("\n") for text, _ in tests),
        "match= in tests": sum(len(re.findall(r"\bmatch=", text)) for text, _ in tests),
        "uses of monkeypatch in tests": sum(len(found) for found in uses),
        "imports in tests, three levels or deeper": sum(deep_imports(t, 3) for _, t in tests),
        "imports in tests, four levels or deeper": sum(deep_imports(t, 4) for _, t in tests),
    }
    print("\n| what | number |\n|---|---|")
    for what, number in rows.items():
        print(f"| {what} | {number:,} |" if isinstance(number, int) else f"| {what} | {number} |")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--without", nargs="*", default=list(LEAVES), help="folders passed over")
    parser.add_argument("--walk", choices=list(WALKS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.walk:
        print(json.dumps(walk(given.walk)))
        return
    print_walks(given.without)
    print_sizes()


if __name__ == "__main__":
    main()
