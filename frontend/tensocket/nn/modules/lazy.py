"""Modules that infer the shapes of their parameters from their first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tensocket.errors import UninitializedError, UnsupportedOperator
from tensocket.nn.parameter import UninitializedBuffer, UninitializedParameter, UninitializedTensorMixin, is_lazy
from tensocket_operators import Tensor

from .module import Module

if TYPE_CHECKING:
    _Base = Module
else:
    _Base = object


class LazyModuleMixin(_Base):
    """A mixin for modules whose parameters get their shapes at the first call.

    A class derives from this and from the module's class, assigns ``UninitializedParameter`` and
    ``UninitializedBuffer`` and defines ``initialize_parameters``, which materializes them for an input. If
    ``cls_to_become`` is set, the module then becomes an instance of that class.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Save as any module does; save members without values as they are."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars or is_lazy(parameter) else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars or is_lazy(buffer) else buffer.detach()

    def _lazy_load_hook(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Give parameters the shapes of the values to load."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            value = state_dict.get(prefix + name)
            if isinstance(tensor, UninitializedTensorMixin) and isinstance(value, Tensor) and not is_lazy(value):
                tensor.materialize(value.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters for the arguments of the first call.

        Raises:
            UnsupportedOperator: The class does not define it.
        """
        raise UnsupportedOperator("initialize_parameters", f"a {type(self).__name__}", "a lazy module defines "
                                  "initialize_parameters()", "define it; it materializes every parameter")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no values yet."""
        return any(is_lazy(tensor) for tensor in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Infer the parameters before the first call; this hook then removes itself."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise UninitializedError(type(self).__name__, "parameters without values after initialize_parameters()",
                                     "all parameters are materialized before the first call",
                                     "materialize every one in initialize_parameters()")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


__all__ = ["LazyModuleMixin", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]
