"""BIC before and after the advice of notes was followed.

Fits of scikit-learn's data sets as they are, and of synthetic rows: one component too many or too
few, elongated groups, columns in other units, groups of unequal variance, squares, rings, lines.
Each note that advises another number or shape of components is followed once, and BIC of both fits
is compared. No fit may have two notes with advice, since they might contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn import datasets

import implicitmoments as im
from silence.extra import draw_lines, draw_mixture
from silence.rates import Run, print_table
from silence.shape import draw_groups

LOADED = {"iris": 3, "wine": 3, "breast_cancer": 2, "digits": 10, "diabetes": 3}


def follow(model: Any, note: Any) -> tuple[str, Any] | None:
    """Return the advice of a note, and an estimator that follows it; None if there is none."""
    k, seed = model.n_components, model.random_state
    if note.code == "not_round":
        kind = note.values["kind"]
        return f"{kind!r}", im.GaussianMixture(k, covariance_type=kind, random_state=seed)
    numbers = {"components_are_one": "fewer", "component_missing": "more"}
    if note.code not in numbers:
        return None
    number = note.values[numbers[note.code]]
    parameters = model.get_params() | {"n_components": number}
    return f"k = {number}", type(model)(**parameters)


def real(name: str) -> Any:
    """Return the rows of a data set of scikit-learn."""
    return getattr(datasets, f"load_{name}")().data


def square(seed: int) -> Any:
    """Draw rows of a square, which no Gaussian has the shape of."""
    return np.random.default_rng(seed).uniform(size=(2_000, 2))


def ring(seed: int) -> Any:
    """Draw rows of a ring."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, 2_000), 5 + 0.3 * rng.normal(size=2_000)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def settings(seed: int) -> Iterator[tuple[str, tuple[Any, ...], list[Any]]]:
    """Yield the name of data, rows and the estimators to fit."""
    g: Callable[..., Any] = im.GaussianMixture
    for name, k in LOADED.items():
        kinds = ("diag", "tied", "full") if name != "digits" else ("diag", "tied")
        fits = [im.SphericalMixture(number, random_state=seed) for number in (k, "auto")]
        fits += [g(k, covariance_type=kind, random_state=seed) for kind in kinds]
        yield name, (real(name),), fits
    for more in (-1, 1):
        X, _, k = draw_mixture(seed, "full", near=False)
        fits = [g(k + more, covariance_type=kind, random_state=seed) for kind in ("full", "diag")]
        yield f"Gaussians, k {more:+d}", (X,), fits
        X, y, _, k = draw_lines(seed)
        yield (
            f"lines, k {more:+d}",
            (X, y),
            [im.RegressionMixture(max(k + more, 1), random_state=seed)],
        )
    for kind in ("elongated, each", "unequal", "other units"):
        X, k = draw_groups(seed, kind)
        yield (
            kind,
            (X,),
            [im.SphericalMixture(number, random_state=seed) for number in (k, "auto")],
        )
    for name, rows in (("square", square(seed)), ("ring", ring(seed))):
        fits = [im.SphericalMixture(2, random_state=seed), g(2, random_state=seed)]
        yield name, (rows,), fits


def follow_all(given: tuple[int, int, int]) -> list[list[object]]:
    """Fit one setting, and follow each of its notes."""
    seed, which, at = given
    name, rows, fits = list(settings(seed))[which]
    model = fits[at].fit(*rows)
    before, found = model.bic(*rows), []
    advised = [(note.code, follow(model, note)) for note in model.notes_]
    for code, advice in advised:
        if advice is not None:
            words, other = advice
            after = other.fit(*rows).bic(*rows)
            kind = getattr(model, "covariance_type", "")
            label = f"{type(model).__name__} {kind} {model.n_components}"
            found.append([name, label, code, words, before, after, after < before])
    return found


def advice(run: Run) -> None:
    """Print BIC before and after the advice of notes was followed."""
    given = [
        (seed, which, at)
        for seed in run.seeds
        for which, (_, _, fits) in enumerate(settings(seed))
        for at in range(len(fits))
    ]
    found: list[list[list[object]]] = []

    def each_row() -> Iterator[list[object]]:
        for each in run.map(follow_all, given):
            found.append(each)
            yield from ([*row[:-1], "yes" if row[-1] else "NO"] for row in each)

    heads = ["data", "fit", "note", "advice", "BIC before", "after", "improved"]
    print_table(heads, each_row())
    rows = [row for each in found for row in each]
    sets = {row[0] for row in rows}
    print(
        f"\n{sum(bool(row[-1]) for row in rows)} of {len(rows)} improved, {len(sets)} data sets, "
    )
    print(f"fits with more than one piece of advice: {sum(len(each) > 1 for each in found)}")
