"""Hostile files, what reads them, and what keeps watch meanwhile."""
