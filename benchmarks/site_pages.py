"""Checks of all pages of the site in headless Chromium.

    make gallery
    python benchmarks/site_pages.py [docs/_build/html]

For every page: errors in the console, the width it takes in a window of 390 pixels, and pictures
and controls without a label. Pages of source code are left out.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from page_checks import CHROMIUM, tour

PHONE = 390  # pixels
AT_ONCE = 12  # pages in one run of the browser


def main() -> None:
    """Print one line for each page with a fault, and a table of sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/_build/html"))
    folder = parser.parse_args().folder
    if CHROMIUM is None:
        parser.error("chromium has to be on the path")
    pages = sorted(
        str(page.relative_to(folder))
        for page in folder.rglob("*.html")
        if not page.relative_to(folder).parts[0].startswith("_")
    )
    sums = dict.fromkeys(("pictures", "formulas", "faulty", "unlabelled", "wide"), 0)
    errors = []
    with tempfile.TemporaryDirectory() as profile:
        for first in range(0, len(pages), AT_ONCE):
            seen, console = tour(folder, pages[first : first + AT_ONCE], Path(profile), PHONE)
            errors += console
            for name, page in seen.items():
                found = page | {"unlabelled": len(page["unlabelled"])}
                found["wide"] = int(page["scroll"] > PHONE)
                for what in sums:
                    sums[what] += found[what]
                if found["wide"] or found["faulty"] or found["unlabelled"]:
                    print(name, page, flush=True)
    for line in errors:
        print(line)
    print("| pages | pictures | formulas | formulas with an error | without a label ", end="")
    print("| wider than 390 px | console errors |\n|---|---|---|---|---|---|---|")
    figures = (len(pages), *sums.values(), len(errors))
    print("| " + " | ".join(f"{figure:,}" for figure in figures) + " |")


if __name__ == "__main__":
    main()
