"""Views by noted geometry: a view of a tensor whose layout and arguments came before is made by one compiled function.

The geometry of views follows from the layout of the tensor and from the arguments, never from elements. So the device
notes what a call made (``ViewPlan``), and makes the views of later calls like it. Views, and composites that return
views or their argument, declare themselves by their schema.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.formats import memory_format
from tensocket_core.keys import AUTOGRAD, DIM0, LAZY
from tensocket_core.launch.entries import ENABLED, compiled_or, counted, wrapper_layout
from tensocket_core.recording import OVERRIDDEN_KERNELS
from tensocket_core.tensor import Tensor, wrap
from tensocket_plugins.contract import plans
from tensocket_plugins.contract.dtypes import DType

from ..unwarned import WarnedError, unwarned

if TYPE_CHECKING:
    from tensocket_core.dispatch.operator import Operator
    from tensocket_core.launch.path import LadderOperator, Signature

Closure = Callable[..., Any]
#: Calls of one closure after which they are noted; the first function of a process takes 20 ms to compile.
_CALLS: Final = 128
#: Operators and keys whose closures have been noted: closures that replace them are at once, because a promotion makes
#: closures of other operators anew, and must not lead to the next one.
_NOTED: Final[set[tuple[str, int]]] = set()
#: Types of items of tuples, and of arguments, that are equal only to themselves, or that the device compares by value.
#: A dtype in a tuple is that of ``x.view(dtype)``, which depends on where the memory begins.
_COMPARED_ITEMS: Final = (bool, int, type(None), type(...))
_COMPARED: Final = (str, DType, memory_format)
#: The attribute of views that recorded calls must not modify.
_MARK: Final = "_fixed_view"


class NotedViews:
    """The path of composites that return views: the geometry that an earlier call made.

    Args:
        owners: Whether it serves only tensors whose handle owns all of its memory: its layout then tells where the
            memory begins and ends, too.
    """

    name = "views"

    def __init__(self, owners: bool = False) -> None:
        self._owners = owners

    def build(self, operator: LadderOperator, call: Signature, next_path: Closure) -> Closure | None:
        """Return a closure that notes views and makes them again."""
        made = noted_views(operator, call.key, call.state, next_path)
        return made if made is next_path or not self._owners else _of_owners(made, next_path)


def noted_views(operator: Operator, key: int, state: DeviceState, next_path: Closure) -> Closure:
    """Return a closure that makes views by noted geometry, after some calls; ``next_path`` where the device cannot.

    Args:
        operator: The operator.
        key: The dispatch key whose closure it becomes, without layers.
        state: The device.
        next_path: Serves every call; the reference.
    """
    if not ENABLED or state.runtime.target is None or not state.runtime.profile.host_resident or key & LAZY:
        return next_path

    name = operator.name, key

    def specialise() -> Closure:
        _NOTED.add(name)
        function = partial(_views_of, next_path, frozenset(operator.schema.tensors))
        plan = plans.ViewPlan(function, wrapper_layout(key & ~DIM0), "_key", "_base", _MARK, OVERRIDDEN_KERNELS)
        return compiled_or(state, plan, next_path)

    return specialise() if name in _NOTED else counted(operator, key, next_path, specialise, _CALLS)


def _of_owners(noted: Closure, next_path: Closure) -> Closure:
    """Return a closure that runs ``noted`` for tensors that own their memory, and ``next_path`` for all others."""
    def run(input: Any, *args: Any, **named: Any) -> Any:
        run_next = noted if input._array.base is None else next_path
        return run_next(input, *args, **named)

    return run


def _views_of(next_path: Closure, tensors: frozenset[int], /, *args: Any, **named: Any) -> Any:
    """Return what ``next_path`` makes of arguments, as ``ViewPlan.function`` does.

    Args:
        next_path: The reference.
        tensors: Positions of the arguments of which it reads the layout alone.
        args: The arguments.
        named: The arguments by name.
    """
    held = {k: x for k, x in enumerate(args) if isinstance(x, Tensor)}
    others = [*[x for k, x in enumerate(args) if k not in held], *named.values()]
    if not (held.keys() <= tensors and all(type(x._array) is np.ndarray for x in held.values())
            and all(map(_is_compared, others))):
        return NotImplemented
    plain = {k: wrap(x._array, x._key & ~(AUTOGRAD | DIM0)) for k, x in held.items()}
    source = plain[0]
    try:
        with thread_state(include=0, exclude=0, inference=None, function_modes=(), dispatch_modes=(), transforms=(),
                          tracer=None), unwarned():
            made = next_path(*[plain.get(k, x) for k, x in enumerate(args)], **named)
    except WarnedError:
        return None  # each call warns
    if made is source:
        return args[0]
    views = made if type(made) is tuple else (made,)
    if not views or not all(_is_view(x, source) for x in views):
        return None
    found = tuple([plans.RecordedView(x._array, x._key, getattr(x, _MARK)) for x in views])
    return found if type(made) is tuple else found[0]


def _is_compared(value: Any) -> bool:
    """Whether the device compares an argument by value, or its identity tells all of it."""
    if not isinstance(value, (tuple, list)):
        return type(value) in _COMPARED or _is_compared_item(value)
    items = value[0] if len(value) == 1 and isinstance(value[0], (tuple, list)) else value
    return all(map(_is_compared_item, items))


def _is_compared_item(value: Any) -> bool:
    if type(value) is slice:
        return all(type(x) in (int, type(None)) for x in (value.start, value.stop, value.step))
    return type(value) in _COMPARED_ITEMS


def _is_view(view: Any, source: Any) -> bool:
    """Whether a tensor is nothing but a view of another one."""
    if type(view) is not Tensor or id(view._base) != id(source):
        return False
    counter, array, attributes = view._version_counter, view._array, view.__dict__.keys()
    return (type(counter) is list and counter is source._version_counter and view._grad is None
            and view._grad_fn is None and attributes <= {_MARK}
            and type(array) is np.ndarray and np.may_share_memory(array, source._array))
