"""Tracing calls: ``TENSOCKET_SHOW_DISPATCH_TRACE=1`` for the whole process, ``trace()`` for a block.

One line per call, indented by nesting: operator, key in words, the layers on the key's path to a kernel, and shapes and
devices of the arguments. Calls inside a composite operator or inside a node of a backward pass are nested below it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..keys import describe_key
from ..recording import SlowPathReason

#: Whether all calls of the process are traced.
ENABLED: Final = os.environ.get("TENSOCKET_SHOW_DISPATCH_TRACE", "") not in ("", "0")


@dataclass(frozen=True, slots=True)
class Call:
    """One traced call.

    Attributes:
        kind: ``call`` of an operator, ``factory``, or ``backward`` through a node.
        name: Name of the operator, factory or node.
        depth: Number of enclosing traced calls.
        key: The dispatch key in words.
        path: Layers, then the device and the fastest path of the ladder there: ``autograd > cpu plan``.
        args: The arguments, tensors as ``float32[2, 3]@cpu``.
    """

    kind: str
    name: str
    depth: int
    key: str
    path: str
    args: str

    def __str__(self) -> str:
        middle = f" key=[{self.key}] path=[{self.path}]" if self.kind == "call" else ""
        return f"{'  ' * self.depth}[{self.kind}] op=[{self.name}]{middle} args=({self.args})"


class _Depth(threading.local):
    value = 0


_DEPTH: Final = _Depth()


def describe(value: Any) -> str:
    """Return a short description of an argument.

    >>> describe(2.5), describe("mean"), describe([1, 2])
    ('2.5', "'mean'", '[1, 2]')
    """
    if hasattr(value, "_key"):
        return f"{value.dtype.name}{list(value._array.shape)}@{value.device}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(describe, value))}]"
    return repr(value)


class Tracer:
    """Receiver of traced calls.

    Attributes:
        calls: List that collects them, or None.
        file: File that they are printed to, or None; ``stderr`` is the current standard error.
    """

    def __init__(self, file: Any, calls: list[Call] | None) -> None:
        self.file = file
        self.calls = calls

    def step(self, kind: str, name: str, key: str, path: str, args: Any, run: Callable[[], Any]) -> Any:
        """Note a call, then make it; calls inside it are nested."""
        depth = _DEPTH.value
        call = Call(kind, name, depth, key, path, ", ".join(map(describe, args)))
        if self.calls is not None:
            self.calls.append(call)
        if self.file is not None:
            print(call, file=sys.stderr if self.file == "stderr" else self.file)
        _DEPTH.value = depth + 1
        try:
            return run()
        finally:
            _DEPTH.value = depth

    def operator(self, operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Trace and run a resolved call of an operator."""
        return self.step("call", operator.name, describe_key(key), operator.path(key), args,
                         lambda: operator.invoke(kernel, args))

    def factory(self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Trace and run a call of a factory."""
        return self.step("factory", function.__name__, "", "", (*args, *keywords.values()),
                         lambda: function(*args, **keywords))

    def helper(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Run a function that only sets the state of tensors; it is not part of a trace."""
        return function(*args)


#: The tracer of threads that have none of their own.
DEFAULT: Final = Tracer("stderr", None) if ENABLED else None
#: Makes backward passes take the path that traces nodes.
_REASON: Final = SlowPathReason() if ENABLED else None
