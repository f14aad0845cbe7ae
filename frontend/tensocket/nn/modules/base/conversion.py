"""Conversion of modules to other devices and dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from tensocket.__future__ import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from tensocket.errors import ArgumentError, ArgumentTypeError, StateDictError, UninitializedError
from tensocket.nn.parameter import Parameter, UninitializedBuffer, is_lazy
from tensocket.utils import swap_tensors
from tensocket.utils._python_dispatch import is_traceable_wrapper_subclass
from tensocket_core import device as Device
from tensocket_operators import (
    Tensor,
    bfloat16,
    channels_last,
    channels_last_3d,
    empty_like,
    float16,
    float32,
    float64,
    get_default_device,
    no_grad,
)
from tensocket_operators import dtype as DType
from tensocket_plugins.contract.dtypes import as_dtype

from .tree import ModuleTree

Self = TypeVar("Self", bound="Convertible")


class Convertible(ModuleTree):
    """The methods of a module that convert all its tensors: parameters, their gradients, buffers."""

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers in place: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``.

        With ``memory_format=channels_last``, the tensors of four dimensions (``channels_last_3d``: of five) get that
        layout.

        The dtype applies to floating-point and complex tensors only.

        Raises:
            ArgumentTypeError: The dtype is not floating point or complex, or the arguments are none of the above.
        """
        layout = kwargs.pop("memory_format", None)
        device, dtype, non_blocking = parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise ArgumentTypeError("Module.to", f"dtype {dtype}", "parameters are floating point or complex",
                                    "pass a floating-point dtype such as tensocket.float32")
        if dtype is not None and dtype.is_complex:
            warnings.warn("Complex modules are a new feature under active development whose design may change, and "
                          "some modules might not work as expected when using complex tensors as parameters or buffers",
                          UserWarning, stacklevel=2)
        dimensions = (4,) if layout is channels_last else (5,) if layout is channels_last_3d else ()

        def convert(tensor: Tensor) -> Tensor:
            cast = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            moved: Tensor = tensor.to(device=device, dtype=cast, non_blocking=non_blocking)
            laid_out = dimensions and not is_lazy(tensor) and moved.dim() in dimensions
            # If both layouts fit, strides of sizes of 1 decide which one is meant.
            return moved.to(memory_format=layout) if laid_out else moved

        return self._apply(convert)

    def to_empty(self: Self, *, device: str | Device | int | None, recurse: bool = True) -> Self:
        """Give parameters and buffers uninitialised memory on a device, for example those of a module made on ``meta``.

        Args:
            device: The device; None is the default device.
            recurse: Whether submodules are included.
        """
        target = get_default_device() if device is None else device
        return self._apply(lambda tensor: empty_like(tensor, device=target), recurse)

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace every parameter, gradient and buffer by ``fn`` of it; parameters stay the same objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                with no_grad():
                    self._convert(name, parameter, fn)
        with no_grad():
            for name, buffer in self._buffers.items():
                self._buffers[name] = None if buffer is None else _converted(buffer, fn)
        return self

    def _convert(self, name: str, parameter: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
        gradient, applied = parameter.grad, fn(parameter)
        if get_swap_module_params_on_conversion() or is_traceable_wrapper_subclass(applied):
            self._swap(name, parameter, gradient, applied, fn)
            return
        # A gradient must have the parameter's dtype and device when it is assigned.
        parameter.grad = None
        if get_overwrite_module_params_on_conversion() or applied.layout is not parameter.layout:
            parameter = self._parameters[name] = Parameter(applied, parameter.requires_grad)
            if gradient is not None:
                gradient = fn(gradient).requires_grad_(gradient.requires_grad)
        else:
            parameter.data = applied
            if gradient is not None:
                gradient.data = fn(gradient)
        parameter.grad = gradient

    def _swap(
        self, name: str, parameter: Tensor, gradient: Tensor | None, applied: Tensor, fn: Callable[[Tensor], Tensor]
    ) -> None:
        """Swap a parameter and its gradient with the results of ``fn``.

        Raises:
            StateDictError: One of them cannot be swapped.
        """
        place = f"{type(self).__name__}.{name}"
        try:
            parameter.grad = None
            swap_tensors(parameter, Parameter(applied, parameter.requires_grad))
            if gradient is not None:
                place += ".grad"
                swap_tensors(gradient, fn(gradient).requires_grad_(gradient.requires_grad))
        except Exception as error:
            parameter.grad = gradient
            raise StateDictError("_apply", str(error), f"_apply(): Couldn't swap {place}",
                                 "drop other references to it, or leave swapping off") from error
        parameter.grad = gradient

    def cpu(self: Self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self._to_kind("cpu", None)

    def cuda(self: Self, device: int | str | Device | None = None) -> Self:
        """Move parameters and buffers to a CUDA device."""
        return self._to_kind("cuda", device)

    def ipu(self: Self, device: int | str | Device | None = None) -> Self:
        """Move parameters and buffers to a device of the kind ``ipu``."""
        return self._to_kind("ipu", device)

    def xpu(self: Self, device: int | str | Device | None = None) -> Self:
        """Move parameters and buffers to a device of the kind ``xpu``."""
        return self._to_kind("xpu", device)

    def mtia(self: Self, device: int | str | Device | None = None) -> Self:
        """Move parameters and buffers to a device of the kind ``mtia``."""
        return self._to_kind("mtia", device)

    def _to_kind(self: Self, kind: str, device: int | str | Device | None) -> Self:
        target = kind if device is None else f"{kind}:{device}" if isinstance(device, int) else device
        return self._apply(lambda tensor: tensor.to(target))  # a class's own ``to`` may call the public ones

    def type(self: Self, dst_type: DType | str) -> Self:
        """Convert all parameters and buffers to ``dst_type``."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _cast(self: Self, dtype: DType) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._cast(float32)

    def double(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._cast(float64)

    def half(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._cast(float16)

    def bfloat16(self: Self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._cast(bfloat16)

    def share_memory(self: Self) -> Self:
        """Call ``share_memory_`` of all tensors.

        Raises:
            UninitializedError: A tensor has no shape yet.
        """
        if any(map(is_lazy, [*self.parameters(), *self.buffers()])):
            raise UninitializedError("Module.share_memory", "a lazy parameter or buffer", "memory is shared of tensors "
                                     "that have a shape", "call forward() first")
        return self._apply(lambda tensor: tensor.share_memory_())


def _converted(buffer: Tensor, fn: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``fn`` of a buffer; a buffer without values stays one, for another device or dtype."""
    result = fn(buffer)
    if isinstance(buffer, UninitializedBuffer) and not is_lazy(result):
        return UninitializedBuffer(buffer.requires_grad, result.device, result.dtype, buffer.persistent)
    return result


def parse_to(
    *args: Any, device: Any = None, dtype: DType | None = None, tensor: Tensor | None = None,
    non_blocking: bool = False, copy: bool = False,
) -> tuple[Any, DType | None, bool]:
    """Return the device, dtype and ``non_blocking`` in the arguments of ``Module.to``."""
    if copy:
        raise ArgumentError("Module.to", "copy=True", "to() changes a module in place and has no form that copies",
                            "copy the module with copy.deepcopy first")
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        tensor = rest.pop(0)
    elif rest and as_dtype(rest[0]) is not None:
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or as_dtype(rest[0]) is not None):
            dtype = rest.pop(0)
        elif rest:
            rest.append(None)  # a dtype may follow a device
    flags = [rest.pop(0) for _ in range(2) if rest and isinstance(rest[0], bool)]
    non_blocking = flags[0] if flags else non_blocking
    if rest:
        raise ArgumentTypeError("Module.to", f"{', '.join(map(repr, args))}", "to() takes a device, a dtype, both in "
                                "this order, or a tensor", "pass for example to('cpu', tensocket.float64)")
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    dtype = None if dtype is None else as_dtype(dtype) or dtype
    return device, dtype, non_blocking
