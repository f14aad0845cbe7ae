"""Hooks around calls of modules: their storage, registration and execution."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tensocket.errors import ArgumentError, ArgumentTypeError, AutogradError
from tensocket.utils.hooks import BackwardHook, RemovableHandle
from tensocket_compiler.calls.intercept import INTERCEPTED
from tensocket_compiler.capture.listed import register_state
from tensocket_operators import Tensor

if TYPE_CHECKING:
    from ..module import Module

Hook = Callable[..., Any]


class CallHook(NamedTuple):
    """A hook of calls and the options that it was registered with."""

    function: Hook
    with_kwargs: bool = False
    always_call: bool = False


#: Hooks of all modules. ``GLOBAL_CALLS`` also holds the numbers of the hooks in the first four tables, and
#: ``INTERCEPTED`` these and the threads in which a compiled function takes over calls, so a call of a module looks at
#: only one table.
GLOBAL_CALLS: Final[OrderedDict[int, None]] = OrderedDict()
GLOBAL_FORWARD_PRE: Final[OrderedDict[int, CallHook]] = OrderedDict()
GLOBAL_FORWARD: Final[OrderedDict[int, CallHook]] = OrderedDict()
GLOBAL_BACKWARD_PRE: Final[OrderedDict[int, Hook]] = OrderedDict()
GLOBAL_BACKWARD: Final[OrderedDict[int, Hook]] = OrderedDict()
GLOBAL_REGISTRATION: Final[dict[str, OrderedDict[int, Hook]]] = {
    "_parameters": OrderedDict(), "_buffers": OrderedDict(), "_modules": OrderedDict()}
#: Whether the hooks in ``GLOBAL_BACKWARD`` are full ones; None while none was registered.
_GLOBAL_KIND: Final[list[bool | None]] = [None]
# Graphs stand for calls with these hooks; that a compiled function takes over calls must not change their guards.
register_state("hooks_of_all_modules", GLOBAL_CALLS)


def add_hook(
    hooks: OrderedDict[int, Any], hook: Any, prepend: bool = False, flags: Sequence[OrderedDict[int, bool]] = ()
) -> RemovableHandle:
    """Add ``hook`` to the end of a table, or to its beginning, and its number to the tables ``flags``."""
    handle = RemovableHandle(hooks, *flags)
    hooks[handle.id] = hook
    for table in flags:
        table[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def check_backward_hook_kind(known: bool | None, wanted: bool) -> bool:
    """Return the kind of backward hooks; a module has only one.

    Raises:
        AutogradError: The module has hooks of the other kind already.
    """
    if known is (not wanted):
        raise AutogradError("register_backward_hook", "a regular and a full backward hook", "Cannot use both regular "
                            "backward hooks and full backward hooks", "use register_full_backward_hook for both")
    return wanted


def _add_global(hooks: OrderedDict[int, Any], hook: Any) -> RemovableHandle:
    handle = RemovableHandle(hooks, GLOBAL_CALLS, INTERCEPTED)
    hooks[handle.id] = hook
    GLOBAL_CALLS[handle.id] = INTERCEPTED[handle.id] = None
    return handle


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, args)`` before ``forward`` of every module; a result other than None replaces ``args``."""
    return _add_global(GLOBAL_FORWARD_PRE, CallHook(hook))


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after ``forward`` of every module; a result other than None replaces it.

    Args:
        hook: The function; with ``with_kwargs`` it gets ``(module, args, kwargs, output)``.
        with_kwargs: Whether keyword arguments are passed to it.
        always_call: Whether it is called, with None as output, when ``forward`` raises.
    """
    return _add_global(GLOBAL_FORWARD, CallHook(hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the gradient of every module; a result replaces ``grad_output``."""
    return _add_global(GLOBAL_BACKWARD_PRE, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` after the gradient of every module; a result replaces the first.

    Raises:
        AutogradError: Regular backward hooks are registered for all modules.
    """
    _GLOBAL_KIND[0] = check_backward_hook_kind(_GLOBAL_KIND[0] if GLOBAL_BACKWARD else None, True)
    return _add_global(GLOBAL_BACKWARD, hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` with gradients of the last operator of every module.

    Use ``register_module_full_backward_hook``: this hook's gradients depend on how a module computes.

    Raises:
        AutogradError: Full backward hooks are registered for all modules.
    """
    _GLOBAL_KIND[0] = check_backward_hook_kind(_GLOBAL_KIND[0] if GLOBAL_BACKWARD else None, False)
    return _add_global(GLOBAL_BACKWARD, hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a parameter is registered; a result other than None replaces it."""
    return add_hook(GLOBAL_REGISTRATION["_parameters"], hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a buffer is registered; a result other than None replaces it."""
    return add_hook(GLOBAL_REGISTRATION["_buffers"], hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when a submodule is registered; a result other than None replaces it."""
    return add_hook(GLOBAL_REGISTRATION["_modules"], hook)


def run_registration(table: str, module: Any, name: str, value: Any) -> Any:
    """Return the member that the hooks on registration return for a new one."""
    for hook in tuple(GLOBAL_REGISTRATION[table].values()):
        replaced = hook(module, name, value)
        value = value if replaced is None else replaced
    return value


# -------------------------------------------------------------------------------------------------- running


class Call:
    """One call of a module that has hooks."""

    def __init__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.waiting: dict[int, CallHook] = dict(GLOBAL_FORWARD)
        for number, function in module._forward_hooks.items():
            self.waiting[number] = CallHook(function, number in module._forward_hooks_with_kwargs,
                                            number in module._forward_hooks_always_called)

    def run(self) -> Any:
        """Run the call and return its output; if it raises, still call the hooks with ``always_call``."""
        try:
            return self._run()
        except Exception:
            for hook in [hook for hook in self.waiting.values() if hook.always_call]:
                self._try(hook)
            raise

    def _try(self, hook: CallHook) -> None:
        try:
            self._after(hook, None)
        except Exception as error:
            warnings.warn(f"forward hook with ``always_call=True`` raised an exception that was silenced as another "
                          f"error was raised in forward: {error!s}", stacklevel=5)

    def _run(self) -> Any:
        module = self.module
        for hook in tuple(GLOBAL_FORWARD_PRE.values()):
            self._before(hook)
        for number, function in tuple(module._forward_pre_hooks.items()):
            self._before(CallHook(function, number in module._forward_pre_hooks_with_kwargs))
        full, regular, before = self._backward_hooks()
        watch = BackwardHook(module, full, before) if full or before else None
        args = self.args if watch is None else watch.setup_input_hook(self.args)
        result = module.forward(*args, **self.kwargs)
        for number, hook in tuple(self.waiting.items()):
            del self.waiting[number]
            replaced = self._after(hook, result)
            result = result if replaced is None else replaced
        if watch is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn("For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                              f"but received {type(result)}", stacklevel=5)
            result = watch.setup_output_hook(result)
        if regular:
            _watch_last_operator(module, regular, self.args, result)
        return result

    def _before(self, hook: CallHook) -> None:
        if not hook.with_kwargs:
            replaced = hook.function(self.module, self.args)
            if replaced is not None:
                self.args = replaced if isinstance(replaced, tuple) else (replaced,)
            return
        replaced = hook.function(self.module, self.args, self.kwargs)
        if replaced is None:
            return
        if not (isinstance(replaced, tuple) and len(replaced) == 2):
            raise ArgumentError("forward pre-hook", f"{replaced!r} from a hook", "forward pre-hook must return None or "
                                "a tuple of (new_args, new_kwargs)", "return both, or None to keep them")
        self.args, self.kwargs = replaced

    def _after(self, hook: CallHook, result: Any) -> Any:
        if hook.with_kwargs:
            return hook.function(self.module, self.args, self.kwargs, result)
        return hook.function(self.module, self.args, result)

    def _backward_hooks(self) -> tuple[list[Hook], list[Hook], list[Hook]]:
        module = self.module
        full: list[Hook] = []
        regular: list[Hook] = []
        (full if _GLOBAL_KIND[0] else regular).extend(GLOBAL_BACKWARD.values())
        (full if module._is_full_backward_hook else regular).extend(module._backward_hooks.values())
        return full, regular, [*GLOBAL_BACKWARD_PRE.values(), *module._backward_pre_hooks.values()]


def _watch_last_operator(module: Module, hooks: list[Hook], args: tuple[Any, ...], result: Any) -> None:
    whole = result
    while not isinstance(result, Tensor):
        if not isinstance(result, (dict, list, tuple)) or not result:
            raise ArgumentTypeError("register_backward_hook", f"a {type(result).__name__} from {type(module).__name__}",
                                    "a regular backward hook watches a tensor in the result",
                                    "use register_full_backward_hook")
        values = result.values() if isinstance(result, dict) else result
        result = next((value for value in values if isinstance(value, Tensor)), next(iter(values)))
    if result.grad_fn is not None:
        for hook in hooks:
            result.grad_fn.register_hook(lambda inputs, outputs, hook=hook: hook(module, inputs, outputs))
        unseen = _find_missed_gradients(args, whole if isinstance(whole, tuple) else (whole,), result.grad_fn)
        if unseen:
            warnings.warn(f"Using {unseen} Please use register_full_backward_hook to get the documented behavior.",
                          FutureWarning, stacklevel=6)


def _find_missed_gradients(args: tuple[Any, ...], results: tuple[Any, ...], last: Any) -> str:
    """Return the gradients of a module's call that a regular backward hook misses; empty if it gets all of them."""
    if not all(isinstance(value, Tensor) for value in results):
        return ("non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is "
                "deprecated and will be removed in future versions. This hook will be missing some of the grad_output.")
    if not all(isinstance(value, Tensor) for value in args):
        return ("non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors "
                "is deprecated and will be removed in future versions. This hook will be missing some of the "
                "grad_input.")
    ends = {value.grad_fn for value in results if value.grad_fn is not None}
    if len(ends) > 1:
        return ("a non-full backward hook when outputs are generated by different autograd Nodes is deprecated and "
                "will be removed in future versions. This hook will be missing some grad_output.")
    if {value.grad_fn for value in args if value.grad_fn is not None} != {node for node, _ in last.next_functions}:
        return ("a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will be "
                "removed in future versions. This hook will be missing some grad_input.")
    return ""
