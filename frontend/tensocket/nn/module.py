"""The base class of all neural network modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tensocket.errors import ArgumentTypeError, UnsupportedOperator
from tensocket.utils.hooks import RemovableHandle
from tensocket_core import Tensor, bfloat16, empty_like, float16, float32, float64, get_default_device, no_grad
from tensocket_core import device as Device
from tensocket_core import dtype as DType

from . import state
from .tree import ModuleTree

Self = TypeVar("Self", bound="Module")
Hook = Callable[..., Any]


class Module(ModuleTree):
    """A node in the tree of a model: it owns parameters, buffers and submodules and computes with ``forward``.

    Assigning a ``Parameter``, ``Buffer`` or ``Module`` to an attribute registers it. Subclasses call
    ``super().__init__()`` before that and implement ``forward``.
    """

    training: bool
    _forward_hooks: OrderedDict[int, tuple[Hook, bool]]
    _forward_pre_hooks: OrderedDict[int, tuple[Hook, bool]]

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(training=True, _forward_hooks=OrderedDict(), _forward_pre_hooks=OrderedDict())

    # ---- computing

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result; subclasses implement it.

        Raises:
            UnsupportedOperator: The subclass does not implement it.
        """
        name = type(self).__name__
        raise UnsupportedOperator(f"{name}.forward", f"a call of {name}", "a module computes with forward(), which "
                                  "this class does not define", f"define {name}.forward(self, ...)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the hooks, if there are any, around ``forward``."""
        if not (self._forward_hooks or self._forward_pre_hooks):
            return self.forward(*args, **kwargs)
        for hook, with_kwargs in tuple(self._forward_pre_hooks.values()):
            changed = hook(self, args, kwargs) if with_kwargs else hook(self, args)
            if changed is None:
                continue
            if with_kwargs:
                args, kwargs = changed
            else:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook, with_kwargs in tuple(self._forward_hooks.values()):
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            result = result if changed is None else changed
        return result

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before every ``forward``; a result other than None replaces the arguments.

        Args:
            hook: The function; with ``with_kwargs`` it gets ``(module, args, kwargs)`` and returns both.
            prepend: Whether it runs before the hooks that are there.
            with_kwargs: Whether keyword arguments are passed to it.
        """
        return _add_hook(self._forward_pre_hooks, (hook, with_kwargs), prepend)

    def register_forward_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after every ``forward``; a result other than None replaces the output.

        Args:
            hook: The function; with ``with_kwargs`` it gets ``(module, args, kwargs, output)``.
            prepend: Whether it runs before the hooks that are there.
            with_kwargs: Whether keyword arguments are passed to it.
        """
        return _add_hook(self._forward_hooks, (hook, with_kwargs), prepend)

    # ---- state

    def state_dict(
        self, *, destination: OrderedDict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """Parameters and persistent buffers by dotted name; the tensors share storage with the module's.

        Args:
            destination: The mapping to add to; a new one if not given.
            prefix: What names start with.
            keep_vars: Whether tensors stay attached to the gradient graph.
        """
        return state.collect(self, OrderedDict() if destination is None else destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """Copy values into the module's parameters and buffers; the module is unchanged if anything does not fit.

        Args:
            state_dict: Tensors by dotted name, of any dtype and device.
            strict: Whether the names must be exactly the module's.
            assign: Whether the tensors take the place of the module's instead of being copied into them.

        Returns:
            The names that were missing and unexpected.

        Raises:
            ArgumentTypeError: ``state_dict`` is no mapping.
            StateDictError: Names (if ``strict``) or shapes differ, or a value is not a tensor.
        """
        return state.load(self, state_dict, strict, assign)

    # ---- modes and conversion

    def train(self: Self, mode: bool = True) -> Self:
        """Switch this module and all below it to training (or, with ``mode=False``, to evaluation).

        Raises:
            ArgumentTypeError: ``mode`` is no bool.
        """
        if not isinstance(mode, bool):
            raise ArgumentTypeError("train", f"mode {mode!r}", "mode is a bool", "pass True or False")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Switch this module and all below it to evaluation."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Say whether gradients are computed for all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or, with ``set_to_none=False``, clear) the gradients of all parameters."""
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none)

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` with every module of the tree, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers in place: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``.

        The dtype applies to floating-point and complex tensors only.

        Raises:
            ArgumentTypeError: The dtype is not floating point or complex, or the arguments are none of the above.
        """
        device, dtype, non_blocking = _parse_to(*args, **kwargs)

        def convert(tensor: Tensor) -> Tensor:
            cast = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            moved: Tensor = tensor.to(device=device, dtype=cast, non_blocking=non_blocking)
            return moved

        return self._apply(convert)

    def to_empty(self: Self, *, device: str | Device | None) -> Self:
        """Give parameters and buffers uninitialised memory on a device, for example those of a module made on ``meta``.

        Args:
            device: Where; None is the default device.
        """
        target = get_default_device() if device is None else device
        return self._apply(lambda tensor: empty_like(tensor, device=target))

    def _apply(self: Self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Put ``fn`` of every parameter, gradient and buffer in its place; parameters stay the same objects."""
        done: set[int] = set()
        with no_grad():
            for module in self.modules():
                for parameter in module._parameters.values():
                    if parameter is not None and id(parameter) not in done:
                        done.add(id(parameter))
                        gradient = parameter.grad
                        parameter.grad = None
                        parameter.data = fn(parameter.detach())
                        parameter.grad = None if gradient is None else fn(gradient)
                for name, buffer in module._buffers.items():
                    module._buffers[name] = None if buffer is None else fn(buffer)
        return self

    def cpu(self: Self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self: Self, device: int | str | Device | None = None) -> Self:
        """Move parameters and buffers to a CUDA device."""
        return self.to("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)

    def type(self: Self, dst_type: DType) -> Self:
        """Convert all parameters and buffers to ``dst_type``."""
        return self._apply(lambda tensor: tensor.to(dst_type))

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

    # ---- printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What the module's own line shows between the brackets; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr()
        lines = own.split("\n") if own else []
        below = [f"({name}): {indent(repr(module))}" for name, module in self._modules.items()]
        if not below and len(lines) <= 1:
            return f"{self._get_name()}({own})"
        body = "\n  ".join(lines + below)
        return f"{self._get_name()}(\n  {body}\n)"


def indent(text: str) -> str:
    """``text`` with all lines but the first moved right by two spaces."""
    return text.replace("\n", "\n  ")


def clear_grad(tensor: Tensor, set_to_none: bool) -> None:
    """Drop the gradient of ``tensor``, or detach it and fill it with zeros."""
    if tensor.grad is None:
        return
    if set_to_none:
        tensor.grad = None
    else:
        tensor.grad = tensor.grad.detach().zero_()


def _add_hook(hooks: OrderedDict[int, tuple[Hook, bool]], entry: tuple[Hook, bool], prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = entry
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _parse_to(
    *args: Any, device: Any = None, dtype: DType | None = None, tensor: Tensor | None = None, non_blocking: bool = False
) -> tuple[Any, DType | None, bool]:
    """Device, dtype and ``non_blocking`` of the arguments of ``Module.to``."""
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        tensor = rest.pop(0)
    elif rest and not isinstance(rest[0], DType):
        device = rest.pop(0)
    if rest and (rest[0] is None or isinstance(rest[0], DType)):
        dtype = rest.pop(0)
    if rest and isinstance(rest[0], bool):
        non_blocking = rest.pop(0)
    if rest:
        raise ArgumentTypeError("Module.to", f"{', '.join(map(repr, args))}", "to() takes a device, a dtype, both in "
                                "this order, or a tensor", "pass for example to('cpu', tensocket.float64)")
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise ArgumentTypeError("Module.to", f"dtype {dtype}", "parameters are floating point or complex",
                                "pass a floating-point dtype such as tensocket.float32")
    return device, dtype, non_blocking
