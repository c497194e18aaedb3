"""Densities as clipped polynomials times a Gaussian (Theorems 4.16 and 4.22)."""
