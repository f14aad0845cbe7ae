"""A tracker of the modules that are being computed, forward and backward."""

from __future__ import annotations

import weakref
from typing import Any

from tensocket.nn.modules.module import (
    Module,
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from tensocket_core.autograd.engine import current_pass, queue_callback
from tensocket_core.autograd.graph import register_multi_grad_hook
from tensocket_core.pytree import tree_leaves
from tensocket_operators import Tensor


class ModuleTracker:
    """A context manager that tracks the modules that are being computed.

    Attributes:
        parents: Dotted names of these modules, from the class of the outermost one, and ``Global``.
    """

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []
        self._waits_for_end = False

    @property
    def is_bw(self) -> bool:
        """Whether gradients are being computed."""
        return current_pass() is not None

    def __enter__(self) -> ModuleTracker:
        self._handles += [register_module_forward_pre_hook(self._before), register_module_forward_hook(self._after)]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _name(self, module: Module) -> str:
        if module not in self._names:
            self._names[module] = type(module).__name__
        name = self._names[module]
        for below, child in module.named_modules(prefix=name):
            self._names.setdefault(child, below)
        return name

    def _before(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        # The gradients of the inputs come last in the module's part of the backward pass.
        self._watch(args, lambda _: self.parents.discard(name))

    def _after(self, module: Module, args: Any, result: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)
        self._watch(result, lambda _: self._enter_backward(name))

    def _watch(self, values: Any, hook: Any) -> None:
        tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor) and leaf.requires_grad]
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, hook))

    def _enter_backward(self, name: str) -> None:
        if not self._waits_for_end:
            self._waits_for_end = True
            queue_callback(self._end)
        self.parents.add(name)

    def _end(self) -> None:
        self.parents = {"Global"}
        self._waits_for_end = False


__all__ = ["ModuleTracker"]
