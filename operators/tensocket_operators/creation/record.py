"""Factories of tensors, as modes and subclasses see them.

A factory is a plain function, not an operator. Its first statement calls ``is_intercepted`` if a thread mode is on or
its tensor is not plain, and hands an intercepted call to ``dispatch_factory``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Final, TypeVar

from tensocket_core.dispatch.modes import ACTIVE, STATE, as_leaf, thread_state
from tensocket_core.dispatch.overrides import call_torch_function, overrides_functions
from tensocket_core.dispatch.packets import AtenOverloads, OperatorName
from tensocket_core.dispatch.protocol import NOT_HANDLED, ask_dispatch
from tensocket_core.dispatch.schema import Schema, parse_schema
from tensocket_core.keys import WRAPPER

from .keywords import apply_rare_keywords

F = TypeVar("F", bound=Callable[..., Any])

#: Factories by name, as dispatch modes and classes receive them.
FACTORIES: Final[dict[str, Factory]] = {}
#: Factories that take values instead of sizes.
_VALUES: Final = frozenset({"tensor", "new_tensor", "as_tensor", "asarray"})
_KINDS: Final = {
    "input": "Tensor", "dtype": "dtype?", "device": "device?", "requires_grad": "bool", "generator": "any?",
}  # fmt: skip


class Factory(AtenOverloads):
    """The record of a function that makes a tensor.

    Attributes:
        function: The function.
        collects: Whether the function takes sizes one by one; records pass them as one argument.
        rare: Keywords outside the function's signature.
        defaults: Default values of the positional parameters.
        dispatch_rules: The same as those of operators.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.name = OperatorName(name)
        self.function = function
        self.dispatch_rules: dict[type, Callable[..., Any]] = {}
        self.schema: Schema = parse_schema(_signature(function, name))
        parameters = inspect.signature(function).parameters.values()
        self.collects = any(p.kind is p.VAR_POSITIONAL for p in list(parameters)[:1])
        self.rare = _rare(name, list(parameters))
        named = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.defaults = tuple(p.default for p in named)
        FACTORIES[name] = self

    def trimmed(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the positional arguments without trailing defaults."""
        count = len(args)
        while 0 < count <= len(self.defaults) and args[count - 1] is self.defaults[count - 1]:
            count -= 1
        return args[:count]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the function."""
        return self.function(*args, **keywords)


def _rare(name: str, parameters: list[inspect.Parameter]) -> frozenset[str]:
    """Return the keywords outside a factory's signature."""
    if name in _VALUES:
        return frozenset({"pin_memory"} if name == "tensor" else ())
    sized = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    alike = parameters[0].name == "input"
    return frozenset({"layout", "pin_memory", *(["size"] if sized else []), *([] if alike else ["out"])})


def _signature(function: Callable[..., Any], name: str) -> str:
    parts: list[str] = []
    for argument, parameter in inspect.signature(function).parameters.items():
        kind = _KINDS.get(argument, "any")
        if parameter.kind is parameter.VAR_POSITIONAL:
            parts.append(f"int... {argument}")
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(f"{kind} {argument}" + ("" if parameter.default is parameter.empty else f"={parameter.default!r}"))
    return f"{name}({', '.join(parts)}) -> Tensor"


@cache
def factory(function: Callable[..., Any], name: str = "") -> Factory:
    """Return the record of a factory, made on first use; its name is the function's, if no other is given."""
    name = name or function.__name__
    return FACTORIES.get(name) or Factory(function, name)


def is_intercepted(*given: Any) -> bool:
    """Whether a mode is on, or one of these tensors has a class that intercepts the call."""
    if STATE.function_modes or STATE.tracer is not None:
        return True
    if STATE.exclude & WRAPPER:
        return False
    if STATE.dispatch_modes:
        return True
    off = STATE.overrides_off
    return any(getattr(x, "_dispatches", False) or (overrides_functions(type(x)) and not off) for x in given)


def under_modes(function: F) -> F:
    """Let function modes intercept the calls of a function that makes tensors from others."""

    @wraps(function)
    def run(*args: Any, **keywords: Any) -> Any:
        if ACTIVE and STATE.function_modes:
            return call_torch_function(function.__name__, run, args, args, keywords)
        return function(*args, **keywords)

    return run  # type: ignore[return-value]


def _traced(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Make the tensor and let the tracer note it, but not the steps inside the factory."""
    tracer = STATE.tracer
    if tracer is None:
        return function(*args, **keywords)
    with thread_state(tracer=None):
        return tracer.factory(function, args, keywords)


def dispatch_factory(function: Callable[..., Any], *args: Any, rest: dict[str, Any] | None = None,
                     **keywords: Any) -> Any:
    """Offer a watched call to modes and classes, in the same order as for operators.

    Args:
        function: The factory.
        args: Its positional arguments.
        rest: Keywords outside its signature; ``apply_rare_keywords`` applies them and repeats the call without them.
        keywords: Its keyword arguments; None and False are defaults.
    """
    record = factory(function)
    if rest:
        return apply_rare_keywords(function, args, keywords, rest, record.rare)
    name, args = record.name, record.trimmed(args)
    keywords = {key: value for key, value in keywords.items() if value is not None and value is not False}
    if STATE.function_modes or (not STATE.overrides_off and any(overrides_functions(type(x)) for x in args)):
        return call_torch_function(name, function, args, args, keywords)
    requires_grad = keywords.pop("requires_grad", False)
    if record.collects and not (len(args) == 1 and isinstance(args[0], (tuple, list))):
        args = (args,)
    result: Any = NOT_HANDLED if STATE.exclude & WRAPPER else ask_dispatch(
        record, name, args, lambda: (args, keywords), record.dispatch_rules)
    if result is NOT_HANDLED:
        result = _traced(function, args, keywords)
    return as_leaf(result) if requires_grad else result
