"""``__torch_function__``: classes and modes that receive calls of public functions with all their arguments.

Operators get here by their key (``protocol``). Functions that are not operators (factories, conversions to Python) test
``overridden`` and pass their call to ``call_torch_function``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from ..keys import WRAPPER
from ..tensor import Tensor, tensor_methods
from .modes import ACTIVE, STATE, thread_state, update_state


def disabled_torch_function(func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (),
                            kwargs: dict[str, Any] | None = None) -> Any:
    """Override nothing, with results as plain tensors; a class sets this as its ``__torch_function__``."""
    with thread_state(overrides_off=True):
        return func(*args, **(kwargs or {}))


def disabled_torch_dispatch(func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (),
                            kwargs: dict[str, Any] | None = None) -> Any:
    """Run the operator on the memory of its arguments, as for plain tensors.

    A class that sets this as its ``__torch_dispatch__`` intercepts no calls.
    """
    with thread_state(exclude=STATE.exclude | WRAPPER):
        return func(*args, **(kwargs or {}))


#: Functions whose results ``Tensor.__torch_function__`` does not convert.
NOWRAP: Final[set[Any]] = set()


def overrides_functions(kind: type) -> bool:
    """Whether instances of a class, tensor or not, override functions."""
    known = getattr(kind, "_overrides", None)
    return hasattr(kind, "__torch_function__") if known is None else bool(known)


#: Depth of nested lists from which they are taken to contain themselves.
MAX_NESTING: Final = 256


def self_containing_error(operator: str = "arguments") -> ArgumentTypeError:
    """Return the error for a list that contains itself."""
    return ArgumentTypeError(operator, "lists with too many dimensions", "self-referential lists are incompatible with "
                             "tensors", "pass lists of numbers or tensors")


def participants(values: Iterable[Any], depth: int = 0) -> Iterator[Any]:
    """Yield the tensors and overriding objects among arguments and in their tuples and lists.

    Raises:
        ArgumentTypeError: A list contains itself.
    """
    if depth > MAX_NESTING:
        raise self_containing_error()
    for value in values:
        kind = type(value)
        if hasattr(value, "_key"):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from participants(value, depth + 1)
        elif hasattr(kind, "__torch_function__") and not isinstance(value, type):
            yield value


def overriding(values: Iterable[Any]) -> list[Any]:
    """Return the arguments whose class overrides functions, one per class: subclasses before bases, else in order."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if not overrides_functions(kind) or any(type(other) is kind for other in found):
            continue
        at = next((k for k, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(at, value)
    return found


#: Types of most arguments, which override nothing.
_INERT: Final = frozenset({Tensor, int, float, bool, str, type(None)})


def overridden(*values: Any) -> bool:
    """Whether a function mode is on or an argument overrides functions."""
    if ACTIVE and (STATE.function_modes or STATE.overrides_off):
        return bool(STATE.function_modes)
    return not _INERT.issuperset(map(type, values)) and any(map(overrides_functions, map(type, participants(values))))


#: End of the rule that a call breaks if all handlers return NotImplemented.
_ANSWERED: Final = "__torch_function__ implements the call"


def not_implemented_or_raise(error: ArgumentTypeError) -> Any:
    """Return NotImplemented for the error of a call without handlers: Python then tries the other operand's method.

    Raises:
        ArgumentTypeError: It is another error.
    """
    if not error.rule.endswith(_ANSWERED):
        raise error
    return NotImplemented


def call_torch_function(name: str, function: Callable[..., Any], relevant: Iterable[Any], args: tuple[Any, ...],
           keywords: dict[str, Any]) -> Any:
    """Call the innermost function mode, else each overriding argument in turn.

    Args:
        name: Name of the function in errors.
        function: The function that the user called.
        relevant: The arguments that may override it.
        args: Positional arguments as the user passed them.
        keywords: Keyword arguments as the user passed them.

    Raises:
        ArgumentTypeError: All handlers returned NotImplemented.
    """
    given = [] if STATE.overrides_off else overriding(participants(relevant))
    types = tuple(type(value) for value in given)
    under = ""
    if STATE.function_modes:
        *outer, mode = STATE.function_modes
        with thread_state(function_modes=tuple(outer)):  # a mode does not receive its own calls
            result = mode.__torch_function__(function, types, args, keywords)
        if result is not NotImplemented:
            return result
        under = f" under {type(mode).__name__}"
    for value in given:
        result = value.__torch_function__(function, types, args, keywords)
        if result is not NotImplemented:
            return result
    kinds = f"arguments of types {', '.join(t.__name__ for t in types)}" if types else "plain arguments"
    raise ArgumentTypeError(name, f"{kinds}{under}",
                            f"one class's or mode's {_ANSWERED}",
                            "return NotImplemented only for types that another argument's class handles")


def converted(result: Any, cls: Any) -> Any:
    """Convert tensors in a function's result to a class, on the same memory."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        values = [converted(value, cls) for value in result]
        return type(result)(*values) if hasattr(result, "_fields") else type(result)(values)
    return result


def default_torch_function(cls: Any, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
    """Run the function as for plain tensors, and convert its results to the class.

    Returns:
        The results; NotImplemented if a type among the arguments is not a superclass of this one.
    """
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with thread_state(overrides_off=True):
        result = func(*args, **(kwargs or {}))
    return result if func in NOWRAP else converted(result, cls)


def version_counter(tensor: Any) -> list[int]:
    """Return the version counter of a tensor, created on first use."""
    if tensor._version_counter is None:
        tensor._version_counter = [0]
    counter: list[int] = tensor._version_counter
    return counter


class DisableTorchFunctionSubclass:
    """A block that disables ``__torch_function__`` of classes, but not modes."""

    __slots__ = ("_state",)
    _values: dict[str, Any] = {"overrides_off": True}  # noqa: RUF012  constant

    def __enter__(self) -> None:
        self._state = thread_state(**self._values)
        self._state.__enter__()

    def __exit__(self, *error: object) -> None:
        self._state.__exit__()


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A block that disables ``__torch_function__`` of classes and function modes."""

    __slots__ = ()
    _values: dict[str, Any] = {"overrides_off": True, "function_modes": ()}  # noqa: RUF012  constant


class PushedMode:
    """A mode on top of the thread's modes of one kind, as a context manager; it can be entered again, also nested."""

    #: Attribute of the thread's state that holds the modes.
    _stack = ""
    #: The method that receives calls.
    _method = ""

    # The object stores nothing about threads, so several may enter it at once.

    def __enter__(self) -> Any:
        if isinstance(getattr(getattr(self, self._method), "__self__", self), type):
            raise ArgumentError(
                type(self).__name__, f"{self._method} as a class method",
                f"Defining your mode's `{self._method}` as a classmethod is not supported, please make it a plain "
                "method", "take @classmethod away")
        update_state(**{self._stack: (*getattr(STATE, self._stack), self)})
        return self

    def __exit__(self, *error: object) -> None:
        update_state(**{self._stack: getattr(STATE, self._stack)[:-1]})


class TorchFunctionMode(PushedMode):
    """A mode that receives every call of a public function in its block.

    Subclasses define ``__torch_function__(self, func, types, args=(), kwargs=None)``, which may run the call, and
    returns its result. The mode does not receive its own calls; outer modes do.
    """

    _stack = "function_modes"
    _method = "__torch_function__"

    def __torch_function__(self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Handle a call.

        Raises:
            NotImplementedError: The subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no __torch_function__")


class BaseTorchFunctionMode(TorchFunctionMode):
    """A function mode that changes nothing."""

    def __torch_function__(self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Call the function."""
        return func(*args, **(kwargs or {}))


@tensor_methods
class OverrideProtocol:
    """Default protocol of tensor classes: they receive function calls, and intercept no calls below autograd."""

    __slots__ = ()

    __torch_function__ = classmethod(default_torch_function)
    __torch_dispatch__ = staticmethod(disabled_torch_dispatch)
