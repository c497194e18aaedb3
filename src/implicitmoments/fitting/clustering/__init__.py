"""Clusters by the pairwise test on differences of rows (Theorem 4.19)."""
