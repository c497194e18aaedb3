"""Data on which fits went wrong without a word; one module for each kind."""
