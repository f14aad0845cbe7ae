"""Recorders: ``below`` with recording, compiled from a template for the arguments and saved values of operators.

Recorders make most nodes, and a call costs as much as setting one or two fields. A compiled recorder therefore inlines
``attach`` without its loop: it has an expression for each saved value. Operators that save alike share the code.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import operator
from collections.abc import Callable, Sequence
from string import Template
from typing import Any, Final

from ..dispatch.derivative import RESULT, SHAPE, WANTED, Derivative
from ..dispatch.layers import RECORDERS
from ..keys import AUTOGRAD, OPTIONS, SCALAR, SCALAR_MASK
from ..recording import RECORDING_SLOW_PATHS
from .conjugate import for_key
from .node import SEQUENCE, Node
from .record import attach, attach_all, edge_of
from .saved import complete

#: ``form`` is that of the last result: its key, its options, and its key when recorded. Most results have the same.
#: ``statements`` set ``edgeJ`` for each tensor argument, and ``valueI`` and ``counterI`` for each saved value.
_TEMPLATE: Final = Template("""\
def bind(derivative, below):
    form = (-1, 0, 0)

    def record($parameters):
        nonlocal form
        $result = below($arguments)
        $statements
        key = result._key
        known = form
        if known[0] is not key:
            known = form = (key, key & OPTIONS, key | AUTOGRAD)
        node = new(Node)
        node.derivative = derivative
        node.edges = ($edges)
        node.sequence = next(SEQUENCE)
        node.shape = result._array.shape
        node.options = known[1]
        node.saved = ($saved)
        node.versions = $versions
        node.extras = None
        if RECORDING_SLOW_PATHS:
            complete(node)
        result._grad_fn = node
        result._key = known[2]
        return $result

    return record
""")
#: Globals of compiled recorders. ``NO_COUNTER`` is the version counter of a value that is not a tensor.
_GLOBALS: Final[dict[str, Any]] = {
    "__name__": __name__, "AUTOGRAD": AUTOGRAD, "NO_COUNTER": (-1,), "Node": Node, "OPTIONS": OPTIONS,
    "RECORDING_SLOW_PATHS": RECORDING_SLOW_PATHS, "SEQUENCE": SEQUENCE, "complete": complete, "new": object.__new__}
_COUNT: Final = itertools.count(1)
#: Bits of keys for numbers on the right.
_RIGHT: Final = functools.reduce(operator.or_, SCALAR.values())


def recorder(derivative: Derivative, below: Callable[..., Any], key: int) -> Callable[..., Any]:
    """Return ``below`` with recording, for a key."""
    derivative = for_key(derivative, key)
    if derivative.multiple or (derivative.lists and derivative.joint is not None):
        return _general_recorder(derivative, below)
    return _compiled(_source(derivative, key))(derivative, below)


RECORDERS.append(recorder)


@functools.cache
def _compiled(source: str) -> Callable[..., Callable[..., Any]]:
    """Return the ``bind`` of a source; tracebacks show its lines. Operators share sources, so that they stay few."""
    space: dict[str, Callable[..., Callable[..., Any]]] = {}
    # Anomaly mode and the profiler know the runtime's own frames by their folder.
    name = f"{__file__}, recorder {next(_COUNT)}"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile(source, name, "exec"), _GLOBALS, space)
    return space["bind"]


def _source(derivative: Derivative, key: int) -> str:
    """Return the source of a recorder for operators with one recorded result."""
    count, tensors = derivative.parameters, derivative.tensors
    named = count == len(tensors) <= 3 and derivative.joint is None
    names = ["a", "b", "c"][:count] if named else [f"args[{k}]" for k in range(count)]
    arguments = ", ".join(names) if named else "*args"
    # The arguments that are tensors in every call; if it is a single one, it has an edge in every call.
    certain = tensors if len(tensors) == 1 or (named and count == 2) else ()
    if named and count == 2 and key & SCALAR_MASK:
        certain = (1,) if key & SCALAR_MASK & ~_RIGHT else (0,)
    statements = [] if named else ["result = results[0] if type(results) is tuple else results"]
    statements += [f"edge{j} = {_edge(names[k], k, certain)}" for j, k in enumerate(tensors)]
    counters = []
    for i, position in enumerate(derivative.saved_positions):
        value, counter = _saved(derivative, i, position, names, certain)
        statements += [f"value{i} = {value}", f"counter{i} = {counter}"] if counter else [f"value{i} = {value}"]
        counters.append(f"counter{i}" if counter else "")
    return _TEMPLATE.substitute(
        parameters=f"{arguments}=None" if count == 3 and named else arguments, arguments=arguments,
        result="result" if named else "results", statements="\n        ".join(statements),
        edges="".join([f"edge{j}, " for j in range(len(tensors))]),
        saved="".join([f"value{i}, " for i in range(len(counters))]), versions=_versions(counters))


def _edge(name: str, argument: int, certain: tuple[int, ...]) -> str:
    """Return the expression of the target of an argument's gradient."""
    if certain and argument not in certain:
        return "None"
    if len(certain) == 1:
        return f"{name}._grad_fn or {name}"
    key = f"{name}._key" if certain else f"getattr({name}, '_key', 0)"
    return f"({name}._grad_fn or {name}) if {key} & AUTOGRAD else None"


def _saved(derivative: Derivative, index: int, position: int, names: Sequence[str], certain: tuple[int, ...]
           ) -> tuple[str, str]:
    """Return the expressions of a saved value and of its version counter, which is empty if it never has one."""
    tensors = derivative.tensors
    users = [j for j, pick in enumerate(derivative.picks) if index in pick]
    wanted = " or ".join([f"edge{j} is not None" for j in users])
    if derivative.joint is not None or [tensors[j] for j in users] == [*certain]:
        wanted = "True"
    if position == RESULT:  # detached: a node that held its own result would be a reference cycle
        value = "result._cut()"
    elif position >= 0:
        value = names[position]
    elif position == WANTED:
        value = f"({''.join([f'edge{j} is not None, ' for j in range(len(tensors))])})"
    else:
        value = f"{names[SHAPE - position]}._array.shape"
    if position in (RESULT, *certain):
        counter = f"value{index}._version_counter if value{index} is not None else NO_COUNTER"
    elif position < 0 or (certain and position in tensors):  # a shape, bools, or the number beside a tensor
        counter = ""
    else:
        counter = f"getattr(value{index}, '_version_counter', NO_COUNTER)"
    return f"{value} if {wanted} else None", counter


def _versions(counters: Sequence[str]) -> str:
    """Return the expression of the versions; most tensors have no counter yet."""
    unchanged = "".join(["0, " if counter else "-1, " for counter in counters])
    now = "".join([f"0 if {counter} is None else {counter}[0], " if counter else "-1, " for counter in counters])
    same = " is ".join(filter(None, counters))
    return f"({unchanged}) if {same} is None else ({now})" if same else f"({unchanged})"


def _general_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    """Return a recorder for several recorded results, or for a list of tensors."""
    made = attach_all if derivative.multiple else attach

    def record(*args: Any) -> Any:
        results = below(*args)
        edges = tuple([edge_of(args[k]) for k in derivative.tensors])
        made(results, derivative, edges, args, derivative.needed(edges))
        return results

    def record_list(tensors: Any, *args: Any) -> Any:
        tensors = tuple(tensors)  # a list may grow before the backward pass
        results = below(tensors, *args)
        edges = tuple([edge_of(t) for t in tensors])
        made(results, derivative, edges, (tensors, *args), derivative.saved_positions)
        return results

    return record_list if derivative.lists and derivative.joint is not None else record
