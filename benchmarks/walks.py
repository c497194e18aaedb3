"""Modules and functions of the library that run during a fit, beside their ceilings.

    python benchmarks/walks.py

Each fit is on small data, in a separate process that has already imported every module. Functions
are distinct code objects, including lambdas, generators and nested functions; all of the package
counts. The exit status is 1 if a fit is above a ceiling.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import implicitmoments as im

MAX_MODULES, MAX_FUNCTIONS = 20, 200
FITS = ("GaussianMixture", "SphericalMixture", "RegressionMixture")
PACKAGE = f"{Path(str(im.__file__)).parent}{os.sep}"


def prepare_fit(name: str) -> Callable[[], Any]:
    """Return a fit of three components that can be called."""
    model = getattr(im, name)(3, random_state=0)
    if name == "RegressionMixture":
        X, y, _ = im.datasets.make_regression_mixture(2_000, 3, 5, random_state=0)
        return lambda: model.fit(X, y)
    X, _ = im.datasets.make_spherical_mixture(
        2_000, 3, 5, radius=5.0, separation=4.0, random_state=0
    )
    return lambda: model.fit(X)


def import_all() -> None:
    """Import every module of the package, so that a fit imports none."""
    for module in pkgutil.walk_packages(im.__path__, "implicitmoments."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)


def functions_called(call: Callable[[], Any]) -> set[CodeType]:
    """Return the code of all functions of the package that run during a call, in any thread."""
    called: set[CodeType] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # bodies of modules and classes are not optimised
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
        if event == "call" and is_function and code.co_filename.startswith(PACKAGE):
            called.add(code)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return called


def walk(name: str) -> None:
    """Print the numbers of modules and functions of one fit as JSON."""
    warnings.simplefilter("ignore")
    import_all()
    called = functions_called(prepare_fit(name))
    print(json.dumps([len({code.co_filename for code in called}), len(called)]))


def main() -> int:
    """Print the table, and return whether a fit is above a ceiling."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--walk", choices=FITS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.walk:
        walk(options.walk)
        return 0
    above = False
    print("| fit | modules | functions |\n|---|---|---|")
    for name in FITS:
        command = [sys.executable, __file__, "--walk", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        n_modules, n_functions = json.loads(done.stdout)
        above |= n_modules > MAX_MODULES or n_functions > MAX_FUNCTIONS
        print(f"| `{name}(3).fit` | {n_modules} | {n_functions} |", flush=True)
    print(f"| ceiling | {MAX_MODULES} | {MAX_FUNCTIONS} |")
    return int(above)


if __name__ == "__main__":
    sys.exit(main())
