"""Gradients of operators of the old interface: one function saves values, another computes gradients."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.schema import bound
from tensocket_core.keys import AUTOGRAD
from tensocket_core.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from tensocket_operators import Tensor
from tensocket_operators.differentiation.function import Function
from tensocket_plugins.contract.errors import ArgumentError, AutogradError

if TYPE_CHECKING:
    from .impl import CustomOp


def _below(operator: Any, args: tuple[Any, ...]) -> Any:
    """Run the operator without the layer that records gradients."""
    parameters = operator.schema.parameters
    count = sum(not p.keyword_only for p in parameters)
    names = [p.name for p in parameters[count:]]
    with thread_state(exclude=STATE.exclude | AUTOGRAD):
        return operator(*args[:count], **dict(zip(names, args[count:], strict=True)))


def autograd_kernel(op: CustomOp) -> Callable[..., Any]:
    """Run the operator if an argument requires grad: record it with the registered functions, or raise.

    Raises:
        AutogradError: No gradient is registered, or only one of its two functions.
    """
    def run(*args: Any, **keywords: Any) -> Any:
        given = bound(op.operator.schema, args, keywords)
        halves = [kind for kind in ("backward", "save_for_backward") if kind in op.impls]
        if len(halves) == 2:
            return record(op, given)
        if halves:
            missing = "backward" if halves[0] == "save_for_backward" else "save_for_backward"
            raise AutogradError(op.qualname, f"a '{halves[0]}' registration, but unable to find a '{missing}' "
                                "registration", "a gradient is both", "register the other with torch._custom_ops")
        if any(x.requires_grad for x in tree_leaves(given) if isinstance(x, Tensor)):
            raise AutogradError(op.qualname, "an argument that requires grad",
                                "Autograd has not been implemented for operator", "register a gradient, or detach() it")
        return _below(op.operator, given)

    return run


def _named(op: CustomOp, values: Any) -> Any:
    """Return the values of all arguments by name."""
    return namedtuple(f"{op.name}_args", op.operator.schema.names)(*values)


def record(op: CustomOp, args: tuple[Any, ...]) -> Any:
    """Return the operator's results with one node that runs the registered ``backward``."""
    flat, spec = tree_flatten(list(args))
    shapes: list[Any] = []

    def forward(ctx: Any, *leaves: Any) -> Any:
        given = tree_unflatten(leaves, spec)
        output = _below(op.operator, tuple(given))
        saved, shape = tree_flatten(op.impls["save_for_backward"](_named(op, given), output))
        ctx.save_for_backward(*[x if isinstance(x, Tensor) else None for x in saved])
        ctx.others, ctx.shape = [None if isinstance(x, Tensor) else x for x in saved], shape
        _mark(ctx, op, output)
        results, result_shape = tree_flatten(output)
        shapes.append(result_shape)
        return tuple(results)

    def backward(ctx: Any, *grads: Any) -> Any:
        tensors = [a if b is None else b for a, b in zip(ctx.others, ctx.saved_tensors, strict=True)]
        given = tree_unflatten(grads, shapes[0])
        found = op.impls["backward"](object(), tree_unflatten(tensors, ctx.shape),
                                     *(given if isinstance(given, tuple) else (given,)))
        kinds = _named(op, tree_map(type, list(args)))
        check_gradients(op, found, kinds)
        return tuple(tree_leaves([found[name] if name in found else tree_map(lambda x: None, kind)
                                  for name, kind in zip(kinds._fields, kinds, strict=True)]))

    made: Any = type(f"{op.name}_customop", (Function,), {"forward": staticmethod(forward),
                                                     "backward": staticmethod(backward)})
    return tree_unflatten(made.apply(*flat), shapes[0])


def _mark(ctx: Any, op: CustomOp, output: Any) -> None:
    """Mark the results without gradients.

    Raises:
        ArgumentError: The list says that a result has a gradient, but it is not a tensor.
    """
    flags = op.differentiable
    if flags is None:
        return
    fixed: list[Any] = []
    for position, (flag, value) in enumerate(zip(flags, output if isinstance(output, tuple) else (output,),
                                                 strict=True)):
        if not isinstance(value, (Tensor, list)) and flag:
            raise ArgumentError(op.qualname, f"output_differentiability={flags}", f"result {position} of type "
                                f"{type(value).__name__} is not a Tensor, so it has no gradient", "pass False for it")
        if not flag:
            fixed += [x for x in tree_leaves(value) if isinstance(x, Tensor)]
    ctx.mark_non_differentiable(*fixed)


def check_gradients(op: CustomOp, found: Any, kinds: Any) -> None:
    """Check that ``backward`` returned a dict with a gradient or None for each argument that may be a tensor.

    Raises:
        ArgumentError: It returned something else.
    """
    def refuse(what: str) -> ArgumentError:
        return ArgumentError("backward", f"of {op.qualname}: {what}",
                             "backward returns a dict with a gradient, or None, for each argument that may be a "
                             "Tensor, and a list for a list; non-Tensor-like types do not appear in it",
                             "correct the function registered with impl_backward")

    if not isinstance(found, dict):
        raise refuse(f"expected the output of the backward function to be a dict but got {type(found)}")
    expected = {p.name for p in op.operator.schema.parameters if p.is_tensor}
    if expected != found.keys():
        raise refuse(f"expected the returned grad_input dict to have keys {expected} but got {set(found)}")
    for name, gradient in found.items():
        kind = getattr(kinds, name)
        if not isinstance(kind, list):
            if gradient is not None and not isinstance(gradient, Tensor):
                raise refuse(f"{type(gradient)} for {name!r}, expected the gradient to be either None or a Tensor")
            if gradient is not None and not issubclass(kind, Tensor):
                raise refuse(f"a Tensor for {name!r} of type {kind}, expected None")
            continue
        if not isinstance(gradient, (tuple, list)):
            raise refuse(f"expected the grad_input dict to hold a list of gradients for {name!r} but got "
                         f"{type(gradient)}")
        if len(gradient) != len(kind):
            raise refuse(f"expected a list of {len(kind)} gradients but got {len(gradient)} for {name!r}")
        for position, (part, inner) in enumerate(zip(gradient, kind, strict=True)):
            if part is not None and not isinstance(part, Tensor):
                raise refuse(f"expected a list of None or Tensor gradients for {name!r} but got {type(part)} at index "
                             f"{position}")
            if part is not None and not issubclass(inner, Tensor):
                raise refuse(f"a Tensor for value {position} of {name!r}, which is of type {inner}, expected None")
