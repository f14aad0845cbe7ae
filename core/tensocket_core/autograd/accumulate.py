"""Accumulation of gradients in the leaves' ``grad``, also from several threads."""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.arrays import DeviceArray, is_contiguous
from tensocket_plugins.contract.forks import Rank, held_over_forks

from ..dispatch.modes import ACTIVE, STATE, set_grad_enabled
from ..formats import contiguous_format
from ..geometry import element_strides
from ..keys import AUTOGRAD, DIM0, LAZY, OPTIONS, WRAPPER
from ..recording import RECORDING_SLOW_PATHS
from ..tensor import Tensor

#: Leaves share a few locks: one lock each would cost memory, one lock for all would make threads wait.
LOCKS: Final = tuple([held_over_forks(threading.RLock(), Rank.GRADIENTS) for _ in range(16)])

_PARTS: Final = AUTOGRAD | WRAPPER
#: A gradient shares these bits with its leaf, except ``AUTOGRAD``, if both are plain tensors.
_SHARED: Final = OPTIONS | _PARTS


def _measure() -> int:
    values = [object()]
    value = values.pop()
    return sys.getrefcount(value)


#: Value of ``sys.getrefcount(x)`` for a local variable that holds the only reference.
SOLE_REFERENCE: Final = _measure()


def accumulate(leaf: Any, grad: Any, create_graph: bool, sole: bool = False) -> None:
    """Add ``grad`` to ``leaf.grad``.

    The first gradient becomes ``leaf.grad`` itself if it has no other reference and has the leaf's layout; otherwise it
    is copied. Later ones are added in place, so that holders of ``leaf.grad`` see them, unless the sum itself is to be
    differentiated, or ``leaf.grad`` is sparse and the new gradient is dense.

    Args:
        leaf: A tensor.
        grad: A gradient of its shape, dtype and device.
        create_graph: Whether the computation is recorded.
        sole: Whether the caller has the only reference to ``grad``.
    """
    if leaf._base is not None and leaf._base._key & AUTOGRAD and leaf._grad_fn is None:
        return  # a view without a history, unlike its base
    with LOCKS[id(leaf) >> 5 & 15]:
        old = leaf._grad
        if old is None:
            leaf._grad = grad if sole and not create_graph and _can_keep(leaf, grad) else copy_in_layout(grad, leaf)
        elif create_graph:
            leaf._grad = old + grad
        elif (old._key | grad._key) & _PARTS:
            with set_grad_enabled(False):
                _add(leaf, old, grad)
        else:
            old.add_(grad)


def try_set_first(leaf: Any, grad: Any) -> bool:
    """Make a gradient without other references the first one of a leaf, in the usual case: no copy, no conversion.

    Args:
        leaf: An edge.
        grad: Its gradient, without recording; only two variables refer to it: the caller's and this one.
    """
    if not isinstance(leaf, Tensor) or leaf._grad is not None or (leaf._extras is not None or leaf._base is not None):
        return False
    x, y = leaf._array, grad._array
    if (type(x) is not np.ndarray or type(y) is not np.ndarray or x.shape != y.shape or grad._base is not None
            or leaf._key & WRAPPER or (leaf._key ^ AUTOGRAD ^ grad._key) & _SHARED or sys.getrefcount(y) >
            SOLE_REFERENCE + 1
            or not x.flags.c_contiguous or not y.flags.c_contiguous):
        return False
    with LOCKS[id(leaf) >> 5 & 15]:
        if leaf._grad is not None:
            return False
        leaf._grad = grad
    return True


def _parameter_references(value: Any) -> int:
    return sys.getrefcount(value)


#: The same for an argument that the caller passed on without holding it.
_PASSED: Final = _parameter_references([object()].pop())
#: Size of a gradient in elements from which adding in place is worth checking its references.
_LARGE: Final = 16384


def add_gradients(old: Any, grad: Any, create_graph: bool) -> Any:
    """Return ``old + grad`` for two partial gradients, in the memory of ``old`` if nobody can observe that.

    That holds if the caller's reference to the tensor was the only one, the tensor has the only reference to the array,
    and the array owns its memory: hooks, users, saved tensors and views all refer to one of the two.

    Args:
        old: The earlier gradient; the caller no longer holds it.
        grad: Summand, of the same shape.
        create_graph: Whether the sum is to be differentiated.
    """
    array = old._array
    if (type(array) is not np.ndarray or array.size < _LARGE or create_graph or ACTIVE or RECORDING_SLOW_PATHS
            or sys.getrefcount(old) != _PASSED or sys.getrefcount(array) != SOLE_REFERENCE + 1):
        return old + grad
    flags, other = array.flags, grad._array
    if not flags.owndata or not flags.carray or type(other) is not np.ndarray or array.shape != other.shape or (
            (old._key ^ grad._key) & ~DIM0 or old._key & _PARTS or old._base is not None or old._grad_fn is not None):
        return old + grad
    old.add_(grad)
    old._version_counter = None
    return old


def _add(leaf: Any, old: Any, grad: Any) -> None:
    """Add gradients of which at least one is not a plain tensor; sparse plus dense gives a new dense sum."""
    if old.is_sparse and old.layout is not grad.layout:
        leaf._grad = grad + old
    else:
        old.add_(grad.to_dense() if grad.is_sparse and not old.is_sparse else grad)


def _can_keep(leaf: Any, grad: Any) -> bool:
    if grad._key & (AUTOGRAD | LAZY):
        return False
    if grad._key & WRAPPER and grad.is_sparse and not grad._dispatches:  # a dispatching class has its own components
        return bool(grad._values().is_contiguous() and grad._indices().is_contiguous())
    x, y = leaf._array, grad._array
    if sys.getrefcount(y) > SOLE_REFERENCE + 1:  # another tensor has the same handle
        return False
    if grad._base is not None:
        if not _is_all_of(grad, y):
            return False
        grad._base = grad._version_counter = None
    if type(x) is type(y) is np.ndarray and x.flags.c_contiguous and y.flags.c_contiguous:
        return True
    strides = element_strides(grad._array)
    own = element_strides(leaf._array)
    return strides == own or (
        is_contiguous(grad._array.shape, strides) and (is_contiguous(leaf._array.shape, own) or not _dense(leaf))
    )


def _is_all_of(grad: Any, array: Any) -> bool:
    """Whether a view has all elements of another tensor without further references: a reshaped gradient."""
    base = grad._base
    if sys.getrefcount(base) != SOLE_REFERENCE + 1 or base._grad_fn is not None or base._key & _PARTS:
        return False
    whole = base._array
    if type(array) is DeviceArray is type(whole):
        alone = sys.getrefcount(whole) == SOLE_REFERENCE + 1 and sys.getrefcount(array.storage) == SOLE_REFERENCE + 1
        return alone and array.size == whole.size and is_contiguous(array.shape, array.strides)
    return (type(array) is type(whole) is np.ndarray and array.base is whole and array.size == whole.size
            and bool(array.flags.c_contiguous) and sys.getrefcount(whole) == SOLE_REFERENCE + 2)


def _dense(leaf: Any) -> bool:
    """Whether a tensor's elements have no gaps between them, in any order of dimensions."""
    step = 1
    for size, stride in sorted(zip(leaf._array.shape, element_strides(leaf._array), strict=True), key=lambda p: p[1]):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def copy_in_layout(grad: Any, leaf: Any) -> Any:
    """Return a copy of ``grad`` in the leaf's layout if that is dense, else row-major."""
    x, y = leaf._array, grad._array
    if (type(x) is type(y) is np.ndarray and x.flags.c_contiguous and not grad._key & _PARTS
            and not RECORDING_SLOW_PATHS and not ACTIVE):
        copy = grad._cut()
        copy._array, copy._version_counter = y.copy(), None
        return copy
    if grad._key & WRAPPER and grad.is_sparse and not grad._dispatches:  # a dispatching class has its own components
        return grad.clone()
    strides = element_strides(leaf._array)
    if grad._key & AUTOGRAD and STATE.grad_enabled and _dense(leaf):
        return grad.new_empty_strided(leaf._array.shape, strides).copy_(grad)
    if is_contiguous(leaf._array.shape, strides) or not _dense(leaf):
        return grad.clone(memory_format=contiguous_format)
    order = sorted(range(leaf.ndim), key=lambda k: -strides[k])
    places = sorted(range(leaf.ndim), key=lambda k: order[k])
    rows = grad.permute(order)
    return (rows.clone() if rows.is_contiguous() else rows.contiguous()).permute(places)
