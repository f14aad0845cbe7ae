"""Facts about nodes: their names, whether they are views, and the dtypes that they compute in."""

from __future__ import annotations

import operator
from typing import Any, Final

import onnx_ir as ir

import tensocket as torch
from tensocket.fx.node import Node
from tensocket_core.dispatch.schema import Schema

#: Operators whose result may be their argument, or a copy.
_MAYBE: Final = frozenset({"reshape", "flatten", "ravel", "contiguous", "to", "type_as", "float", "double", "half",
                           "int", "long", "bool", "cpu", "cuda", "dropout", "unflatten", "reshape_as", "view_as",
                           "getitem", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "einsum", "where"})


def name_of(node: Node) -> str:
    """Return the name of a node's operator or function."""
    return str(getattr(node.target, "name", getattr(node.target, "__name__", node.target)))


def writes_first(node: Node) -> bool:
    """Whether a node writes to its first argument, not only to others as layers do to their running statistics."""
    if not node.meta.get("writes"):
        return False
    schema = getattr(node.target, "schema", None)
    mutated = isinstance(schema, Schema) and bool(schema.parameters) and schema.parameters[0].mutated
    return mutated or name_of(node) == "setitem" or name_of(node).endswith("_")


def is_view(node: Node) -> bool:
    """Whether the result of a node shares the memory of its first argument."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return False
    if writes_first(node):
        return name_of(node) != "setitem"
    base = node.args[0]
    if node.target is operator.getitem:
        return is_view(base)
    schema = getattr(node.target, "schema", None)
    if not isinstance(schema, Schema) or not schema.may_alias:
        return False
    return name_of(node) not in _MAYBE or _stays(node, base)


def _stays(node: Node, base: Node) -> bool:
    """Whether an operator that may copy does not: the forms of its argument and result tell."""
    name = name_of(node)
    before, after = base.meta["val"], node.meta["val"]
    if name == "where" or not hasattr(after, "stride") or before.dtype is not after.dtype:
        return False
    if name == "getitem":
        return False  # reads at vectors of places
    if "dropout" in name:
        return not node.args[2:] or not node.args[2]
    if name in ("reshape", "flatten", "ravel", "unflatten", "reshape_as", "view_as"):
        form = torch.empty_strided([int(n) for n in before.shape], before.stride(), dtype=before.dtype, device="meta")
        try:
            form.view([int(n) for n in after.shape])
        except RuntimeError:
            return False
        return True
    return bool(before.stride() == after.stride())


def numbered(opset: Any, recorder: Any, value: Any) -> Any:
    """Return a tensor of the shape of a value, whose elements are their places in the flat value."""
    zero, one = (recorder.constant(n, ir.DataType.INT64) for n in (0, 1))
    made = opset.Reshape(opset.Range(zero, opset.Size(value), one), opset.Shape(value))
    made.dtype, made.shape = ir.DataType.INT64, value.shape
    return made


def promoted(forms: list[Any], numbers: list[Any]) -> Any:
    """Return the dtype in which operands of these forms meet, and numbers."""
    dtype = forms[0].dtype
    tensors: list[Any] = [torch.empty([1] * len(x.shape), dtype=x.dtype, device="meta") for x in forms]
    operands = [*tensors, *numbers]
    first = operands[0]
    for other in operands[1:]:
        dtype = torch.result_type(first, other)
        first = torch.empty([1] * max(getattr(first, "dim", int)(), getattr(other, "dim", int)()), dtype=dtype,
                            device="meta")
    return dtype
