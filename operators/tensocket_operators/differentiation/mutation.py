"""In-place changes of tensors that the graph has saved: the graph keeps a copy of the earlier value."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensocket_core.autograd.saved import saved_tensors_hooks
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.geometry import element_strides, memory_of, memory_offset
from tensocket_plugins.contract.errors import AutogradError

#: Identity of a tensor's value: its memory, version, key bits and layout.
_Key = tuple[Any, ...]


class LeftContextError(AutogradError, AssertionError):
    """Error: a backward pass runs outside of the context that saved its tensors. PyTorch raises AssertionError."""


class _Handle:
    """Placeholder that the graph holds instead of a saved tensor."""

    __slots__ = ("__weakref__", "context", "key", "value")

    def __init__(self, context: SavedForMutation, value: Any, key: _Key) -> None:
        self.context = context
        self.value = value
        self.key = key


class SavedForMutation:
    """The tensors saved inside one ``allow_mutation_on_saved_tensors``, by their memory.

    Attributes:
        cloned: Handles of tensors whose memory was about to change, with their copies.
        original: Handles of the other tensors, with the tensors.
        tid_to_weakhandle: By the identity of a tensor's value, the handle that replaces all saved tensors with it.
    """

    def __init__(self) -> None:
        self.cloned: weakref.WeakKeyDictionary[_Handle, Any] = weakref.WeakKeyDictionary()
        self.original: weakref.WeakKeyDictionary[_Handle, Any] = weakref.WeakKeyDictionary()
        self.tid_to_weakhandle: weakref.WeakValueDictionary[_Key, _Handle] = weakref.WeakValueDictionary()
        self._by_memory: dict[int, weakref.WeakSet[_Handle]] = {}
        self._open = True

    def pack(self, tensor: Any) -> _Handle:
        """Return the placeholder to store for a tensor."""
        array = tensor._array
        memory = id(memory_of(array))
        key = (memory, tensor._version, tensor._key, memory_offset(array), array.shape, element_strides(array))
        handle = self.tid_to_weakhandle.get(key)
        if handle is not None:
            return handle
        handle = self.tid_to_weakhandle[key] = _Handle(self, tensor, key)
        self.original[handle] = tensor
        # The handle keeps the memory alive, and so its identity valid; a set whose handles are gone is empty.
        self._by_memory.setdefault(memory, weakref.WeakSet()).add(handle)
        return handle

    def unpack(self, handle: _Handle) -> Any:
        """Return the tensor as it was when it was saved.

        Raises:
            LeftContextError: The context that saved it has ended.
        """
        if not self._open:
            raise LeftContextError("allow_mutation_on_saved_tensors", "Trying to backward outside of the "
                                   "'allow_mutation_on_saved_tensors' context in which the graph was recorded",
                                   "the graph is used in the context that recorded it", "call backward inside of it")
        return handle.value

    def before_change(self, tensor: Any) -> None:
        """Copy the saved tensors in a tensor's memory, which is about to change."""
        for handle in tuple(self._by_memory.pop(id(memory_of(tensor._array)), ())):
            self.tid_to_weakhandle.pop(handle.key, None)
            handle.value = handle.value.clone()
            self.cloned[handle] = handle.value
            self.original.pop(handle, None)

    def clear(self) -> None:
        """Drop all saved tensors, which can no longer be used."""
        self._open = False
        self._by_memory.clear()
        self.tid_to_weakhandle.clear()
        self.cloned.clear()
        self.original.clear()


class _CopyBeforeChange(TorchDispatchMode):
    """Mode that copies saved tensors before operators write to their memory."""

    def __init__(self, context: SavedForMutation) -> None:
        super().__init__()
        self._context = context

    def __torch_dispatch__(self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        given = kwargs or {}
        for k, parameter in enumerate(func.schema.parameters):
            if parameter.mutated:
                target = args[k] if k < len(args) else given.get(parameter.name)
                if hasattr(target, "_key"):
                    self._context.before_change(target)
        return func(*args, **given)


class _Thread(threading.local):
    entered = False


_THREAD: Final = _Thread()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[SavedForMutation]:
    """Allow in-place changes of tensors that the graph has saved: the graph keeps copies of the earlier values.

    Backward has to run inside of the context, too.

    Raises:
        AutogradError: The context is entered already.
    """
    if _THREAD.entered:
        raise AutogradError("allow_mutation_on_saved_tensors", "a second context", "the context does not nest",
                            "leave the first one")
    context = SavedForMutation()
    _THREAD.entered = True
    try:
        with saved_tensors_hooks(context.pack, context.unpack), _CopyBeforeChange(context):
            yield context
    finally:
        _THREAD.entered = False
        context.clear()
