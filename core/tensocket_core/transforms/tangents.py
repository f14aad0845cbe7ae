"""Tangents of operators: by a rule for the operator or for its kind, else by transposing its gradient twice.

The gradient function is linear in the gradient of the result, and its own gradient is the tangent. Operators register
cheaper rules at import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from tensocket_plugins.contract.errors import TransformError

from ..dispatch.call import call
from .reverse import pull_back

F = TypeVar("F", bound=Callable[..., Any])

#: ``rule(operator, args, tangents, result) -> tangent`` by operator name. ``tangents`` has the structure of ``args``,
#: with None for arguments without a tangent; at least one is not None.
RULES: Final[dict[str, Callable[..., Any]]] = {}
#: The same rules by kind of operator; a kind's rule applies to all operators of the class.
KINDS: Final[dict[type, Callable[..., Any]]] = {}
#: ``rule(operator, args, tangents) -> tangent`` of the first argument after an in-place operator, by operator name.
CHANGES: Final[dict[str, Callable[..., Any]]] = {}
#: The same rules by kind of operator.
CHANGING_KINDS: Final[dict[type, Callable[..., Any]]] = {}


def register_forward_rule(operator: Any, rule: Callable[..., Any]) -> None:
    """Register the tangent of an operator's result.

    Args:
        operator: An operator or its name.
        rule: ``rule(operator, args, tangents, result) -> tangent``, or a tuple for several results; None is zero.
    """
    RULES[operator if isinstance(operator, str) else operator.name] = rule


def forward_rule(*names: str) -> Callable[[F], F]:
    """Register the decorated function for operators of these names."""

    def register(rule: F) -> F:
        for name in names:
            RULES[name] = rule
        return rule

    return register


def _of_kind(rules: dict[type, Callable[..., Any]], operator: Any) -> Callable[..., Any] | None:
    return next((rules[kind] for kind in type(operator).__mro__ if kind in rules), None)


def tangent_of(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...], result: Any) -> Any:
    """Return the tangent of a result; None for zeros, or where the operator is declared not differentiable."""
    rule = RULES.get(operator.name)
    if rule is not None:
        return rule(operator, args, tangents, result)
    if operator.derivative is None:
        return None
    rule = _of_kind(KINDS, operator)
    return transposed_twice(operator, args, tangents) if rule is None else rule(operator, args, tangents, result)


def inplace_tangent(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """Return the tangent of a tensor after an in-place operator, computed before it runs; None for zeros.

    Raises:
        TransformError: The operator has no rule.
    """
    if args[0].dtype.kind not in ("float", "complex"):
        return None
    rule = CHANGES.get(operator.name) or _of_kind(CHANGING_KINDS, operator)
    if rule is not None:
        return rule(operator, args, tangents)
    raise TransformError(operator.name, f"a tensor of shape {list(args[0].shape)} with a tangent",
                         "the operator has no rule for tangents of what it modifies", "use its out-of-place form")


# Module-level functions: a recursive closure would be a reference cycle, which keeps the tensors alive.
def _moving(value: Any, tangent: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the tensors that have a tangent, and their tangents."""
    if isinstance(value, (tuple, list)) and tangent is not None:
        for item, direction in zip(value, tangent, strict=True):
            yield from _moving(item, direction)
    elif tangent is not None and hasattr(tangent, "_key"):
        yield value, tangent


def _rebuilt(value: Any, tangent: Any, new: Iterator[Any]) -> Any:
    """Return the value with new tensors in place of those with a tangent."""
    if isinstance(value, (tuple, list)) and tangent is not None:
        return type(value)([_rebuilt(x, t, new) for x, t in zip(value, tangent, strict=True)])
    return next(new) if tangent is not None and hasattr(tangent, "_key") else value


def transposed_twice(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """Return the gradient of the gradient with respect to the gradient of the result."""
    pairs = list(_moving(args, tangents))
    points, directions = [x for x, _ in pairs], [t.to(x.dtype) for x, t in pairs]

    places: list[int] = []
    several, count = False, 1

    def function(*values: Any) -> Any:
        nonlocal several, count
        given = iter(values)
        found = call(operator, *[_rebuilt(x, t, given) for x, t in zip(args, tangents, strict=True)])
        results = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        several, count = isinstance(found, (tuple, list)), len(results)
        # Results of discrete dtypes have no tangents.
        places.extend(k for k, x in enumerate(results) if x.dtype.kind in ("float", "complex"))
        return tuple([results[k] for k in places])

    smooth, pull, _ = pull_back(operator.name, function, tuple(points), None, False)
    zeros = tuple([x.new_zeros(tuple(x.shape)) for x in smooth])
    _, push, _ = pull_back(operator.name, lambda *cotangents: pull(cotangents), zeros, None, False)
    made = dict(zip(places, push(tuple(directions)), strict=True))
    return tuple([made.get(k) for k in range(count)]) if several else made.get(0)
