"""Control flow, sequences and optional values. Subgraphs are functions that take and return lists of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as torch
from tensocket_operators import Tensor

from .table import operator, results, traceable
from .values import axis_in, ints, number

Body = Callable[..., Any]


@traceable
def bind(body: Any, *captured: Any) -> Body:
    """Return a subgraph as a function of its own inputs; it also gets the values that it reads from around it."""
    return lambda *inputs: body(*inputs, *captured)


@operator("If", counts=True)
def choose(condition: Any, then_branch: Body, else_branch: Body, outputs: int = 1) -> Any:
    """Return the results of one of two subgraphs."""
    return results((then_branch if number(condition) else else_branch)(), outputs)


def _flag(value: Any, like: Any) -> Any:
    return value if isinstance(value, Tensor) else torch.tensor(value, device=getattr(like, "device", None))


@operator("Loop", counts=True)
def loop(limit: Any, condition: Any, *states: Any, body: Body, outputs: int = 1) -> Any:
    """Repeat a subgraph while its condition holds, at most ``limit`` times; return states and stacked results."""
    most = None if limit is None else int(number(limit))
    going = True if condition is None else bool(number(condition))
    values, step = list(states), 0
    rows: list[list[Any]] = [[] for _ in range(outputs - len(states))]
    flag = _flag(True if condition is None else condition, limit)
    while going and (most is None or step < most):
        found = body(torch.tensor(step, device=flag.device), flag, *values)
        flag, going = found[0], bool(number(found[0]))
        values = list(found[1:1 + len(states)])
        for row, item in zip(rows, found[1 + len(states):], strict=True):
            row.append(item)
        step += 1
    return results([*values, *[_stacked(row) for row in rows]], outputs)


def _stacked(rows: list[Any]) -> Any:
    return torch.stack(rows) if rows else torch.empty(0)


@operator("Scan", counts=True)
def scan_batches(lengths: Any, *values: Any, body: Body, num_scan_inputs: int, directions: Any = None,
                 outputs: int = 1) -> Any:
    """Return Scan of version 8: of each example of a batch; steps beyond the example's length are left out."""
    count = len(values) - num_scan_inputs
    found = []
    for k in range(values[0].shape[0]):
        each = [v[k] for v in values]
        if lengths is not None:
            steps = ints(lengths)[k]
            each[count:] = [v.narrow(0, 0, steps) for v in each[count:]]
        found.append(_scan(each, body, num_scan_inputs, ints(directions), None, None, None, outputs))
    return results([torch.stack(list(column)) for column in zip(*found, strict=True)], outputs)


@operator("Scan", since=9, counts=True)
def scan(*values: Any, body: Body, num_scan_inputs: int, scan_input_axes: Any = None,
         scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
         outputs: int = 1) -> Any:
    """Repeat a subgraph over the slices of its last inputs; return states and stacked results."""
    return results(_scan(list(values), body, num_scan_inputs, ints(scan_input_directions), ints(scan_input_axes),
                         ints(scan_output_directions), ints(scan_output_axes), outputs), outputs)


def _scan(values: list[Any], body: Body, inputs: int, backwards: Any, axes: Any, flipped: Any, places: Any,
          outputs: int) -> list[Any]:
    states, columns = values[:len(values) - inputs], values[len(values) - inputs:]
    axes = axes or [0] * inputs
    columns = [c.flip(a) if backwards and backwards[k] else c
               for k, (c, a) in enumerate(zip(columns, axes, strict=True))]
    rows: list[list[Any]] = [[] for _ in range(outputs - len(states))]
    for t in range(columns[0].shape[axes[0]]):
        found = body(*states, *[c.select(a, t) for c, a in zip(columns, axes, strict=True)])
        states = list(found[:len(states)])
        for row, item in zip(rows, found[len(states):], strict=True):
            row.append(item)
    made = []
    for k, row in enumerate(rows):
        place = places[k] if places else 0
        if flipped and flipped[k]:
            row = row[::-1]
        made.append(torch.stack(row, place))
    return [*states, *made]


# ---- sequences


@operator("SequenceConstruct")
def sequence(*values: Any) -> Any:
    """Return a sequence of values."""
    return list(values)


@operator("SequenceEmpty")
def empty_sequence(dtype: int = 1) -> Any:
    """Return an empty sequence."""
    return []


@operator("SequenceAt")
def sequence_at(values: Any, position: Any) -> Any:
    """Return an element of a sequence; negative positions count from its end."""
    return values[int(number(position))]


@operator("SequenceInsert")
def sequence_insert(values: Any, value: Any, position: Any = None) -> Any:
    """Return a sequence with another element, at its end by default."""
    made = list(values)
    made.insert(len(made) if position is None else axis_in(int(number(position)), len(made)), value)
    return made


@operator("SequenceErase")
def sequence_erase(values: Any, position: Any = None) -> Any:
    """Return a sequence without an element, the last by default."""
    at = axis_in(-1 if position is None else int(number(position)), len(values))
    return [value for k, value in enumerate(values) if k != at]


@operator("SequenceLength")
def sequence_length(values: Any) -> Any:
    """Return the number of elements of a sequence."""
    return torch.tensor(len(values))


@operator("SequenceMap", counts=True)
def sequence_map(values: Any, *others: Any, body: Body, outputs: int = 1) -> Any:
    """Return the sequences of the results of a subgraph on each element."""
    found = [body(value, *[x[k] if isinstance(x, list) else x for x in others]) for k, value in enumerate(values)]
    return results([list(column) for column in zip(*found, strict=True)] or [[] for _ in range(outputs)], outputs)


@operator("SplitToSequence")
def split_to_sequence(x: Any, split: Any = None, axis: int = 0, keepdims: int = 1) -> Any:
    """Return the parts of x along an axis as a sequence: of given sizes, or of one size, or slices."""
    size = x.shape[axis]
    if split is None:
        parts = list(torch.split(x, 1, axis))
        return parts if keepdims else [part.squeeze(axis) for part in parts]
    given = ints(split)
    if split.dim() == 0:
        given = [min(given[0], size - k) for k in range(0, size, given[0])]
    return list(torch.split(x, given, axis))


@operator("ConcatFromSequence")
def concat_sequence(values: Any, axis: int, new_axis: int = 0) -> Any:
    """Return the elements of a sequence, joined along an axis or a new one."""
    return torch.stack(values, axis) if new_axis else torch.cat(values, axis)


# ---- optional values


@operator("Optional")
def optional(value: Any = None, type: Any = None) -> Any:
    """Return a value that may be absent."""
    return value


@operator("OptionalHasElement")
def has_element(value: Any = None) -> Any:
    """Return whether a value is there."""
    return torch.tensor(value is not None and not (isinstance(value, np.ndarray) and value.dtype == object
                                                   and value.shape == () and value.item() is None))


@operator("OptionalGetElement")
def get_element(value: Any) -> Any:
    """Return a value that is there."""
    return value
