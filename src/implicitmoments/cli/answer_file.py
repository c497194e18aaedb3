"""Answers of a fitted model to the rows of a file, block by block, and rows that it draws."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from implicitmoments.arrays import to_numpy
from implicitmoments.cli.align_columns import open_for_model
from implicitmoments.cli.console import say
from implicitmoments.cli.open_table import blocks_of, columns_for, load_model
from implicitmoments.cli.options import Columns
from implicitmoments.cli.progress import told_passes
from implicitmoments.cli.scale import log_volume, names_kept, scale_of
from implicitmoments.cli.summary import feature_names
from implicitmoments.cli.write_table import KINDS, Piece, check_output, open_output, plain
from implicitmoments.regression import RegressionMixture
from implicitmoments.rows import Block

__all__ = ["predict_file", "sample_file", "score_file"]

DRAWN_ROWS = 65_536

Asked = Callable[[Block], Piece]


def predict_file(
    model: Path,
    file: str,
    columns: Columns,
    output: Path | None,
    *,
    proba: bool,
    component: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the component of each row, or the mean of its label, or the chances."""
    _check_written(output, file, model)
    if columns.along and output is not None and output.suffix.lower() == ".npy":
        raise ValueError(f"{output} would hold numbers alone, so --keep does not go with it")
    fitted = load_model(model)
    chosen = columns_for(fitted, file, columns, labelled=proba or component)
    asked = _asked_chances(fitted) if proba else _asked_labels(fitted)
    if component:
        asked = _with_component(fitted, asked)
    _answer(fitted, file, chosen, asked, output, as_json=as_json, quiet=quiet)


def score_file(
    model: Path,
    file: str,
    columns: Columns,
    output: Path | None,
    *,
    rows: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print how well a model describes rows, or write the log density of each."""
    if output is not None and not rows:
        raise ValueError("-o is for --rows; without it the score is printed")
    if columns.drop_missing and rows:
        raise ValueError("--rows answers for every row, so --drop-missing does not go with it")
    _check_written(output, file, model)
    fitted = load_model(model)
    chosen = columns_for(fitted, file, columns, labelled=True)
    if rows:
        asked = _asked_densities(fitted)
        _answer(fitted, file, chosen, asked, output, as_json=as_json, quiet=quiet)
        return
    _check_can(fitted, "score", "it has no density; predict gives its clusters")
    with open_for_model(fitted, file, chosen, quiet=quiet) as (source, _):
        found, n_rows = float(fitted.score(source)) - log_volume(fitted), source.n_rows
    told = {"score": found, "rows": n_rows}
    say(json.dumps(plain(told)) if as_json else repr(found))


def sample_file(
    model: Path, number: int, output: Path | None, seed: int | None, *, as_json: bool, quiet: bool
) -> None:
    """Write rows drawn from a model."""
    _check_written(output, model)
    fitted = load_model(model)
    _check_can(fitted, "sample", "it has no law of the features")
    pieces = [min(DRAWN_ROWS, number - i) for i in range(0, number, DRAWN_ROWS)]
    seeds = np.random.SeedSequence(seed).generate_state(len(pieces))
    with (
        told_passes(quiet or output is None) as tell,
        open_output(output, number, as_json=as_json) as sink,
    ):
        for i, (n, state) in enumerate(zip(pieces, seeds, strict=True)):
            fitted.random_state = int(state)
            sink.write(_drawn(fitted, n))
            if tell is not None:
                tell("drawing", i * DRAWN_ROWS + n, number)
    _tell_output(output, number, as_json=as_json)


def _asked_labels(model: Any) -> Asked:
    _check_can(model, "predict", "it is a density; score --rows gives it at each row")
    name = "component" if hasattr(model, "means_") else "prediction"
    twin = _nameless(model)
    return lambda block: {name: to_numpy(twin.predict(block["x"]))}


def _asked_chances(model: Any) -> Asked:
    _check_can(model, "predict_proba", "leave --proba out")
    twin = _nameless(model)

    def chances(block: Block) -> Piece:
        labels = [block["y"]] if "y" in block else []
        found = to_numpy(twin.predict_proba(block["x"], *labels))
        return {f"p{i}": found[:, i] for i in range(found.shape[1])}

    return chances


def _with_component(model: Any, asked: Asked) -> Asked:
    """Tell the likeliest line given features and label too."""
    if not isinstance(model, RegressionMixture):
        raise ValueError(
            "--component is for regressions, of which a line is likely by the label; of mixtures "
            "and clusters predict tells it anyway"
        )
    twin = _nameless(model)

    def both(block: Block) -> Piece:
        chances = to_numpy(twin.predict_proba(block["x"], block["y"]))
        return {**asked(block), "component": chances.argmax(axis=1)}

    return both


def _asked_densities(model: Any) -> Asked:
    _check_can(model, "score_samples", "it has no density; predict answers for each row")
    twin, volume = _nameless(model), log_volume(model)

    def densities(block: Block) -> Piece:
        labels = [block["y"]] if "y" in block else []
        return {"log_density": to_numpy(twin.score_samples(block["x"], *labels)) - volume}

    return densities


def _answer(
    model: Any,
    file: str,
    chosen: Columns,
    asked: Asked,
    output: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Ask about a file block by block, and write as answers come."""
    with (
        told_passes(quiet or output is None) as tell,
        open_for_model(model, file, chosen, quiet=quiet) as (source, kept),
    ):
        n_rows, done = source.n_rows, 0
        with open_output(output, n_rows, as_json=as_json) as sink:
            for block in blocks_of(source):
                n = len(block["x"])
                sink.write(_beside({} if kept is None else kept.take(n), asked(block)))
                done += n
                if tell is not None:
                    tell("asking", done, n_rows)
    _tell_output(output, n_rows, as_json=as_json)


def _beside(kept: Piece, found: Piece) -> Piece:
    """Put answers beside columns of the file; where a name is taken they have another."""
    return {**kept, **{n if n not in kept else f"{n}_found": v for n, v in found.items()}}


def _drawn(model: Any, n: int) -> Piece:
    drawn = model.sample(n)
    parts = [to_numpy(part) for part in (drawn if isinstance(drawn, tuple) else (drawn,))]
    scale = scale_of(model)
    x = parts[0] if scale is None else parts[0] * scale.astype(parts[0].dtype)
    piece = dict(zip(feature_names(model), x.T, strict=True))
    kept = names_kept(model).get("target", "y")
    for part in parts[1:]:
        whole = np.issubdtype(part.dtype, np.integer)
        name = "component" if whole else kept if not kept.isdecimal() else "y"
        piece[name if name not in piece else f"{name}_drawn"] = part
    return piece


def _nameless(model: Any) -> Any:
    """Return a model that takes plain arrays: columns were found by their names before."""
    twin = copy.copy(model)
    if hasattr(twin, "feature_names_in_"):
        del twin.feature_names_in_
    return twin


def _check_can(model: Any, method: str, instead: str) -> None:
    if not hasattr(model, method):
        raise ValueError(
            f"a model of {type(model).__name__} does not {method.replace('_', ' ')}; {instead}"
        )


def _check_written(output: Path | None, *read: str | Path) -> None:
    if output is not None:
        check_output(output, *read, kinds=KINDS)


def _tell_output(output: Path | None, n_rows: int, *, as_json: bool) -> None:
    if output is not None and as_json:
        say(json.dumps({"rows": n_rows, "output": str(output)}))
