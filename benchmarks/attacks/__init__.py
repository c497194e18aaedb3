"""Attacks on what stands, one module each.

A module has a docstring that describes it, ``add_options(parser)`` for its options on the command
line, and ``attack(options)``, which runs it, prints a table in Markdown and returns the number of
cases that went wrong. ``ATTACKS`` in benchmarks/attack.py lists them.
"""
