"""Groups of processes and their collectives, for a single process.

A program for several processes runs with a world of size one: every collective leaves or copies the data of the only
rank. Initialisation refuses a larger world.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any, ClassVar, Final

from tensocket.errors import ProcessGroupError


class ReduceOp(IntEnum):
    """The reduction of the ranks' values; a single rank's value stays unchanged."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


#: The name of the same class in PyTorch's native module.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class Backend(str):
    """The name of a communication backend."""

    __slots__ = ()

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    MPI = "mpi"
    UCC = "ucc"
    #: The backend of a device's tensors, by default.
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": "gloo", "cuda": "nccl"}


class Work:
    """A collective that was called with ``async_op=True``; it completes immediately."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        """Return True: the work is complete."""
        return True

    def is_completed(self) -> bool:
        """Return True: the work is complete."""
        return True

    is_success = is_completed

    def result(self) -> Any:
        """Return the result of the work."""
        return self._result

    def get_future(self) -> Work:
        """Return a completed future."""
        return self

    value = result


class ProcessGroup:
    """A group with this process as its only rank.

    Args:
        backend: The name of a communication backend.
    """

    def __init__(self, backend: str = "gloo") -> None:
        self.backend = Backend(backend)

    def rank(self) -> int:
        """Return 0."""
        return 0

    def size(self) -> int:
        """Return 1."""
        return 1


class GroupMember:
    """Predefined groups."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: Final = object()


group = GroupMember
#: How long collectives may take.
default_pg_timeout: Final = timedelta(minutes=30)
_GROUPS: Final[list[ProcessGroup]] = []


def _member(group: Any, operator: str) -> ProcessGroup:
    """Return the group that the argument means.

    Raises:
        ProcessGroupError: The group does not exist.
    """
    world = GroupMember.WORLD
    if world is None:
        raise ProcessGroupError(operator, "no group of processes", "the default process group has not been initialized",
                                "call init_process_group first")
    return group if isinstance(group, ProcessGroup) else world


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is not in a group."""
    return group is GroupMember.NON_GROUP_MEMBER


def _get_default_group() -> ProcessGroup:
    """Return the group of all processes."""
    return _member(None, "get_default_group")


def _only(operator: str, rank: Any) -> None:
    """Check a rank that an operator gets.

    Raises:
        ProcessGroupError: The rank is not 0.
    """
    if rank not in (None, 0):
        raise ProcessGroupError(operator, f"rank {rank}", "the group has 1 process, of rank 0", "pass 0")


# ------------------------------------------------------------------------------------------------------------ groups

def is_available() -> bool:
    """Return True: programs for several processes run, with one."""
    return True


def is_initialized() -> bool:
    """Whether ``init_process_group`` was called."""
    return GroupMember.WORLD is not None


def _false() -> bool:
    """Return False: there is no communication backend."""
    return False


is_nccl_available = is_mpi_available = is_ucc_available = is_xccl_available = is_torchelastic_launched = _false


def is_gloo_available() -> bool:
    """Return True: a group of one process needs no communication."""
    return True


def is_backend_available(backend: str) -> bool:
    """Whether a group can be initialised with this name."""
    return backend.lower() == "gloo"


def init_process_group(backend: str | None = None, init_method: str | None = None, timeout: Any = None,
                       world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "",
                       pg_options: Any = None, device_id: Any = None) -> None:
    """Make the group of all processes, which consists of this one.

    Args:
        backend: The group's name.
        init_method: Accepted as in PyTorch: there is no process to find.
        timeout: Accepted as in PyTorch, like all arguments after ``rank``.
        world_size: Number of processes; ``WORLD_SIZE`` of the environment, or 1, if negative.
        rank: This process's number; ``RANK`` of the environment, or 0, if negative.
        store: Rendezvous of processes.
        group_name: A name.
        pg_options: Options of the backend.
        device_id: The device.

    Raises:
        ProcessGroupError: The group exists already, or the world has more than one process.
    """
    size = world_size if world_size >= 0 else int(os.environ.get("WORLD_SIZE", "1"))
    number = rank if rank >= 0 else int(os.environ.get("RANK", "0"))
    if GroupMember.WORLD is not None:
        raise ProcessGroupError("init_process_group", "a second default group", "there is one default process group",
                                "call destroy_process_group first, or make another with new_group")
    if size != 1 or number != 0:
        raise ProcessGroupError("init_process_group", f"rank {number} of {size} processes",
                                "programs run as 1 process", "start the program once, with WORLD_SIZE=1")
    GroupMember.WORLD = ProcessGroup((backend or "gloo").lower())


def destroy_process_group(group: Any = None) -> None:
    """Delete a group; by default the default group and all others."""
    if _member(group, "destroy_process_group") is GroupMember.WORLD:
        GroupMember.WORLD = None
        _GROUPS.clear()
    elif group in _GROUPS:
        _GROUPS.remove(group)


def new_group(ranks: Sequence[int] | None = None, timeout: Any = None, backend: str | None = None,
              pg_options: Any = None, use_local_synchronization: bool = False, group_desc: Any = None,
              device_id: Any = None, sort_ranks: bool = True) -> Any:
    """Return another group of this process; ``GroupMember.NON_GROUP_MEMBER`` if ``ranks`` is empty.

    Args:
        ranks: Members.
        timeout: Accepted as in PyTorch, like the others.
        backend: The group's name.
        pg_options: Options of the backend.
        use_local_synchronization: Whether to wait only for the group's processes.
        group_desc: A description.
        device_id: The device.
        sort_ranks: Whether ranks are sorted.
    """
    world = _member(None, "new_group")
    for rank in ranks or ():
        _only("new_group", rank)
    if ranks is not None and not len(ranks):
        return GroupMember.NON_GROUP_MEMBER
    _GROUPS.append(ProcessGroup((backend or world.backend).lower()))
    return _GROUPS[-1]


def new_subgroups(group_size: int | None = None, group: Any = None, *args: Any, **options: Any
                  ) -> tuple[Any, list[Any]]:
    """Return this process's subgroup, and all subgroups."""
    made = new_group([0])
    return made, [made]


def get_rank(group: Any = None) -> int:
    """Return the number of this process: 0, or -1 if it is not in the group."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else _member(group, "get_rank").rank()


def get_world_size(group: Any = None) -> int:
    """Return the number of processes: 1, or -1 if this one is not in the group."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else _member(group, "get_world_size").size()


def get_backend(group: Any = None) -> Backend:
    """Return the name of the communication backend."""
    return _member(group, "get_backend").backend


def get_process_group_ranks(group: Any) -> list[int]:
    """Return the members."""
    return [_member(group, "get_process_group_ranks").rank()]


def get_global_rank(group: Any, group_rank: int) -> int:
    """Return a member's number in the world."""
    _only("get_global_rank", group_rank)
    return 0


def get_group_rank(group: Any, global_rank: int) -> int:
    """Return a process's number in a group."""
    _only("get_group_rank", global_rank)
    return 0


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's number on its machine, from ``LOCAL_RANK`` of the environment.

    Raises:
        ProcessGroupError: The variable is not set, and ``fallback_rank`` is not given.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise ProcessGroupError("get_node_local_rank", "no LOCAL_RANK", "the environment tells the local rank",
                                "pass fallback_rank")
    return fallback_rank
