"""Rules of operations on types: functions with the operations' own parameters, which are types or constants.

Three tables hold them by the function, or the class of the module, that a node calls: ``INFERENCE`` finds the type of
the result, ``REFINEMENT`` sizes that agree, and ``EXPRESSIONS`` sizes as formulas.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod
from numbers import Number
from typing import Any, Final

import tensocket_operators as ops
from tensocket import nn
from tensocket.errors import ArgumentTypeError

from ..node import Node, map_arg
from ..tensor_type import Dyn, TensorType, is_consistent, is_more_precise
from ._sizes import broadcast_types, calculate_out_dimension, expand_to_tensor_dim, get_greatest_upper_bound
from .refinement_types import Equality

Rule = Callable[..., Any]


def _mistake(n: Node, given: str, rule: str) -> ArgumentTypeError:
    return ArgumentTypeError("type_check", f"node {n} with {given}", rule, "correct the annotations or the program")


def _types(n: Node) -> Any:
    """Return the arguments of a call with types instead of nodes."""
    return map_arg((n.args, n.kwargs), lambda node: node.type)


# Types of results.

def _is_number(t: Any) -> bool:
    return isinstance(t, Number) or (isinstance(t, type) and issubclass(t, Number))


def _add(n: Node, input: Any, other: Any, alpha: Any = 1) -> Any:
    if _is_number(input) or _is_number(other):
        return other if _is_number(input) else input
    left, right = broadcast_types(input, other)
    n.meta["broadcast"] = left != input or right != other
    if n.meta["broadcast"]:
        n.meta.update(zip(map(str, n.all_input_nodes), (left, right), strict=False))
    if not is_consistent(left, right):
        named = " and ".join(f"{node} ({node.type})" for node in n.all_input_nodes)
        raise _mistake(n, "operands that do not fit", f"Cannot add arguments {named} in node {n}. Types should match")
    # An unknown size may be 1 and so become the other's: the sum knows no more than the less precise operand.
    return right if is_more_precise(left, right) else left


def _getattr(n: Node, value: Any, name: str) -> Any:
    if name != "shape":
        raise _mistake(n, f"the attribute {name}", "Not yet implemented: only the attribute shape has a type")
    return Dyn  # there is no type of sizes


def _axes(rank: int, *dims: int) -> list[int] | None:
    """Return dimensions counted from the front, or None if one does not exist."""
    return [dim % rank for dim in dims] if all(-rank <= dim < rank for dim in dims) else None


def _transpose(n: Node, input: Any, dim0: int, dim1: int) -> Any:
    if input == Dyn:
        return Dyn
    axes = _axes(len(input.dims), dim0, dim1) if isinstance(input, TensorType) else None
    if axes is None:
        raise _mistake(n, f"an operand of type {input}", f"Cannot transpose {dim0} and {dim1} in type {input} "
                       f"for node {n}")
    sizes = list(input.dims)
    sizes[axes[0]], sizes[axes[1]] = sizes[axes[1]], sizes[axes[0]]
    return TensorType(sizes)


def _reshape(n: Node, input: Any, shape: Sequence[Any]) -> Any:
    result = TensorType([Dyn if size == -1 else size for size in shape])
    if input != Dyn and not (isinstance(input, TensorType) and _fits(input.dims, result.dims)):
        raise _mistake(n, f"an operand of type {input}", f"Cannot reshape in node {n} from {input} to {result}")
    return result


def _fits(old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Whether two lists of sizes may have the same product, where one side's unknown sizes count as a factor.

    With unknown sizes on both sides, PyTorch's rule is narrow: [Dyn, 5] does not fit [2, Dyn], although [2, 5] would.
    """
    before, after = (prod(size for size in sizes if size != Dyn) for sizes in (old, new))
    return (before == after or (Dyn in old and before != 0 and after % before == 0)
            or (Dyn in new and after != 0 and before % after == 0))


def _flatten(n: Node, input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if input == Dyn:
        return Dyn
    axes = _axes(len(input.dims), start_dim, end_dim) if isinstance(input, TensorType) else None
    if axes is None or axes[0] > axes[1]:
        raise _mistake(n, f"an operand of type {input}", f"Incompatible dimensions {start_dim}, {end_dim} in type "
                       f"{input}")
    first, last = axes
    middle = input.dims[first:last + 1]
    return TensorType((*input.dims[:first], Dyn if Dyn in middle else prod(middle), *input.dims[last + 1:]))


def _cat(n: Node, tensors: Sequence[Any], dim: int = 0) -> Any:
    known = [t for t in tensors if isinstance(t, TensorType)]
    if not known:
        return Dyn
    axes = _axes(len(known[0].dims), dim)
    if axes is None:
        raise _mistake(n, f"operands of types {list(tensors)}", f"Cannot join dimension {dim} of type {known[0]}")
    axis = axes[0]
    others = (TensorType((*t.dims[:axis], Dyn, *t.dims[axis + 1:])) for t in known)
    sizes = list(reduce(get_greatest_upper_bound, others).dims)
    if len(known) == len(tensors) and all(t.dims[axis] != Dyn for t in known):
        sizes[axis] = sum(t.dims[axis] for t in known)
    return TensorType(sizes)


def _conv2d(n: Node, module: Any, input: TensorType) -> TensorType:
    if not is_consistent(input.dims[1], module.in_channels):
        raise _unfit(n, module, input)
    return TensorType((input.dims[0], module.out_channels, *_windows(module, input.dims[2:])))


def _batch_norm2d(n: Node, module: Any, input: TensorType) -> TensorType:
    if not (is_consistent(input.dims[1], module.num_features) and is_consistent(n.type.dims[1], module.num_features)):
        raise _unfit(n, module, input)
    return TensorType((input.dims[0], module.num_features, *input.dims[2:]))


def _unfit(n: Node, module: Any, input: Any) -> ArgumentTypeError:
    return _mistake(n, f"{module}", f"Cannot apply {module} with input type {input} and existing type {n.type} on {n}")


def _windows(module: Any, sizes: Sequence[Any]) -> list[Any]:
    return [calculate_out_dimension(size, module, index) for index, size in enumerate(sizes)]


def _relu(n: Node, module: Any, input: TensorType) -> TensorType:
    return input


def _max_pool2d(n: Node, module: Any, input: TensorType) -> TensorType:
    if len(input.dims) not in (3, 4):
        raise _mistake(n, f"{module}", f"Wrong size {input} for {module}")
    return TensorType((*input.dims[:-2], *_windows(module, input.dims[-2:])))


def _adaptive_avg_pool2d(n: Node, module: Any, input: TensorType) -> TensorType:
    if len(input.dims) not in (3, 4):
        raise _mistake(n, f"{module}", f"Tensor ranks must be 3 or 4. Got {input}")
    wanted = module.output_size if isinstance(module.output_size, tuple | list) else (module.output_size,) * 2
    sizes = [old if new is None else new for old, new in zip(input.dims[-2:], wanted, strict=True)]
    return TensorType((*input.dims[:-2], *sizes))


def _linear(n: Node, module: Any, input: TensorType) -> TensorType:
    if len(input.dims) < 2:
        raise _mistake(n, f"{module}", f"Type {input} must have rank 2 or more.")
    if not is_consistent(input.dims[-1], module.in_features):
        raise _mistake(n, f"{module}", f"Inconsistent {module.in_features} and {input.dims[-1]} in {module}")
    return TensorType((*input.dims[:-1], module.out_features))


def _infer_function(shape: Rule, n: Node) -> Any:
    """Set the type of a function's result: what the rule and the annotation know."""
    args, kwargs = _types(n)
    n.type = get_greatest_upper_bound(shape(n, *args, **kwargs), n.type)
    return n.type


def _infer_module(shape: Rule, rank: int | None, n: Node, module: Any) -> Any:
    """Set the type of a module's result, and the number of dimensions of its operand, which is the same."""
    operand = n.all_input_nodes[0]
    if rank is not None:
        operand.type, n.type = expand_to_tensor_dim(operand.type, rank), expand_to_tensor_dim(n.type, rank)
    elif operand.type == Dyn and isinstance(n.type, TensorType):
        operand.type = expand_to_tensor_dim(Dyn, len(n.type.dims))
    if isinstance(operand.type, TensorType):
        n.type = get_greatest_upper_bound(shape(n, module, operand.type), n.type)
    return n.type


_FUNCTIONS: Final[dict[Any, Rule]] = {
    ops.add: _add, operator.add: _add, getattr: _getattr, ops.transpose: _transpose, ops.reshape: _reshape,
    ops.flatten: _flatten, ops.cat: _cat}
#: Rules of modules, and the number of dimensions of the operand where there is one choice.
_MODULES: Final[dict[Any, tuple[Rule, int | None]]] = {
    nn.Conv2d: (_conv2d, 4), nn.BatchNorm2d: (_batch_norm2d, 4), nn.ReLU: (_relu, None), nn.Linear: (_linear, None),
    nn.MaxPool2d: (_max_pool2d, None), nn.AdaptiveAvgPool2d: (_adaptive_avg_pool2d, None)}
INFERENCE: Final[dict[Any, Rule]] = {
    **{function: partial(_infer_function, shape) for function, shape in _FUNCTIONS.items()},
    **{kind: partial(_infer_module, shape, rank) for kind, (shape, rank) in _MODULES.items()}}


# Sizes that agree.

def _equal(left: Sequence[Any], right: Sequence[Any]) -> list[Equality]:
    return [Equality(a, b) for a, b in zip(left, right, strict=False)]


def _equal_sums(result: TensorType, input: Any, other: Any, alpha: Any = 1) -> list[Equality]:
    if not (isinstance(input, TensorType) and isinstance(other, TensorType)):
        return []
    left, right = broadcast_types(input, other)
    # Operands known to agree are not repeated. Of others, either may be 1.
    return [Equality(a, c) for a, b, c in zip(left.dims, right.dims, result.dims, strict=False) if a == b]


def _equal_flat(result: TensorType, input: Any, start_dim: int = 0, end_dim: int = -1) -> list[Equality]:
    axes = _axes(len(input.dims), start_dim, end_dim) if isinstance(input, TensorType) else None
    if axes is None:
        return []
    first, last = axes
    return [*_equal(result.dims[:first], input.dims[:first]),
            *_equal(result.dims[first + 1:], input.dims[last + 1:])]


def _equal_part(part: slice, result: TensorType, input: Any) -> list[Equality]:
    return _equal(input.dims[part], result.dims[part]) if isinstance(input, TensorType) else []


def _constrain(equal: Rule, n: Node) -> list[Equality]:
    args, kwargs = _types(n)
    return equal(n.type, *args, **kwargs) if isinstance(n.type, TensorType) else []


_AGREEING: Final[dict[Any, Rule]] = {ops.add: _equal_sums, operator.add: _equal_sums, ops.flatten: _equal_flat}
#: The dimensions that modules leave as they are.
_UNCHANGED: Final = {nn.Conv2d: slice(1), nn.Linear: slice(-1), nn.BatchNorm2d: slice(None), nn.ReLU: slice(None),
                     nn.AdaptiveAvgPool2d: slice(-2), nn.MaxPool2d: slice(-2)}
REFINEMENT: Final[dict[Any, Rule]] = {
    **{function: partial(_constrain, equal) for function, equal in _AGREEING.items()},
    **{kind: partial(_constrain, partial(_equal_part, part)) for kind, part in _UNCHANGED.items()}}


# Sizes as formulas.

def _express_conv2d(n: Node, module: Any) -> Any:
    operand = n.all_input_nodes[0]
    if isinstance(operand.type, TensorType) and isinstance(n.type, TensorType):
        n.type = TensorType((*n.type.dims[:2], *_windows(module, operand.type.dims[2:])))
    return n.type


EXPRESSIONS: Final[dict[Any, Rule]] = {nn.Conv2d: _express_conv2d}
