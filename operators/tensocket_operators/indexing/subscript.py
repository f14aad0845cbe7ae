"""``[]`` in full: ints, slices, None and Ellipsis make a view; index tensors and masks gather and scatter."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.call import call, collected_key
from tensocket_core.dispatch.modes import STATE, is_grad_enabled, no_grad
from tensocket_core.dispatch.overrides import call_torch_function, overridden
from tensocket_core.dispatch.versions import bump, check_writable
from tensocket_core.geometry import dense_overlaps, owner_of
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, DTYPE_OF, LAZY, WRAPPER, dtype_bit
from tensocket_core.launch.fill import from_values
from tensocket_core.launch.numbers import check_range, rounded
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentTypeError, IndexDtypeError
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..kinds.composite import composite
from ..kinds.inplace import check_separate
from ..kinds.view import viewer
from ..pointwise.inplace import basic_put_
from .advanced_indexing import index_tensors, trimmed, write_indices
from .gather_scatter import SMALL
from .small_moves import many_rows, taken

_new = object.__new__
#: A list of at least this many parts is always one index tensor.
_MOST_DIMS: Final = 32


def _items(input: Any, index: Any) -> list[Any]:
    """Return the parts of an index: Ellipsis expanded to slices, and index tensors on the input's device."""
    if isinstance(index, list) and len(index) < _MOST_DIMS and any(_is_structural(x) for x in index):
        index = tuple(index)  # as NumPy once did, and PyTorch does
    items = [_item(input, item) for item in (index if isinstance(index, tuple) else (index,))]
    if Ellipsis in [x for x in items if not hasattr(x, "_key")]:
        at = next(k for k, x in enumerate(items) if x is Ellipsis)
        rest = [x for x in items if x is not Ellipsis]
        free = input.ndim - sum(map(_consumed, rest))
        items = [*rest[:at], *[slice(None)] * free, *rest[at:]]
    return items


def _is_structural(part: Any) -> bool:
    return (
        part is None or part is Ellipsis or isinstance(part, (list, tuple, slice, np.ndarray)) or hasattr(part, "_key")
    )


def _is_mask(index: Any) -> bool:
    return index.dtype is dtypes.bool_ or index.dtype is dtypes.uint8


def _consumed(item: Any) -> int:
    """Return the number of tensor dimensions that a part of an index consumes."""
    if hasattr(item, "_key") and _is_mask(item):
        return int(item.ndim)
    return item is not None


def _parsed(input: Any, index: Any) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Return the basic index, and the index tensors over the dimensions that it leaves (None without any)."""
    items = _items(input, index)
    if not any(hasattr(item, "_key") for item in items):
        return tuple(items), None
    basic: list[Any] = []
    advanced: list[Any] = []
    for item in items:
        if not hasattr(item, "_key"):
            basic.append(item)
            advanced += [] if type(item) is int else [None]
        elif item.ndim == 0 and _is_mask(item):
            # True keeps and False drops a new dimension of size 1.
            basic.append(None)
            advanced.append((item if item.dtype is dtypes.bool_ else item != 0).reshape(1))
        else:
            basic += [slice(None)] * (item.ndim if _is_mask(item) else 1)
            advanced.append(item)
    return tuple(basic), tuple(advanced)


def _item(input: Any, item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, slice) or type(item) is int:
        return _int_slice(item) if isinstance(item, slice) else item
    if isinstance(item, (bool, np.bool_)):
        return from_values(np.asarray(item), dtypes.bool_, input._device_state)
    if hasattr(item, "_key"):
        if item.ndim == 0 and item.dtype.kind in ("int", "uint") and item.dtype is not dtypes.uint8:
            return item if item._level else int(item.item())
        return item
    if isinstance(item, (list, tuple, range, np.ndarray)):
        return _like_values(item, input)
    if hasattr(item, "__index__"):
        return item.__index__()
    error = ArgumentTypeError if isinstance(item, (str, bytes)) else IndexDtypeError
    raise error(
        "index",
        f"an index of type {type(item).__name__}",
        "an index is made of ints, slices, None, Ellipsis, lists and tensors",
        "convert it to one of these",
    )


def _int_slice(item: slice) -> slice:
    """Return a slice with plain ints, from tensors or NumPy integers."""
    parts = item.start, item.stop, item.step
    if all(x is None or type(x) is int for x in parts):
        return item
    for x in parts:
        if x is not None and not hasattr(x, "__index__"):
            raise ArgumentTypeError("index", f"a slice with a bound of type {type(x).__name__}",
                                    "slice indices must be integers or None or have an __index__ method",
                                    "convert it with int(...)")
    return slice(*(None if x is None else x.__index__() for x in parts))


def _like_values(values: Any, like: Any) -> Any:
    """Return host values as a tensor on another tensor's device."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype not in dtypes.FROM_NUMPY:
        raise IndexDtypeError("index", f"values of dtype {array.dtype}",
                              "an index is made of ints within 64 bits, and bools", "convert it to one of these")
    return from_values(array, dtypes.FROM_NUMPY[array.dtype], like._device_state)


def overrides_calls(values: tuple[Any, ...]) -> bool:
    """Whether an index or a value, or a part of one, overrides the call before the tensor does."""
    return bool(collected_key(values)) and overridden(*values)


_BASIC: Final = frozenset({int, slice, type(None), type(Ellipsis)})


def _getitem_host(array: Any, index: Any) -> Any:
    """Return a NumPy array at a basic index within its bounds whose parts need no conversion.

    Return None for every other index.
    """
    try:
        if type(index) is int:
            return array[index, ...]
        for part in index if type(index) is tuple else (index,):
            kind = type(part)
            if kind is slice:
                if part.step is not None and not (type(part.step) is int and part.step > 0):
                    return None
            elif kind not in _BASIC:
                return None
        result = array[index]
    except IndexError:
        return None
    # With an int for every dimension, NumPy returns a number unless the index has an Ellipsis.
    return result if type(result) is np.ndarray else array[(*index, ...)]


_ALL: Final = slice(None)
_INTS: Final = {int}


def _gathered(array: Any, index: Any, integers: int, bools: int) -> Any:
    """Return a new NumPy array: a few elements at an index with tensors; None if the general closure must decide.

    Args:
        array: The elements.
        index: One part, or a tuple: ints, slices with positive steps, None, Ellipsis, lists of ints, and tensors with
            dimensions.
        integers: Key of index tensors.
        bools: Key of masks.
    """
    basic: list[Any] = []
    advanced: list[Any] = []
    most, axis = array.size, None
    alone = True  # one index tensor among whole dimensions: NumPy takes from one dimension five times as fast
    for part in index if type(index) is tuple else (index,):
        kind = type(part)
        if kind is Tensor:
            positions = part._array
            if part._key == integers:
                most *= positions.size
                basic.append(_ALL)
                alone, axis = alone and axis is None, len(advanced)
            elif part._key == bools:
                basic += [_ALL] * positions.ndim
                alone = False
            else:
                return None
            advanced.append(positions)
        elif kind is int:  # unlike NumPy, PyTorch does not count it among the index tensors
            basic.append(part)
            alone = False
        elif kind is list and {*map(type, part)} == _INTS:
            positions = np.array(part)
            most *= positions.size
            basic.append(_ALL)
            alone, axis = alone and axis is None, len(advanced)
            advanced.append(positions)
        elif part is Ellipsis:
            basic.append(part)
            advanced.append(part)
            alone = False
        elif part is None or (kind is slice and (part.step is None or (type(part.step) is int and part.step > 0))):
            basic.append(part)
            advanced.append(_ALL)
            alone = alone and part == _ALL
        else:
            return None
    if most > SMALL or VALUE_OBSERVERS or RECORDERS:
        return None
    try:
        if alone and axis is not None and len(advanced) <= array.ndim:
            found = array.take(advanced[axis], axis)
        else:
            found = array[tuple(basic)][tuple(advanced)]
    except (IndexError, TypeError):  # TypeError: ints that are not within 64 bits
        return None
    if not found.size and found.ndim > 1:
        return None  # strides of results without elements are those of the general closure
    return found if found.flags.c_contiguous and 1 not in found.shape else found.copy()


def _getitem_host_path(key: int, state: Any, body: Any) -> Any:
    if key & AUTOGRAD:
        return None
    key &= ~DIM0
    integers, bools = state.key | dtype_bit(dtypes.int64), state.key | dtype_bit(dtypes.bool_)
    dtype = DTYPE_OF[key & DTYPE_MASK]

    def rows(a: Any, index: Any) -> Any:
        array = None
        if index._key == integers:
            positions = index._array
            array = taken(a._array, positions, SMALL)
            if array is None and positions.ndim == 1 and positions.size and positions.strides[0] and (
                    positions.min() >= 0):
                array = many_rows(a._array, positions, dtype, state)
        return made(a, index, array)

    def made(a: Any, index: Any, array: Any) -> Any:
        if array is None:
            array = _gathered(a._array, index, integers, bools)
            if array is None:
                return body(a, index)
        t = _new(Tensor)
        t._array, t._key = array, key
        t._grad = t._grad_fn = t._version_counter = t._base = None
        return t

    def next_path(a: Any, index: Any) -> Any:
        kind = type(index)
        if kind is Tensor:
            return rows(a, index)
        return made(a, index, None) if kind is tuple or kind is list else body(a, index)

    return viewer(_getitem_host, key, 2, next_path)


@composite("getitem(Tensor input, any index) -> Tensor~", method=False, function=False, dunder=("__getitem__",),
           host_path=_getitem_host_path)
def getitem(input: Any, index: Any) -> Any:
    """Return ``input[index]``: ints, slices, None and Ellipsis make a view; index tensors and masks gather."""
    if type(index) is int:
        return input.basic_index((index,))
    if overrides_calls((index,)):
        return call_torch_function("getitem", vars(Tensor)["__getitem__"], (index,), (input, index), {})
    basic, advanced = _parsed(input, index)
    if advanced is None:
        return input.basic_index(basic)
    return index_tensors(input.basic_index(basic), advanced)


def _whole_mask(view: Any, advanced: tuple[Any, ...]) -> bool:
    """Whether the only index is a mask of all elements."""
    mask = advanced[0]
    return len(advanced) == 1 and mask is not None and mask.dtype is dtypes.bool_ and mask.shape == view.shape and (
        mask._device_state is view._device_state)


def _without_overlap(value: Any, view: Any) -> Any:
    """Return a value, copied if it broadcasts into its own memory, so that ``x[:] = x[0]`` is defined."""
    if value._key & WRAPPER or view._key & WRAPPER or value._array.shape == view._array.shape:
        return value
    return value.clone() if dense_overlaps(value._array, view._array) else value


#: Largest number of elements that NumPy writes where a mask is true, and at a basic index; and the numbers that every
#: element type of a kind can hold.
_FEW: Final = 1 << 14
_SOME: Final = 1 << 16
_HELD: Final = {dtypes.float32: ((int, float), 1e30), dtypes.float64: ((int, float), 1e30),
                dtypes.int64: ((int,), 2**31 - 1), dtypes.int32: ((int,), 2**31 - 1), dtypes.bool_: ((bool,), 1)}


def _setitem_host_path(key: int, state: Any, body: Any) -> Any:
    """Return a closure in which NumPy writes few elements at a basic index, or a number where a mask is true."""
    held = None if key & (AUTOGRAD | DIM0) else _HELD.get(DTYPE_OF[key & DTYPE_MASK])
    if held is None:
        return None
    kinds, most = held
    bools = state.key | dtype_bit(dtypes.bool_)

    def direct_setitem(a: Any, index: Any, value: Any) -> Any:
        memory, counter = a._array, a._version_counter
        if not (memory.flags.c_contiguous and memory.flags.writeable and (counter is None or type(counter) is list)):
            return body(a, index, value)
        if getattr(value, "_key", 0) | DIM0 == key | DIM0:
            given = value._array
        elif type(value) in kinds and -most <= value <= most:
            given = value
        else:
            return body(a, index, value)
        try:
            if type(index) is Tensor:
                mask = index._array
                if index._key != bools or given is not value or memory.size > _FEW or mask.shape != memory.shape or (
                        VALUE_OBSERVERS or RECORDERS or mask is memory or (
                            (mask.base is not None or memory.base is not None)
                            and owner_of(mask) is owner_of(memory))):
                    return body(a, index, value)
                memory[mask] = given
                bump(a)
                return None
            array = _getitem_host(memory, index)
            if array is None or array.size > _SOME or (given is not value and given.ndim > array.ndim) or (
                    given is not value and given.base is not None and np.may_share_memory(given, array)):
                return body(a, index, value)
            array[...] = given
        except ValueError:  # the general closure raises the error
            return body(a, index, value)
        bump(a)
        return None

    return direct_setitem


@composite("setitem(Tensor input, any index, any value) -> any", method=False, function=False,
           dunder=("__setitem__",), host_path=_setitem_host_path, lazy=True)
def setitem(input: Any, index: Any, value: Any) -> None:
    """Perform ``input[index] = value``."""
    if overrides_calls((index, value)):
        call_torch_function("setitem", vars(Tensor)["__setitem__"], (index, value), (input, index, value), {})
        return
    basic, advanced = _parsed(input, index)
    number = isinstance(value, (bool, int, float, complex, np.generic))
    if not number and not hasattr(value, "_key"):
        raise ArgumentTypeError(
            "setitem",
            f"a value of type {type(value).__name__}",
            "elements are set to a number or a tensor",
            "convert it with tensocket.tensor(...)",
        )
    if number and input.dtype.category > 1:
        if arithmetic_dtype(input.dtype) is input.dtype:
            check_range("setitem", value, input.dtype)
        elif type(value) is not complex:
            value = rounded(value, input.dtype)  # values beyond the range of narrow floats become infinity
    key = input._key | (0 if number else value._key)
    recording = (is_grad_enabled() and key & AUTOGRAD) or key & WRAPPER or STATE.transforms
    with nullcontext() if recording else no_grad():
        view = input.basic_index(basic)
        if advanced is None:
            if number and not recording:
                check_writable("copy_", view)
                view.fill_(value)
                return
            value = input.new_tensor(value) if number else _without_overlap(trimmed(value, view.ndim), view)
        else:
            if not number:
                if _whole_mask(view, advanced) and value.numel() == 1:
                    value = _without_overlap(value, view)
                check_separate("index_put_", view, *advanced, value)
            value = view.new_tensor(value) if number else value
            if not (recording or STATE.dispatch_modes or view._key & LAZY):  # modes see every write
                if number and _whole_mask(view, advanced):
                    view.masked_fill_(advanced[0], value)
                    return
                write_indices(view, advanced, value)
                return
            value = view.index_put(advanced, value)
        if recording:
            del view  # so that no check takes it for a view that the program holds
            call(basic_put_, input, basic, value)
        else:
            view.copy_(value)
