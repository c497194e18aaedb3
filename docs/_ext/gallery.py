"""The gallery: order of the examples, pictures with alternative text, thumbnails of one panel.

An example says what its picture shows by ``figure.set_label("…")``.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from docutils import nodes

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDER = {
    "mixtures": [
        "more_components_than_features",
        "ellipses",
        "choosing_k",
        "digits_mixture",
        "clustering_beside_kmeans",
        "density_by_rejection",
    ],
    "regressions": ["regressions_beside_em", "tone_perception"],
    "activations": ["relu_network"],
    "practice": ["fit_a_file", "start_hidden_markov"],
    "moments": ["write_your_own_estimator"],
}
FEW = 3  # panels of a figure of which one makes a thumbnail


def position(filename: str) -> int:
    """Return the position of a script, for small galleries."""
    return [name for names in ORDER.values() for name in names].index(Path(filename).stem)


class ByTopic:
    """Sort key of the scripts of a section."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> int:
        """Return the position of a script."""
        return position(filename)

    def __repr__(self) -> str:
        return "<ByTopic>"


def describe_picture(script: Path) -> str:
    """Return the label that a script gives its figure."""
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "figure.set_label":
            return str(ast.literal_eval(node.args[0]))
    raise ValueError(f"{script.name} does not call figure.set_label")


def draw_pictures(_block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save each figure, and before it one panel of it, which becomes the thumbnail."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 (only where examples run)
    from sphinx_gallery.scrapers import figure_rst  # noqa: PLC0415

    shown, paths = "", block_vars["image_path_iterator"]
    for figure in map(plt.figure, plt.get_fignums()):
        figure.draw_without_rendering()
        panels = [panel for panel in figure.axes if panel.get_label() != "<colorbar>"]
        box: Any = "tight"
        if len(panels) <= FEW:
            inches = figure.dpi_scale_trans.inverted()
            box = panels[0].get_tightbbox().transformed(inches).padded(0.1)
        figure.savefig(next(paths), bbox_inches=box)
        whole = next(paths)
        figure.savefig(whole, dpi=150)
        shown += figure_rst([whole], gallery_conf["src_dir"], figure.get_label())
    plt.close("all")
    return shown


def describe_thumbnails(_app: Any, doctree: nodes.document) -> None:
    """Give thumbnails the alternative text of the picture."""
    scripts = {script.stem: script for script in EXAMPLES.glob("*/*.py")}
    for image in doctree.findall(nodes.image):
        if found := re.search(r"sphx_glr_(\w+)_thumb", image["uri"]):
            image["alt"] = describe_picture(scripts[found[1]])


def setup(app: Any) -> dict[str, bool]:
    """Register the handler of thumbnails."""
    app.connect("doctree-read", describe_thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
