"""Formulas as MathML, which browsers render without scripts or network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

# a letter with an accent and an index: docutils puts the index below the letter
ACCENTED = re.compile(r"\\(hat|tilde|bar) ?(?:\{(\w)\}|(\w))(?=_)")


def typeset(formula: str) -> str:
    """Return the MathML of a formula in TeX."""
    return tex2mathml(ACCENTED.sub(r"{\\\1{\2\3}{}}", formula))


def draw_inline(writer: Any, node: nodes.math) -> None:
    """Write an inline formula."""
    writer.body.append(typeset(node.astext()))
    raise nodes.SkipNode


def draw_block(writer: Any, node: nodes.math_block) -> None:
    """Write a displayed formula."""
    formula = typeset(node.astext()).replace("<math ", '<math display="block" ', 1)
    writer.body.append(f'<div class="math">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer; html_math_renderer chooses it."""
    app.add_html_math_renderer("mathml", (draw_inline, None), (draw_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
