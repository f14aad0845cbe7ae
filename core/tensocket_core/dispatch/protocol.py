"""Calls that leave the fast path: overriding subclasses, modes, and tensors of transforms.

Order of such a call: ``__torch_function__`` (modes first, then subclasses), then autocast, then the innermost running
transform (which calls the operator again for the next one), then autograd, then ``__torch_dispatch__`` (modes first,
then subclasses). While transforms run, all calls of the thread take this path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from ..keys import AUTOGRAD, WRAPPER
from .autocast import applied
from .call import call, key_of
from .modes import STATE, thread_state
from .overrides import (
    MAX_NESTING,
    PushedMode,
    call_torch_function,
    overrides_functions,
    participants,
    self_containing_error,
    version_counter,
)

if TYPE_CHECKING:
    from .operator import Operator

#: Classes of defaults, whose text is that in a schema.
_CONSTANTS: Final = (type(None), bool, int, float, str, tuple)
#: The answer if neither a mode nor a class handles a call.
NOT_HANDLED: Final = object()


def tensors_in(values: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """Yield the tensors among arguments and in their tuples and lists.

    Raises:
        ArgumentTypeError: A list contains itself.
    """
    if depth > MAX_NESTING:
        raise self_containing_error()
    for value in values:
        if hasattr(value, "_key"):
            yield value
        elif type(value) in (tuple, list):
            yield from tensors_in(value, depth + 1)


def public_function(operator: Operator) -> Callable[..., Any]:
    """Return the function that users call; the record itself if the operator has none."""
    return operator.public or operator


def run_function_mode(operator: Operator, args: tuple[Any, ...]) -> Any:
    """Pass a call to the innermost function mode."""
    return call_torch_function(operator.name, public_function(operator), args, *user_arguments(operator, args))


def call_overrides(operator: Operator, *args: Any, **extra: Any) -> Any:
    """Pass a call with keywords outside of the schema (``out``, ``alpha``) to modes and overriding arguments."""
    given, kwargs = user_arguments(operator, args)
    extra = {name: value for name, value in extra.items() if value is not None}
    return call_torch_function(operator.name, public_function(operator), (*args, *extra.values()), given,
                               {**kwargs, **extra})


def user_arguments(operator: Operator, args: tuple[Any, ...], *, spread: bool = True) -> tuple[tuple[Any, ...],
                                                                                               dict[str, Any]]:
    """Return arguments as a user passes them: trailing defaults dropped, keyword-only ones by name.

    Args:
        operator: The operator, whose schema describes the arguments.
        args: All arguments in schema order.
        spread: Whether a collecting parameter's values are passed one by one, as to functions, or as one argument, as
            to records.
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    optional, named = 0, spread and operator.hands_by_name
    for parameter, value in zip(operator.schema.parameters, args, strict=True):
        default = parameter.default is not None and type(value) in _CONSTANTS and repr(value) == parameter.default
        if parameter.keyword_only or (named and parameter.default is not None):
            if named or not default:
                keywords[parameter.name] = value
        elif parameter.type.endswith("...") or parameter.name == operator.variadic:
            if spread:
                positional.extend(value)
            else:
                positional.append(value[0] if len(value) == 1 and isinstance(value[0], (tuple, list)) else value)
        else:
            optional = optional + 1 if default else 0
            positional.append(value)
    return tuple(positional[:len(positional) - optional]), keywords


# --------------------------------------------------------------------------------------------- the order of layers


def run_wrapped(operator: Operator, *args: Any, **keywords: Any) -> Any:
    """Run a call with a tensor of a subclass or transform, or under a dispatch mode."""
    if keywords or operator.variadic:
        args = operator.gathered(args, keywords)
    if any(isinstance(value, np.generic) for value in args):
        args = tuple([value.item() if isinstance(value, np.generic) else value for value in args])
        return operator.invoke(operator.below(_key(operator, args)), args)
    if not STATE.overrides_off and any(overrides_functions(type(value)) for value in participants(args)):
        return call_torch_function(operator.name, public_function(operator), args, *user_arguments(operator, args))
    converted = applied(operator, args)
    if converted is not None:
        return converted()
    special = [value for value in tensors_in(args) if value._key & WRAPPER]
    stack = STATE.transforms
    if not stack and not STATE.dispatch_modes and not any(t._level or t._dispatches for t in special):
        # These subclasses have declined already; from here on they count as plain tensors.
        return operator.invoke(operator.below(_key(operator, args) & ~WRAPPER), args)
    if operator.body is not None and not (STATE.dispatch_modes and STATE.dispatch_modes[-1].keeps(operator, args)):
        return operator.invoke(operator.body, args)
    for value in special:
        if value._level and stack[value._level - 1:value._level] != (value._transform,):
            return call(operator, *value._transform.released(operator, args))
    return stack[-1].run(operator, args) if stack else _run_recorded(operator, args)


def _run_recorded(operator: Operator, args: tuple[Any, ...]) -> Any:
    key = _key(operator, args) & ~WRAPPER
    if not operator.is_recorded or not key & AUTOGRAD:
        return run_dispatch(operator, args)
    return operator.recording(lambda *given: run_dispatch(operator, given), key)(*args)


def _key(operator: Operator, args: tuple[Any, ...]) -> int:
    key = (key_of(operator, args) | STATE.include) & ~STATE.exclude
    return key if STATE.inference is None else key & ~AUTOGRAD


# --------------------------------------------------------------------------------------------- __torch_dispatch__


def run_dispatch(operator: Operator, args: tuple[Any, ...]) -> Any:
    """Run a call below autograd: by the innermost dispatch mode, else dispatching subclasses, else the kernel."""
    result = ask_dispatch(operator, operator.name, args, lambda: user_arguments(operator, args, spread=False),
                          operator.dispatch_rules)
    unknown = result is not NOT_HANDLED and result is not None and not hasattr(result, "_key")
    if unknown and operator.schema.returns.rstrip("~") == "Tensor":
        raise ArgumentError(operator.name, f"a {type(result).__name__} from __torch_dispatch__",
                            "Unable to cast the result to Tensor, which the operator returns", "return a tensor")
    if result is NOT_HANDLED:
        return operator.invoke(operator.below(_key(operator, args) & ~(WRAPPER | AUTOGRAD)), args)
    target: Any = args[0] if args else None
    if STATE.dispatch_modes or not getattr(target, "_dispatches", False):
        return target if operator.kind == "inplace" else result
    if operator.kind == "inplace":
        # The class modified the tensor it wraps; the wrapper counts the change.
        version_counter(target)[0] += 1
        return target
    if operator.kind == "view" and hasattr(result, "_key") and result is not target and result._base is None:
        result._version_counter = version_counter(target)
        result._base = target if target._base is None else target._base
    return result


def ask_dispatch(function: Any, name: str, args: tuple[Any, ...],
                 pack: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]], rules: dict[type, Any]) -> Any:
    """Return the answer of the innermost dispatch mode, else of a dispatching class; ``NOT_HANDLED`` without either.

    Args:
        function: The record that they receive.
        name: Name of the function in errors.
        args: All arguments.
        pack: Makes positional and keyword arguments as a user passes them.
        rules: Overrides of this function for some modes and classes, registered from outside.

    Raises:
        ArgumentTypeError: All handlers returned NotImplemented.
    """
    kinds: list[Any] = []
    for value in tensors_in(args):
        kind = type(value)
        if kind._dispatches and kind not in kinds:
            kinds.insert(next((k for k, other in enumerate(kinds) if issubclass(kind, other)), len(kinds)), kind)
    modes = STATE.dispatch_modes
    if not modes and not kinds:
        return NOT_HANDLED
    given, kwargs = pack()
    types = tuple(kinds)
    for handler in (*modes[-1:], *kinds):
        kind = handler if isinstance(handler, type) else type(handler)
        # A mode does not receive its own calls, but it does receive those of a class to which it passed a call.
        inner = modes if isinstance(handler, type) else modes[:-1]
        before = STATE.exclude
        with thread_state(exclude=before | AUTOGRAD, dispatch_modes=inner, before_dispatch=before):
            rule = rules.get(kind)
            result = (handler.__torch_dispatch__(function, types, given, kwargs)
                      if rule is None else rule(handler, function, types, given, kwargs))
        if result is not NotImplemented:
            return result
    names = ", ".join(kind.__name__ for kind in (*map(type, modes[-1:]), *kinds))
    raise ArgumentTypeError(name, f"a call for {names}", "a mode's or class's __torch_dispatch__ implements the call",
                            "handle the operator there")


class TorchDispatchMode(PushedMode):
    """A mode that receives every operator call in its block, below autograd and below composites.

    Subclasses define ``__torch_dispatch__(self, func, types, args=(), kwargs=None)``; ``func`` is the operator's
    record.
    """

    _stack = "dispatch_modes"
    _method = "__torch_dispatch__"

    def __torch_dispatch__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Handle a call.

        Raises:
            NotImplementedError: The subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no __torch_dispatch__")

    def keeps(self, operator: Operator, args: tuple[Any, ...]) -> bool:
        """Whether the mode receives a call of a composite operator as a whole; by default, none."""
        return False
