"""The base class of all neural network modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from tensocket.errors import ArgumentError, ArgumentTypeError, UnsupportedOperator
from tensocket.namespace import foreach
from tensocket.utils.hooks import RemovableHandle
from tensocket_compiler.calls.intercept import INTERCEPTED, THREAD
from tensocket_core.keys import WRAPPER
from tensocket_operators import Tensor, zeros_like

from .base import tree as _tree
from .base.builtins import hold_statically
from .base.conversion import Convertible
from .base.hooks import (
    GLOBAL_CALLS,
    GLOBAL_REGISTRATION,
    Call,
    Hook,
    add_hook,
    check_backward_hook_kind,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from .base.state import EXTRA, ModuleState, _IncompatibleKeys

Self = TypeVar("Self", bound="Module")
IncompatibleKeys = _IncompatibleKeys
#: The name of a module's extra state in its ``state_dict``, as PyTorch calls it.
_EXTRA_STATE_KEY_SUFFIX: Final = EXTRA
#: Hooks of all modules by number, for each table of a module, under PyTorch's names.
_global_parameter_registration_hooks: Final = GLOBAL_REGISTRATION["_parameters"]
_global_buffer_registration_hooks: Final = GLOBAL_REGISTRATION["_buffers"]
_global_module_registration_hooks: Final = GLOBAL_REGISTRATION["_modules"]

#: Attributes of a module that hold hooks, or flags of hooks, by number.
HOOK_TABLES: Final = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)


class Module(ModuleState, Convertible):
    """A node in the tree of a model: it owns parameters, buffers and submodules and computes with ``forward``.

    Assigning a ``Parameter``, ``Buffer`` or ``Module`` to an attribute registers it. Subclasses call
    ``super().__init__()`` before that and implement ``forward``.

    Attributes:
        training: Whether the module is being trained; ``train`` and ``eval`` set it.
        call_super_init: Whether ``__init__`` passes its arguments on to other base classes.
        dump_patches: Not used; programs for PyTorch may set it.
        T_destination: A type variable for annotations of ``state_dict`` in programs for PyTorch.
    """

    training: bool
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Hook]
    _forward_pre_hooks: OrderedDict[int, Hook]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _backward_hooks: OrderedDict[int, Hook]
    _backward_pre_hooks: OrderedDict[int, Hook]
    call_super_init: bool = False
    T_destination = TypeVar("T_destination", bound=dict[str, Any])
    dump_patches: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            raise ArgumentTypeError(f"{type(self).__name__}", f"{len(args) + len(kwargs)} arguments for "
                                    "Module.__init__()", "Module.__init__() takes no arguments",
                                    "pass them to the constructor of the class that needs them")
        self.__dict__.update(
            training=True, _parameters={}, _buffers={}, _non_persistent_buffers_set=set(), _modules={},
            _is_full_backward_hook=None)
        self.__dict__.update((name, OrderedDict()) for name in HOOK_TABLES)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

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
        if (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                or INTERCEPTED):
            take = THREAD.take
            if take is None:
                return self._call_directly(*args, **kwargs)
            return take(self, self._call_directly, args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_directly(self, *args: Any, **kwargs: Any) -> Any:
        """Run the hooks, if there are any, around ``forward``; no compiled function takes this call over."""
        if (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                or GLOBAL_CALLS):
            return Call(self, args, kwargs).run()
        return self.forward(*args, **kwargs)

    # Subclasses may override it to change the behaviour of a call, as programs for PyTorch do.
    _call_impl = __call__

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_call_impl" in cls.__dict__ and "__call__" not in cls.__dict__:
            cls.__call__ = cls._call_impl  # type: ignore[method-assign]
        hold_statically(cls)

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before every ``forward``; a result other than None replaces the arguments.

        Args:
            hook: The function; with ``with_kwargs`` it gets ``(module, args, kwargs)`` and returns both.
            prepend: Whether it runs before the hooks that are registered already.
            with_kwargs: Whether keyword arguments are passed to it.
        """
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return add_hook(self._forward_pre_hooks, hook, prepend, flags)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after every ``forward``; a result other than None replaces the output.

        Args:
            hook: The function; with ``with_kwargs`` it gets ``(module, args, kwargs, output)``.
            prepend: Whether it runs before the hooks that are registered already.
            with_kwargs: Whether keyword arguments are passed to it.
            always_call: Whether it is called, with None as output, when ``forward`` raises.
        """
        flags = [self._forward_hooks_with_kwargs] if with_kwargs else []
        flags += [self._forward_hooks_always_called] if always_call else []
        return add_hook(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the module's gradient; a result other than None replaces it.

        Args:
            hook: The function; ``grad_output`` has one entry per output.
            prepend: Whether it runs before the hooks that are registered already.
        """
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are known.

        Args:
            hook: The function; ``grad_input`` has one entry per positional argument, None where it is not a tensor, and
                a result other than None replaces it.
            prepend: Whether it runs before the hooks that are registered already.

        Raises:
            AutogradError: The module has regular backward hooks.
        """
        self._is_full_backward_hook = check_backward_hook_kind(self._is_full_backward_hook, True)
        return add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` with the gradients of the module's last operator.

        Use ``register_full_backward_hook``: this hook's gradients depend on how the module computes.

        Raises:
            AutogradError: The module has full backward hooks.
        """
        self._is_full_backward_hook = check_backward_hook_kind(self._is_full_backward_hook, False)
        return add_hook(self._backward_hooks, hook)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Modules that were saved with fewer kinds of hooks.
        for name in HOOK_TABLES:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # ---- modes

    def train(self: Self, mode: bool = True) -> Self:
        """Switch this module and all below it to training (or, with ``mode=False``, to evaluation).

        Raises:
            ArgumentError: ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ArgumentError("train", f"mode {mode!r}", "mode is a bool", "pass True or False")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Switch this module and all below it to evaluation."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set whether gradients are computed for all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop (or, with ``set_to_none=False``, set to zero) the gradients of all parameters."""
        clear_grads(self.parameters(), set_to_none)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Let ``forward`` run as graphs, as that of ``compile(module)`` does. Arguments as for ``compile``."""
        from tensocket.compiler import compile  # a module of the compiler needs this class

        self.__dict__["forward"] = compile(type(self).forward.__get__(self), *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if hasattr(state.get("forward"), "_compiled"):  # graphs belong to this object
            del state["forward"]
        return state

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` with every module of the tree, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- printing

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return the text between the brackets of the module's own line; subclasses override it."""
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
    """Indent all lines of ``text`` but the first by two spaces."""
    return text.replace("\n", "\n  ")


def _addindent(s_: str, numSpaces: int) -> str:
    """Indent all lines of ``s_`` but the first, for ``__repr__`` methods of programs for PyTorch."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def clear_grads(tensors: Iterable[Tensor], set_to_none: bool) -> None:
    """Drop the gradients of tensors, or detach them and fill them with zeros; a sparse gradient is replaced."""
    if set_to_none:
        for tensor in tensors:
            if tensor._key & WRAPPER:
                tensor.grad = None
            else:
                tensor._grad = None
        return
    gradients = []
    for tensor in tensors:
        gradient: Any = tensor.grad
        if gradient is None:
            continue
        if gradient.is_sparse:
            tensor.grad = zeros_like(gradient)
            continue
        if gradient.requires_grad:
            gradient = tensor.grad = gradient.detach()
        gradients.append(gradient)
    foreach.zero_(gradients)


__all__ = [
    "HOOK_TABLES",
    "IncompatibleKeys",
    "Module",
    "clear_grads",
    "indent",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

#: ``typing.get_type_hints`` looks up names in annotations where their class is defined, here that of a base.
_tree.Module = Module  # type: ignore[attr-defined]
