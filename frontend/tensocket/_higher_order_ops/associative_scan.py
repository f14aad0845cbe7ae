"""The running combination of a sequence in logarithmically many steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensocket
from tensocket.errors import ArgumentError
from tensocket_core.pytree import tree_flatten, tree_unflatten

_Combine = Callable[[list[Any], list[Any]], list[Any]]


def associative_scan(combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False,
                     combine_mode: str = "pointwise") -> Any:
    """Return ``x0, combine(x0, x1), combine(combine(x0, x1), x2), …`` along a dimension.

    Args:
        combine_fn: An associative function of two elements of the sequence, each a tree like ``xs``.
        xs: A tensor, or a tree of tensors that have one length in ``dim``.
        dim: The dimension of the sequence.
        reverse: Whether the sequence runs from its end.
        combine_mode: ``pointwise`` or ``generic``; both run on every device.

    Raises:
        ArgumentError: ``combine_mode`` has no such value, a leaf is not a tensor, or is empty in ``dim``.
    """
    leaves, spec = tree_flatten(xs)
    if combine_mode not in ("pointwise", "generic"):
        raise ArgumentError("associative_scan", f"combine_mode={combine_mode!r}", "Combine_mode must either "
                            f"'pointwise' or 'generic', but got {combine_mode}", "pass one of these")
    if not leaves or not all(isinstance(x, tensocket.Tensor) for x in leaves):
        raise ArgumentError("associative_scan", f"xs={xs!r}", "Expected at least 1 xs leaf, and xs leaves must be a "
                            "Tensor", "pass tensors")
    if any(x.shape[dim] == 0 for x in leaves):
        raise ArgumentError("associative_scan", f"an empty sequence in dim {dim}", "All xs leaves must at least have "
                            "'dim' number of dimensions and scan dimension > 0", "pass a sequence of elements")
    each = tensocket.vmap(combine_fn)

    def combine(left: list[Any], right: list[Any]) -> list[Any]:
        return tree_flatten(each(tree_unflatten(left, spec), tree_unflatten(right, spec)))[0]

    found = _scan(combine, [_turned(x.movedim(dim, 0), reverse) for x in leaves])
    return tree_unflatten([_turned(x, reverse).movedim(0, dim) for x in found], spec)


def _turned(sequence: Any, reverse: bool) -> Any:
    return sequence.flip(0) if reverse else sequence


def _scan(combine: _Combine, xs: list[Any]) -> list[Any]:
    """Scan sequences along dimension 0: that of the combined pairs has every second result."""
    length = xs[0].shape[0]
    if length == 1:
        return xs
    odd = _scan(combine, combine([x[:-1:2] for x in xs], [x[1::2] for x in xs]))
    even = [x[:1] for x in xs]
    if length > 2:
        rest = (length - 1) // 2
        more = combine([x[:rest] for x in odd], [x[2::2] for x in xs])
        even = [tensocket.cat([first, x]) for first, x in zip(even, more, strict=True)]
    return [_interleaved(*pair) for pair in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any) -> Any:
    paired = tensocket.stack([even[:odd.shape[0]], odd], 1).flatten(0, 1)
    return paired if even.shape[0] == odd.shape[0] else tensocket.cat([paired, even[-1:]])
