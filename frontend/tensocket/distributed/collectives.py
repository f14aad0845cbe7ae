"""Collectives of a group with one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket.errors import ProcessGroupError

from .distributed_c10d import ReduceOp, Work, _member, _only


def _same(operator: str, lists: Sequence[Any]) -> Any:
    """Return the single element of a list with one element per rank.

    Raises:
        ProcessGroupError: The list does not have exactly one element.
    """
    if len(lists) != 1:
        raise ProcessGroupError(operator, f"{len(lists)} tensors", "there is one tensor for each of the 1 processes",
                                "pass a list of get_world_size() tensors")
    return lists[0]


def _done(async_op: bool, result: Any = None) -> Work | None:
    return Work(result) if async_op else None


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Work | None:
    """Return at once: there are no other processes."""
    _member(group, "barrier")
    return _done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Return at once: there are no other processes."""
    _member(group, "monitored_barrier")


def all_reduce(tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Leave ``tensor`` unchanged: it is the sum, mean or maximum over one rank."""
    _member(group, "all_reduce")
    return _done(async_op, [tensor])


all_reduce_coalesced = all_reduce


def reduce(tensor: Any, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False,
           group_dst: int | None = None) -> Work | None:
    """Leave ``tensor`` unchanged."""
    _member(group, "reduce")
    _only("reduce", dst if dst is not None else group_dst)
    return _done(async_op, [tensor])


def broadcast(tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False,
              group_src: int | None = None) -> Work | None:
    """Leave ``tensor`` unchanged: it is the source's."""
    _member(group, "broadcast")
    _only("broadcast", src if src is not None else group_src)
    return _done(async_op, [tensor])


def all_gather(tensor_list: Sequence[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy ``tensor`` into the only element of ``tensor_list``."""
    _member(group, "all_gather")
    _same("all_gather", tensor_list).detach().copy_(tensor.detach())
    return _done(async_op, list(tensor_list))


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
                           ) -> Work | None:
    """Copy a tensor; the result may have an additional leading dimension of size 1."""
    _member(group, "all_gather_into_tensor")
    output_tensor.detach().copy_(input_tensor.detach().reshape(output_tensor.shape))
    return _done(async_op, output_tensor)


_all_gather_base = all_gather_into_tensor


def gather(tensor: Any, gather_list: Sequence[Any] | None = None, dst: int | None = None, group: Any = None,
           async_op: bool = False, group_dst: int | None = None) -> Work | None:
    """Copy ``tensor`` into the only element of ``gather_list``."""
    _member(group, "gather")
    _only("gather", dst if dst is not None else group_dst)
    _same("gather", gather_list or ()).detach().copy_(tensor.detach())
    return _done(async_op, gather_list)


def scatter(tensor: Any, scatter_list: Sequence[Any] | None = None, src: int | None = None, group: Any = None,
            async_op: bool = False, group_src: int | None = None) -> Work | None:
    """Copy the only element of ``scatter_list`` into ``tensor``."""
    _member(group, "scatter")
    _only("scatter", src if src is not None else group_src)
    tensor.detach().copy_(_same("scatter", scatter_list or ()).detach())
    return _done(async_op, tensor)


def reduce_scatter(output: Any, input_list: Sequence[Any], op: ReduceOp = ReduceOp.SUM, group: Any = None,
                   async_op: bool = False) -> Work | None:
    """Copy the only element of ``input_list`` into ``output``."""
    _member(group, "reduce_scatter")
    output.detach().copy_(_same("reduce_scatter", input_list).detach())
    return _done(async_op, output)


def reduce_scatter_tensor(output: Any, input: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None,
                          async_op: bool = False) -> Work | None:
    """Copy a tensor, which may have an additional leading dimension of size 1."""
    _member(group, "reduce_scatter_tensor")
    output.detach().copy_(input.detach().reshape(output.shape))
    return _done(async_op, output)


_reduce_scatter_base = reduce_scatter_tensor


def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None,
               async_op: bool = False) -> Work | None:
    """Copy the only input into the only output."""
    _member(group, "all_to_all")
    _same("all_to_all", output_tensor_list).detach().copy_(_same("all_to_all", input_tensor_list).detach())
    return _done(async_op, output_tensor_list)


def all_to_all_single(output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None,
                      group: Any = None, async_op: bool = False) -> Work | None:
    """Copy ``input`` into ``output``."""
    _member(group, "all_to_all_single")
    output.detach().copy_(input.detach())
    return _done(async_op, output)


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Any:
    """Refuse: there are no other processes.

    Raises:
        ProcessGroupError: Always.
    """
    _member(group, "send")
    raise ProcessGroupError("send", f"rank {dst if dst is not None else group_dst}",
                            "messages go to another process, and there is 1 process",
                            "send only if get_world_size() > 1")


recv = isend = irecv = send


def send_object_list(object_list: Sequence[Any], dst: int | None = None, group: Any = None, device: Any = None,
                     group_dst: int | None = None, use_batch: bool = False) -> Any:
    """Refuse: there are no other processes.

    Raises:
        ProcessGroupError: Always.
    """
    return send(None, dst, group, 0, group_dst)


recv_object_list = send_object_list


class P2POp:
    """A message to another process, for ``batch_isend_irecv``.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: The tensor.
        peer: The other process.
        group: The group; all processes by default.
        tag: A number of the message.
        group_peer: The other process's number in the group.
    """

    def __init__(self, op: Any, tensor: Any, peer: int | None = None, group: Any = None, tag: int = 0,
                 group_peer: int | None = None) -> None:
        self.op, self.tensor, self.peer = op, tensor, peer if peer is not None else group_peer
        self.group, self.tag = group, tag


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Any]:
    """Run messages; without any, nothing happens.

    Raises:
        ProcessGroupError: There is a message: there are no other processes.
    """
    return [send(each.tensor, each.peer, each.group, each.tag) for each in p2p_op_list]


# ----------------------------------------------------------------------------------------------------------- objects

def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put ``obj`` into the list."""
    _member(group, "all_gather_object")
    object_list[0] = obj


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
                  group_dst: int | None = None) -> None:
    """Put ``obj`` into the list."""
    _member(group, "gather_object")
    if object_gather_list is not None:
        object_gather_list[0] = obj


def broadcast_object_list(object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
                          group_src: int | None = None) -> None:
    """Leave the list unchanged: it is the source's."""
    _member(group, "broadcast_object_list")


def scatter_object_list(scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
                        src: int | None = None, group: Any = None, group_src: int | None = None) -> None:
    """Put the only input into the output."""
    _member(group, "scatter_object_list")
    scatter_object_output_list[0] = _same("scatter_object_list", scatter_object_input_list or ())
