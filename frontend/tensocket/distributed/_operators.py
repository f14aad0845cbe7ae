"""The collectives as operators, by which subclasses of libraries define how they take part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket.library import Library


def _copied(tensor: Any, *_: Any, **__: Any) -> Any:
    """Return the result of a collective among one process: a copy of its tensor."""
    return tensor.clone()


def _awaited(tensor: Any) -> Any:
    """Return the tensor, which is available at once."""
    return tensor.view_as(tensor)


def _scattered(outputs: list[Any], inputs: list[list[Any]], *_: Any, **__: Any) -> tuple[list[Any], None]:
    """Copy the parts for the only process; there is nothing to wait for."""
    for output, parts in zip(outputs, inputs, strict=True):
        output.copy_(parts[0])
    return outputs, None


#: Schemas and functions by library. Names and arguments are those that programs for PyTorch pass.
_DEFINED: Final[dict[str, dict[str, Callable[..., Any]]]] = {
    "_c10d_functional": {
        "all_reduce(Tensor input, str reduce_op, Any group_name) -> Tensor": _copied,
        "all_gather_into_tensor(Tensor input, int group_size, Any group_name) -> Tensor": _copied,
        "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, Any group_name) -> Tensor": _copied,
        "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, Any group_name) "
        "-> Tensor": _copied,
        "broadcast(Tensor input, int src, Any group_name) -> Tensor": _copied,
        "wait_tensor(Tensor(a) tensor) -> Tensor(a)": _awaited,
        "_wrap_tensor_autograd(Tensor(a) input) -> Tensor(a)": _awaited,
    },
    "c10d_functional": {
        "all_reduce(Tensor self, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor": _copied,
        "all_gather_into_tensor(Tensor shard, str tag, int[] ranks, int group_size) -> Tensor": _copied,
        "reduce_scatter_tensor(Tensor input, str reduceOp, str tag, int[] ranks, int group_size) -> Tensor": _copied,
        "broadcast(Tensor self, int src, str tag, int[] ranks, int group_size) -> Tensor": _copied,
        "wait_tensor(Tensor(a) self) -> Tensor(a)": _awaited,
    },
    "c10d": {
        "scatter_(Tensor[] output_tensors, Any input_tensors, Any process_group, int root_rank, bool async_op=True, "
        "int timeout=-1) -> (Tensor[], Any)": _scattered,
    },
}


def _defined() -> list[Library]:
    """Define the operators, and return their libraries, which remove them when they are deleted."""
    libraries = []
    for name, operators in _DEFINED.items():
        library = Library(name, "FRAGMENT")
        for schema, function in operators.items():
            library.impl(library.define(schema), function, "CompositeExplicitAutograd")
        libraries.append(library)
    return libraries


_LIBRARIES: Final = _defined()
