"""Configuration of the Sphinx site: `make docs` builds it, `make gallery` runs the examples."""

from __future__ import annotations

import os
import re
from typing import Any

import implicitmoments

project = "implicitmoments"
author = "The implicitmoments developers"
version = release = implicitmoments.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.json"]
nitpicky = False

# Markdown, as GitHub shows it too: formulas are Unicode or indented blocks, and $...$ where used
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc has them in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# GALLERY=1 runs the examples; without it they are pages of code, which takes seconds
plot_gallery = os.environ.get("GALLERY", "0") == "1"
sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "plot_gallery": plot_gallery,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "within_subsection_order": "ExampleTitleSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = f"implicitmoments {release}"
html_static_path: list[str] = []
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {"comparison": [], "tutorial": []}  # nothing below them
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}


def lead_to_gallery(_app: Any, _page: str, source: list[str]) -> None:
    """Let links to scripts, as GitHub has them, lead to their pages in the gallery."""
    source[0] = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](gallery/\1.rst)", source[0])


def setup(app: Any) -> None:
    """Register the above."""
    app.connect("source-read", lead_to_gallery)
