"""Marks of functions and of tensors' sizes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, TypeVar

from tensocket.compiler import allow_in_graph as _allow_in_graph
from tensocket.compiler import disable, set_stance
from tensocket.compiler.backends import DISALLOWED
from tensocket_compiler.calls.settings import SETTINGS
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

_Value = TypeVar("_Value")


def disallow_in_graph(fn: Any) -> Any:
    """Keep a public function of this package, or several, out of the graphs of backends; return them.

    A function that calls it runs eagerly with a backend of the program. The compiler itself computes the same in either
    case, and takes no notice.
    """
    for each in fn if isinstance(fn, (list, tuple)) else (fn,):
        _check_callable("disallow_in_graph", each)
        DISALLOWED.add(each)
    return fn


def allow_in_graph(fn: _Value) -> _Value:
    """Take back ``disallow_in_graph`` of a function, or of several; return them. Graphs contain all others anyway."""
    for each in fn if isinstance(fn, (list, tuple)) else (fn,):
        _check_callable("allow_in_graph", each)
        DISALLOWED.discard(each)
    return _allow_in_graph(fn)


def forbid_in_graph(fn: Any) -> Any:
    """Return the function, kept out of graphs: see ``torch.compiler.disable``."""
    return [disable(each) for each in fn] if isinstance(fn, (list, tuple)) else disable(fn)


def run(fn: Callable[..., Any] | None = None) -> Any:
    """Return a function in whose calls compiled functions make no new graphs; without a function, a decorator."""
    stance = set_stance("eager_on_recompile")
    stance.__exit__()
    return stance if fn is None else stance(fn)


class error_on_graph_break(ContextDecorator):
    """Let calls of compiled functions that cannot be captured raise ``exc.Unsupported``, in a block or a function.

    Args:
        error_on_graph_break: Whether they raise.
    """

    def __init__(self, error_on_graph_break: bool) -> None:
        self._value = error_on_graph_break
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(SETTINGS.fails_on_break)
        SETTINGS.fails_on_break = self._value

    def __exit__(self, *error: object) -> None:
        SETTINGS.fails_on_break = self._before.pop()


def _check_callable(name: str, fn: Any) -> None:
    if not callable(fn):
        raise ArgumentTypeError(name, f"a {type(fn).__name__}", f"{name} expects a callable", "pass a function")


def _check_dims(name: str, t: Any, index: Any) -> None:
    if not isinstance(t, Tensor):
        raise ArgumentTypeError(name, f"a {type(t).__name__}", "sizes of tensors are marked", "pass a tensor")
    for k in index if isinstance(index, (list, tuple)) else (() if index is None else (index,)):
        if type(k) is not int or not -t.dim() <= k < t.dim():
            raise ArgumentError(name, f"dimension {k!r} of a tensor with {t.dim()} dimensions",
                                "a mark belongs to a dimension of the tensor", "pass a dimension that it has")


def mark_dynamic(t: Any, index: Any, *, hint_override: int | None = None, min: int | None = None,
                 max: int | None = None, specialize_on: list[Any] | None = None) -> None:
    """Accept the mark of a size that will change: each combination of sizes has a graph of its own.

    Raises:
        ArgumentError: The tensor lacks the dimension.
        ArgumentTypeError: ``t`` is not a tensor.
    """
    _check_dims("mark_dynamic", t, index)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Accept the mark of a size that may change; see ``mark_dynamic``."""
    _check_dims("maybe_mark_dynamic", t, index)


def mark_static(t: Any, index: Any = None) -> None:
    """Accept the mark of a size that stays, or of all sizes: graphs are for fixed sizes.

    Raises:
        ArgumentError: The tensor lacks the dimension.
        ArgumentTypeError: ``t`` is neither a tensor nor a class.
    """
    if not isinstance(t, type):
        _check_dims("mark_static", t, index)


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Accept the mark of a tensor whose memory stays: captured tensors are guarded by their memory.

    Raises:
        ArgumentTypeError: ``t`` is not a tensor.
    """
    _check_dims("mark_static_address", t, None)


__all__ = ["allow_in_graph", "disallow_in_graph", "error_on_graph_break", "forbid_in_graph", "mark_dynamic",
           "mark_static", "mark_static_address", "maybe_mark_dynamic", "run"]
