"""Order of the gallery: mixtures, regressions, activations, practice, moments."""

from __future__ import annotations

from pathlib import Path

ORDER = [
    "more_components_than_features",
    "ellipses",
    "choosing_k",
    "digits_mixture",
    "clustering_beside_kmeans",
    "density_by_rejection",
    "regressions_beside_em",
    "tone_perception",
    "density_of_regressions",
    "relu_network",
    "sums_of_cosines",
    "grid_search",
    "fit_a_file",
    "start_scikit_learn",
    "start_hidden_markov",
    "start_cuvs",
    "first_moments",
    "noise_floor",
    "order_twelve",
    "write_your_own_estimator",
]


class ByTopic:
    """Sort key of sphinx-gallery; unlisted scripts come last, by name."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return the position of a script."""
        name = Path(filename).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    def __repr__(self) -> str:
        return "<ByTopic>"
