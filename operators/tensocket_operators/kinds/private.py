"""Arguments that no other thread can change.

A thread may give a tensor another array (``x.data = y``, ``set_``, ``resize_``) while others compute with it. An
operator reads sizes and strides of an array and then passes it to a kernel, which trusts them: both must come from one
array. Functions that read ``_array`` more than once therefore run on private tensors, which share the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_core.keys import DTYPE_MASK, DTYPE_OF
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError

from ..unrolled.checks import declared

_new = object.__new__
_LISTS: Final = (list, tuple)
#: Types of most other arguments.
_PLAIN: Final = frozenset({int, float, bool, str, type(None)})
#: The dtypes of host handles by the key bit of a tensor's dtype.
_ON_HOSTS: Final = {bit: dtype.numpy for bit, dtype in DTYPE_OF.items()}


def private(operator: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a closure that calls ``run(*args)`` with private tensors.

    Args:
        operator: Name for errors.
        run: Called with the same arguments, by position. Tensors are replaced, also inside lists; if the result is an
            argument, the closure returns the original.
    """
    plain = _PLAIN

    def call(*args: Any) -> Any:
        given = list(args)
        for k, x in enumerate(args):
            kind = type(x)
            if kind is Tensor:
                given[k] = own(operator, x)
            elif kind not in plain:
                given[k] = _other(operator, x)
        result = run(*given)
        if type(result) is Tensor:
            if result._version_counter is not None:  # new tensors have none
                for x, original in zip(given, args, strict=True):
                    if x is result:
                        return original
                without_base(result)
        elif isinstance(result, tuple):
            for x in result:
                if type(x) is Tensor and x._base is not None:
                    without_base(x)
        return result

    return call


def part_from_base(view: Any) -> Any:
    """Return a view of a new tensor that nothing else holds, as a tensor of its own.

    Operators whose results PyTorch does not count as views end with it: these have no base, and recorded calls may
    change them even if they were made without recording.
    """
    tracer = STATE.tracer if ACTIVE else None
    return without_base(view) if tracer is None else tracer.helper(without_base, (view,))


@declared
def without_base(view: Any) -> Any:
    """Let a view cease to be one; ``part_from_base`` for calls inside one operator."""
    view._base = None
    if view._fixed_view is not None:
        view._fixed_view = None
    return view


def _other(operator: str, value: Any) -> Any:
    if hasattr(value, "_key"):
        return own(operator, value)
    if type(value) in _LISTS and value and hasattr(value[0], "_key"):
        return [own(operator, x) if hasattr(x, "_key") else x for x in value]
    return value


def own(operator: str, x: Any) -> Any:
    """Return a private tensor on the same memory and with the same version counter.

    Raises:
        ArgumentError: Another thread is about to give the tensor an array of another dtype.
    """
    array, key, counter = x._array, x._key, x._version_counter
    if array.dtype is not _ON_HOSTS[key & DTYPE_MASK]:
        _check_dtype(operator, array.dtype, DTYPE_OF[key & DTYPE_MASK])
    if counter is None:
        counter = x._version_counter = [0]
    t = _new(Tensor)
    t._array = array
    t._key = key
    t._grad = t._grad_fn = t._base = None
    t._version_counter = counter
    return t


def _check_dtype(operator: str, held: Any, dtype: DType) -> None:
    if held is not dtype and held != dtype.numpy:
        raise ArgumentError(operator, f"a tensor that turns from {held} to {dtype.name}",
                            "no other thread changes a tensor's dtype while it is used", "synchronise the threads")
