"""The recorded graph for users: gradient edges, hooks on several tensors, saved tensors, versions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, AutogradError

from ..keys import AUTOGRAD
from .engine import current_pass
from .node import Node, gradient_place
from .saved import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """The place of a tensor in the graph, without the tensor.

    Attributes:
        node: The node that made the tensor; for a leaf its ``AccumulateGrad``.
        output_nr: Index of the node's output.
        ownership_token: Unused; PyTorch's third field.
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Return the gradient edge of a tensor, for ``backward`` and ``grad``.

    Raises:
        AutogradError: The tensor does not require grad.
    """
    if not tensor._key & AUTOGRAD:
        raise AutogradError("get_gradient_edge", f"a tensor of shape {list(tensor.shape)} without requires_grad",
                            "only tensors that require grad have a gradient edge", "set requires_grad=True")
    return GradientEdge(*gradient_place(tensor._grad_fn or tensor))


def increment_version(tensor: Any) -> None:
    """Count an in-place change that autograd did not notice.

    Args:
        tensor: A tensor, or several.
    """
    for each in (tensor,) if hasattr(tensor, "_key") else tensor:
        if each._version_counter is None:
            each._version_counter = [0]
        each._version_counter[0] += 1


class MultiHandle:
    """Handle that removes the hooks of ``register_multi_grad_hook``."""

    def __init__(self, handles: Iterable[Any]) -> None:
        self._handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hooks; a second call does nothing."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> MultiHandle:
    """Call ``fn`` once gradients of several tensors are known.

    Args:
        tensors: Tensors that require grad.
        fn: With ``mode="all"``, receives the list of gradients, None for tensors that the backward pass does not reach;
            with ``mode="any"``, receives the first gradient. It does not change gradients.
        mode: ``all`` or ``any``.

    Raises:
        ArgumentError: The mode is neither ``all`` nor ``any``.
    """
    if mode not in ("all", "any"):
        raise ArgumentError("register_multi_grad_hook", f"mode {mode!r}", "the mode is 'all' or 'any'",
                            "pass one of them")
    if not callable(fn):
        raise ArgumentTypeError("register_multi_grad_hook", f"a hook of type {type(fn).__name__}",
                                "hooks are functions", "pass a function")
    collector = _Collector(len(tensors), fn, mode)
    return MultiHandle([tensor.register_hook(collector.hook(k)) for k, tensor in enumerate(tensors)])


class _Collector:
    """Gradients of one backward pass; the hook on all runs when the last one arrives or the pass ends."""

    def __init__(self, count: int, function: Callable[..., Any], mode: str) -> None:
        self.count = count
        self.function = function
        self.mode = mode
        self._lock = threading.Lock()
        #: Gradients so far, by the number of the pass.
        self._passes: dict[int, dict[int, Any]] = {}

    def hook(self, index: int) -> Callable[[Any], None]:
        """Return the hook on one of the tensors."""

        def collect(grad: Any) -> None:
            self._collect(index, grad)

        return collect

    def _collect(self, index: int, grad: Any) -> None:
        running = current_pass()
        identity = 0 if running is None else running.number
        with self._lock:
            first = identity not in self._passes
            grads = self._passes.setdefault(identity, {})
            grads[index] = grad
        if first and running is not None:
            running.callbacks.append(lambda: self._end(identity))
        if self.mode == "any":
            if first:
                self.function(grad)
        elif len(grads) == self.count or running is None:
            self._call(identity)

    def _call(self, identity: int) -> None:
        with self._lock:
            grads = self._passes.get(identity)
            if grads is None:
                return
            values = [grads.get(k) for k in range(self.count)]
            # Emptied, not deleted: later gradients of the same pass must not start a new collection.
            grads.clear()
        self.function(values)

    def _end(self, identity: int) -> None:
        if self.mode == "all" and self._passes.get(identity):
            self._call(identity)
        self._passes.pop(identity, None)
