"""Hostile files, the processes that read them, and the audit hook that watches."""
