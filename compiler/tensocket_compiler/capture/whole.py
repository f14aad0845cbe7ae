"""Composite operators that stay whole in graphs, because a backend's kernel for them beats kernels of their parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.keys import AUTOGRAD

#: Bytes of scores from which attention without a stored matrix of scores is faster.
_SCORES: Final = 1 << 22


def _has_many_scores(query: Any, key: Any) -> bool:
    return bool(math.prod(query.shape[:3]) * key.shape[2] * query.dtype.itemsize >= _SCORES)


#: Whether a call stays whole, by the operator's name.
WHOLE: Final[dict[str, Callable[..., bool]]] = {
    "attend": lambda query, key, *rest: _has_many_scores(query, key),
    "attend_gradients": lambda grad, query, key, *rest: _has_many_scores(query, key),
    "normalize_backward_columns": lambda *args: True,
}


def stays_whole(operator: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call of a composite operator is one operation of a graph.

    Calls that need a derivative which the operator does not have are recorded in parts.
    """
    rule = WHOLE.get(operator.name)
    if rule is None or (operator.derivative is None and any(getattr(x, "_key", 0) & AUTOGRAD for x in args)):
        return False
    return rule(*args)
