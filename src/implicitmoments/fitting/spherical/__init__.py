"""Mixtures of spherical Gaussians: start from moments, search, polish."""
