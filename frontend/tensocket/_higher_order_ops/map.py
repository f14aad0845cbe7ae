"""A function of every element of a sequence."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import tensocket
from tensocket.errors import ArgumentError
from tensocket_core.pytree import tree_flatten, tree_map


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Return ``f(x, *args)`` of every slice along dimension 0, stacked.

    Args:
        f: A function of a tree of tensors.
        xs: A tensor, or a tree of tensors of one length.
        args: More arguments of every call.

    Raises:
        ArgumentError: ``xs`` has no element.
    """
    leaves = tree_flatten(xs)[0]
    if not leaves or leaves[0].shape[0] == 0:
        raise ArgumentError("map", "an empty sequence", "Leading dimensions of mapped xs cannot be 0",
                            "pass a sequence of elements")
    results = [f(tree_map(itemgetter(place), xs), *args) for place in range(leaves[0].shape[0])]
    return tree_map(lambda *each: tensocket.stack(each), *results)
