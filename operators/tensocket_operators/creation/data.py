"""Tensors with a copy of host values."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.modes import ACTIVE, of_data
from tensocket_core.dispatch.overrides import MAX_NESTING, self_containing_error
from tensocket_core.launch.fill import from_values
from tensocket_core.launch.numbers import check_range
from tensocket_core.promotion import number_dtype, promote_types
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError, TensocketError

from ..interop.numpy import array_dtype
from . import sizes
from .base import options
from .record import dispatch_factory, is_intercepted
from .small import small_values

_CATEGORY_OF_KIND: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_SEQUENCES: Final = {list, tuple}
_PYTHON: Final = {bool, int, float, complex}
_PLAIN: Final = _SEQUENCES | _PYTHON
_SERVED: Final = {list, int, float}


def is_storage(data: Any) -> bool:
    """Whether ``data`` is a storage, typed or not."""
    return hasattr(data, "_bytes") or hasattr(data, "_untyped_storage")


def _host_values(data: Any, dtype: Any) -> tuple[np.ndarray[Any, Any], DType]:
    """Return nested lists, numbers or arrays as NumPy values, and the dtype of the tensor."""
    leaf = _first_leaf(data)
    try:
        plain = _plain(data)
    except RecursionError:
        raise self_containing_error("tensor") from None
    try:
        values = np.asarray(plain)
        if dtype is dtypes.uint64 and type(leaf) is int and values.dtype.kind == "f":
            values = np.asarray(plain, np.uint64)  # NumPy converts integers on both sides of 2 ** 63 to floats
    except OverflowError:
        raise ArgumentError("tensor", "an integer of more than 64 bits", "integers fit int64", "pass a float") from None
    except ValueError:
        raise _uneven(plain) from None
    except TypeError:
        raise ArgumentError("tensor", f"a {type(data).__name__}", "could not determine the shape of such an object",
                            "pass a list") from None
    if type(leaf) is np.ndarray and leaf.ndim and plain is not data:
        warnings.warn("Creating a tensor from a list of numpy.ndarrays is extremely slow: convert the list to one "
                      "array with numpy.array() first", UserWarning, stacklevel=4)
    if values.dtype == object and dtype is not None:
        values = _large_numbers(values, dtype)
    if values.dtype == object and type(leaf) is int and all(isinstance(x, (int, float, complex)) for x in values.flat):
        large = max((x for x in values.flat if isinstance(x, int)), key=abs)
        raise ArgumentError("tensor", f"the integer {large}", "integers fit int64", "pass a float")
    if values.dtype == object or values.dtype.kind in "USmMV":
        raise ArgumentTypeError(
            "tensor", f"values of type {type(data).__name__}", "elements are numbers", "convert them to numbers"
        )
    if dtype is not None:
        return values, dtype
    if isinstance(data, (np.ndarray, np.generic)):
        return values, array_dtype("tensor", values)
    if isinstance(data, (list, tuple)) and _typed_leaves(data):
        return values, _common_type(data)
    if values.dtype.kind == "u":  # Python integers beyond int64
        raise ArgumentError(
            "tensor", f"the integer {values.max()}", "integers fit int64", "pass a float, or dtype=tensocket.uint64"
        )
    return values, number_dtype(2 if values.size == 0 else _CATEGORY_OF_KIND[values.dtype.kind])


def _uneven(data: Any) -> TensocketError:
    """Return the error for nested sequences that do not form an array; it names the first part that differs."""
    sizes: list[int] = []
    first = data
    while (count := _length(first)) is not None:
        sizes.append(count)
        if not count:
            break
        first = first[0]
    return _misfit(data, tuple(sizes)) or ShapeError(
        "tensor", "nested lists of different lengths", "rows have equal lengths", "pad the shorter rows")


def _misfit(data: Any, sizes: tuple[int, ...]) -> TensocketError | None:
    """Return the error for the first part of nested sequences with a different length; None if all lengths match."""
    count = _length(data)
    if not sizes:
        return None if count is None else ArgumentTypeError(
            "tensor", f"a {type(data).__name__} of length {count} beside numbers", "elements beside numbers are "
            "numbers", "give all elements the same nesting")
    if count is None:
        return ArgumentTypeError("tensor", f"a {type(data).__name__} beside sequences", "not a sequence, as the first "
                                 "element of its list is", "give all elements the same nesting")
    if count != sizes[0]:
        return ShapeError("tensor", f"nested lists of different lengths: expected sequence of length {sizes[0]}, got "
                          f"{count}", "rows have equal lengths", "pad the shorter rows")
    return next((error for x in data if (error := _misfit(x, sizes[1:])) is not None), None)


def _length(data: Any) -> int | None:
    """Return the length of a sequence; None for numbers, strings and everything else."""
    if isinstance(data, np.ndarray):
        return len(data) if data.ndim else None
    kind = type(data)
    if isinstance(data, (str, bytes, dict)) or not (hasattr(kind, "__len__") and hasattr(kind, "__getitem__")):
        return None
    return len(data)


def _first_leaf(data: Any) -> Any:
    """Return the first number, array or tensor of nested sequences, which tells whether they are plain Python.

    Raises:
        ArgumentTypeError: The sequences contain themselves, so none exists.
    """
    for _ in range(MAX_NESTING):
        if not isinstance(data, (list, tuple)):
            return data
        if not data:
            return None
        data = data[0]
    raise self_containing_error("tensor")


def _large_numbers(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Convert numbers with integers beyond 64 bits for a dtype that holds or rounds them; return others unchanged."""
    if dtype.kind in ("int", "uint") or not all(isinstance(x, (int, float, complex)) for x in values.flat):
        return values
    kind = {"bool": np.bool_, "complex": np.complex128}.get(dtype.kind, np.float64)
    return values.astype(kind)


def _plain(data: Any) -> Any:
    """Replace tensors with one element, of any shape, in nested sequences by their numbers.

    Raises:
        ShapeError: A tensor has more elements, or none.
    """
    if isinstance(data, (list, tuple)):
        return [_plain(x) for x in data]
    if type(data) in _PYTHON:
        return data
    if not hasattr(data, "_key"):
        return _bounded(data)
    if data.numel() != 1:
        raise ShapeError("tensor", f"a tensor of shape {list(data.shape)} in a list", "tensors in a list have one "
                         "element and count as a number", "use stack or cat")
    return data.item()


def _bounded(data: Any) -> Any:
    """Return an object unchanged after a check of the depth of its first elements.

    Raises:
        ArgumentError: The nesting never ends; NumPy would visit all elements of 64 levels.
    """
    first = data
    for _ in range(MAX_NESTING):
        kind = type(first)
        if issubclass(kind, (np.ndarray, np.generic, str, bytes)) or hasattr(kind, "__array__") or hasattr(
                kind, "_key") or not (hasattr(kind, "__getitem__") and hasattr(kind, "__len__")):
            return data
        try:
            first = first[0] if len(first) else None
        except Exception:  # not a sequence; NumPy reports its own error
            return data
    raise ArgumentError("tensor", f"a {type(data).__name__}", f"too many dimensions {type(data).__name__!r}",
                        "pass nested sequences that end in numbers")


def _typed_leaves(data: Any) -> bool:
    """Whether an element of nested sequences has a dtype of its own, as tensors and NumPy's numbers have."""
    kinds = set(map(type, data))
    if not kinds.isdisjoint(_SEQUENCES):
        return any(_typed_leaves(x) if isinstance(x, (list, tuple)) else type(x) not in _PYTHON for x in data)
    return not kinds <= _PYTHON


def _common_type(data: Any) -> DType:
    """Return the dtype to which all elements of nested sequences promote."""
    found: DType | None = None
    for x in data:
        if isinstance(x, (list, tuple)):
            kind = _common_type(x) if x else None
        elif hasattr(x, "_key"):
            kind = x.dtype
        elif isinstance(x, (np.ndarray, np.generic)):
            kind = array_dtype("tensor", np.asarray(x))
        else:
            kind = number_dtype(_CATEGORY_OF_KIND.get(np.asarray(x).dtype.kind, 1))
        found = kind if found is None or kind is None else promote_types(found, kind)
    return number_dtype(2) if found is None else found


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Return a tensor with a copy of ``data``: numbers, nested lists, a NumPy array or a tensor.

    >>> tensor([[1, 2], [3, 4]]).sum().item()
    10

    Raises:
        ArgumentTypeError: The elements are not numbers.
        ShapeError: Nested lists have different lengths.
    """
    if not (ACTIVE or requires_grad or rest) and type(data) in _SERVED:
        small = small_values(data, dtype, device)
        if small is not None:
            return small
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(tensor, data, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    if hasattr(data, "_key"):
        result = data.detach().to(
            data.device if device is None else device, data.dtype if dtype is None else dtype, copy=True
        )
        return result.requires_grad_(requires_grad) if requires_grad else result
    if type(data) not in _PLAIN and is_storage(data):
        chosen, state = options("tensor", dtype, device)
        return sizes.empty(0, dtype=chosen, device=state.device, requires_grad=requires_grad).set_(data)
    values, chosen = _host_values(data, dtype)
    chosen, state = options("tensor", chosen, device)
    if values.dtype.kind == "c" and not chosen.is_complex and chosen is not dtypes.bool_ and not (
            isinstance(data, np.ndarray)):
        raise ArgumentTypeError("tensor", f"complex numbers for {chosen.name}", "real dtypes hold real numbers",
                                "pass a complex dtype, or the real parts")
    if dtype is not None and chosen.category < 2 and values.size and not isinstance(data, np.ndarray) and (
            values.dtype.kind in "iuf"):
        check_range("tensor", values.max(), chosen)
        check_range("tensor", values.min(), chosen)
    result = of_data(from_values(values, chosen, state))
    if requires_grad:
        result.requires_grad = True
    return result
