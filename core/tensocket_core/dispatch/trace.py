"""Printing every call: ``TENSOCKET_SHOW_DISPATCH_TRACE=1``.

One line per call on standard error, indented by nesting: operator, key in words, the layers that the key passes on its
way to a kernel, and shapes and devices of the arguments. Calls that a composite operator makes are nested below it.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Final

from .keys import describe_key

#: Whether calls are traced; read once, because ``ACTIVE`` sends every call here while it holds.
ENABLED: bool = os.environ.get("TENSOCKET_SHOW_DISPATCH_TRACE", "") not in ("", "0")


class _Depth(threading.local):
    value = 0


_DEPTH: Final = _Depth()


def describe(value: Any) -> str:
    """An argument in few words.

    >>> describe(2.5), describe("mean"), describe([1, 2])
    ('2.5', "'mean'", '[1, 2]')
    """
    if hasattr(value, "_key"):
        return f"{value.dtype.name}{list(value._array.shape)}@{value.device}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(describe, value))}]"
    return repr(value)


def traced(operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
    """Run a resolved call and print it first."""
    depth = _DEPTH.value
    line = (f"{'  ' * depth}[call] op=[{operator.name}] key=[{describe_key(key)}] path=[{operator.path(key)}] "
            f"args=({', '.join(map(describe, args))})")
    print(line, file=sys.stderr)
    _DEPTH.value = depth + 1
    try:
        return operator.invoke(kernel, args)
    finally:
        _DEPTH.value = depth
