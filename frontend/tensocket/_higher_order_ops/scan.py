"""Steps over a sequence that pass a state on."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

import tensocket
from tensocket.errors import ArgumentError
from tensocket_core.pytree import tree_flatten, tree_map


def scan(combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
         ) -> tuple[Any, Any]:
    """Return the last state, and what the steps returned, stacked along ``dim``.

    Args:
        combine_fn: One step: ``(state, element) -> (state, output)``; trees of tensors.
        init: The first state.
        xs: A tensor, or a tree of tensors that have one length in ``dim``.
        dim: The dimension of the sequence.
        reverse: Whether the sequence runs from its end.

    Raises:
        ArgumentError: The sequence has no element.
    """
    leaves = tree_flatten(xs)[0]
    length = leaves[0].shape[dim] if leaves else 0
    if length == 0:
        raise ArgumentError("scan", f"an empty sequence in dim {dim}", "All xs leaves must at least have 'dim' number "
                            "of dimensions and scan dimension > 0", "pass a sequence of elements")
    state, outputs = init, []
    for place in reversed(range(length)) if reverse else range(length):
        state, output = combine_fn(state, tree_map(methodcaller("select", dim, place), xs))
        outputs.append(output)
    if reverse:
        outputs.reverse()
    return state, tree_map(lambda *each: tensocket.stack(each, dim), *outputs)
