"""The page in a browser: headless Chromium, where it is installed."""

import json
import re
import shutil
import subprocess

import pytest

from implicitmoments.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path"),
]

FLAGS = [
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
    "--dump-dom",
]
# The page forbids scripts other than its own, so that another page looks at it in a frame.
HOOK = """<!DOCTYPE html><body><script>
const frame = document.createElement("iframe");
frame.style.cssText = "border:0;height:3000px;width:WIDTHpx";
frame.onload = async () => {
  const page = frame.contentDocument, copied = [];
  const box = (e) => { const b = e.getBoundingClientRect(); return [b.width, b.height]; };
  const clipboard = { writeText: async (text) => { copied.push(text); } };
  Object.defineProperty(frame.contentWindow.navigator, "clipboard", { value: clipboard });
  page.querySelector("button[data-copies]").click();
  await new Promise((done) => setTimeout(done, 50));
  const seen = {
    scroll: page.documentElement.scrollWidth,
    background: getComputedStyle(page.body).backgroundColor,
    ink: getComputedStyle(page.querySelector("svg text")).fill,
    pictures: [...page.querySelectorAll("figure svg")].map(box),
    copied, button: page.querySelector("button[data-copies]").textContent,
  };
  const said = document.createElement("pre");
  said.textContent = "SEEN" + JSON.stringify(seen) + "END";
  document.body.append(said);
};
frame.src = "report.html";
document.body.append(frame);
</script></body>"""


@pytest.fixture(scope="module", params=["RegressionMixture", "ActivationSumRegressor"])
def report(request, fitted, tmp_path_factory):
    model, X, y = fitted[request.param]
    folder = tmp_path_factory.mktemp("page")
    write_report(model, X, y, path=folder / "report.html", date="2026-01-31")
    return model, folder


def look(folder, profile, width, *flags):
    """Return what the browser saw, and what its console said."""
    hook = folder / f"hook{width}.html"
    hook.write_text(HOOK.replace("WIDTH", str(width)))
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, hook.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    seen = json.loads(re.findall(r"SEEN(\{.*?\})END</pre>", done.stdout)[0])
    return seen, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def brightness(colour):
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


def test_on_a_phone(report, tmp_path):
    model, folder = report
    seen, console = look(folder, tmp_path, 390)
    assert console == []
    assert seen["scroll"] <= 390
    assert len(seen["pictures"]) == 4
    assert all(300 < width <= 390 and height > 100 for width, height in seen["pictures"])
    assert brightness(seen["background"]) > 200
    assert brightness(seen["ink"]) < 80
    (copied,) = seen["copied"]
    lines = [line.split("\t") for line in copied.splitlines()]
    assert [float(line[1]) for line in lines[1:]] == list(model.weights_)
    assert seen["button"] == "Copied"


def test_in_the_dark_on_a_desk(report, tmp_path):
    _, folder = report
    dark = "--blink-settings=preferredColorScheme=0"
    seen, console = look(folder, tmp_path, 1200, dark)
    assert console == []
    assert brightness(seen["background"]) < 60
    assert brightness(seen["ink"]) > 180
    assert all(400 < width < 620 for width, _ in seen["pictures"])  # two beside each other


def test_a_page_that_breaks_its_own_rule_is_noticed(report, tmp_path):
    _, folder = report
    text = (folder / "report.html").read_text("utf-8")
    other = tmp_path / "other"
    other.mkdir()
    broken = text.replace("</main>", '<script>1</script><div style="width:700px">x</div></main>')
    (other / "report.html").write_text(broken, "utf-8")
    seen, console = look(other, tmp_path / "profile", 390)
    assert any("Content Security Policy" in line for line in console)
    assert seen["scroll"] > 390
