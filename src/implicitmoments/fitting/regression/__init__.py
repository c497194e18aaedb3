"""Mixtures of linear regressions: from a global start to the maximum of the likelihood."""
