"""The Conjugate layer: resolves lazily conjugated and negated tensors, so that operators below it read plain memory.

Operands are resolved to new tensors. An operator that modifies its first argument runs on a resolved copy, which is
then written back. View operators pass the bits on to their results, so this layer does not change them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..keys import LAZY
from . import lazy
from .call import call
from .registry import COMPOSITES

if TYPE_CHECKING:
    from .operator import Operator

_LISTS: Final = (list, tuple)


def layer(operator: Operator, key: int) -> Callable[..., Any]:
    """Return the closure of an operator for a key with a lazy operand."""
    if operator.makes_views or operator.body is not None:
        return operator.resolve_device(key)
    below = operator.below(key & ~LAZY)
    writes = tuple(k for k, parameter in enumerate(operator.schema.parameters) if parameter.mutated)

    def run(*args: Any) -> Any:
        given = [_plain(value) for value in args]
        result = below(*given)
        for k in writes:
            if getattr(args[k], "_key", 0) & LAZY:
                lazy.write_elements(args[k], given[k])
        return next((x for x, y in zip(args, given, strict=True) if result is y and hasattr(x, "_key")), result)

    return run


def _plain(value: Any) -> Any:
    """Return a value with its lazy tensors resolved, also in a list; not recorded."""
    if getattr(value, "_key", 0) & LAZY:
        return lazy.resolved(value)
    return [_plain(x) for x in value] if type(value) in _LISTS and _has_lazy(value) else value


def _has_lazy(values: Any) -> bool:
    return any(getattr(x, "_key", 0) & LAZY for x in values)


def resolving(body: Callable[..., Any], *, writes: bool = False) -> Callable[..., Any]:
    """Return a composite's body on resolved tensors, recorded; with ``writes``, it writes its first argument back."""

    def run(*args: Any, **keywords: Any) -> Any:
        given = [_resolved(x) for x in args]
        result = body(*given, **{name: _resolved(x) for name, x in keywords.items()})
        if writes and given[0] is not args[0]:
            args[0].copy_(given[0])
            return args[0] if result is given[0] else result
        return result

    return run


def _resolved(value: Any) -> Any:
    if getattr(value, "_key", 0) & LAZY:
        return call(COMPOSITES["resolve_neg"], call(COMPOSITES["resolve_conj"], value))
    return type(value)(map(_resolved, value)) if type(value) in _LISTS and _has_lazy(value) else value
