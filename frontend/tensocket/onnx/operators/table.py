"""The table of ONNX operators: by domain and name, the functions of tensors that compute them, from a version on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NamedTuple

from tensocket.fx.proxy import Proxy

#: The domains of ONNX. The default one is called ``""`` or ``ai.onnx``.
MAIN, ML, TRAINING, PREVIEW = "", "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview"


class Entry(NamedTuple):
    """A function that computes an operator.

    Attributes:
        since: The first version of the domain that it is right for.
        function: It gets inputs by position, None for absent ones, and attributes by name.
        counts: Whether it also gets ``outputs``, the number of results that the node names.
        host: Positions of the inputs that it reads on the host, and takes as lists of numbers, too.
    """

    since: int
    function: Callable[..., Any]
    counts: bool
    host: tuple[int, ...] = ()


#: Entries by domain and name, later versions first.
TABLE: Final[dict[tuple[str, str], list[Entry]]] = {}


def add(name: str, function: Callable[..., Any], *, since: int = 1, domain: str = MAIN, counts: bool = False,
        host: tuple[int, ...] = ()) -> None:
    """Add a function for an operator."""
    entries = TABLE.setdefault((domain, name), [])
    entries.append(Entry(since, function, counts, host))
    entries.sort(key=lambda entry: -entry.since)


def operator(*names: str, since: int = 1, domain: str = MAIN, counts: bool = False,
             host: tuple[int, ...] = ()) -> Callable[..., Any]:
    """Return a decorator that adds a function for operators."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        call = traceable(function)
        for name in names:
            add(name, call, since=since, domain=domain, counts=counts, host=host)
        return call

    return decorate


def traceable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is one node where a graph is recorded, as when a graph module is unpickled."""
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, Proxy):
                return value.tracer.create_proxy("call_function", call, args, kwargs)
        return function(*args, **kwargs)

    return call


def find(domain: str, name: str, version: int) -> Entry | None:
    """Return the entry of an operator for a version of its domain; None if the table has none."""
    entries = TABLE.get(("" if domain == "ai.onnx" else domain, name), [])
    return next((entry for entry in entries if entry.since <= version), None)


def named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give a function made by another one a name in its module, so that pickles of graphs find it; return it."""
    function.__name__ = function.__qualname__ = name
    setattr(sys.modules[function.__module__], name, function)
    return function


def results(values: Any, outputs: int) -> Any:
    """Return the first results of several as a node wants them: one alone, or a tuple."""
    return values[0] if outputs == 1 else tuple(values[:outputs])
