"""The built-in device ``meta``: tensors with shape, strides and dtype, and without data.

It is an opened device like any other, so every operator takes the code path of real devices: it allocates storages
without memory, and its table of compiled programs answers every key with a function that does nothing, before any
program is built. A call that needs values raises ``MissingDataError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.arrays import Array, Block
from tensocket_plugins.contract.backend import Allocator, Event, OpenDevice, Stream
from tensocket_plugins.contract.descriptor import Profile
from tensocket_plugins.contract.dtypes import BY_NAME
from tensocket_plugins.contract.errors import MissingDataError
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.ir.target import Target

META: Final = "meta"


def missing_data(operator: str, what: str = "a meta tensor") -> MissingDataError:
    """Return the error for a call that needs the values of a meta tensor."""
    return MissingDataError(operator, what, "Cannot copy out of meta tensor; no data!",
                            "compute it on a device that holds data, or use Module.to_empty() to give it memory")


class NoPrograms(dict[Any, Any]):
    """Compiled programs of a device that computes nothing: every key has the same program, which does nothing."""

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the function that does nothing."""
        return _do_nothing


def _do_nothing(buffers: Sequence[Any], scalars: Sequence[int | float], stream: Stream) -> None:
    """Run no kernel."""


class MetaAllocator(Allocator):
    """An allocator of blocks without memory; a block is the identity that views share."""

    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """Return a block that reports ``nbytes`` bytes."""
        return Block(None, nbytes, stream)

    def free(self, block: Block) -> None:
        """Do nothing: a block has no memory."""


class MetaStream(Stream):
    """A queue without work."""

    def synchronize(self) -> None:
        """Do nothing: no work is pending."""

    def query(self) -> bool:
        """Return True: no work is pending."""
        return True

    def wait(self, event: Event) -> None:
        """Do nothing: no work is pending."""

    def record(self, event: Event) -> None:
        """Do nothing: no work is pending."""


class MetaDevice(OpenDevice):
    """The one meta device."""

    def __init__(self) -> None:
        self.name = META
        self.index = 0
        self.profile = Profile(dtypes=frozenset(BY_NAME))
        self.kernels = KernelTable()
        self.allocator = MetaAllocator()
        self.default_stream = MetaStream()
        self.target = Target(kind="interpreter")

    def copy(self, dst: Array, src: Array, stream: Stream) -> None:
        """Copy nothing to an array without data.

        Raises:
            MissingDataError: ``dst`` is on the host.
        """
        if isinstance(dst, np.ndarray):
            raise missing_data("copy", f"a meta tensor of shape {list(src.shape)}")

    def synchronize(self) -> None:
        """Do nothing: no work is pending."""

    def data_ptr(self, array: Array) -> int:
        """Return 0, because the device has no memory."""
        return 0
