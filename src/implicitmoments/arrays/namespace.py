"""Array types and namespaces, conversion between libraries, and validation of input arrays."""

from __future__ import annotations

from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np

from implicitmoments.arrays.array_type import Array, Namespace
from implicitmoments.notes import InputError, InputTypeError

UNKNOWN_MEMORY = 2**33  # assumed for a device that does not report it: 8 GB
_NUMPY: Any = array_api_compat.numpy


def namespace_of(*arrays: Array) -> Namespace:
    """Return the array-API namespace shared by the arrays."""
    if len(arrays) == 1 and type(arrays[0]) is np.ndarray:  # called for every block
        numpy: Namespace = _NUMPY
        return numpy
    try:
        namespace: Any = array_api_compat.array_namespace(*arrays)
    except TypeError as reason:
        kinds = sorted({type(array).__module__.split(".")[0] for array in arrays})
        raise InputTypeError(
            "libraries_mixed",
            "arrays of different libraries are mixed ({libraries}); convert them to one library",
            libraries=", ".join(kinds),
        ) from reason
    found: Namespace = namespace
    return found


def as_real_array(given: Any, name: str, ndim: int) -> Array:
    """Return ``given`` as a real floating-point array with ``ndim`` axes, in its own library.

    Lists and data frames become NumPy arrays, integers and booleans become float64; float32
    stays float32.
    """
    known = array_api_compat.is_array_api_obj(given)
    value: Array = given if known else _from_python(given, name)
    xp = namespace_of(value)
    if not _is_numeric(xp, value):
        raise InputTypeError(
            "not_numeric",
            "{name} has entries of type {dtype}, expected real numbers; encode text and "
            "categories as numbers first",
            **{"name": name, "dtype": str(value.dtype)},
        )
    if value.ndim != ndim:
        layout = "(n_samples, n_features)" if ndim == 2 else "(n_samples,)"
        hint = f"{name}.ravel() flattens it"
        if (value.ndim, ndim) == (1, 2):
            hint = f"{name}.reshape(-1, 1) for one feature, {name}.reshape(1, -1) for one row"
        raise InputError(
            "wrong_axes",
            "{name} has {ndim} axes (shape {shape}), expected {expected}: {layout}; {hint}",
            **{"name": name, "ndim": value.ndim, "shape": tuple(value.shape)},
            **{"expected": ndim, "layout": layout, "hint": hint},
        )
    if 0 in value.shape:
        raise InputError(
            "no_rows",
            "{name} is empty (shape {shape}), expected at least one row",
            **{"name": name, "shape": tuple(value.shape)},
        )
    if not xp.isdtype(value.dtype, "real floating"):
        value = xp.astype(value, xp.float64)
    return value


def check_finite(value: Array, name: str, first_row: int = 0, counted: str = "row") -> None:
    """Raise an error that names the first row with a NaN or an infinity.

    Rows are numbered from ``first_row``; ``counted`` is their name, "row" or "line" of a file.
    """
    xp = namespace_of(value)
    good = xp.isfinite(value)
    if bool(xp.all(good)):
        return
    bad_rows = (
        ~good if value.ndim == 1 else xp.any(xp.reshape(~good, (value.shape[0], -1)), axis=1)
    )
    row = int(xp.argmax(xp.astype(bad_rows, xp.int64)))
    count = int(xp.sum(xp.astype(bad_rows, xp.int64)))
    kind = "NaN" if bool(xp.any(xp.isnan(value))) else "infinity"
    raise InputError(
        "not_finite",
        "{name} contains {kind} in {n_rows:count row}, the first is {unit} {first}; drop or fill "
        "those rows first",
        **{"name": name, "kind": kind, "n_rows": count, "unit": counted, "first": first_row + row},
    )


def as_double(array: Array) -> Array:
    """Return an array in float64, on its own device."""
    xp = namespace_of(array)
    return array if array.dtype == xp.float64 else xp.astype(array, xp.float64)


def move_like(array: Array, other: Array) -> Array:
    """Return ``array`` in the library, the precision and on the device of ``other``."""
    if type(array) is np.ndarray and type(other) is np.ndarray:
        return array if array.dtype == other.dtype else array.astype(other.dtype)
    xp, device = namespace_of(other), array_api_compat.device(other)
    if type(array) is not type(other):
        array = xp.asarray(to_numpy(array), device=device)
    elif array_api_compat.device(array) != device:
        array = array_api_compat.to_device(array, device)
    return array if array.dtype == other.dtype else xp.astype(array, other.dtype)


def machine_epsilon(array: Array) -> float:
    """Return the distance from 1 to the next larger number of the precision of an array."""
    information: Any = namespace_of(array).finfo(array.dtype)
    return float(information.eps)


def eye_like(n: int, other: Array) -> Array:
    """Return the identity (n, n) in the library, the precision and on the device of ``other``."""
    xp = namespace_of(other)
    return xp.eye(n, dtype=other.dtype, device=array_api_compat.device(other))


def index_like(indices: Any, other: Array) -> Array:
    """Return integers in the library and on the device of ``other``."""
    xp = namespace_of(other)
    return xp.asarray(np.asarray(indices), device=array_api_compat.device(other))


def on_host(array: Array) -> bool:
    """Return whether an array is in main memory, where blocks should fit the cache."""
    if array_api_compat.is_torch_array(array):
        return bool(array.device.type == "cpu")
    return not array_api_compat.is_cupy_array(array)


def device_memory(array: Array) -> int:
    """Return the memory, in bytes, of the device of an array that is not on the host."""
    if array_api_compat.is_torch_array(array):
        import torch  # noqa: PLC0415 (installed: the array is one of its own)

        if array.device.type == "cuda":
            return int(torch.cuda.mem_get_info(array.device)[1])
    elif array_api_compat.is_cupy_array(array):
        return int(array.device.mem_info[1])
    return UNKNOWN_MEMORY


def to_numpy(array: Array) -> np.ndarray[Any, Any]:
    """Return a NumPy copy or view of an array of any library, from any device."""
    if hasattr(array, "get") and array_api_compat.is_cupy_array(array):
        return np.asarray(array.get())
    if array_api_compat.is_torch_array(array):
        return np.asarray(array.detach().cpu())
    if isinstance(array, np.ndarray) or not hasattr(array, "__array_namespace__"):
        return np.asarray(array)
    xp: Any = namespace_of(array)
    if array_api_compat.is_array_api_strict_namespace(xp):
        array = array_api_compat.to_device(array, xp.Device("CPU_DEVICE"))
    return np.asarray(array)


def _from_python(value: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value)
    except ValueError as reason:
        raise InputError(
            "not_rectangular",
            "{name} is not a rectangular table of numbers: {reason}",
            **{"name": name, "reason": str(reason)},
        ) from reason


def _is_numeric(xp: Namespace, value: Array) -> bool:
    try:
        return bool(xp.isdtype(value.dtype, ("bool", "integral", "real floating")))
    except TypeError:  # dtypes outside the standard, such as object and str
        return False
