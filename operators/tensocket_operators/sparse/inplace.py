"""Operators that write to sparse tensors: the parts of the out-of-place result become the tensor's parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.promotion import can_cast
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .arithmetic import LINEAR, OF_VALUES
from .layouts import as_coo, become, in_layout_of
from .tensor import RULES, adopt, is_sparse, sparse_rule

#: Operators with an in-place form, which writes to the first operand.
_WRITTEN: Final = (
    *OF_VALUES, *LINEAR, "add", "addmm", "div", "divide", "floor_divide", "mul", "multiply", "pow", "squeeze",
    "sspaddmm", "sub", "subtract", "swapaxes", "swapdims", "t", "transpose", "true_divide", "unsqueeze",
)


def _written(name: str) -> Callable[..., Any]:
    def rule(input: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_sparse(input):
            return _into_dense(name, input, *args, **kwargs)
        if name in OF_VALUES and not input.coalesced:
            raise ArgumentError(name + "_", f"an uncoalesced tensor ({name}_ requires coalesced input)",
                                "values at one position are added before they are mapped", "call coalesce() first")
        return become(input, RULES[name](input, *args, **kwargs), name + "_")

    return rule


def _into_dense(name: str, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an in-place operator that writes to a dense tensor and has a sparse operand."""
    made = RULES[name](input, *args, **kwargs)
    dense = made.to_dense() if is_sparse(made) else made
    if tuple(dense.shape) != tuple(input.shape):
        raise ShapeError(name + "_", f"a result of shape {list(dense.shape)} for {list(input.shape)}",
                         "what is written has the tensor's shape", f"use {name}")
    if not can_cast(dense.dtype, input.dtype):
        raise DtypeError(name + "_", f"a result of dtype {dense.dtype.name} for a tensor of dtype {input.dtype.name}",
                         "what is written can be cast to the tensor's dtype", f"use {name}")
    return input.copy_(dense)


RULES.update({name + "_": _written(name) for name in _WRITTEN if name in RULES})


def into_out(name: str, made: Any, out: Any) -> Any:
    """Write a result to ``out``.

    Raises:
        ArgumentError: The result is dense and ``out`` is sparse.
    """
    if is_sparse(out) and is_sparse(made):
        return become(out, made, name)
    if is_sparse(out):
        raise ArgumentError(name, f"out of layout {out.layout!r} for a dense result", "both have one layout",
                            "pass a dense out")
    plain = made.to_dense() if is_sparse(made) else made
    if not can_cast(plain.dtype, out.dtype):
        raise DtypeError(name, f"a result of dtype {plain.dtype.name} for an out of dtype {out.dtype.name}",
                         "what is written can be cast to the tensor's dtype", "pass an out of another dtype")
    return (out if tuple(out.shape) == tuple(plain.shape) else out.resize_(tuple(plain.shape))).copy_(plain)


RULES["out"] = into_out


@sparse_rule("copy_")
def _copy_(input: Any, src: Any, non_blocking: bool = False) -> Any:
    if not (is_sparse(input) and is_sparse(src)):
        raise ArgumentError("copy_", "a sparse and a dense tensor", "both have one layout",
                            "convert one with to_sparse() or to_dense()")
    if tuple(input.shape) != tuple(src.shape):
        raise ShapeError("copy_", f"shape {list(src.shape)} for {list(input.shape)}",
                         "sparse tensors are not broadcast when they are copied", "expand the source")
    made = src if src._kind is input._kind else in_layout_of(as_coo(src), input)
    return adopt(input, RULES["to"](made, device=input.device, dtype=input.dtype, copy=True))

