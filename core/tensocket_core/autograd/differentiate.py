"""``backward`` and ``grad``: checks of the arguments, and the call of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, AutogradError, DtypeError, ShapeError

from ..dispatch.call import collected_key
from ..dispatch.modes import ACTIVE, STATE
from ..dispatch.overrides import call_torch_function, overridden
from ..keys import AUTOGRAD, LAZY, OPTIONS, WRAPPER
from ..tensor import Tensor, wrap
from ..warned import warn_once
from .edges import edge_from_place, target_of
from .engine import run_pass
from .graph import GradientEdge

#: Batches a function over rows, as ``vmap`` does; the transforms package, a layer above, registers it.
BATCHED: Final[list[Callable[[Callable[..., Any]], Callable[..., Any]]]] = []


class PassShortcut(Protocol):
    """Serves whole passes that record nothing, from losses of one element; the engine runs those that it cannot serve.

    Such a pass does what the engine's would do.
    """

    def captured(self, outputs: Any, inputs: Any, retain_graph: bool) -> list[Any] | None:
        """Return the gradients for the inputs, None for unused ones; None if it cannot serve the pass."""

    def added(self, loss: Any, retain_graph: bool) -> bool:
        """Add the gradients of a loss that is no leaf to all leaves; return False if it cannot serve the pass."""


#: The shortcut, which a package above registers.
SHORTCUTS: Final[list[PassShortcut]] = []


def _edge(operator: str, value: Any, role: str) -> Any:
    """Return the edge of a tensor or of a gradient edge; None if it has no gradient."""
    key = getattr(value, "_key", None)
    if key is not None:
        return (value._grad_fn or value) if key & AUTOGRAD else None
    if isinstance(value, GradientEdge):
        return edge_from_place(value.node, value.output_nr)
    kind = AutogradError if role == "an input" else ArgumentTypeError
    raise kind(operator, f"{role} of type {type(value).__name__}", "gradients belong to tensors or gradient edges",
               "pass tensors")


class RecordedDual(NamedTuple):
    """The parts of a dual tensor for autograd, its attribute ``recorded_dual``.

    Attributes:
        primal: The primal, which is part of the graph.
        tangent: The tangent, also part of the graph; None if there is none.
        pair: Makes another dual tensor of the level from a primal and a tangent.
    """

    primal: Any
    tangent: Any
    pair: Callable[[Any, Any], Any]


def _dual(value: Any) -> RecordedDual | None:
    return getattr(value, "recorded_dual", None)


def _recorded(value: Any) -> Any:
    """Return the primal of a dual tensor; any other tensor unchanged."""
    dual = _dual(value)
    return value if dual is None else dual.primal


def _first_gradient(operator: str, root: Any, gradient: Any, create_graph: bool) -> Any:
    if gradient is not None and not hasattr(gradient, "_key"):
        raise ArgumentTypeError(operator, f"a gradient of type {type(gradient).__name__}",
                                "gradients are tensors or None", "pass a tensor")
    if isinstance(root, GradientEdge):
        return gradient if gradient is not None else _ones_for(operator, root)
    root, gradient = root._root(gradient)
    if gradient is None:
        if root._array.size != 1:
            raise AutogradError(operator, f"a tensor of shape {list(root.shape)}",
                                "a gradient is created implicitly for one element only",
                                "pass gradient=, or reduce with .sum()")
        if root.dtype.kind == "complex":
            raise AutogradError(operator, f"a tensor of dtype {root.dtype.name}",
                                "a gradient is created implicitly for real numbers only", "pass gradient=")
        return first_gradient(root)
    if tuple(gradient.shape) != tuple(root.shape):
        raise ShapeError(operator, f"gradient of shape {list(gradient.shape)} for a tensor of shape {list(root.shape)}",
                         "a gradient has its tensor's shape", "pass a gradient of that shape")
    if (gradient.dtype.kind == "complex") != (root.dtype.kind == "complex"):
        raise DtypeError(operator, f"gradient of dtype {gradient.dtype.name} for a tensor of dtype {root.dtype.name}",
                         "gradients are complex exactly where their tensors are",
                         "pass a gradient of the tensor's dtype")
    return gradient if create_graph else gradient.detach() if gradient._key & AUTOGRAD else gradient


def first_gradient(root: Any) -> Any:
    """Return the implicit gradient of a tensor with one element."""
    array = root._array
    if ACTIVE or type(array) is not np.ndarray or root._key & (LAZY | WRAPPER) or not root.dtype.native:
        return root.new_ones(root.shape)
    ones = array.copy()
    ones.fill(1)
    return wrap(ones, root._key & OPTIONS)


def _ones_for(operator: str, root: GradientEdge) -> Any:
    raise AutogradError(operator, f"a gradient edge of {root.node.name()}",
                        "a gradient is created implicitly for tensors only", "pass gradient=")


def _roots(operator: str, outputs: Sequence[Any], gradients: Sequence[Any],
           create_graph: bool) -> list[tuple[Any, Any]]:
    """Check the outputs and their gradients, and return the edges and gradients to start from."""
    if len(outputs) != len(gradients):
        raise AutogradError(operator, f"{len(gradients)} gradients for {len(outputs)} tensors",
                            "there is one gradient for each tensor", "pass None where it is implied")
    roots = []
    for k, (root, gradient) in enumerate(zip(outputs, gradients, strict=True)):
        edge = _edge(operator, root, "an output")
        if edge is None:
            root, gradient = _recorded(root), _recorded(gradient)
            edge = _edge(operator, root, "an output")
        if edge is None:
            raise AutogradError(operator, f"element {k} of the tensors, which has no grad_fn",
                                "backward starts from a tensor that requires grad",
                                "set requires_grad=True on an input, and do not compute under no_grad")
        roots.append((edge, _first_gradient(operator, root, gradient, create_graph)))
    return roots


def _sequence(values: Any) -> tuple[Any, ...]:
    """Return one value, or those of an iterable such as ``module.parameters()``, as a tuple; of a dict, its values."""
    if type(values) is Tensor:
        return (values,)
    if isinstance(values, dict):
        return tuple(values.values())
    if hasattr(type(values), "__torch_function__") or isinstance(values, GradientEdge) or not isinstance(
            values, Iterable):
        return (values,)
    return tuple(values)


def _given(outputs: tuple[Any, ...], gradients: Any) -> tuple[Any, ...]:
    return (None,) * len(outputs) if gradients is None else _sequence(gradients)


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             grad_variables: Any = None, inputs: Any = None) -> None:
    """Compute gradients of ``tensors`` and add them to the leaves' ``grad``.

    Args:
        tensors: A tensor or an iterable of several; gradient edges as well.
        grad_tensors: Gradients of the same shapes; None for tensors of one element.
        retain_graph: Whether to keep saved tensors for another backward; default is ``create_graph``.
        create_graph: Whether to record the gradient computation itself.
        grad_variables: PyTorch's former name of ``grad_tensors``.
        inputs: Tensors to accumulate into, leaves or not, from any iterable; None means all leaves.

    Raises:
        AutogradError: A tensor does not require grad, has several elements but no gradient, or the graph was freed.
        ShapeError: A gradient and its tensor differ in shape.
        ArgumentTypeError: An argument is not a tensor.
    """
    if any(transform.functional for transform in STATE.transforms):
        raise AutogradError("backward", "a function that is transformed", "backward() called inside a functorch "
                            "transform. This is not supported", "use functorch.grad or functorch.vjp instead, or "
                            "call backward() outside of functorch transforms")
    roots = _sequence(tensors)
    gradients = _given(roots, grad_variables if grad_tensors is None else grad_tensors)
    starts = _roots("backward", roots, gradients, create_graph)
    if create_graph:
        warn_once("create_graph", "Using backward() with create_graph=True will create a reference cycle between the "
                  "parameter and its gradient which can cause a memory leak. We recommend using autograd.grad when "
                  "creating the graph to avoid this. If you have to use this function, make sure to reset the .grad "
                  "fields of your parameters to None after use to break the cycle and avoid the leak.")
    if inputs is None:
        run_pass(starts, None, retain_graph, create_graph)
        return
    given = _sequence(inputs)
    wanted = _wanted("backward", given)
    for tensor in given:
        if hasattr(tensor, "_key"):
            tensor.retain_grad()
    run_pass(starts, wanted, retain_graph, create_graph, into=True)


def _wanted(operator: str, inputs: tuple[Any, ...]) -> list[Any]:
    if not inputs:
        raise AutogradError(operator, "no inputs", "there is at least one input", "pass the tensors whose gradient is "
                            "wanted")
    edges = [_edge(operator, value, "an input") for value in inputs]
    if any(edge is None for edge in edges):
        edges = [_edge(operator, _recorded(value), "an input") for value in inputs]
    if any(edge is None for edge in edges):
        raise AutogradError(operator, "an input without requires_grad",
                            "gradients are taken with respect to tensors that require grad",
                            "set requires_grad=True on it before computing the output")
    return edges


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
         create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
         is_grads_batched: bool = False, materialize_grads: bool = False) -> Any:
    """Return the gradients of ``outputs`` with respect to ``inputs``, without touching ``grad`` attributes.

    Args:
        outputs: A tensor or an iterable of several; gradient edges as well.
        inputs: A tensor or an iterable of several that require grad; for a dict, the result is a dict with its keys.
        grad_outputs: Gradients of the outputs; None for outputs of one element.
        retain_graph: Whether to keep saved tensors; default is ``create_graph``.
        create_graph: Whether the gradients can be differentiated.
        only_inputs: Accepted as in PyTorch, where it has no effect.
        allow_unused: Return None for inputs that the outputs do not depend on.
        is_grads_batched: The gradients of the outputs have a leading batch dimension; the computation runs once per
            entry, and the results have that dimension too.
        materialize_grads: Return zeros for inputs that the outputs do not depend on.

    Gradients of dual tensors have tangents (``autograd.forward_ad``): forward over reverse mode.

    Raises:
        AutogradError: As in ``backward``, or an input is unused and ``allow_unused`` is False.
        ArgumentError: ``materialize_grads`` without ``allow_unused``.
    """
    if materialize_grads and allow_unused is False:
        raise ArgumentError("grad", "allow_unused=False with materialize_grads=True",
                            "unused inputs are allowed where zeros stand for their gradients", "leave allow_unused out")
    if not (ACTIVE or create_graph or is_grads_batched or materialize_grads) and grad_outputs is None:
        captured = SHORTCUTS[-1].captured(outputs, inputs, bool(retain_graph)) if SHORTCUTS else None
        if captured is not None:
            _check_used(captured, allow_unused)
            return tuple(captured)
    roots, given = _sequence(outputs), _sequence(inputs)
    wanted = inputs if isinstance(inputs, dict) else given  # an iterator can be read only once
    if (ACTIVE or collected_key((*roots, *given))) and overridden(*roots, *given):
        named = {"grad_outputs": grad_outputs, "retain_graph": retain_graph, "create_graph": create_graph,
                 "only_inputs": only_inputs, "allow_unused": allow_unused, "is_grads_batched": is_grads_batched,
                 "materialize_grads": materialize_grads}
        return call_torch_function("grad", grad, (*roots, *given), (roots, wanted), named)
    return computed(roots, wanted, grad_outputs, retain_graph, create_graph, allow_unused, is_grads_batched,
                    materialize_grads)


def computed(roots: tuple[Any, ...], inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
             create_graph: bool = False, allow_unused: bool | None = None, is_grads_batched: bool = False,
             materialize_grads: bool = False, only_inputs: bool = True) -> Any:
    """Compute ``grad`` after all overrides; arguments and errors are the same."""
    given = _sequence(inputs)
    edges = _wanted("grad", given)
    gradients = _given(roots, grad_outputs)
    duals = [dual for dual in map(_dual, (*roots, *gradients)) if dual and dual.tangent is not None] if ACTIVE else []
    if is_grads_batched:
        results = _batched(roots, edges, gradients, retain_graph, create_graph)
    else:
        results = _single(_roots("grad", roots, gradients, create_graph), edges,
                          True if duals else retain_graph, create_graph)
        if duals:
            results = _with_tangents(duals[0].pair, results, (roots, gradients), edges, retain_graph, create_graph)
    if materialize_grads:
        lead = gradients[0].shape[:1] if is_grads_batched else ()
        results = [_zeros(tensor, lead, create_graph) if value is None else value
                   for tensor, value in zip(given, results, strict=True)]
    else:
        _check_used(results, allow_unused)
    return dict(zip(inputs, results, strict=True)) if isinstance(inputs, dict) else tuple(results)


def _check_used(results: Sequence[Any], allow_unused: bool | None) -> None:
    """Raise for a missing gradient unless that is allowed.

    Raises:
        AutogradError: An input is unused.
    """
    if not allow_unused and any(value is None for value in results):
        raise AutogradError("grad", "an input that the outputs do not depend on", "every input is used in the outputs",
                            "pass allow_unused=True to get None for it")


def _zeros(tensor: Any, lead: tuple[int, ...], create_graph: bool) -> Any:
    """Return zeros in place of a missing gradient.

    Raises:
        AutogradError: The input is a gradient edge, whose shape is not known.
    """
    if not hasattr(tensor, "_key"):
        raise AutogradError("grad", "materialize_grads=True for a gradient edge that the outputs do not depend on",
                            "zeros have the shape of a tensor", "pass tensors as inputs")
    return tensor.detach().new_zeros((*lead, *tensor.shape)).requires_grad_(create_graph)


def _single(starts: list[tuple[Any, Any]], edges: list[Any], retain_graph: bool | None,
            create_graph: bool) -> list[Any]:
    captured = run_pass(starts, edges, retain_graph, create_graph)
    return [captured.get(target_of(edge)) for edge in edges]


def partial_gradients(outputs: Sequence[Any], inputs: Sequence[Any], gradients: Sequence[Any], *,
                      create_graph: bool = False) -> list[Any]:
    """Return the gradients of outputs with respect to inputs, where no input depends on another; the graph stays.

    Args:
        outputs: Tensors with a graph.
        inputs: Leaves or other tensors that require grad. Nothing flows through one to what it was computed from.
        gradients: The gradients of the outputs.
        create_graph: Whether the result has a graph.

    Returns:
        A gradient for each input; None for one that the outputs do not depend on.
    """
    edges = _wanted("grad", tuple(inputs))
    captured = run_pass(_roots("grad", outputs, gradients, create_graph), edges, True, create_graph, ends=True)
    return [captured.get(target_of(edge)) for edge in edges]


def _with_tangents(pair: Callable[[Any, Any], Any], results: list[Any], starts: tuple[Sequence[Any], Sequence[Any]],
                   edges: list[Any], retain_graph: bool | None, create_graph: bool) -> list[Any]:
    """Return the gradients of dual tensors as duals.

    Second derivatives are symmetric: the derivative of a gradient along a direction is the gradient of the outputs'
    tangents, plus the contribution of the first gradients' tangents.

    Args:
        pair: Makes a dual tensor from a primal and a tangent.
        results: The gradients; None for a missing one.
        starts: The outputs and their first gradients.
        edges: Edges to the inputs.
        retain_graph: As in ``grad``.
        create_graph: As in ``grad``.
    """
    outputs, seeds = [], []
    for root, seed in zip(*starts, strict=True):
        moved, turned = [None if dual is None else dual.tangent for dual in (_dual(root), _dual(seed))]
        if moved is not None and moved._key & AUTOGRAD:
            outputs.append(moved)
            seeds.append(_recorded(seed))
        if turned is not None:
            outputs.append(_recorded(root))
            seeds.append(turned)
    if not outputs:
        return results
    tangents = _single(_roots("grad", outputs, seeds, create_graph), edges, retain_graph, create_graph)
    return [value if value is None or tangent is None else pair(value, tangent)
            for value, tangent in zip(results, tangents, strict=True)]


def _batched(roots: tuple[Any, ...], edges: list[Any], gradients: tuple[Any, ...], retain_graph: bool | None,
             create_graph: bool) -> list[Any]:
    """Compute gradients for all entries of the gradients' leading dimension in one pass."""
    sizes = {gradient.shape[0] if gradient is not None and gradient.ndim else 0 for gradient in gradients}
    if len(sizes) != 1 or 0 in sizes:
        raise ShapeError("grad", f"batches of {sorted(sizes)} gradients",
                         "batched gradients have a first dimension of one size", "stack the gradients")
    known: list[int] = []

    def one(*rows: Any) -> Any:
        found = _single(_roots("grad", roots, rows, create_graph), edges, keep, create_graph)
        known[:] = [k for k, value in enumerate(found) if value is not None]
        return tuple([found[k] for k in known])

    keep = create_graph if retain_graph is None else retain_graph
    columns = BATCHED[0](one)(*gradients)
    made = dict(zip(known, columns, strict=True))
    return [made.get(k) for k in range(len(edges))]
