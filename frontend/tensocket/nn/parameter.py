"""Tensors that a module owns: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import Any, Final, cast

from tensocket.errors import AutogradError, UninitializedError, UninitializedOperator
from tensocket_core.dispatch.overrides import disabled_torch_function
from tensocket_core.keys import WRAPPER
from tensocket_operators import Tensor, empty


class _ParameterMeta(type):
    """The metaclass of ``Parameter``: tensors of other classes can be parameters, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (
            cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False))


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that becomes a parameter of the module it is assigned to.

    Given a tensor of a subclass, this returns a tensor of that class, for which ``isinstance(x, Parameter)`` holds.

    Args:
        data: The values; the parameter shares their storage. An empty tensor if not given.
        requires_grad: Whether gradients are computed for it.

    Raises:
        AutogradError: ``detach()`` of the tensor's class returns one of another class.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Return a parameter that shares the storage of ``data``."""
        given: Any = empty(0) if data is None else data
        if type(given) is Tensor or type(given) is Parameter or not isinstance(given, Tensor) or cls is not Parameter:
            return cls._make_subclass(given.detach(), requires_grad)  # type: ignore[no-any-return]
        parameter: Any = given.detach().requires_grad_(requires_grad)
        if type(parameter) is not type(given):
            raise AutogradError(
                "Parameter", f"a {type(given).__name__}, whose detach() returned a {type(parameter).__name__}",
                f"Creating a Parameter from an instance of type {type(given).__name__} requires that detach() returns "
                "an instance of the same type", "correct detach() in its __torch_dispatch__ or __torch_function__")
        setattr(parameter, "_is_param", True)  # noqa: B010  the class of any tensor
        return cast("Parameter", parameter)

    __torch_function__ = staticmethod(disabled_torch_function)
    _plain_repr = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        copied: Parameter = memo[id(self)]
        return copied

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return f"Parameter containing:\n{super().__repr__(tensor_contents=tensor_contents)}"  # type: ignore[call-arg]


class _BufferType(type):
    """The metaclass of ``Buffer``: every tensor that was made as a buffer is an instance."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)
        return super().__instancecheck__(instance)


class Buffer(Tensor, metaclass=_BufferType):
    """A tensor that becomes a buffer of the module it is assigned to: part of its state, but not trained.

    This returns a tensor of the class of ``data``, for which ``isinstance(x, Buffer)`` holds.

    Args:
        data: The values; the buffer shares their storage. An empty tensor if not given.
        persistent: Whether it is part of the module's ``state_dict``.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        """Return a buffer that shares the storage of ``data``."""
        data = empty(0) if data is None else data
        buffer: Any = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent, buffer._is_buffer = persistent, True
        return buffer  # type: ignore[no-any-return]


class UninitializedTensorMixin:
    """A tensor without shape and values, until ``materialize`` gives it both."""

    #: The class of an instance once it has values.
    cls_to_become: type[Tensor]
    _uninitialized_device: Any = None
    _uninitialized_dtype: Any = None

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer with uninitialised values.

        Args:
            shape: Its shape.
            device: The device; that of this tensor by default.
            dtype: The dtype; that of this tensor by default.
        """
        tensor: Any = self
        values: Any = empty(shape, device=tensor.device if device is None else device,
                       dtype=tensor.dtype if dtype is None else dtype)
        # The class no longer intercepts operators, which is a bit of the key.
        tensor.__class__ = self.cls_to_become
        tensor._key &= ~WRAPPER
        tensor.data = values

    @property
    def shape(self) -> Any:
        """Refuse: an uninitialized tensor has no shape.

        Raises:
            UninitializedError: Always.
        """
        raise UninitializedError("shape", f"an {type(self).__name__}", "Can't access the shape of an uninitialized "
                                 "parameter or buffer", "call forward() of its module once to initialize it")

    def share_memory_(self) -> Any:
        """Raise as ``shape`` does: the parameter has no memory yet."""
        raise UninitializedError("share_memory_", f"an {type(self).__name__}", "Can't share memory on an uninitialized "
                                 "parameter or buffer", "call forward() of its module once to initialize it")

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        tensor: Any = self
        extra = (tensor.persistent,) if isinstance(self, UninitializedBuffer) else ()
        return type(self), (tensor.requires_grad, str(tensor.device), tensor.dtype, *extra)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Refuse operators; a few methods that need no values work."""
        name = str(getattr(func, "__name__", func)).removeprefix("method_")
        if name in _ALLOWED or name == "__get__":
            return disabled_torch_function(func, types, args, kwargs or {})
        raise UninitializedOperator(name, f"an {cls.__name__}", "Attempted to use an uninitialized parameter or buffer",
                                    "call forward() of its module with a dummy batch once")


#: Methods that an uninitialized tensor has: PyTorch's, except for those that need values.
_ALLOWED: Final = frozenset((
    "__hash__", "__set__", "__deepcopy__", "__reduce_ex__", "size", "copy_", "is_complex", "is_floating_point", "half",
    "float", "double", "char", "short", "int", "long", "cuda", "cpu", "to", "get_device", "detach", "requires_grad_",
    "type", "share_memory_", "bfloat16",
))


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter whose shape is not known yet; ``materialize`` makes it a ``Parameter``.

    Args:
        requires_grad: Whether gradients are computed for it.
        device: The device for its values.
        dtype: Its dtype.
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        """Return a parameter without values."""
        made: UninitializedParameter = cls._make_subclass(empty(0, device=device, dtype=dtype), requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        copied: UninitializedParameter = memo[id(self)]
        return copied


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer whose shape is not known yet; ``materialize`` makes it a tensor.

    Args:
        requires_grad: Whether gradients are computed for it.
        device: The device for its values.
        dtype: Its dtype.
        persistent: Whether it is part of ``state_dict``.
    """

    cls_to_become = Tensor
    persistent: bool

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        """Return a buffer without values."""
        buffer: UninitializedBuffer = cls._make_subclass(empty(0, device=device, dtype=dtype), requires_grad)
        buffer.persistent = persistent
        return buffer


def is_lazy(param: Any) -> bool:
    """Whether ``param`` has no values yet."""
    return isinstance(param, UninitializedTensorMixin)


__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]
