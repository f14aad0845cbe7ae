"""Assignment: operators that overwrite elements of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import no_grad
from tensocket_core.dispatch.versions import bump
from tensocket_core.geometry import broadcast_shapes, contiguous, overlaps_partially
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, LAZY, OPTIONS, WRAPPER, dtype_bit
from tensocket_core.launch.copies import converted, copy_elements, to_device
from tensocket_core.launch.fill import fill_array
from tensocket_core.launch.stream_use import copy_arrays
from tensocket_plugins.contract.dtypes import bool_, float32, float64
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.contract.launch_recorder import RECORDERS

from ..kinds.composite import composite
from ..kinds.inplace import Assign, check_parts, check_separate

#: Elements up to which one thread of NumPy fills an array faster than a kernel is launched (256 KiB of float32).
FEW_FILLED: Final = 1 << 16
#: Elements up to which NumPy copies arrays of one dtype.
_SMALL: Final = 1 << 17
_INDIRECT: Final = LAZY | WRAPPER
#: Dtypes and types of numbers that NumPy fills arrays with as all other paths do, up to numbers that all of them hold.
_FLOATS: Final = dtype_bit(float32) | dtype_bit(float64)
UNCHECKED: Final = (bool, int, float)
FAR: Final = 1 << 31


def _copy(state: Any, target: Any, src: Any) -> None:
    if not hasattr(src, "_key"):
        fill_array("copy_", state, target._array, src, target.dtype)
        return
    shape = target._array.shape
    if broadcast_shapes("copy_", [shape, src._array.shape]) != shape:
        raise ShapeError(
            "copy_",
            f"src {list(src.shape)} for a tensor of shape {list(shape)}",
            "src broadcasts to the tensor's shape",
            "reshape src",
        )
    array, dtype = src._array, src.dtype
    if src._device_state is state:
        if array.size != 1:  # one element is read before it is written
            check_parts("copy_", target, (src,))
        if overlaps_partially(array, target._array):
            array = converted(state, array, dtype, dtype)
        copy_elements(state, target._array, target.dtype, array, dtype)
        return
    if (
        dtype is target.dtype
        and array.shape == shape
        and contiguous(target._array)
        and contiguous(array)
        and src._device_state.runtime.profile.host_resident
    ):
        if array.size:
            copy_arrays(state, target._array, array)
        return
    copy_elements(state, target._array, target.dtype, to_device(array, dtype, src._device_state, state), dtype)


def _copy_small(target: Any, src: Any, non_blocking: bool = False) -> bool:
    """Copy between dense arrays of one shape and dtype in the host's memory, apart from each other."""
    key, counter = target._key, target._version_counter
    if RECORDERS or not hasattr(src, "_key") or (key ^ src._key) & OPTIONS or (key | src._key) & _INDIRECT:
        return False
    x, y = target._array, src._array
    if type(x) is not np.ndarray or x.shape != y.shape or x.size > _SMALL or not x.flags.carray or not (
            counter is None or type(counter) is list):
        return False
    if (x.base is not None or y.base is not None) and np.may_share_memory(x, y):
        return False
    x[...] = y
    return True


def _copied(grad: Any, wanted: Any) -> tuple[Any, Any]:
    """Return zeros for the overwritten values, and the gradient for the new ones."""
    return (grad.new_zeros(grad.shape) if wanted[0] else None), (grad if wanted[1] else None)


def _fill(state: Any, target: Any, value: Any) -> None:
    if hasattr(value, "_key") and value.ndim:
        raise ShapeError(
            "fill_",
            f"a value of shape {list(value.shape)}",
            "the value is a number or a 0-dimensional tensor",
            "use copy_ to write a tensor",
        )
    number = value.detach().to(target.dtype).item() if hasattr(value, "_key") else value
    fill_array("fill_", state, target._array, number, target.dtype)


def _fill_small(target: Any, value: Any) -> bool:
    """Fill a dense float32 or float64 array in the host's memory with a number that needs no check."""
    key, counter, x = target._key, target._version_counter, target._array
    if RECORDERS or key & _INDIRECT or not key & _FLOATS or type(value) not in UNCHECKED or not (
            -FAR < value < FAR and (counter is None or type(counter) is list)):
        return False
    if type(x) is not np.ndarray or x.size > FEW_FILLED or not x.flags.carray:
        return False
    x.fill(value)
    return True


def _marked(grad: Any, index: Any) -> Any:
    """Return a mask that is True at a basic index."""
    with no_grad():
        marks = grad.new_zeros(grad.shape, dtype=bool_)
        marks.basic_index(index).fill_(True)
    return marks


copy_: Final = Assign(
    "copy_(Tensor! input, Operand src, bool non_blocking=False) -> Tensor",
    "Elements of src, converted and moved, in place.",
    lambda state, target, src, non_blocking=False: _copy(state, target, src),
    shortcut=_copy_small,
    derivative=Derivative(lambda grad, wanted: _copied(grad, wanted)).of_overwriting(),
)
basic_put_: Final = Assign(
    "basic_put_(Tensor! input, any index, Tensor src) -> Tensor",
    "Elements of src at a basic index, in place.",
    lambda state, target, index, src: _copy(state, target.detach().basic_index(index), src),
    method=False,
    derivative=Derivative(
        input=lambda grad, index: grad.masked_fill(_marked(grad, index), 0),
        src=lambda grad, index: grad.basic_index(index),
    ),
)
fill_: Final = Assign("fill_(Tensor! input, Operand value) -> Tensor", "One value everywhere, in place.", _fill,
                      repeated=True, shortcut=_fill_small,
                      derivative=Derivative(lambda grad, wanted: _copied(grad, wanted)).of_overwriting())


def _zero_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a shortcut for dense arrays in host memory: NumPy's fill, without conversion of a number.

    Guard: no gradients, a contiguous array of at most ``FEW_FILLED`` elements. All other calls take ``fill_``.
    """
    if key & ~(DTYPE_MASK | DIM0) != state.key or not state.runtime.profile.host_resident:
        return None

    def zero(target: Any) -> Any:
        array = target._array
        if not array.flags.carray or array.size > FEW_FILLED:
            return next_path(target)
        bump(target)  # raises for inference tensors
        array.fill(0)
        return target

    return zero


@composite("zero_(Tensor! input) -> Tensor", function=False, host_path=_zero_path)
def zero_(input: Any) -> Any:
    """Set all elements to 0, in place."""
    return input.fill_(0)


@composite("masked_fill_(Tensor! input, Tensor mask, Operand value) -> Tensor", function=False)
def masked_fill_(input: Any, mask: Any, value: Any) -> Any:
    """Write ``value`` where the mask holds, in place."""
    check_parts("masked_fill_", input, (mask,))
    return input.copy_(input.masked_fill(mask, value))


@composite("scatter_(Tensor! input, int dim, Tensor index, Operand? src=None, *, Operand? value=None, str? reduce=None)"
           " -> Tensor", function=False)
def scatter_(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """Apply ``scatter`` in place."""
    check_separate("scatter_", input, index, src)
    before = input.clone() if reduce is not None and input._key & AUTOGRAD else input
    return input.copy_(before.scatter(dim, index, src, value=value, reduce=reduce))


@composite("scatter_add_(Tensor! input, int dim, Tensor index, Tensor src) -> Tensor", function=False)
def scatter_add_(input: Any, dim: int, index: Any, src: Any) -> Any:
    """Apply ``scatter_add`` in place."""
    check_separate("scatter_add_", input, index, src)
    return input.copy_(input.scatter_add(dim, index, src))
