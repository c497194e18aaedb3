"""Print the size of every room (top-level folder) of the library beside its ceiling.

``make size`` runs it. Code lines are neither blank nor comments, docstrings or imports. The exit
status is 1 if a finished room is above a ceiling; all other figures are for information.
"""

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src" / "implicitmoments"
TOP_LEVEL = "(top level)"

# Rooms that may not be above their ceilings; each is added when its second edition is done.
FINISHED: frozenset[str] = frozenset({"clustering"})


class Size(NamedTuple):
    """Code lines, files and module constants; infinite where there is no ceiling."""

    lines: float
    files: float = float("inf")
    constants: float = float("inf")


CEILINGS = {
    "paper": Size(750, 9),
    "moments": Size(1_000, 6),
    "mixture": Size(2_000, 16),
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
NO_ROOM = Size(0, 0)  # the ceiling of folders that the second edition does not have
WHOLE = Size(10_500, 95, 150)


def docstrings_and_imports(tree):
    """Yield the nodes of a syntax tree whose lines do not count."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, documented) and ast.get_docstring(node) is not None:
            yield node.body[0]


def count_constants(tree):
    """Count the assignments of a module, at its top level, to a name in capitals."""
    targets = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets.append(node.targets[0])
        elif isinstance(node, ast.AnnAssign):
            targets.append(node.target)
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return sum(re.fullmatch("[A-Z][A-Z0-9_]+", name) is not None for name in names)


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
    return Size(len(code), 1, count_constants(tree))


def add(sizes):
    """Return the sum of sizes."""
    return Size(*(sum(numbers) for numbers in zip(*sizes, strict=True)))


def measure_rooms():
    """Return the size of each room by name, the largest first."""
    files = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        files[parts[0] if len(parts) > 1 else TOP_LEVEL].append(measure_file(path))
    rooms = {room: add(sizes) for room, sizes in files.items()}
    return dict(sorted(rooms.items(), key=lambda item: -item[1].lines))


def is_above(size, ceiling):
    """Return whether any number is above its ceiling."""
    return any(number > most for number, most in zip(size, ceiling, strict=True))


def print_line(name, size, ceiling, remark):
    """Print numbers, each beside its ceiling."""
    numbers = (
        f"{number:>8,}" + (f" of {most:>6,}" if most < float("inf") else " " * 10)
        for number, most in zip(size, ceiling, strict=True)
    )
    print(f"{name:12}{''.join(numbers)}  {remark}".rstrip())


def main():
    """Print a table, and return whether a finished room is above a ceiling."""
    rooms = measure_rooms()
    failed = []
    print(f"{'room':12}{'code lines':>18}{'files':>18}{'constants':>18}")
    for room, size in rooms.items():
        ceiling = CEILINGS.get(room, NO_ROOM)
        above = is_above(size, ceiling)
        print_line(room, size, ceiling, "above" if above else "")
        if above and room in FINISHED:
            failed.append(room)
    whole = add(rooms.values())
    print_line("all", whole, WHOLE, "above" if is_above(whole, WHOLE) else "")
    if failed:
        print(f"finished rooms above their ceilings: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
