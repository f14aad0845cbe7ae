"""Hooks on saved tensors: packing, storing and unpacking."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError

from ..device import thread_streams
from ..dispatch.derivative import Derivative
from ..dispatch.modes import INHERITED
from ..keys import AUTOGRAD, OPTIONS
from ..recording import SlowPathReason
from . import anomaly
from . import node as nodes
from .hooks import Extras

_new = object.__new__
Pack = Callable[[Any], Any]


class _Thread(threading.local):
    """Hooks of this thread, the innermost last, and the reason if hooks are disabled."""

    hooks: tuple[tuple[Pack, Pack], ...] = ()
    refusal: str | None = None


_THREAD: Final = _Thread()
INHERITED.append(_THREAD)


class Packed:
    """A saved tensor that a hook has packed.

    A tensor of a transform is detached only from that transform's graph, and unpacks as a tensor of that transform: the
    graphs of lower levels pass through the hooks.

    Args:
        value: The tensor.
        pack: Returns the object to store.
        unpack: Returns a tensor from that object.
    """

    __slots__ = ("_edge", "_stored", "_transform", "_unpack")

    def __init__(self, value: Any, pack: Pack, unpack: Pack) -> None:
        key = value._key
        self._edge = (value._grad_fn or value) if key & AUTOGRAD else None
        self._transform = value._transform if value._level else None
        plain = value._cut()
        version = plain._version
        self._stored = pack(plain)
        self._unpack = unpack
        if plain._version != version:
            raise AutogradError("saved_tensors_hooks", "a tensor that the pack hook modified in place",
                                "pack hooks leave their argument as it is", "work on a clone of it")

    def unpack(self, node: Any) -> Any:
        """Return the tensor, with its place in the graph."""
        value = self._unpack(self._stored)
        if not hasattr(value, "_key"):
            raise ArgumentTypeError("saved_tensors_hooks",
                                    f"{type(value).__name__} from the unpack hook of {node.name()}",
                                    "unpack hooks return a tensor", "return the tensor that was packed")
        if self._transform is not None:
            value = self._transform.lift(value)
        if self._edge is None:
            return value._cut() if value._key & AUTOGRAD else value
        alias = value._cut()
        alias._grad_fn = _passed_on(alias, self._edge)
        alias._key |= AUTOGRAD
        return alias


_IDENTITY: Final = Derivative(input=lambda grad: grad)
_IDENTITY.name, _IDENTITY.picks = "UnpackBackward0", ((),)


def _passed_on(value: Any, edge: Any) -> Any:
    """Return an edge that a tensor can have as its node; for a leaf, a node that passes gradients on to it."""
    if not hasattr(edge, "_key"):
        return edge
    node = _new(nodes.Node)
    node.derivative = _IDENTITY
    node.edges = (edge,)
    node.sequence = next(nodes.SEQUENCE)
    node.shape = value._array.shape
    node.options = value._key & OPTIONS
    node.saved = node.versions = ()
    node.extras = None
    return node


def pack_values(saved: tuple[Any, ...], versions: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return saved tensors and their versions after this thread's hooks."""
    if not _THREAD.hooks:
        return saved, versions
    pack, unpack = _THREAD.hooks[-1]
    # The hooks are off meanwhile, so that tensors they save are not packed in turn.
    before, _THREAD.hooks = _THREAD.hooks, ()
    try:
        packed = tuple([Packed(v, pack, unpack) if n >= 0 else v for v, n in zip(saved, versions, strict=True)])
    finally:
        _THREAD.hooks = before
    return packed, tuple([nodes.PACKED if n >= 0 else n for n in versions])


def complete(node: Any) -> None:
    """Complete a new node while ``recording.RECORDING_SLOW_PATHS`` holds an entry."""
    if node.saved:
        node.saved, node.versions = pack_values(node.saved, node.versions)
    streams = thread_streams()
    if streams or anomaly.enabled():
        if node.extras is None:
            node.extras = Extras()
        node.extras.streams = streams
        if anomaly.enabled():
            anomaly.remember(node.extras)


class saved_tensors_hooks:
    """A block in which ``pack_hook`` packs the tensors saved for backward, and ``unpack_hook`` unpacks them.

    Args:
        pack_hook: Receives the tensor; its result is stored.
        unpack_hook: Receives the stored object; returns a tensor of the same values.

    Raises:
        ArgumentTypeError: A hook is not callable.
        AutogradError: Hooks are disabled in this thread.
    """

    def __init__(self, pack_hook: Pack, unpack_hook: Pack) -> None:
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise ArgumentTypeError("saved_tensors_hooks", f"a hook of type {type(hook).__name__}",
                                        "hooks are functions", "pass pack_hook and unpack_hook")
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._reasons: list[SlowPathReason] = []

    def __enter__(self) -> None:
        if _THREAD.refusal is not None:
            raise AutogradError("saved_tensors_hooks", _THREAD.refusal, "hooks on saved tensors are disabled here",
                                "leave disable_saved_tensors_hooks first")
        self._reasons.append(SlowPathReason())
        _THREAD.hooks = (*_THREAD.hooks, (self.pack_hook, self.unpack_hook))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _THREAD.hooks = _THREAD.hooks[:-1]
        self._reasons.pop()


class save_on_cpu(saved_tensors_hooks):
    """A block in which saved tensors are stored in host memory.

    Args:
        pin_memory: Accepted as in PyTorch; host memory is that of the CPU backend.
        device_type: Accepted as in PyTorch; tensors return to their original device.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.to("cpu").clone()),
                         lambda stored: stored[1].to(stored[0]))
        self.pin_memory = pin_memory
        self.device_type = device_type


def hooks_are_enabled() -> bool:
    """Whether this thread may have hooks on saved tensors."""
    return _THREAD.refusal is None


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Disable hooks on saved tensors within a block; registering one raises this message.

    Raises:
        AutogradError: Hooks are active.
    """
    if _THREAD.hooks:
        raise AutogradError("disable_saved_tensors_hooks", error_message, "no hooks are active when they are disabled",
                            "leave saved_tensors_hooks first")
    before, _THREAD.refusal = _THREAD.refusal, error_message
    try:
        yield
    finally:
        _THREAD.refusal = before
