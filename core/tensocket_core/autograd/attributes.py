"""Attributes of tensors that autograd defines: ``requires_grad``, ``grad``, ``data`` and ``detach``."""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError

from ..dispatch.call import call
from ..dispatch.modes import ACTIVE, STATE
from ..dispatch.registry import OPERATORS
from ..keys import AUTOGRAD, WRAPPER
from ..tensor import Tensor, tensor_methods
from .detached import detached_counter
from .graph_methods import check_grad, check_untransformed, warn_of_no_leaf
from .inference import check_outside, detached
from .view_history import require_with_views

#: References to a tensor from one variable, counted where ``requires_grad`` searches for its views.
_HOLDERS: Final = 5


@tensor_methods
class AutogradAttributes:
    """Attributes about a tensor's gradient, and methods that detach it from the graph."""

    __slots__ = ()

    @property
    def requires_grad(self: Any) -> bool:
        """Whether operators on this tensor record gradients."""
        return bool(self._key & AUTOGRAD)

    @requires_grad.setter
    def requires_grad(self: Any, value: bool) -> None:
        if self._grad_fn is not None:
            raise AutogradError("requires_grad", f"{bool(value)} for a tensor made by an operator",
                                "you can only change requires_grad flags of leaf variables", "use .detach()")
        if value and self.dtype.kind not in ("float", "complex"):
            raise AutogradError("requires_grad", f"True for a tensor of dtype {self.dtype.name}",
                                "only floating-point and complex tensors have gradients", "convert it with .to(dtype)")
        if value and self._version_counter is not None:
            check_outside(self)
            if self._base is None and not self._key & AUTOGRAD:
                require_with_views(self, _HOLDERS)
        self._key = self._key | AUTOGRAD if value else self._key & ~AUTOGRAD

    def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
        """Set ``requires_grad`` in place; an error while a function transform runs."""
        if ACTIVE:
            check_untransformed("Tensor.requires_grad_()")
        if requires_grad and self._grad_fn is not None:
            return self
        AutogradAttributes.requires_grad.fset(self, requires_grad)  # type: ignore[attr-defined]
        return self

    @property
    def grad(self: Any) -> Any:
        """Accumulated gradient of a leaf; None before the first backward. Warns if none will be accumulated."""
        grad = self._grad
        if grad is None and self._grad_fn is not None:
            warn_of_no_leaf(self)
        return grad

    @grad.setter
    def grad(self: Any, value: Any) -> None:
        if value is not None:
            check_grad(self, value)
        self._grad = value

    @grad.deleter
    def grad(self: Any) -> None:
        self._grad = None

    @property
    def _version(self: Any) -> int:
        return 0 if self._version_counter is None else int(self._version_counter[-1])

    def detach_(self: Any) -> Any:
        """Detach this tensor from the graph, in place.

        Raises:
            AutogradError: The tensor is a view.
        """
        if STATE.inference is not None:
            return self
        if self._base is not None:
            raise AutogradError("detach_", "a view", "Can't detach views in-place: a view has the history of its base",
                                "use detach()")
        if self._grad_fn is not None:
            self._version_counter = detached_counter(self._version_counter)
        self._grad_fn = None
        self._key &= ~AUTOGRAD
        return self

    def detach(self: Any) -> Any:
        """Return a tensor on the same memory, detached from the graph."""
        if ACTIVE or self._key & WRAPPER:
            return call(OPERATORS["detach"], self)
        alias = self._cut()
        return alias if type(alias._version_counter) is list else detached(alias)

    @property
    def data(self: Any) -> Any:
        """The same memory without autograd, which does not notice writes to it."""
        alias = self.detach()
        if type(alias) is Tensor and type(alias._version_counter) is list:
            alias._version_counter = None
        return alias

    @data.setter
    def data(self: Any, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ArgumentTypeError("data", type(value).__name__, "data is a tensor", "assign a tensor")
        if value.is_sparse is not self.is_sparse:
            raise AutogradError("data", "a sparse and a strided tensor", "data keeps its layout",
                                "convert it with to_dense() or to_sparse()")
        if self._key & AUTOGRAD and value.dtype.category < 2:
            raise AutogradError("data", f"values of dtype {value.dtype.name} for a tensor that requires grad",
                                "only floating-point and complex tensors have gradients", "convert them first")
        self._array = value._array
        key = value._key & ~(AUTOGRAD | WRAPPER) | self._key & (AUTOGRAD | WRAPPER)
        if key != self._key:  # an equal key stays the same object, so that guards see no change
            self._key = key
