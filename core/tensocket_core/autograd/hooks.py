"""Rare parts of tensors and nodes: hooks on gradients, retained gradients, streams, the place of the call."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError, DtypeError, ShapeError

#: The number of the next hook.
_NEXT: Final = [itertools.count()]
Hooks = OrderedDict[int, Callable[..., Any]]


class RemovableHandle:
    """Handle that removes a hook; also a context manager that removes it at the end of the block.

    Args:
        hooks_dict: The table that holds the hook under ``handle.id``. The handle does not keep it alive.
        extra: Further tables that may hold an entry under the same id.
        extra_dict: The same as one table or a list, as PyTorch takes them.

    Attributes:
        id: The hook's number.
        hooks_dict_ref: A weak reference to the table.
        extra_dict_ref: Weak references to the further tables.
    """

    def __init__(
        self, hooks_dict: MutableMapping[int, Any], *extra: MutableMapping[int, Any], extra_dict: Any = ()
    ) -> None:
        self.id = next(_NEXT[0])
        self.hooks_dict_ref: weakref.ref[Any] = weakref.ref(hooks_dict)
        more = extra_dict if isinstance(extra_dict, (list, tuple)) else () if extra_dict is None else (extra_dict,)
        self.extra_dict_ref = tuple([weakref.ref(table) for table in (*extra, *more)])

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for table in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = table()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()

    def __getstate__(self) -> tuple[Any, int, tuple[Any, ...]]:
        return self.hooks_dict_ref(), self.id, tuple(table() for table in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, int, tuple[Any, ...]]) -> None:
        first, self.id, rest = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if first is None else first)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if table is None else table) for table in rest)
        # New hooks get other numbers.
        _NEXT[0] = itertools.count(max(next(_NEXT[0]), self.id + 1))


class Extras:
    """Rare attributes of a node or a leaf; all None until used.

    Attributes:
        gradient: By output, hooks on its gradient, in the order of registration.
        retained: By output, a weak reference to the tensor whose ``grad`` retains the gradient.
        before: Hooks of the node that receive the gradients of its outputs.
        after: Hooks of the node that receive the gradients of its inputs and outputs.
        accumulated: Hooks of a leaf after its ``grad`` changed.
        metadata: A dict for users.
        swapped: Of a leaf, the sequence number at which ``swap_tensors`` gave it other values; 0 if never.
        streams: Streams other than the default on which the node's forward ran, by device key.
        trace: Stack of the call that made the node, in anomaly mode.
        parent: The node whose gradient computation made this one, in anomaly mode.
    """

    __slots__ = ("accumulated", "after", "before", "gradient", "metadata", "parent", "retained", "streams",
                 "swapped", "trace")

    gradient: dict[int, Hooks] | None
    retained: dict[int, weakref.ref[Any]] | None
    before: Hooks | None
    after: Hooks | None
    accumulated: Hooks | None
    metadata: dict[Any, Any] | None
    streams: dict[int, Any] | None
    swapped: int
    trace: list[str] | None
    parent: Any

    def __init__(self) -> None:
        self.gradient = self.retained = self.before = self.after = self.accumulated = None
        self.metadata = self.streams = self.trace = self.parent = None
        self.swapped = 0

    def add(self, table: str, hook: Callable[..., Any]) -> RemovableHandle:
        """Add a hook to the table of this name."""
        hooks = getattr(self, table)
        if hooks is None:
            hooks = OrderedDict()
            setattr(self, table, hooks)
        return _add(hooks, hook)

    def add_to_gradient(self, index: int, hook: Callable[..., Any]) -> RemovableHandle:
        """Add a hook on the gradient of one output."""
        if self.gradient is None:
            self.gradient = {}
        return _add(self.gradient.setdefault(index, OrderedDict()), hook)

    def run_gradient(self, index: int, grad: Any) -> Any:
        """Run the hooks on an output's gradient and return their result; store it for ``retain_grad``."""
        if self.gradient is not None:
            for hook in tuple(self.gradient.get(index, {}).values()):
                replaced = hook(grad)
                if replaced is not None:
                    check_replacement(hook, grad, replaced)
                    grad = replaced
        if self.retained is not None and index in self.retained and grad is not None:
            tensor = self.retained[index]()
            if tensor is not None:
                tensor._grad = grad if tensor._grad is None else tensor._grad + grad
        return grad

    def run_before(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the node's hooks on the gradients of its outputs and return their result."""
        for hook in tuple((self.before or {}).values()):
            replaced = hook(grads)
            if replaced is not None:
                grads = as_gradients(hook, grads, replaced)
        return grads

    def run_after(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run the node's hooks on the gradients of its inputs and return their result."""
        for hook in tuple((self.after or {}).values()):
            replaced = hook(inputs, outputs)
            if replaced is not None:
                inputs = as_gradients(hook, inputs, replaced)
        return inputs


def extras_of(owner: Any, attribute: str) -> Extras:
    """Return the extras of a node (``extras``) or a leaf (``_extras``), created on first use."""
    extras: Extras | None = getattr(owner, attribute)
    if extras is None:
        extras = Extras()
        setattr(owner, attribute, extras)
    return extras


def _add(hooks: Hooks, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def name_of(hook: Callable[..., Any]) -> str:
    """Return a function's name for messages."""
    return str(getattr(hook, "__name__", type(hook).__name__))


def check_replacement(hook: Callable[..., Any], grad: Any, replaced: Any) -> None:
    """Raise for a hook's gradient that cannot replace the old one.

    Raises:
        ArgumentTypeError: The result is not a tensor.
        ShapeError: Its shape differs.
        DtypeError: Its dtype or device differs.
    """
    if not hasattr(replaced, "_key"):
        raise ArgumentTypeError("hook", f"{type(replaced).__name__} from hook {name_of(hook)!r}",
                                "a hook returns a tensor or None",
                                "return the new gradient, or None to keep the old one")
    if grad is None:
        return
    if replaced._array.shape != grad._array.shape:
        raise ShapeError(
            "hook",
            f"shape {list(replaced.shape)} from hook {name_of(hook)!r} for a gradient of shape {list(grad.shape)}",
            "a hook keeps the shape of the gradient",
            "return a gradient of that shape",
        )
    if replaced.dtype is not grad.dtype or replaced._device_state is not grad._device_state:
        raise DtypeError(
            "hook",
            f"{replaced.dtype.name} on {replaced.device} from hook {name_of(hook)!r} for a gradient of "
            f"{grad.dtype.name} on {grad.device}",
            "a hook keeps dtype and device of the gradient",
            "convert it with .to(grad)",
        )


def as_gradients(hook: Callable[..., Any], given: tuple[Any, ...], replaced: Any) -> tuple[Any, ...]:
    """Return the result of a node's hook after checks.

    Raises:
        AutogradError: The result is not a tuple with the right number of gradients.
    """
    values = replaced if isinstance(replaced, tuple) else (replaced,)
    if len(values) != len(given):
        raise AutogradError("hook", f"{len(values)} gradients from hook {name_of(hook)!r} for {len(given)}",
                            "a node's hook returns as many gradients as it is given",
                            "return a tuple with an entry for each, or None to keep them")
    for old, new in zip(given, values, strict=True):
        if new is not None:
            check_replacement(hook, old, new)
    return values
