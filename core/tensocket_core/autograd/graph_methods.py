"""Methods of tensors about the graph: node, hooks, retained gradients."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import float32, float64
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError, DtypeError, ShapeError

from ..dispatch.modes import ACTIVE, STATE
from ..keys import AUTOGRAD, DTYPE_MASK, OPTIONS, WRAPPER, dtype_bit
from ..tensor import Tensor, tensor_methods
from . import differentiate
from .differentiate import SHORTCUTS
from .engine import run_pass
from .hooks import Extras, Hooks, RemovableHandle, extras_of
from .inference import is_inference
from .inspection import named
from .node import Output, gradient_place
from .record import keep_gradient, retained_by

_KIND: Final = AUTOGRAD | WRAPPER | DTYPE_MASK
_PARTS: Final = _KIND | OPTIONS
_LOSSES: Final = (AUTOGRAD | dtype_bit(float32), AUTOGRAD | dtype_bit(float64))


@tensor_methods
class AutogradMethods:
    """Methods of tensors about the graph that they are part of."""

    __slots__ = ()

    _array: Any
    _cut: Callable[[], Any]
    _key: int
    _grad_fn: Any
    #: Hooks of a leaf, and its ``AccumulateGrad`` while a user holds it; an instance attribute once it is needed.
    _extras: Extras | None = None
    _accumulator: weakref.ref[Any] | None = None
    #: Texts for the error that tells why recorded calls cannot modify this view; None for other tensors.
    _fixed_view: tuple[str, str, str] | None = None

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor; None for leaves."""
        made = self._grad_fn
        return None if made is None or not made else named(made.node if type(made) is Output else made)

    @property
    def output_nr(self) -> int:
        """Index of this tensor among the outputs of ``grad_fn``."""
        made = self._grad_fn
        return made.index if type(made) is Output else 0

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operator made this tensor."""
        return self._grad_fn is None

    def is_inference(self) -> bool:
        """Whether this tensor was made in inference mode."""
        return is_inference(self)

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Any = None) -> None:
        """Add the gradients of this tensor to the leaves' ``grad``; see ``tensocket.autograd.backward``."""
        array = self._array
        if type(array) is np.ndarray and self._key & _KIND in _LOSSES and inputs is None and not (
                create_graph or ACTIVE):
            # Fast path for losses and other usual cases; it saves some microseconds. Other calls take the general path.
            first = gradient
            if gradient is None and array.size == 1:
                if self._grad_fn and SHORTCUTS and SHORTCUTS[-1].added(self, bool(retain_graph)):
                    return
                first = differentiate.first_gradient(self)
            if type(first) is Tensor and first._array.shape == array.shape and (
                    first._key & _PARTS == self._key & _PARTS ^ AUTOGRAD):
                run_pass(((self._grad_fn or self, first),), None, retain_graph, create_graph)
                return
        differentiate.backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)

    def _root(self, gradient: Any) -> tuple[Any, Any]:
        """Return the tensor whose shape and dtype the first gradient of a pass must have, and that gradient."""
        return self, gradient

    # ------------------------------------------------------------------------------------------ hooks

    def _graph_extras(self, operator: str) -> tuple[Extras, int]:
        if not self._key & AUTOGRAD:
            raise AutogradError(operator, "a tensor that requires no grad", "only tensors with gradients have hooks",
                                "set requires_grad=True first")
        if self._grad_fn is None:
            return extras_of(self, "_extras"), 0
        node, index = gradient_place(self._grad_fn)
        return extras_of(node, "extras"), index

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call ``hook`` with this tensor's gradient; a returned tensor replaces the gradient.

        After an in-place change, earlier hooks stay with the earlier value.

        Raises:
            AutogradError: The tensor does not require grad.
        """
        extras, index = self._graph_extras("register_hook")
        return extras.add_to_gradient(index, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call ``hook`` with this leaf after its ``grad`` changed.

        Raises:
            AutogradError: The tensor is not a leaf, or does not require grad.
        """
        if self._grad_fn is not None:
            raise AutogradError("register_post_accumulate_grad_hook", "a tensor made by an operator",
                                "only leaves accumulate gradients", "use register_hook")
        return self._graph_extras("register_post_accumulate_grad_hook")[0].add("accumulated", hook)

    @property
    def _backward_hooks(self) -> Hooks | None:
        """Hooks on this tensor's gradient; None if there are none."""
        if self._grad_fn is None:
            extras, index = self._extras, 0
        else:
            node, index = gradient_place(self._grad_fn)
            extras = node.extras
        return None if extras is None or extras.gradient is None else extras.gradient.get(index)

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: Hooks | None) -> None:
        if self._grad_fn is not None:
            extras, index = self._graph_extras("register_hook")
        elif hooks is None and self._extras is None:
            return
        else:  # also of a tensor that does not require a gradient yet
            extras, index = extras_of(self, "_extras"), 0
        table = extras.gradient = {} if extras.gradient is None else extras.gradient
        if hooks is None:
            table.pop(index, None)
        else:
            table[index] = hooks

    def retain_grad(self) -> None:
        """Retain the gradient of a non-leaf tensor in ``grad``.

        Raises:
            AutogradError: The tensor does not require grad.
        """
        if ACTIVE:
            check_untransformed("Tensor.retain_grad()")
        if not self._key & AUTOGRAD:
            raise AutogradError("retain_grad", "a tensor that requires no grad",
                                "only tensors with gradients can keep one", "set requires_grad=True first")
        if self._grad_fn is not None:
            keep_gradient(self)

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad`` was called on this tensor, which is not a leaf."""
        return retained_by(self) is not None


def check_untransformed(operator: str) -> None:
    """Raise for a change of recording while a function transform runs.

    Raises:
        AutogradError: A transform runs.
    """
    for transform in STATE.transforms:
        if transform.functional:
            raise AutogradError(operator, f"a call inside of a function that is transformed by {transform.name}",
                                f"You are attempting to call {operator} (or perhaps using torch.autograd.functional.* "
                                "APIs) inside of a function being transformed by a functorch transform, which says "
                                "itself what requires a gradient",
                                "use func.grad, vjp, jacrev, jacfwd or hessian inside, or call it outside")


def warn_of_no_leaf(tensor: Any) -> None:
    """Warn that a non-leaf tensor accumulates no gradient, unless it retains its gradient."""
    if not tensor.retains_grad:
        warnings.warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                      "attribute won't be populated during autograd.backward(). If you indeed want the .grad field to "
                      "be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access "
                      "the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.", UserWarning,
                      stacklevel=3)


def check_grad(tensor: Any, value: Any) -> None:
    """Raise for a value that cannot be assigned to ``grad``.

    Raises:
        ArgumentTypeError: The value is not a tensor.
        AutogradError: It is the tensor itself.
        ShapeError: Its shape differs from the tensor's.
        DtypeError: Its dtype or device differs.
    """
    if type(value) is Tensor and value is not tensor and value._array.shape == tensor._array.shape and not (
            (value._key ^ tensor._key) & OPTIONS):
        return
    if not hasattr(value, "_key"):
        raise ArgumentTypeError("grad", type(value).__name__, "a gradient is a tensor or None", "assign a tensor")
    if value is tensor:
        raise AutogradError("grad", "the tensor itself", "a tensor is not its own gradient", "assign a clone of it")
    if value._array.shape != tensor._array.shape:
        raise ShapeError("grad", f"gradient of shape {list(value.shape)} for a tensor of shape {list(tensor.shape)}",
                         "a gradient has its tensor's shape", "assign a gradient of that shape")
    if value.dtype is not tensor.dtype or value._device_state is not tensor._device_state:
        raise DtypeError(
            "grad",
            f"gradient of {value.dtype.name} on {value.device} for a tensor of {tensor.dtype.name} on {tensor.device}",
            "a gradient has its tensor's dtype and device",
            "convert it with .to(tensor)",
        )
