"""Tensors that are no plain ones: overriding subclasses, modes, and tensors of transforms.

Order of a call with such an argument: ``__torch_function__`` (modes first, then subclasses), then the innermost running
transform (which calls the operator again for the next one), then autograd, then ``__torch_dispatch__`` (modes first,
then subclasses). While transforms run, all calls of the thread come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.errors import ArgumentTypeError

from .call import call
from .keys import AUTOGRAD, SCALAR, WRAPPER
from .modes import STATE, thread_state

if TYPE_CHECKING:
    from .operator import Operator

_DEFAULTS: Final[dict[str, Any]] = {"None": None, "True": True, "False": False}


def tensors_in(values: Iterable[Any]) -> Iterator[Any]:
    """Tensors among arguments and in their tuples and lists."""
    for value in values:
        if hasattr(value, "_key"):
            yield value
        elif type(value) in (tuple, list):
            yield from tensors_in(value)


def public_function(operator: Operator) -> Callable[..., Any]:
    """What users call; the record itself for operators that have no public function."""
    return operator.public or operator


def packed(operator: Operator, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as a user passes them: trailing defaults dropped, keyword-only ones by name."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    optional = 0
    for parameter, value in zip(operator.schema.parameters, args, strict=True):
        default = parameter.default is not None and _is_default(parameter.default, value)
        if parameter.keyword_only:
            if not default:
                keywords[parameter.name] = value
        elif parameter.type.endswith("...") or parameter.name == operator.variadic:
            positional.extend(value)
        else:
            optional = optional + 1 if default else 0
            positional.append(value)
    return tuple(positional[:len(positional) - optional]), keywords


def _is_default(source: str, value: Any) -> bool:
    if source in _DEFAULTS:
        return value is _DEFAULTS[source]
    return type(value) in (int, float, str, tuple) and repr(value) == source


# --------------------------------------------------------------------------------------------- __torch_function__


def overriding(values: Iterable[Any]) -> list[Any]:
    """Tensors whose class overrides functions, subclasses before their bases, else in order."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if not kind._overrides or any(type(other) is kind for other in found):
            continue
        at = next((k for k, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(at, value)
    return found


def call_overrides(operator: Any, given: list[Any], function: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """Ask each overriding argument in turn.

    Raises:
        ArgumentTypeError: All answered NotImplemented.
    """
    types = tuple(type(value) for value in given)
    for value in given:
        result = type(value).__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise ArgumentTypeError(operator.name, f"arguments of types {', '.join(t.__name__ for t in types)}",
                            "one class's __torch_function__ implements the call",
                            "return NotImplemented only for types that another argument's class handles")


def run_function_mode(operator: Operator, args: tuple[Any, ...]) -> Any:
    """Hand a call to the innermost function mode; it does not see its own calls."""
    *outer, mode = STATE.function_modes
    types = tuple(type(value) for value in overriding(tensors_in(args)))
    given, kwargs = packed(operator, args)
    with thread_state(function_modes=tuple(outer)):
        result = mode.__torch_function__(public_function(operator), types, given, kwargs)
    if result is NotImplemented:
        raise ArgumentTypeError(operator.name, f"a call under {type(mode).__name__}",
                                "a function mode implements the call", "call func(*args, **kwargs) for the rest")
    return result


# --------------------------------------------------------------------------------------------- the order of layers


def run_wrapped(operator: Operator, *args: Any, **keywords: Any) -> Any:
    """Run a call in which a tensor takes part that is no plain one, or under a dispatch mode."""
    if keywords or operator.variadic:
        args = operator.gathered(args, keywords)
    special = [value for value in tensors_in(args) if value._key & WRAPPER]
    if not STATE.overrides_off:
        given = overriding(special)
        if given:
            return call_overrides(operator, given, public_function(operator), *packed(operator, args))
    if operator.body is not None:
        return operator.invoke(operator.body, args)
    stack = STATE.transforms
    for value in special:
        if value._level and stack[value._level - 1:value._level] != (value._transform,):
            return call(operator, *value._transform.released(operator, args))
    return stack[-1].run(operator, args) if stack else _run_recorded(operator, args)


def _run_recorded(operator: Operator, args: tuple[Any, ...]) -> Any:
    key = _key_without(WRAPPER, operator, args)
    if STATE.exclude & AUTOGRAD or not key & AUTOGRAD or operator.derivative is None:
        return run_dispatch(operator, args)
    return operator.recording(lambda *given: run_dispatch(operator, given), key)(*args)


def _key_without(bits: int, operator: Operator, args: tuple[Any, ...]) -> int:
    key = 0
    for position in operator.schema.tensors:
        value = args[position]
        for tensor in tensors_in((value,)):
            key |= tensor._key
        key |= SCALAR.get(type(value), 0)
    return key & ~bits


# --------------------------------------------------------------------------------------------- __torch_dispatch__


def run_dispatch(operator: Operator, args: tuple[Any, ...]) -> Any:
    """Below autograd: the innermost dispatch mode, else dispatching subclasses, else the kernel.

    Raises:
        ArgumentTypeError: All classes answered NotImplemented.
    """
    given, kwargs = packed(operator, args)
    classes: list[type] = []
    for value in tensors_in(args):
        if type(value).__torch_dispatch__ is not None and type(value) not in classes:
            classes.append(type(value))
    if STATE.dispatch_modes:
        *outer, mode = STATE.dispatch_modes
        with thread_state(dispatch_modes=tuple(outer)):
            return mode.__torch_dispatch__(operator, tuple(classes), given, kwargs)
    for kind in classes:
        with thread_state(exclude=STATE.exclude | AUTOGRAD):
            result = kind.__torch_dispatch__(operator, tuple(classes), given, kwargs)  # type: ignore[attr-defined]
        if result is not NotImplemented:
            return result
    if classes:
        raise ArgumentTypeError(operator.name, f"arguments of types {', '.join(c.__name__ for c in classes)}",
                                "one class's __torch_dispatch__ implements the call", "handle the operator there")
    key = _key_without(WRAPPER | AUTOGRAD, operator, args)
    return operator.invoke(operator.below(key & ~STATE.exclude), args)
