"""Custom autograd functions under transforms.

A call goes down the stack of transforms as an operator's does: a reverse level records the function's ``backward``, a
forward level uses its ``jvp``, a batch its ``vmap`` (or a rule derived from ``forward`` and ``backward``), and other
levels run the operators that ``forward`` calls.
"""

from __future__ import annotations

from typing import Any

from tensocket_core.autograd.record import version_of
from tensocket_core.dispatch.modes import STATE, no_grad
from tensocket_core.keys import AUTOGRAD, DIFFERENTIABLE
from tensocket_core.pytree import broadcast_to_and_flatten, tree_structure
from tensocket_core.transforms.aliasing import make_view, root_of, shown
from tensocket_core.transforms.batching import Batching, Info, dims_of
from tensocket_core.transforms.forward import Forward
from tensocket_core.transforms.levels import lowered, map_tensors, results_of
from tensocket_core.transforms.reverse import Reverse
from tensocket_plugins.contract.errors import TransformError

from .function import INTERCEPTORS, Function, call_with_context, has_setup, make_context
from .function_node import places_of, record_function


def _intercept(function: type[Function], args: tuple[Any, ...]) -> Any:
    """Let the innermost transform handle a call."""
    if not STATE.transforms:
        return NotImplemented
    top = STATE.transforms[-1]
    if isinstance(top, Reverse):
        return _reverse(top, function, args)
    if isinstance(top, Forward):
        return _forward(top, function, args)
    return _batched(top, function, args) if isinstance(top, Batching) else NotImplemented


INTERCEPTORS.insert(0, _intercept)


def _needs_setup(function: type[Function], transform: Any) -> None:
    if not has_setup(function):
        raise TransformError(function.__name__, f"a Function without setup_context in {transform.name}",
                             "transforms call forward and setup_context separately",
                             "define forward(*args) and setup_context(ctx, inputs, output)")


def _reverse(transform: Reverse, function: type[Function], args: tuple[Any, ...]) -> Any:
    args = map_tensors(transform.lift, args)
    with lowered(transform._outer):
        result = function.apply(*transform.unwrap(args))
    outputs = results_of(args, result, transform.wrap)
    edges = tuple([(a._grad_fn or a) if getattr(a, "_key", 0) & AUTOGRAD else None for a in args])
    if STATE.exclude & AUTOGRAD or all(edge is None for edge in edges):
        return outputs
    _needs_setup(function, transform)
    several = isinstance(outputs, tuple)
    ctx = make_context(function, args)
    with no_grad():
        function.setup_context(ctx, args, outputs)
        recorded = record_function(function, ctx, args, edges, outputs if several else (outputs,), True)
    return recorded if several else recorded[0]


def _forward(transform: Forward, function: type[Function], args: tuple[Any, ...]) -> Any:
    tangents = [transform.tangent(a) if hasattr(a, "_key") else None for a in args]
    primals = transform.unwrap(args)
    moving = any(tangent is not None for tangent in tangents)
    below = any(getattr(primal, "_level", 0) for primal in primals)
    with lowered():
        if moving and transform.lenient and not below:
            with lowered(depth=0):
                result, ctx = call_with_context(function, primals)
        else:
            result = function.apply(*primals)
            ctx = _context(transform, function, primals, result) if moving else None
        several = isinstance(result, tuple)
        results = result if several else (result,)
        versions = [version_of(tangent) for tangent in tangents]
        pushed = _pushed(function, ctx, primals, tangents, results) if moving else (None,) * len(results)
    changed = [version_of(t) != version for t, version in zip(tangents, versions, strict=True)]
    outputs = tuple([_joined(transform, function, args, tangents, changed, r, t)
                     for r, t in zip(results, pushed, strict=True)])
    return outputs if several else outputs[0]


def _context(transform: Forward, function: type[Function], primals: tuple[Any, ...], result: Any) -> Any:
    """Return the function's context for ``jvp`` after a call that went through further transforms."""
    _needs_setup(function, transform)
    ctx = make_context(function, primals)
    function.setup_context(ctx, primals, result)
    ctx._fixed = places_of(ctx._non_differentiable, result if isinstance(result, tuple) else (result,))
    return ctx


def _pushed(function: type[Function], ctx: Any, primals: tuple[Any, ...], tangents: list[Any],
            results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tangents of the results by the function's ``jvp``.

    Raises:
        TransformError: A result without a derivative has a tangent, or the number of tangents is not that of results.
    """
    given = [x.new_zeros(tuple(x.shape)) if t is None and getattr(x, "_key", 0) & DIFFERENTIABLE
             and ctx.materialize_grads else t for x, t in zip(primals, tangents, strict=True)]
    ctx._pushes = True
    try:
        made = function.jvp(ctx, *given)
    finally:
        ctx._pushes = False
    made = made if isinstance(made, tuple) else (made,)
    if len(made) != len(results):
        raise TransformError(function.__name__, f"{len(made)} tangents from jvp for {len(results)} results",
                             "jvp returns a tangent or None for each result", "return as many")
    for index, (result, tangent) in enumerate(zip(results, made, strict=True)):
        if tangent is not None and (index in ctx._fixed or not getattr(result, "_key", 0) & DIFFERENTIABLE):
            raise TransformError(function.__name__, f"a tangent from jvp for result {index}, which has no derivative",
                                 "results that are not differentiable have no tangent",
                                 "return None at that position instead")
    return made


def _joined(transform: Forward, function: type[Function], args: tuple[Any, ...], tangents: list[Any],
            changed: list[bool], result: Any, tangent: Any) -> Any:
    """Return a result with its tangent. The result is a modified argument, a view of an argument, or a new tensor.

    Raises:
        TransformError: ``jvp`` does not treat the argument's tangent, in place or as a view, as ``forward`` does the
            argument.
    """
    if not hasattr(result, "_key"):
        return result
    for argument, old, modified in zip(args, tangents, changed, strict=True):
        if not hasattr(argument, "_key"):
            continue
        value = argument._value if transform.owns(argument) else argument
        if value is result:
            return _modified(transform, function, argument, old, tangent, modified)
        if tangent is not None and old is not None and result._base is not None and (
                result._base is value or result._base is value._base):
            return _viewed(transform, function, argument, old, result, tangent)
    return result if transform.lenient and tangent is None else transform.dual(result, tangent)


def _modified(transform: Forward, function: type[Function], argument: Any, old: Any, tangent: Any,
              modified: bool) -> Any:
    if old is None:
        if tangent is None:
            return argument
        if not transform.owns(argument):
            transform.adopt(argument)
        transform.move(argument, tangent)
    elif tangent is not old or not modified:
        raise TransformError(function.__name__, "another or an unchanged tangent from jvp for a modified argument",
                             "jvp modifies the tangent of such an argument in place and returns it",
                             "use an in-place operator on the tangent")
    else:
        transform.changed(argument)
    return argument


def _viewed(transform: Forward, function: type[Function], argument: Any, old: Any, result: Any, tangent: Any) -> Any:
    if tangent._base is None or tangent._base is not (old if old._base is None else old._base):
        raise TransformError(function.__name__, "a tangent from jvp that is not a view of the argument's",
                             "where forward returns a view, or an argument as it is, jvp returns the same view of "
                             "the tangent", "use the operator that forward uses")
    dual = transform.dual(result, tangent)
    parent = root_of(argument)

    def replay(whole: Any) -> Any:
        with lowered(depth=transform.level - 1):
            return shown(whole, parent._array, dual._array)

    make_view(dual, parent, replay)
    return dual


# ----------------------------------------------------------------------------------------------------------- batches


def _batched(transform: Batching, function: type[Function], args: tuple[Any, ...]) -> Any:
    dims = dims_of(transform, args)
    values = transform.unwrap(args)
    if all(dim is None for dim in dims):
        with lowered():
            return function.apply(*values)
    if function.generate_vmap_rule:
        if function.vmap is not Function.vmap:
            raise TransformError(function.__name__, "generate_vmap_rule=True and a vmap staticmethod",
                                 "there is one rule for batches", "define one of them")
        _needs_setup(function, transform)
        made = _generated(transform, function, dims)
        with lowered():
            outputs = made.apply(*values)
        return map_tensors(transform.wrap, outputs)
    with lowered():
        outputs, out_dims = _checked_pair(function, function.vmap(Info(transform, function, args), dims, *values))
    return transform.wrapped(args, outputs, out_dims)


def _checked_pair(function: type[Function], returned: Any) -> tuple[Any, Any]:
    """Return the results of a function's ``vmap`` and their dims.

    Raises:
        TransformError: ``vmap`` does not return such a pair, or the dims do not have the structure of the results.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TransformError(function.__name__, f"{type(returned).__name__} from vmap", "Expected the vmap "
                             "staticmethod to have two returns, an output and out_dims", "return (output, out_dims)")
    outputs, out_dims = returned
    spec = tree_structure(outputs)
    if broadcast_to_and_flatten(out_dims, spec, lambda x: x is None or isinstance(x, int)) is None:
        raise TransformError(function.__name__, f"out_dims={out_dims!r} for results {spec.brief()} from vmap",
                             "The vmap "
                             "staticmethod returned an incompatible (output, out_dims) pair",
                             "return out_dims with the structure of the output")
    return outputs, out_dims


def _generated(transform: Batching, function: type[Function], dims: tuple[Any, ...]) -> type[Function]:
    """Derive the function over a batch, in dimension 0 of all results, from its ``forward`` and ``backward``."""

    def inside(values: Any, batched: Any) -> Any:
        return tuple([transform.wrap(x) if there else x for x, there in zip(values, batched, strict=True)])

    def outside(value: Any) -> Any:
        if not hasattr(value, "_key"):
            return value
        return value._value if transform.owns(value) else value.expand((transform.batch_size, *value.shape))

    class Batched(Function):
        @staticmethod
        def forward(*args: Any) -> Any:
            with transform:
                outputs = function.forward(*inside(args, [d is not None for d in dims]))
            with lowered(depth=transform.level - 1):
                return map_tensors(outside, outputs)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            given = inside(inputs, [d is not None for d in dims])
            ctx.inner = inner = make_context(function, given)
            with transform:
                several = isinstance(output, tuple)
                made = inside(output if several else (output,), [True] * (len(output) if several else 1))
                function.setup_context(inner, given, made if several else made[0])
            ctx.materialize_grads = inner.materialize_grads
            kept = inner._to_save
            ctx.there = [x is not None and transform.owns(x) for x in kept]
            fixed = {id(x) for x in inner._non_differentiable}
            results = output if several else (output,)
            ctx.mark_non_differentiable(*[r for r, x in zip(results, made, strict=True) if id(x) in fixed])
            ctx.save_for_backward(*[x._value if there else x for x, there in zip(kept, ctx.there, strict=True)])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            inner = ctx.inner
            with transform:
                inner._to_save = inside(ctx.saved_tensors, ctx.there)
                inner.needs_input_grad = ctx.needs_input_grad
                returned = function._rule()(inner, *inside(grads, [g is not None for g in grads]))
            returned = returned if isinstance(returned, tuple) else (returned,)
            return tuple([_shared(g if g is None else outside(g), d) for g, d in zip(returned, dims, strict=True)])

    Batched.__name__ = f"Batched{function.__name__}"
    return Batched


def _shared(gradient: Any, dim: Any) -> Any:
    """Return the gradient of an argument; an argument that all examples share gets the sum over the batch."""
    return gradient if gradient is None or dim is not None else gradient.sum(0)
