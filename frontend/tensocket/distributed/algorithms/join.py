"""Blocks in which processes may have unequal numbers of batches; the only process joins as the last one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tensocket_operators import errors

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """The actions of an object once its process has no more batches."""

    def main_hook(self) -> None:
        """Take part in an exchange of the processes that still have batches; never called with one process."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run once all processes have joined.

        Args:
            is_last_joiner: Whether this process is one of the last; the only process is.
        """


class Joinable(ABC):
    """The base class of joinable objects: modules and optimizers that exchange tensors with other processes."""

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook of this object.

        Args:
            kwargs: The arguments that ``Join`` got for its hooks.
        """

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device that its exchanges use."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group of its exchanges."""


class Join:
    """A block in which processes may have unequal numbers of batches.

    Args:
        joinables: The objects that take part, all of one group.
        enable: Whether their hooks are called.
        throw_on_early_termination: Whether to raise if another process has no more batches; there is no other process.
        kwargs: Arguments for the objects' ``join_hook``.

    Raises:
        ArgumentError: ``joinables`` is empty, or the objects belong to different groups.
    """

    def __init__(self, joinables: Sequence[Joinable], enable: bool = True, throw_on_early_termination: bool = False,
                 **kwargs: Any) -> None:
        if not joinables:
            raise errors.ArgumentError("Join", "no objects", "a block joins at least one object", "pass joinables")
        first = joinables[0].join_process_group
        if any(x.join_process_group is not first for x in joinables):
            raise errors.ArgumentError("Join", "objects of several process groups", "the objects share one group",
                                       "join them in blocks of their own")
        self._joinables = joinables
        self._enable = enable
        self._throw_on_early_termination = throw_on_early_termination
        self._join_hooks = [x.join_hook(**kwargs) for x in joinables]

    def __enter__(self) -> Join:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._enable and kind is None:
            for hook in self._join_hooks:
                hook.post_hook(True)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Announce before an exchange that this process still has batches; no other process waits for that.

        Args:
            joinable: The object that exchanges tensors.
        """
