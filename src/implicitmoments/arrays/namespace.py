"""Array types and namespaces, conversion between libraries, and validation of input arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import array_api_compat
import array_api_compat.numpy
import numpy as np
from numpy.ma import MaskedArray

from implicitmoments.notes import InputError, InputTypeError

# What is small and decided upon on the host.
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


class Array(Protocol):  # noqa: PLW1641 (arrays have no hash)
    """An array of any library that follows the array API standard."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every axis."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def dtype(self) -> Any:
        """Type of the entries."""

    @property
    def device(self) -> Any:
        """Where the entries are."""

    @property
    def T(self) -> Array:  # noqa: N802 (the standard's name)
        """The transposed matrix."""

    def __array__(self) -> np.ndarray[Any, Any]: ...
    def __getitem__(self, key: Any, /) -> Array: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __iter__(self) -> Iterator[Array]: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __neg__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    def __abs__(self) -> Array: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    def __add__(self, other: Any, /) -> Array: ...
    def __radd__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __rsub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __rmul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __rtruediv__(self, other: Any, /) -> Array: ...
    def __matmul__(self, other: Any, /) -> Array: ...
    def __rmatmul__(self, other: Any, /) -> Array: ...
    def __pow__(self, other: Any, /) -> Array: ...
    def __rpow__(self, other: Any, /) -> Array: ...
    def __mod__(self, other: Any, /) -> Array: ...
    def __floordiv__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Array: ...
    def __or__(self, other: Any, /) -> Array: ...
    def __xor__(self, other: Any, /) -> Array: ...
    def __lt__(self, other: Any, /) -> Array: ...
    def __le__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...


class Namespace(Protocol):
    """The functions of an array library; other names than these give functions of arrays."""

    linalg: Any
    bool: Any
    float32: Any
    float64: Any
    int64: Any

    def __getattr__(self, name: str, /) -> Callable[..., Array]: ...


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
    check_unmasked(given, name)
    known = array_api_compat.is_array_api_obj(given) and not isinstance(given, MaskedArray)
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


def check_unmasked(given: Any, name: str) -> None:
    """Raise if an array of ``numpy.ma`` has masked entries, which would be read as numbers."""
    if not isinstance(given, MaskedArray) or not np.ma.is_masked(given):
        return
    mask = np.ma.getmaskarray(given).reshape(len(given), -1).any(axis=1)
    raise InputError(
        "entries_masked",
        "{name} has masked entries in {n_rows:count row}, the first is row {first}; drop those "
        "rows, or fill the entries with numbers, {name}.filled(…)",
        **{"name": name, "n_rows": int(mask.sum()), "first": int(mask.argmax())},
    )


def check_finite(
    value: Array, name: str, first_row: int = 0, advice: str = "drop or fill those rows first"
) -> None:
    """Raise an error that names the first row with a NaN or an infinity, from ``first_row`` on."""
    xp = namespace_of(value)
    good = xp.isfinite(value)
    if bool(xp.all(good)):
        return
    bad = ~good if value.ndim == 1 else xp.any(xp.reshape(~good, (value.shape[0], -1)), axis=1)
    bad_rows = xp.astype(bad, xp.int64)
    raise InputError(
        "not_finite",
        "{name} contains {kind} in {n_rows:count row}, first in row {first} (counted from 0); "
        "{advice}",
        name=name,
        kind="NaN" if bool(xp.any(xp.isnan(value))) else "infinity",
        n_rows=int(xp.sum(bad_rows)),
        first=first_row + int(xp.argmax(bad_rows)),
        advice=advice,
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
        found = to_numpy(array)  # PyTorch warns of an array that cannot be written to
        array = xp.asarray(found if found.flags.writeable else found.copy(), device=device)
    elif array_api_compat.device(array) != device:
        array = array_api_compat.to_device(array, device)
    return array if array.dtype == other.dtype else xp.astype(array, other.dtype)


def machine_epsilon(array: Array) -> float:
    """Return the epsilon of the precision of an array; integers pass for double precision."""
    xp = namespace_of(array)
    real = xp.isdtype(array.dtype, "real floating")
    information: Any = xp.finfo(array.dtype if real else xp.float64)
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
    return 2**33  # 8 GB, assumed for a device that does not report it


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask array or DataFrame; Dask need not be installed.

    Examples
    --------
    >>> is_dask([[1.0, 2.0]])
    False
    """
    return bool(array_api_compat.is_dask_array(value)) or hasattr(value, "to_dask_array")


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


LARGEST = 1e150  # the square of a larger number overflows a double
# Sizes of entries, by the bits of their precision: squares, and fractions of them, neither
# underflow nor overflow.
SIZES = {64: (1e-145, LARGEST), 32: (1e-18, 1e18)}
TINY = float(np.finfo(np.float64).tiny)  # has a finite logarithm, and may be divided by


def check_squares(name: str, squares: Array | float) -> None:
    """Raise if sums of squares are not finite.

    Parameters
    ----------
    name : str
        "X" or "y".
    squares : float, or array of shape (d, d)
        Sums of products of the entries. The diagonal sums are of positive terms: they are NaN
        only if an entry is.
    """
    own = np.diagonal(np.atleast_2d(squares if isinstance(squares, float) else to_numpy(squares)))
    if np.isnan(own).any():
        raise InputError(
            "not_finite", "{name} contains NaN; drop or fill those rows first", name=name
        )
    refuse_large(name, found=bool(np.isinf(own).any()))


def refuse_large(name: str, *, found: bool, largest: float = LARGEST) -> None:
    """Raise if entries were found whose squares overflow."""
    if found:
        raise InputError(
            "entries_too_large",
            "{name} has entries above {largest:g}, whose squares overflow; rescale {name}",
            name=name,
            largest=largest,
        )


def sizes_of(array: Array) -> tuple[float, float]:
    """Return between which sizes the entries of an array have squares in its precision."""
    xp = namespace_of(array)
    if not xp.isdtype(array.dtype, "real floating"):
        return SIZES[64]
    information: Any = xp.finfo(array.dtype)
    return SIZES.get(int(information.bits), SIZES[32])


def check_not_large(name: str, array: Array) -> None:
    """Raise if an array has entries whose squares overflow."""
    xp, largest = namespace_of(array), sizes_of(array)[1]
    if 0 not in array.shape:
        ends = (float(xp.min(array)), float(xp.max(array)))
        refuse_large(name, found=max(-ends[0], ends[1]) > largest, largest=largest)
