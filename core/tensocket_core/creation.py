"""Factories: tensors from sizes, values and host data."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError, UndefinedDtype
from tensocket_plugins.ir.nodes import cast as expr_cast
from tensocket_plugins.ir.schedule import Strategy

from . import tensors
from .deterministic import SETTING
from .device import DeviceEntry, default_entry, open_entry
from .dispatch.factories import seen, watched
from .dispatch.keys import DIM0, WRAPPER, dtype_bit
from .dispatch.modes import ACTIVE, STATE
from .dispatch.operator import check_dtype
from .execute.convert import to_dtype
from .execute.copying import from_host
from .execute.generated import as_number, run_generated
from .execute.layout import empty_preserved, empty_strided_array, format_strides
from .execute.nests import Operand, pointwise_nest
from .execute.primitive import primitive
from .execute.programs import index_dtype, launch
from .formats import check_format, preserve_format
from .interop.numpy import array_dtype
from .promotion import FLOAT8, get_default_dtype, number_dtype

_CATEGORY: Final[dict[type, int]] = {bool: 0, int: 1, float: 2, complex: 3}
_CATEGORY_OF_KIND: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def shape_of(operator: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as ints or as one sequence.

    Raises:
        ShapeError: A size is negative, or there are more elements than any device can hold.
        ArgumentTypeError: A size is not an integer.
    """
    if not size:
        raise ArgumentTypeError(operator, "no size", "a size is given", "pass () for a zero-dimensional tensor")
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    if not all(hasattr(n, "__index__") and n is not True and n is not False for n in size):
        raise ArgumentTypeError(operator, f"size {size!r}", "sizes are integers", "pass integers")
    shape = tuple(n.__index__() for n in size)
    if any(n < 0 for n in shape) or math.prod(n for n in shape if n) >= 1 << 62:
        raise ShapeError(operator, f"size {list(shape)}", "sizes are not negative and their product fits 62 bits",
                         "pass smaller, non-negative sizes")
    return shape


def finish(array: Any, dtype: DType, entry: DeviceEntry, requires_grad: bool) -> Any:
    """A new leaf on a handle."""
    tensor = tensors.wrap(array, entry.key | dtype_bit(dtype))
    if ACTIVE:
        for transform in STATE.transforms:
            tensor = transform.created(tensor)
        if STATE.inference is not None:
            STATE.inference(tensor)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def _made_from(input: Any, tensor: Any) -> Any:
    """A new tensor made after ``input``: of a transform that runs on many examples, with one copy for each."""
    stack = STATE.transforms
    while input._level and stack[input._level - 1:input._level] != (input._transform,):
        input = input._value  # of a transform that has ended
    if not input._level:
        return tensor
    result = input._like(tensor._real if tensor._level else tensor)
    for transform in stack[input._level:]:
        result = transform.created(result)
    return result


def options(operator: str, dtype: Any, device: Any, default: DType | None = None) -> tuple[DType, DeviceEntry]:
    """The dtype and device of a factory call, checked."""
    chosen = (default or get_default_dtype()) if dtype is None else dtype
    if not isinstance(chosen, DType):
        raise ArgumentTypeError(
            operator, f"dtype {dtype!r}", "dtype is a tensocket dtype", "pass for example tensocket.float32"
        )
    entry = default_entry() if device is None else open_entry(device)
    check_dtype(operator, entry, chosen)
    return chosen, entry


def check_range(operator: str, value: Any, dtype: DType) -> None:
    """Refuse what is no number, and numbers that an integer dtype cannot hold; unsigned ones wrap negatives.

    Raises:
        ArgumentTypeError: It is no number.
        ArgumentError: It is out of range.
    """
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise ArgumentTypeError(
            operator, f"a value of type {type(value).__name__}", "elements are numbers", "pass a Python number"
        )
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, complex) and dtype.kind not in ("complex", "bool"):
        if value.imag:
            raise ArgumentError(operator, f"{value!r} for {dtype.name}", "real numbers have no imaginary part",
                                "use a complex dtype")
        value = value.real
    if dtype.kind in ("int", "uint"):
        limit = (1 << (8 * dtype.itemsize - (dtype.kind == "int"))) - 1
        if not -limit - (dtype.kind == "int") <= value <= limit:
            raise ArgumentError(
                operator, f"{value!r} for {dtype.name}", f"the dtype holds numbers up to {limit}", "use a wider dtype"
            )


def fill_array(operator: str, entry: DeviceEntry, out: Any, value: Any, dtype: DType) -> None:
    """Write one value everywhere."""
    check_range(operator, value, dtype)
    if 0 in out.shape:
        return
    runtime = entry.runtime
    if runtime.profile.host_resident:
        out[...] = to_dtype(np.asarray(value), dtype)
    elif runtime.target is not None:
        run_generated(entry, ("fill", dtype), lambda x: x, [(value, dtype)],
                      out.shape, [(out, dtype)])
    else:
        primitive("fill", entry, "fill", dtype)([out], [], (as_number(value, dtype),), entry.stream)


def filled(
    operator: str, shape: tuple[int, ...], value: Any, dtype: DType, entry: DeviceEntry, requires_grad: bool = False
) -> Any:
    """A tensor with one value everywhere."""
    out = entry.runtime.empty(shape, dtype, entry.stream)
    fill_array(operator, entry, out, value, dtype)
    return finish(out, dtype, entry, requires_grad)


def uninitialized(shape: tuple[int, ...], dtype: DType, entry: DeviceEntry) -> Any:
    """A new array; while results must be reproducible, filled with what shows that nobody wrote it."""
    out = entry.runtime.empty(shape, dtype, entry.stream)
    mark_uninitialized(out, dtype, entry)
    return out


def mark_uninitialized(out: Any, dtype: DType, entry: DeviceEntry) -> None:
    """While results must be reproducible, fill a new array with what shows that nobody wrote it."""
    if SETTING.filling:
        largest = (1 << (8 * dtype.itemsize - (dtype.kind == "int"))) - 1
        value = {"bool": True, "float": math.nan, "complex": complex(math.nan, 0)}.get(dtype.kind, largest)
        fill_array("empty", entry, out, value, dtype)


#: Elements up to which NumPy makes a new array as fast as anything.
_SMALL: Final = 4096


def _small(size: tuple[Any, ...], dtype: Any, device: Any, value: int) -> Any:
    """A small tensor of one value on a host-resident device; None where the long way is needed, also for errors."""
    entry = default_entry() if device is None else open_entry(device)
    chosen = get_default_dtype() if dtype is None else dtype
    try:
        form = entry.factories[chosen]
    except KeyError:
        form = _factory_form(entry, chosen)
    if form is _NO_FORM or not size:
        return None
    if len(size) == 1 and type(size[0]) is not int:
        size = size[0]
        if not isinstance(size, (tuple, list)):
            return None
    numpy_dtype, key = form
    try:
        array = np.empty(size, numpy_dtype) if value else np.zeros(size, numpy_dtype)
    except (TypeError, ValueError, MemoryError):
        return None
    if array.size > _SMALL:
        return None
    if value:
        array.fill(value)
    t = _new(tensors.Tensor)
    t._array = array
    t._key = key if array.shape else key | DIM0
    t._grad = t._grad_fn = t._version_counter = t._base = None
    return t


_new = object.__new__
_NO_FORM: Final = (None, 0)


def _factory_form(entry: DeviceEntry, dtype: Any) -> tuple[Any, int]:
    """NumPy's dtype and the key of new tensors; ``_NO_FORM`` for devices and dtypes that NumPy does not serve."""
    form: tuple[Any, int] = _NO_FORM
    if isinstance(dtype, DType) and entry.holds_data and entry.runtime.profile.host_resident and dtype.native:
        if dtype.name in entry.runtime.profile.dtypes:
            form = (dtype.numpy, entry.key | dtype_bit(dtype))
        entry.factories[dtype] = form
    return form


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
          **rest: Any) -> Any:
    """An uninitialised tensor."""
    if rest or (ACTIVE and watched()):
        return seen(empty, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    chosen, entry = options("empty", dtype, device)
    shape = shape_of("empty", size)
    if memory_format is None:
        return finish(uninitialized(shape, chosen, entry), chosen, entry, requires_grad)
    format = check_format("empty", memory_format)
    if format is None or format is preserve_format:
        raise ArgumentError("empty", "preserve_format", "there is no tensor whose format could be kept",
                            "pass another format")
    out = empty_strided_array(entry, shape, chosen, format_strides("empty", shape, format))
    mark_uninitialized(out, chosen, entry)
    return finish(out, chosen, entry, requires_grad)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Zeros."""
    if not (ACTIVE or requires_grad or rest):
        small = _small(size, dtype, device, 0)
        if small is not None:
            return small
    if rest or (ACTIVE and watched()):
        return seen(zeros, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    chosen, entry = options("zeros", dtype, device)
    return filled("zeros", shape_of("zeros", size), 0, chosen, entry, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Ones."""
    if not (ACTIVE or requires_grad or rest):
        small = _small(size, dtype, device, 1)
        if small is not None:
            return small
    if rest or (ACTIVE and watched()):
        return seen(ones, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    chosen, entry = options("ones", dtype, device)
    return filled("ones", shape_of("ones", size), 1, chosen, entry, requires_grad)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
         **rest: Any) -> Any:
    """One value everywhere; the dtype is the value's unless given."""
    if rest or (ACTIVE and watched()):
        return seen(full, size, fill_value, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    value = fill_value.item() if hasattr(fill_value, "_key") else fill_value
    if type(value) not in _CATEGORY:
        raise ArgumentTypeError("full", f"fill_value {value!r}", "the value is a Python number", "pass a number")
    if not isinstance(size, (tuple, list)):
        raise ArgumentTypeError("full", f"size {size!r}", "size is a tuple of integers", "pass for example (3,)")
    chosen, entry = options("full", dtype, device, number_dtype(_CATEGORY[type(value)]))
    return filled("full", shape_of("full", (size,)), value, chosen, entry, requires_grad)


def _like(input: Any, dtype: Any, device: Any) -> tuple[tuple[int, ...], DType, DeviceEntry]:
    chosen, entry = options("like", input.dtype if dtype is None else dtype, input.device if device is None else device)
    return input._array.shape, chosen, entry


def _array_like(input: Any, dtype: DType, entry: DeviceEntry, memory_format: Any) -> Any:
    """A new array in the order of another tensor's dimensions in memory, or in a memory format."""
    format = check_format("like", memory_format)
    if format is None or format is preserve_format:
        return empty_preserved(entry, input._array, dtype)
    shape = input._array.shape
    return empty_strided_array(entry, shape, dtype, format_strides("like", shape, format))


def empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               memory_format: Any = None, **rest: Any) -> Any:
    """An uninitialised tensor of another's shape, strides, dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(empty_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    _, chosen, entry = _like(input, dtype, device)
    out = _array_like(input, chosen, entry, memory_format)
    mark_uninitialized(out, chosen, entry)
    return _made_from(input, finish(out, chosen, entry, requires_grad))


def _filled_like(operator: str, input: Any, value: Any, dtype: Any, device: Any, requires_grad: bool,
                 memory_format: Any) -> Any:
    _, chosen, entry = _like(input, dtype, device)
    out = _array_like(input, chosen, entry, memory_format)
    fill_array(operator, entry, out, value, chosen)
    return _made_from(input, finish(out, chosen, entry, requires_grad))


def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               memory_format: Any = None, **rest: Any) -> Any:
    """Zeros of another tensor's shape, strides, dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(zeros_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    return _filled_like("zeros_like", input, 0, dtype, device, requires_grad, memory_format)


def ones_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None, **rest: Any) -> Any:
    """Ones of another tensor's shape, strides, dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(ones_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    return _filled_like("ones_like", input, 1, dtype, device, requires_grad, memory_format)


def full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None, **rest: Any) -> Any:
    """One value everywhere, with another tensor's shape, strides, dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(full_like, input, fill_value, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    value = fill_value.item() if hasattr(fill_value, "_key") else fill_value
    return _filled_like("full_like", input, value, dtype, device, requires_grad, memory_format)


def arange(start: Any = None, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
           requires_grad: bool = False, **rest: Any) -> Any:
    """start, start + step, ... up to but without end; int64 for integers. With one number, that is the end.

    Raises:
        ArgumentError: step is zero, or leads away from end, or a number is not finite.
        ArgumentTypeError: Nothing is given.
    """
    if rest or (ACTIVE and watched()):
        return seen(arange, start, end, step, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    if start is None and end is None:
        raise ArgumentTypeError("arange", "no end", "the end is given", "pass arange(end) or arange(start, end)")
    bounds: tuple[Any, ...] = (0, start, step) if end is None else (0 if start is None else start, end, step)
    first, last, step = (x.item() if hasattr(x, "_key") else x for x in bounds)
    if not all(map(math.isfinite, (first, last, step))) or step == 0 or (last - first) * step < 0:
        raise ArgumentError(
            "arange",
            f"start={first}, end={last}, step={step}",
            "numbers are finite, and step is not zero and leads from start to end",
            "change the sign of step",
        )
    whole = all(isinstance(x, int) for x in (first, last, step))
    chosen, entry = options("arange", dtype, device, dtypes.int64 if whole else None)
    if chosen.is_complex or chosen in FLOAT8:
        raise UndefinedDtype("arange", f"dtype {chosen.name}", "ranges are of integers and real floats",
                             "convert with .to(dtype)")
    if chosen.category < 2:
        first, last, step, whole = int(first), int(last), int(step), True
    count = max(0, -((first - last) // step)) if whole else max(0, math.ceil((last - first) / step))
    out = entry.runtime.empty((count,), chosen, entry.stream)
    if count:
        _fill_range(entry, out, first, step, chosen)
    return finish(out, chosen, entry, requires_grad)


def _fill_range(entry: DeviceEntry, out: Any, first: Any, step: Any, dtype: DType) -> None:
    runtime = entry.runtime
    if runtime.profile.host_resident:
        wide = np.float64 if dtype.kind == "float" else np.int64
        out[...] = to_dtype(np.arange(out.size, dtype=wide) * wide(step) + wide(first), dtype)
    elif runtime.target is not None:
        index = index_dtype(entry, (out.size,))
        number = Operand("number", dtype)
        launch(
            entry,
            ("arange", dtype, index),
            lambda: pointwise_nest(
                "arange",
                lambda i, a, b: a + expr_cast(i, a.dtype) * b,
                [number, number],
                [Operand("flat", dtype)],
                1,
                index,
                position=True,
            ),
            Strategy.SERIAL,
            [out],
            [out.size, as_number(first, dtype), as_number(step, dtype)],
        )
    else:
        primitive("arange", entry, "arange", dtype)(
            [out], [], (as_number(first, dtype), as_number(step, dtype)), entry.stream
        )


def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **rest: Any) -> Any:
    """``steps`` evenly spaced values from start to end, both included."""
    if rest or (ACTIVE and watched()):
        return seen(linspace, start, end, steps, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    start, end = (x.item() if hasattr(x, "_key") else x for x in (start, end))
    either = isinstance(start, complex) or isinstance(end, complex)
    chosen, entry = options("linspace", dtype, device, number_dtype(3) if either else None)
    if either and not chosen.is_complex:
        raise ArgumentError("linspace", f"complex bounds for {chosen.name}", "real numbers have no imaginary part",
                            "use a complex dtype")
    if steps < 0:
        raise ArgumentError(
            "linspace", f"steps={steps}", "the number of steps is not negative", "pass a non-negative number"
        )
    values = to_dtype(np.linspace(start, end, steps), chosen)
    return finish(from_host(entry, values, chosen), chosen, entry, requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        **rest: Any) -> Any:
    """Ones on the diagonal, zeros elsewhere; [n, m] (m defaults to n)."""
    if rest or (ACTIVE and watched()):
        return seen(eye, n, m, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    chosen, entry = options("eye", dtype, device)
    rows, columns = shape_of("eye", (n, n if m is None else m))
    result = (arange(rows, device=entry.device).reshape((rows, 1)) == arange(columns, device=entry.device)).to(chosen)
    if requires_grad:
        result.requires_grad = True
    return result


# ------------------------------------------------------------------------------------------------------ host data


def from_values(values: np.ndarray[Any, Any], dtype: DType, entry: DeviceEntry) -> Any:
    """A tensor with a copy of host values, converted to ``dtype``."""
    return tensors.wrap(from_host(entry, to_dtype(values, dtype), dtype), entry.key | dtype_bit(dtype))


def _host_values(data: Any, dtype: Any) -> tuple[np.ndarray[Any, Any], DType]:
    """Nested lists, numbers or arrays as NumPy values, and the dtype they get."""
    leaf = _first_leaf(data)
    if isinstance(data, (list, tuple)):
        data = _plain(data)
    try:
        values = np.asarray(data)
        if dtype is dtypes.uint64 and type(leaf) is int and values.dtype.kind == "f":
            values = np.asarray(data, np.uint64)  # NumPy takes integers on both sides of 2 ** 63 for floats
    except OverflowError:
        raise ArgumentError("tensor", "an integer of more than 64 bits", "integers fit int64", "pass a float") from None
    except ValueError:
        raise ShapeError(
            "tensor", "nested lists of different lengths", "rows have equal lengths", "pad the shorter rows"
        ) from None
    if values.dtype == object and type(leaf) is int:
        raise ArgumentError("tensor", f"the integer {leaf}", "integers fit int64", "pass a float")
    if values.dtype == object or values.dtype.kind in "USmMV":
        raise ArgumentTypeError(
            "tensor", f"values of type {type(data).__name__}", "elements are numbers", "convert them to numbers"
        )
    if dtype is not None:
        return values, dtype
    if isinstance(leaf, (np.ndarray, np.generic)):
        return values, array_dtype("tensor", values)
    if hasattr(leaf, "_key"):
        return values, leaf.dtype if values.dtype.kind == leaf.dtype.kind[0] else number_dtype(
            _CATEGORY_OF_KIND[values.dtype.kind]
        )
    if values.dtype.kind == "u":  # Python integers beyond int64
        raise ArgumentError(
            "tensor", f"the integer {values.max()}", "integers fit int64", "pass a float, or dtype=tensocket.uint64"
        )
    return values, number_dtype(2 if values.size == 0 else _CATEGORY_OF_KIND[values.dtype.kind])


def _first_leaf(data: Any) -> Any:
    """The first number, array or tensor of nested sequences: it tells whether these are plain Python."""
    while isinstance(data, (list, tuple)):
        if not data:
            return None
        data = data[0]
    return data


def _plain(data: Any) -> Any:
    """Nested sequences with tensors replaced by host values."""
    if isinstance(data, (list, tuple)):
        return [_plain(x) for x in data]
    return data.tolist() if hasattr(data, "_key") else data


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """A tensor with a copy of ``data``: numbers, nested lists, a NumPy array or a tensor.

    >>> tensor([[1, 2], [3, 4]]).sum().item()
    10

    Raises:
        ArgumentTypeError: The elements are not numbers.
        ShapeError: Nested lists have different lengths.
    """
    if rest or (ACTIVE and watched()):
        return seen(tensor, data, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    if hasattr(data, "_key"):
        result = data.detach().to(
            data.device if device is None else device, data.dtype if dtype is None else dtype, copy=True
        )
        return result.requires_grad_(requires_grad) if requires_grad else result
    values, chosen = _host_values(data, dtype)
    chosen, entry = options("tensor", chosen, device)
    if values.dtype.kind == "c" and not chosen.is_complex and not isinstance(data, np.ndarray):
        raise ArgumentTypeError("tensor", f"complex numbers for {chosen.name}", "real dtypes hold real numbers",
                                "pass a complex dtype, or the real parts")
    if dtype is not None and values.size and not isinstance(data, np.ndarray) and values.dtype.kind in "iuf":
        check_range("tensor", values.max(), chosen)
        check_range("tensor", values.min(), chosen)
    result = from_values(values, chosen, entry)
    if requires_grad:
        result.requires_grad = True
    return result


# ------------------------------------------------------------------------------------------------- tensor methods


def new_zeros(input: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              **rest: Any) -> Any:
    """Zeros of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(new_zeros, input, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    _, chosen, entry = _like(input, dtype, device)
    return _made_from(input, filled("new_zeros", shape_of("new_zeros", size), 0, chosen, entry, requires_grad))


def new_ones(input: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             **rest: Any) -> Any:
    """Ones of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(new_ones, input, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    if not (ACTIVE or requires_grad or dtype or device or input._key & WRAPPER):
        small = _small(size, input.dtype, input.device, 1)
        if small is not None:
            return small
    _, chosen, entry = _like(input, dtype, device)
    return _made_from(input, filled("new_ones", shape_of("new_ones", size), 1, chosen, entry, requires_grad))


def new_empty(input: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              **rest: Any) -> Any:
    """An uninitialised tensor of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(new_empty, input, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    _, chosen, entry = _like(input, dtype, device)
    array = uninitialized(shape_of("new_empty", size), chosen, entry)
    return _made_from(input, finish(array, chosen, entry, requires_grad))


def new_full(input: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **rest: Any) -> Any:
    """One value everywhere, of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(new_full, input, size, fill_value, rest=rest, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    _, chosen, entry = _like(input, dtype, device)
    made = filled("new_full", shape_of("new_full", (size,)), fill_value, chosen, entry, requires_grad)
    return _made_from(input, made)


def new_tensor(input: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               **rest: Any) -> Any:
    """A tensor with a copy of data, of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and watched(input)):
        return seen(new_tensor, input, data, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    return tensor(
        data,
        dtype=input.dtype if dtype is None else dtype,
        device=input.device if device is None else device,
        requires_grad=requires_grad,
    )


def new_arange(input: Any, start: int, end: int, step: int) -> Any:
    """int64 positions on this tensor's device."""
    return arange(start, end, step, device=input.device)


__all__ = ["arange", "empty", "empty_like", "eye",
           "full", "full_like", "linspace", "ones", "ones_like", "tensor", "zeros", "zeros_like"]
