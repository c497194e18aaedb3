"""Probes of single features: a table of rows for each package, every one tried.

A probe returns a cell of docs/comparison.md and what it saw. It raises if it saw neither what it
looks for nor the refusal it expects, so that a mistake in a probe is not read as "no".
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable
from importlib.metadata import distribution
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np

from feature_probes.data import HOLES, LIGHT, X

LICENCE = ("License-Expression", "License")  # the newer field first
Cell = tuple[str, str]
Probes = dict[str, Callable[[], Cell]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
# mixtures, by what is mixed and what else they take
MIXTURE_ROWS = (
    "spherical Gaussians, one variance per component",
    "spherical Gaussians, tied variance",
    "diagonal covariances",
    "full covariances",
    "tied full covariance",
    "factor analysers",
    "other families (Poisson, gamma, …)",
    "nonparametric components",
    "features of different families",
    "linear regressions",
    "generalised linear models",
    "random effects",
    "smooth or penalised terms",
    "weights that depend on x",
    "grouped rows that share a component",
)


def tries(attempt: Callable[[], Any], refused: str = "", yes: str = "yes", no: str = "no") -> Cell:
    """Return ``yes`` if an attempt succeeds and ``no`` if its error has the words ``refused``."""
    try:
        seen = attempt()
    except Exception as error:
        words = str(error).strip().splitlines()
        if not refused or not re.search(refused, str(error)):
            raise
        return no, f"{type(error).__name__}: {words[0][:80]}"
    return yes, " ".join(str(seen).split())[:100]


def absent(names: Iterable[str], pattern: str, no: str = "no") -> Cell:
    """Return ``no`` if no name has the pattern; otherwise the names, which then need a look."""
    names = list(names)
    found = [name for name in names if re.search(pattern, name, re.IGNORECASE)]
    if found:
        return f"found {', '.join(found[:5])}", f"/{pattern}/ in {found}"
    return no, f"none of {len(names)} public names and arguments has /{pattern}/"


def present(names: Iterable[str], pattern: str, yes: str = "yes") -> Cell:
    """Return ``yes`` if some names have the pattern."""
    found = [name for name in names if re.search(pattern, name, re.IGNORECASE)]
    return (yes if found else "no"), f"/{pattern}/ in {found[:8]}"


def public_names(*modules: ModuleType) -> list[str]:
    """Return the public names of modules, their methods, and the arguments of both."""
    names = []
    for module in modules:
        for name, value in vars(module).items():
            if name.startswith("_") or not callable(value):
                continue
            names += [name, *(f"{name}({a})" for a in arguments(value))]
            if not inspect.isclass(value):
                continue
            for method in (m for m in dir(value) if not m.startswith("_")):
                made = getattr(value, method, None)
                names += [f"{name}.{method}"]
                names += [f"{name}.{method}({a})" for a in arguments(made)]
    return names


def arguments(function: Any) -> list[str]:
    """Return the names of a function's arguments; none where Python does not know them."""
    try:
        return [a for a in inspect.signature(function).parameters if a != "self"]
    except (TypeError, ValueError):
        return []


def project(name: str) -> Probes:
    """Return the probes that read what an installed distribution says of itself."""
    found = distribution(name)
    says = found.metadata
    classes = says.get_all("Classifier") or []
    state = [c.split(" - ")[-1] for c in classes if c.startswith("Development Status")]
    licences = [text for key in LICENCE for text in says.get_all(key) or []]
    commands = [e.name for e in found.entry_points if e.group == "console_scripts"]
    return {
        "version tested": lambda: (found.version, f"metadata of {name}"),
        "licence": lambda: (licences[0] if licences else "not stated", f"{licences}"),
        "stated development status": lambda: (state[0] if state else "not stated", f"{state}"),
        "first year": lambda: since(name),
        "command line": lambda: (
            f"`{commands[0]}`" if commands else "no",
            f"console scripts {commands}",
        ),
    }


def since(name: str) -> Cell:
    """Return the first year in a licence or on PyPI; ``?`` where PyPI does not answer."""
    texts = [
        file.read_text(encoding="utf-8")
        for file in distribution(name).files or []
        if file.name.startswith(("LICENSE", "COPYING")) and ".dist-info" in str(file)
    ]
    years = re.findall(r"Copyright[^\n]*?((?:19|20)\d\d)", "".join(texts), re.IGNORECASE)
    try:
        with urlopen(f"https://pypi.org/pypi/{name}/json", timeout=60) as answer:
            releases = json.load(answer)["releases"].values()
    except HTTPError:  # not there yet
        releases = []
    except OSError as error:
        return "?", str(error)
    uploaded = min((f["upload_time"][:4] for files in releases for f in files), default="never")
    return min([*years, uploaded]), f"licence {years}, first upload to PyPI {uploaded}"


def mixture_methods(fit: Callable[..., Any]) -> Probes:
    """Return the probes of a mixture with the methods of scikit-learn; ``fit`` fits rows."""
    return {
        "missing values": lambda: tries(lambda: fit(HOLES), "contains NaN"),
        "components of small weight": lambda: tries(
            lambda: float(fit(LIGHT).weights_.min().round(3)), yes="kept"
        ),
        "prediction for new rows": lambda: tries(lambda: fit().predict_proba(X[:1])),
        "density of new rows": lambda: tries(lambda: fit().score_samples(X[:1])),
        "sampling": lambda: tries(lambda: fit().sample(2)[0]),
        "criteria": lambda: tries(lambda: (fit().aic(X), fit().bic(X)), yes="AIC, BIC"),
    }
