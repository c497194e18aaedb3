"""Configuration of the Sphinx site: `make docs` builds it, `make gallery` runs the examples."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import implicitmoments

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
import gallery

project = "implicitmoments"
author = "The implicitmoments developers"
project_copyright = f"{author}, BSD 3-Clause, version {implicitmoments.__version__}"
version = release = implicitmoments.__version__

extensions = [
    "gallery",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    *(f"gallery/**/*.{end}" for end in ("ipynb", "py", "json")),
    *("sg_execution_times.rst", "gallery/[!i]*.rst"),  # of builds before the gallery had sections
]
nitpicky = False
smartquotes = False  # quotes in code such as "auto" stay as they are

# Markdown that GitHub renders as well: formulas are Unicode, indented blocks or $...$
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

html_math_renderer = "mathml"

toc_object_entries_show_parents = "hide"  # fit(), not SphericalMixture.fit(), beside a page
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc documents the types
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
    "write_computation_times": False,
    "subsection_order": [f"../examples/{section}" for section in gallery.ORDER],
    "within_subsection_order": "gallery.ByTopic",
    "minigallery_sort_order": "gallery.position",
    "nested_sections": False,
    "image_scrapers": ("gallery.draw_pictures",),
    "thumbnail_size": (640, 448),
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("implicitmoments",),
}

html_theme = "pydata_sphinx_theme"
html_title = f"implicitmoments {release}"
html_logo = html_favicon = "../src/implicitmoments/report/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark as the system has it
WIDE = ["paper"]  # pages with a wide table
# pages without subpages, and wide ones
html_sidebars: dict[str, list[str]] = {page: [] for page in ["comparison", "tutorial", *WIDE]}
html_theme_options = {
    "logo": {"text": "implicitmoments", "alt_text": "Logo"},
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": {"**": ["page-toc"], **{page: [] for page in ["index", *WIDE]}},
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}


def lead_to_gallery(_app: Any, _page: str, source: list[str]) -> None:
    """Redirect links to example scripts to their pages in the gallery."""
    source[0] = re.sub(r"\]\(\.\./examples/(\w+/\w+)\.py\)", r"](gallery/\1.rst)", source[0])


def setup(app: Any) -> None:
    """Register the handler."""
    app.connect("source-read", lead_to_gallery)
