"""Kullback-Leibler divergences: the mean of log p - log q under p."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import ArgumentTypeError, NoClosedForm
from .distribution import Distribution

#: Functions by the classes of both distributions.
_KL_REGISTRY: Final[dict[tuple[type, type], Callable[[Any, Any], Any]]] = {}
_found: Final[dict[tuple[type, type], Callable[[Any, Any], Any]]] = {}


def register_kl(type_p: Any, type_q: Any) -> Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]:
    """Decorate ``kl(p, q)`` for two classes and their subclasses.

    Raises:
        ArgumentTypeError: One is not a class. Libraries register their mixins, too.
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise ArgumentTypeError("register_kl", f"{kind!r}", "divergences are those of classes of distributions",
                                    "pass subclasses of Distribution")

    def register(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        _KL_REGISTRY[type_p, type_q] = function
        _found.clear()
        return function

    return register


def _distance(kind: type, base: type) -> int:
    return kind.__mro__.index(base)


def _find(p: type, q: type) -> Callable[[Any, Any], Any]:
    """Return the function for the nearest superclasses: of p first, then of q.

    Raises:
        NoClosedForm: No function is registered.
    """
    pairs = [pair for pair in _KL_REGISTRY if issubclass(p, pair[0]) and issubclass(q, pair[1])]
    if not pairs:
        raise NoClosedForm("kl_divergence", f"{p.__name__} and {q.__name__}",
                           "a divergence is registered for the pair", "register one with register_kl")
    nearest = min(pairs, key=lambda pair: (_distance(p, pair[0]) + _distance(q, pair[1]), _distance(p, pair[0])))
    return _KL_REGISTRY[nearest]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Return the divergence of p from q: the mean of log p - log q under p, one for each of the batch.

    Raises:
        NoClosedForm: None is known for these classes.
    """
    pair = type(p), type(q)
    if pair not in _found:
        _found[pair] = _find(*pair)
    return _found[pair](p, q)



__all__ = ["kl_divergence", "register_kl"]
