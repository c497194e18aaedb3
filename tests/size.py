"""Print the size of the library, its tests, pages and benchmarks beside ceilings.

``make size`` runs it, as a part of ``make test``. A row above its ceiling says "above", and the
exit status is 1 if it is in ``FINISHED``. Code lines are neither blank nor comments, docstrings or
imports. A walk counts the modules and functions of the library that run during a small fit, in a
process that has imported every module before.
"""

import ast
import importlib
import inspect
import multiprocessing
import pkgutil
import re
import sys
import threading
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "implicitmoments"
TOP_LEVEL = "(top level)"
UNBOUNDED = float("inf")

# Rows that may not be above their ceilings. Each is added when it is within.
FINISHED = frozenset(
    [
        "activation",
        "arrays",
        "cli",
        "clustering",
        "density",
        "mixture",
        "moments",
        "paper",
        "rows",
        "saving",
        "plot",
        "report",
        "note codes",
        "error codes",
        "public names",
        TOP_LEVEL,
        "all",
        "examples",
        "lines of tests",
        "lines of benchmarks",
        "scripts of benchmarks",
        "words of docs",
        "words of README.md",
        "words of CHANGELOG.md",
        "words of CONTRIBUTING.md",
        "GaussianMixture.fit",
        "SphericalMixture.fit",
        "RegressionMixture.fit",
    ]
)


class Size(NamedTuple):
    """Code lines, files and module constants; infinite where there is no ceiling."""

    lines: float
    files: float = UNBOUNDED
    constants: float = UNBOUNDED


ROOMS = {
    "paper": Size(750, 9),
    "moments": Size(1_000, 6),
    "mixture": Size(2_900, 20),  # 900 of them for tables
    "activation": Size(750, 5),
    "density": Size(800, 6),
    "clustering": Size(350, 3),
    "rows": Size(1_500, 11),
    "arrays": Size(400, 3),
    "saving": Size(300, 2),
    "plot": Size(550),
    "report": Size(500),
    "cli": Size(850),
    TOP_LEVEL: Size(900, 8),
}
NO_ROOM = Size(0, 0)  # the ceiling of a folder that the design does not have
WHOLE = Size(11_400, 95, 150)

COUNTS = {
    "note codes": 26,
    "error codes": 90,
    "public names": 50,
    "lines of tests": 14_000,
    "lines of benchmarks": 4_200,
    "scripts of benchmarks": 13,
    "examples": 12,
    "words of docs": 46_000,
    "words of README.md": 600,
    "words of CHANGELOG.md": 400,
    "words of CONTRIBUTING.md": 700,
}
WALKS = ("GaussianMixture", "SphericalMixture", "RegressionMixture")
MAX_MODULES, MAX_FUNCTIONS = 20, 200


def docstrings_and_imports(tree):
    """Yield the nodes of a syntax tree whose lines do not count."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, documented) and ast.get_docstring(node) is not None:
            yield node.body[0]


def constants_of(tree):
    """Return the assignments of a module, at its top level, to names in capitals."""
    found = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        target = node.target if isinstance(node, ast.AnnAssign) else next(iter(targets), None)
        for name in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(name, ast.Name) and re.fullmatch("[A-Z][A-Z0-9_]+", name.id):
                found[name.id] = node.value
    return found


def measure_file(path):
    """Return the size of one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    left_out = set()
    for node in docstrings_and_imports(tree):
        left_out.update(range(node.lineno, node.end_lineno + 1))
    code = [
        line
        for number, line in enumerate(text.splitlines(), start=1)
        if number not in left_out and line.strip() and not line.strip().startswith("#")
    ]
    return Size(len(code), 1, len(constants_of(tree)))


def add(sizes):
    """Return the sum of sizes."""
    return Size(*(sum(numbers) for numbers in zip(*sizes, strict=True)))


def measure_rooms():
    """Return the size of each room (top-level folder) by name, the largest first."""
    files = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        files[parts[0] if len(parts) > 1 else TOP_LEVEL].append(measure_file(path))
    rooms = {room: add(sizes) for room, sizes in files.items()}
    return dict(sorted(rooms.items(), key=lambda item: -item[1].lines))


def codes_of(tree):
    """Return the codes of notes and of errors that a module raises or has sentences for."""
    notes, errors = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name, code = ast.unparse(node.func).rpartition(".")[2], node.args[0].value
            if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", str(code)):
                notes |= {code} if name == "Note" else set()
                errors |= {code} if name.endswith("Error") else set()
    for name, value in constants_of(tree).items():
        if isinstance(value, ast.Dict) and name in ("NOTES", "ERRORS"):
            codes = {key.value for key in value.keys if isinstance(key, ast.Constant)}
            (errors if name == "ERRORS" else notes).update(codes)
    return notes, errors


def lines_in(paths):
    """Return the number of all lines of files."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def words_in(paths):
    """Return the number of words of pages, code and tables included."""
    return sum(len(path.read_text("utf-8").split()) for path in paths)


def measure_counts():
    """Return everything that has one number, by name."""
    codes = [codes_of(ast.parse(path.read_text("utf-8"))) for path in SOURCE.rglob("*.py")]
    notes, errors = (set().union(*found) for found in zip(*codes, strict=True))
    reference = (ROOT / "docs/api.md").read_text("utf-8")
    benchmarks = sorted((ROOT / "benchmarks").rglob("*.py"))
    scripts = [path for path in benchmarks if path.name not in ("common.py", "__init__.py")]
    policies = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
    return {
        "note codes": len(notes - errors),
        "error codes": len(errors),
        "public names": len(re.findall(r"^   [A-Za-z_][\w.]*$", reference, re.M)),
        "lines of tests": lines_in((ROOT / "tests").rglob("*.py")),
        "lines of benchmarks": lines_in(benchmarks),
        "scripts of benchmarks": len(scripts),
        "examples": len(list((ROOT / "examples").glob("*/*.py"))),
        "words of docs": words_in((ROOT / "docs").glob("*.md")),
    } | {f"words of {name}": words_in([ROOT / name]) for name in policies}


def fit_small(name):
    """Return a function that fits three components to 2,000 rows."""
    import implicitmoments as im  # noqa: PLC0415 (only in the process of a walk)

    for module in pkgutil.walk_packages(im.__path__, "implicitmoments."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    model = getattr(im, name)(3, random_state=0)
    if name == "RegressionMixture":
        X, y, _ = im.datasets.make_regression_mixture(2_000, 3, 5, random_state=0)
        return lambda: model.fit(X, y)
    X, _ = im.datasets.make_spherical_mixture(
        2_000, 3, 5, radius=5.0, separation=4.0, random_state=0
    )
    return lambda: model.fit(X)


def walk(name):
    """Return how many modules and functions of the library run during a fit, in any thread."""
    warnings.simplefilter("ignore")
    fit, called = fit_small(name), set()

    def profile(frame, event, _):
        code = frame.f_code  # bodies of modules and classes are not optimised, functions are;
        # comprehensions are code of their own up to Python 3.11
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_name[0] != "<"
        if event == "call" and is_function and code.co_filename.startswith(str(SOURCE)):
            called.add(code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        fit()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len({code.co_filename for code in called}), len(called)


def measure_walks():
    """Return the numbers of each walk, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        return dict(zip(WALKS, pool.map(walk, WALKS), strict=True))


class Report:
    """The rows of the table, and those of ``finished`` that are above their ceilings."""

    def __init__(self, finished=FINISHED):
        self.finished, self.failed = finished, []

    def add(self, name, numbers, ceilings):
        """Print a row: numbers beside their ceilings."""
        above = any(n > most for n, most in zip(numbers, ceilings, strict=True))
        if above and name in self.finished:
            self.failed.append(name)
        remark = "above" if above else "ok" if name in self.finished else ""
        cells = (
            f"{number:>8,}" + (f" of {most:>6,}" if most < UNBOUNDED else " " * 10)
            for number, most in zip(numbers, ceilings, strict=True)
        )
        print(f"{name:24}{''.join(cells)}  {remark}".rstrip())


def main():
    """Print the tables, and return whether a finished row is above a ceiling."""
    report = Report()
    rooms = measure_rooms()
    print(f"{'room':24}{'code lines':>18}{'files':>18}{'constants':>18}")
    for room, size in rooms.items():
        report.add(room, size, ROOMS.get(room, NO_ROOM))
    report.add("all", add(rooms.values()), WHOLE)
    print(f"\n{'':24}{'count':>18}")
    for name, count in measure_counts().items():
        report.add(name, [count], [COUNTS[name]])
    print(f"\n{'walk of':24}{'modules':>18}{'functions':>18}")
    for name, numbers in measure_walks().items():
        report.add(f"{name}.fit", numbers, (MAX_MODULES, MAX_FUNCTIONS))
    if report.failed:
        print(f"finished, and above their ceilings: {', '.join(report.failed)}")
    return bool(report.failed)


if __name__ == "__main__":
    sys.exit(main())
