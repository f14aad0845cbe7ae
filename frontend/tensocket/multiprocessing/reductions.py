"""Reduction of tensors for ``multiprocessing``: the receiver's tensor shares the sender's memory.

The sender's tensor is moved to shared memory (``share_memory_``) if it is not there yet, and the receiver gets a
descriptor of it. The sender must not exit before the receiver has the tensor.
"""

from __future__ import annotations

import os
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, Final
from weakref import WeakValueDictionary

from tensocket.errors import ArgumentError
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor
from tensocket_operators.interop.sending import attributes, on_host, on_memory, place_parts, segment_of
from tensocket_operators.interop.shared import Segment

STRATEGIES: Final = ("file_descriptor", "file_system")
_STRATEGY: Final = ["file_descriptor"]
#: Segments that this process received, by file, so that tensors that share memory also do so here.
_RECEIVED: Final[WeakValueDictionary[tuple[int, int], Segment]] = WeakValueDictionary()


def set_sharing_strategy(new_strategy: str) -> None:
    """Set how this process holds memory that it receives from other processes.

    Args:
        new_strategy: ``"file_descriptor"`` keeps a descriptor of all memory, so that it can be sent on as shared
            memory. ``"file_system"`` closes descriptors, for programs with more tensors than the system permits open
            files; received tensors are copied when they are sent on. Neither leaves anything in the file system.

    Raises:
        ArgumentError: ``new_strategy`` is neither of the two.
    """
    if new_strategy not in STRATEGIES:
        raise ArgumentError("set_sharing_strategy", repr(new_strategy),
                            "the strategy is 'file_descriptor' or 'file_system'", "pass one of these")
    _STRATEGY[0] = new_strategy


def get_sharing_strategy() -> str:
    """Return how this process holds memory that it receives from other processes."""
    return _STRATEGY[0]


def get_all_sharing_strategies() -> set[str]:
    """Return the names that ``set_sharing_strategy`` accepts."""
    return set(STRATEGIES)


def reduce_tensor(tensor: Any) -> Any:
    """Return the object that another process receives instead of a tensor.

    Raises:
        AutogradError: An operator made the tensor.
    """
    if not on_host(tensor):
        return tensor.__reduce_ex__(2)
    shared = tensor.share_memory_()
    segment, start = segment_of(shared)
    if segment.descriptor < 0:
        shared = tensor.detach().clone().share_memory_()
        segment, start = segment_of(shared)
    return _rebuild, (DupFd(segment.descriptor), segment.nbytes, start, type(tensor), place_parts(shared),
                      tensor.requires_grad), attributes(tensor) or None


def _rebuild(descriptor: Any, nbytes: int, start: int, cls: Any, place: tuple[Any, ...], requires_grad: bool) -> Any:
    memory = _received(descriptor.detach(), nbytes).array(start, nbytes - start)
    return on_memory(cls, memory, place, requires_grad)


def _received(descriptor: int, nbytes: int) -> Segment:
    status = os.fstat(descriptor)
    file = status.st_dev, status.st_ino
    segment = _RECEIVED.get(file)
    if segment is None:
        segment = _RECEIVED[file] = Segment(descriptor, nbytes)
        if _STRATEGY[0] == "file_system":
            segment.close()
    else:
        os.close(descriptor)
    return segment


def init_reductions() -> None:
    """Make ``multiprocessing`` send tensors and parameters through shared memory."""
    ForkingPickler.register(Tensor, reduce_tensor)
    ForkingPickler.register(Parameter, reduce_tensor)
