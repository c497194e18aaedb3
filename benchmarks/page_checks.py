"""Checks of pages in headless Chromium: of the site, and of reports on the screen and printed.

``pdftotext`` of Poppler reads the printed pages.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PDFTOTEXT = shutil.which("pdftotext")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
)
# The page forbids scripts other than its own, so that another page looks at it in a frame.
HOOK = """<!DOCTYPE html><body><script>
const frame = document.createElement("iframe");
frame.style.cssText = "border:0;height:3000px;width:WIDTHpx";
const rest = (time) => new Promise((done) => setTimeout(done, time));
frame.onload = async () => {
  const page = frame.contentDocument, copied = [];
  const all = (what) => [...page.querySelectorAll(what)];
  const shown = (e) => e.getClientRects().length > 0;
  const box = (e) => { const b = e.getBoundingClientRect(); return [b.width, b.height]; };
  const name = (e) => e.getAttribute("aria-label") || e.textContent.trim()
    || (e.labels && e.labels[0] ? e.labels[0].textContent.trim() : "");
  const clipboard = { writeText: async (text) => { copied.push(text); } };
  Object.defineProperty(frame.contentWindow.navigator, "clipboard", { value: clipboard });
  const button = page.querySelector('button[data-copies="parameters-0"]');
  if (shown(button)) button.click();
  await rest(50);
  const seen = {
    scroll: page.documentElement.scrollWidth,
    background: getComputedStyle(page.body).backgroundColor,
    ink: getComputedStyle(page.querySelector("svg text")).fill,
    pictures: all("figure svg").map(box),
    figures: all("figure").filter(shown).map((figure) => figure.id),
    unlabelled: all("figure, button, select, .wide").filter((e) => e.matches("figure")
      ? !e.querySelector("figcaption") || !e.querySelector('svg[role="img"][aria-label]')
      : !name(e)).map((e) => e.id || e.className || e.tagName),
    controls: all(".choose, button").filter(shown).length,
    copied, button: button.textContent,
  };
  const chooser = page.querySelector("button[data-chooses]");
  if (chooser && shown(chooser)) {
    chooser.click();
    const own = chooser.dataset.chooses;
    const faded = all("[data-group]").filter((e) => e.classList.contains("faded"));
    seen.faded = faded.length;
    seen.wronglyFaded = faded.filter((e) => e.dataset.group === own).length;
    seen.unfaded = all("[data-group]").filter((e) => e.dataset.group !== own).length;
    const choice = page.getElementById("column");
    choice.selectedIndex = 1;
    choice.dispatchEvent(new Event("change"));
    seen.chosen = choice.value;
    seen.columns = all("figure[data-column]").filter(shown).map((e) => e.dataset.column);
  }
  const said = document.createElement("pre");
  said.textContent = "SEEN" + JSON.stringify(seen) + "END";
  document.body.append(said);
};
frame.src = "PAGE";
document.body.append(frame);
</script></body>"""


def look(page: Path, profile: Path, width: int, *flags: str) -> tuple[dict[str, Any], list[str]]:
    """Return what the browser saw in a window of some width, and what its console said."""
    hook = page.with_name(f"hook{width}.html")
    hook.write_text(HOOK.replace("WIDTH", str(width)).replace("PAGE", page.name))
    done = _run(profile, "--dump-dom", *flags, hook.as_uri())
    hook.unlink()
    found = re.findall(r"SEEN(\{.*\})END</pre>", done.stdout, flags=re.S)
    seen = json.loads(unescape(found[0]))
    return seen, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


# What holds for any page: loaded one after the other in a frame of some width.
TOUR = """<!DOCTYPE html><body><script>
const pages = PAGES, seen = {};
const frame = document.createElement("iframe");
frame.style.cssText = "border:0;height:3000px;width:WIDTHpx";
const named = (e) => (e.getAttribute("alt") || e.getAttribute("aria-label") || e.title
  || e.textContent).trim() || (e.labels && e.labels.length) || e.placeholder;
frame.onload = () => {
  const page = frame.contentDocument;
  const all = (what) => [...page.querySelectorAll(what)];
  seen[pages.shift()] = {
    scroll: page.documentElement.scrollWidth,
    pictures: all("img, svg[role=img]").length,
    formulas: all("math").length,
    faulty: all("merror").length,
    unlabelled: all("img, svg, figure, button, input, select")
      .filter((e) => !e.closest("[aria-hidden=true]") && e.type !== "hidden" && !named(e))
      .map((e) => e.outerHTML.slice(0, 80)),
  };
  if (pages.length) { frame.src = pages[0]; return; }
  const said = document.createElement("pre");
  said.textContent = "SEEN" + JSON.stringify(seen) + "END";
  document.body.append(said);
};
frame.src = pages[0];
document.body.append(frame);
</script></body>"""


def tour(
    folder: Path, pages: list[str], profile: Path, width: int
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return what the browser saw in pages of a folder, by page, and what its console said."""
    hook = folder / "tour.html"
    hook.write_text(TOUR.replace("WIDTH", str(width)).replace("PAGES", json.dumps(pages)))
    done = _run(profile, "--virtual-time-budget=120000", "--dump-dom", hook.as_uri())
    hook.unlink()
    found = re.findall(r"SEEN(\{.*\})END</pre>", done.stdout, flags=re.S)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    remarks = "[PST]"  # of the theme, which are no errors
    return json.loads(unescape(found[0])), [line for line in said if remarks not in line]


def _run(profile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", *flags],
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )


class Word(NamedTuple):
    """A word of a printed page, in points from its upper left corner."""

    text: str
    left: float
    right: float
    bottom: float


class Sheet(NamedTuple):
    """A printed page."""

    width: float
    words: list[Word]


def print_sheets(page: Path, profile: Path) -> list[Sheet]:
    """Print a page to PDF as a reader would, and return the words on each sheet."""
    pdf, text = page.with_suffix(".pdf"), page.with_suffix(".bbox")
    _run(profile, "--no-pdf-header-footer", f"--print-to-pdf={pdf}", page.as_uri())
    subprocess.run([str(PDFTOTEXT), "-bbox", str(pdf), str(text)], check=True)
    sheets = []
    for width, body in re.findall(
        r'<page width="([\d.]+)"[^>]*>(.*?)</page>', text.read_text("utf-8"), flags=re.S
    ):
        box = r'xMin="([-\d.]+)" yMin="[-\d.]+" xMax="([-\d.]+)" yMax="([-\d.]+)"'
        words = re.findall(rf"<word {box}>(.*?)</word>", body)
        own = [Word(unescape(t), float(a), float(b), float(c)) for a, b, c, t in words]
        sheets.append(Sheet(float(width), own))
    return sheets


def print_faults(text: str, sheets: list[Sheet]) -> dict[str, list[str]]:
    """Return what is wrong with printed sheets, by kind; empty lists if nothing is.

    ``text`` is the HTML of the page: all numbers of its tables must be on the sheets.
    """
    words = {word.text for sheet in sheets for word in sheet.words}
    numbers = set(re.findall(r'<td class="n[^"]*"[^>]*>([^<\s]*)</td>', text))
    headings = {
        " ".join(unescape(re.sub("<[^>]*>", "", found)).split())
        for found in re.findall(r"<h[23]>(.*?)</h[23]>", text, flags=re.S)
    }
    return {
        "numbers that are not printed": sorted(map(unescape, numbers - words))[:5],
        "words beyond the edge": [
            word.text
            for sheet in sheets
            for word in sheet.words
            if word.right > sheet.width or word.left < 0
        ][:5],
        "headings at the end of a sheet": [
            lowest for sheet in sheets for lowest in [_lowest_line(sheet)] if lowest in headings
        ],
        "empty sheets": [str(i + 1) for i, sheet in enumerate(sheets) if not sheet.words],
    }


def _lowest_line(sheet: Sheet) -> str:
    """Return the words of the lowest line of a sheet."""
    if not sheet.words:
        return ""
    bottom = max(word.bottom for word in sheet.words)
    line = [word for word in sheet.words if bottom - word.bottom < 2.0]
    return " ".join(word.text for word in sorted(line, key=lambda word: word.left))
