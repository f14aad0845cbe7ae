"""The node of a recorded call of a user's ``Function``."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tensocket_core.autograd.edges import place_of
from tensocket_core.autograd.inplace import MADE_BY_FUNCTION, check_no_leaf
from tensocket_core.autograd.inspection import SavedTensor
from tensocket_core.autograd.node import SEQUENCE, MultiNode, Output, gradient_place, raise_freed
from tensocket_core.autograd.record import version_of
from tensocket_core.autograd.saved import complete
from tensocket_core.autograd.view_history import adopt_views, record_change, unrecorded
from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import STATE
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, DIFFERENTIABLE, DTYPE_MASK, DTYPE_OF, OPTIONS
from tensocket_core.launch.fill import filled
from tensocket_core.recording import RECORDING_SLOW_PATHS
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError, DeviceMismatch, ShapeError

if TYPE_CHECKING:
    from .function import Function, FunctionCtx

_new = object.__new__
#: Placeholder of a derivative: the function's class defines it.
_OWN: Final = Derivative()


class FunctionNode(MultiNode):
    """One recorded call.

    Attributes:
        ctx: Context that ``forward`` filled for ``backward``; its attributes can be read from the node.
        tensors: Whether each argument is a tensor.
        templates: Shape and options of each result; None for a result that is not a tensor.
        results: For each saved value, the index of the differentiable result that it is, or -1.
    """

    __slots__ = ("ctx", "results", "templates", "tensors")

    runs_without: ClassVar[bool] = True
    ctx: FunctionCtx
    #: The function; the subclass made for each function sets it.
    function: ClassVar[type[Function]]
    results: tuple[int, ...]
    templates: tuple[tuple[tuple[int, ...], int] | None, ...]
    tensors: tuple[bool, ...]

    def name(self) -> str:
        """Return the name of the node, such as ``MyFunctionBackward``."""
        return f"{self.function.__name__}Backward"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes to which this one passes gradients, for each argument that is a tensor."""
        return tuple([gradient_place(edge) for edge, there in zip(self.edges, self.tensors, strict=True) if there])

    def __getattr__(self, name: str) -> Any:
        if name in FunctionNode.__slots__:  # not set yet
            raise AttributeError(name)
        return getattr(self.ctx, name)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors passed to ``save_for_backward``."""
        return self.unpack(STATE.grad_enabled)

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The tensors passed to ``save_for_backward``, before they are unpacked."""
        if self.saved is None:
            raise_freed(self)
        return tuple([SavedTensor.of(self, k) for k in range(len(self.saved))])

    def _with_results(self, saved: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([value if index < 0 else self.attached(value, index)
                      for value, index in zip(saved, self.results, strict=True)])

    def apply(self, grad: Any, edges: tuple[Any, ...], differentiable: bool) -> list[Any]:
        """Run the function's ``backward``, check its gradients and return them."""
        ctx = self.ctx
        grads = self._materialized(grad) if ctx.materialize_grads else grad
        ctx.needs_input_grad = tuple([edge is not None for edge in edges])
        returned = self.function._rule()(ctx, *grads)
        return _checked(self.name(), returned if isinstance(returned, tuple) else (returned,), edges)

    def _materialized(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients with zeros in place of undefined ones."""
        some = next((g for g in grads if g is not None), None)
        left = () if self.ctx._materialize_non_diff_grads else self.ctx._fixed
        return tuple([g if g is not None or template is None or k in left else _zeros(some, *template)
                      for k, (g, template) in enumerate(zip(grads, self.templates, strict=True))])


def _zeros(some: Any, shape: tuple[int, ...], options: int) -> Any:
    """Return zeros of a shape and options, under the transforms of another gradient if there is one."""
    dtype, state = DTYPE_OF[options & DTYPE_MASK], BY_KEY[options & DEVICE_MASK]
    if some is None:
        return filled("zeros", shape, 0, dtype, state)
    return some.new_zeros(shape, dtype=dtype, device=state.device)


def _checked(name: str, returned: tuple[Any, ...], edges: tuple[Any, ...]) -> list[Any]:
    """Return gradients as the engine takes them, one per argument.

    Raises:
        AutogradError: The number of gradients is not that of the arguments.
        ArgumentTypeError: A gradient is not a tensor.
        ShapeError, DeviceMismatch: A gradient does not fit its argument.
    """
    if len(returned) < len(edges) or any(value is not None for value in returned[len(edges):]):
        raise AutogradError("backward", f"{len(returned)} gradients from {name} for {len(edges)} arguments",
                            "backward returns a gradient or None for each argument of apply", "return as many")
    grads: list[Any] = []
    for index, (value, edge) in enumerate(zip(returned, edges, strict=False)):
        if value is not None and not hasattr(value, "_key"):
            raise ArgumentTypeError("backward", f"gradient {index} of type {type(value).__name__} from {name}",
                                    "gradients are tensors or None", "return a tensor")
        if value is None or edge is None:
            grads.append(None)
            continue
        shape, options = place_of(edge)
        lead = len(value._array.shape) - len(shape)
        if lead < 0 or any(n not in (1, m) for n, m in zip(shape, value._array.shape[lead:], strict=True)):
            raise ShapeError("backward",
                             f"gradient {index} of shape {list(value.shape)} from {name} for an argument of shape "
                             f"{list(shape)}", "a gradient has a shape that sums to its argument's",
                             "return a gradient of that shape")
        if value._key & DEVICE_MASK != options & DEVICE_MASK and value.ndim:
            raise DeviceMismatch("backward", f"gradient {index} on {value.device} from {name} for an argument on "
                                 f"{BY_KEY[options & DEVICE_MASK].device}", "a gradient is on its argument's device",
                                 "move it there")
        grads.append(value)
    return grads


# ------------------------------------------------------------------------------------------------- recording a call


def record_function(function: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], edges: tuple[Any, ...],
                    raw: tuple[Any, ...], recording: bool) -> tuple[Any, ...]:
    """Return the results of ``apply``: those of ``forward``, with a node if gradients are recorded.

    Raises:
        AutogradError: A tensor marked as modified is not returned, or is a leaf that requires grad.
    """
    dirty = {id(tensor) for tensor in ctx._dirty}
    inputs = {id(value) for value in args if hasattr(value, "_key")}
    if dirty:
        _check_dirty(function.__name__, dirty, inputs, raw)
        dirty &= inputs
    ctx._fixed = places_of(ctx._non_differentiable, raw)
    if not recording:
        part = any(edge is not None for edge in edges)
        return tuple([_unrecorded_output(value, id(value) in inputs - dirty, part) for value in raw])
    for value in raw:
        if id(value) in dirty:
            check_no_leaf(function.__name__, value)
            base = unrecorded(value)
            if base is not None and base._version_counter is not None:
                adopt_views(base, value)
    fixed = {id(tensor) for tensor in ctx._non_differentiable}
    _check_dirty_views(function.__name__, dirty, fixed, raw)
    ctx._dirty = ctx._non_differentiable = ()  # a context that held its results would be in a reference cycle
    node = _make_node(function, ctx, args, edges, raw)
    outputs = tuple([_output(node, index, value, id(value) in inputs, id(value) in dirty, id(value) in fixed)
                     for index, value in enumerate(raw)])
    _save(node, ctx, raw, outputs)
    for value in {id(v): v for v in raw if id(v) in dirty}.values():
        record_change(value)
    return outputs


def places_of(tensors: tuple[Any, ...], results: tuple[Any, ...]) -> frozenset[int]:
    """Return the indices of the results that are among ``tensors``."""
    if not tensors:
        return frozenset()
    known = {id(tensor) for tensor in tensors}
    return frozenset([k for k, value in enumerate(results) if id(value) in known])


def _check_dirty(operator: str, dirty: set[int], inputs: set[int], raw: tuple[Any, ...]) -> None:
    """Check the tensors that are marked as modified.

    Raises:
        AutogradError: One of them is not returned.
    """
    if dirty - {id(value) for value in raw}:
        raise AutogradError(operator, "a tensor marked as modified that is not returned",
                            "what forward modifies are arguments that it returns", "return what you mark with "
                            "mark_dirty")
    if dirty - inputs:
        warnings.warn(f"{operator}: mark_dirty was given a tensor that is not an argument, for which there is no need",
                      stacklevel=4)


def _check_dirty_views(operator: str, dirty: set[int], fixed: set[int], raw: tuple[Any, ...]) -> None:
    """Refuse a modified view among several results, because the history of its base can include only one result.

    Raises:
        AutogradError: There is such a view.
    """
    for value in raw if dirty else ():
        if id(value) in dirty and value._base is not None and len(
                {id(v) for v in raw if hasattr(v, "_key") and id(v) not in fixed}) > 1:
            raise AutogradError(operator, "a modified view beside other results",
                                "a function that modifies a view returns nothing else", "clone() the view, or split "
                                "the function in two")


def _make_node(function: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], edges: tuple[Any, ...],
               raw: tuple[Any, ...]) -> FunctionNode:
    node: FunctionNode = _new(function._backward_cls)
    node.derivative = _OWN
    node.ctx = ctx
    node.edges = edges
    node.tensors = tuple([hasattr(a, "_key") for a in args])
    node.sequence = next(SEQUENCE)
    node.templates = tuple([(v._array.shape, v._key & OPTIONS) if hasattr(v, "_key") else None for v in raw])
    node.outputs = tuple([t if t is not None and t[1] & DIFFERENTIABLE else None for t in node.templates])
    node.extras = None
    ctx._node = weakref.ref(node)
    return node


def _output(node: FunctionNode, index: int, value: Any, is_input: bool, is_dirty: bool, is_fixed: bool) -> Any:
    """Return a result, connected to its node."""
    if not hasattr(value, "_key"):
        return value
    if is_fixed or not value._key & DIFFERENTIABLE:
        return value.detach() if is_input or value._key & AUTOGRAD else value
    if is_input and not is_dirty:
        value = _alias(value)
    if value._base is not None and not is_dirty:
        value._fixed_view = MADE_BY_FUNCTION
    value._grad_fn = Output(node, index) if index else node
    value._key |= AUTOGRAD
    return value


def _unrecorded_output(value: Any, is_input: bool, part: bool) -> Any:
    """Return a result of a call that is not recorded, although arguments may be ``part`` of a graph.

    A view must not be modified later with a tensor that requires a gradient.
    """
    if not hasattr(value, "_key"):
        return value
    if is_input:
        value = value.detach() if part else _alias(value)
    if value._base is not None:
        value._fixed_view = MADE_BY_FUNCTION
    return value


def _alias(value: Any) -> Any:
    """Return a view of the whole tensor, as PyTorch does for an argument that ``forward`` returns unchanged."""
    return value.view_as(value)


def _save(node: FunctionNode, ctx: FunctionCtx, raw: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """Store the arguments of ``save_for_backward`` in the node; results are detached to avoid a cycle."""
    places = {id(value): index for index, value in enumerate(raw) if hasattr(value, "_key")}
    saved, results = [], []
    for value in ctx._to_save:
        index = places.get(id(value), -1)
        # An argument that is returned unchanged has become a view; it is saved as an argument.
        made = index >= 0 and outputs[index] is value and gradient_place(value._grad_fn)[0] is node
        results.append(index if made else -1)
        saved.append(value._cut() if made else value)
    node.saved = tuple(saved)
    node.versions = tuple([version_of(value) for value in saved])
    node.results = tuple(results)
    ctx._to_save = ()
    if RECORDING_SLOW_PATHS:
        complete(node)
