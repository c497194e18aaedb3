"""How a block of rows is read: centred, scaled, without rows that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from implicitmoments.arrays import Array, lift_rows, move_like, namespace_of
from implicitmoments.rows import Block

__all__ = ["Limit", "Reader", "Rule", "some_rows"]


class Rule(Protocol):
    """Which rows are there, told by what they hold."""

    def keep(self, x: Array) -> Array | None:
        """Return the places of the rows of a block that are there; None for all."""


class Limit(Protocol):
    """Which rows are there, told by where they lie as they are read."""

    def keep(self, points: Array, squares: Array) -> Array | None:
        """Return the places of the points of a block that are there; None for all."""


@dataclass(frozen=True, eq=False)
class Reader:
    r"""Reads a block of rows x as :math:`(x - c) / s`, without those that are left out.

    Attributes
    ----------
    center : array of shape (d,) or None
        None where x is what is to be read.
    scale : float
    wide : bool
        Whether single precision is not enough for the rows.
    rules : tuple of Rule
        What they all keep is there.
    near : Limit or None
    """

    center: Array | None
    scale: float
    wide: bool = False
    rules: tuple[Rule, ...] = ()
    near: Limit | None = None

    def __call__(self, block: Block, lifted: bool = False) -> Block:
        """Return points under ``"x"``, lifted where asked for, and ``"counts"`` if rows have."""
        for rule in self.rules:
            block = some_rows(block, rule.keep(block["x"]))
        x = block["x"]
        xp, d = namespace_of(x), int(x.shape[1])
        if self.wide:
            x = xp.astype(x, xp.float64, copy=False)
        center = None if self.center is None else move_like(self.center, x)
        read: Block = {"x": x}
        if lifted or self.near is not None:
            read = {"x": lift_rows(x, center, self.scale)}
        elif center is not None:
            read = {"x": (x - center) / self.scale}
        if "counts" in block:
            read = {**read, "counts": xp.astype(block["counts"], x.dtype, copy=False)}
        if self.near is not None:
            whole = read["x"]
            read = some_rows(read, self.near.keep(whole[:, :d], whole[:, d]))
        return read if lifted else {**read, "x": read["x"][:, :d]}


def some_rows(block: Block, places: Array | None) -> Block:
    """Return the rows of a block at some places; all for None."""
    if places is None:
        return block
    take = namespace_of(places).take
    return {name: take(column, places, axis=0) for name, column in block.items()}
