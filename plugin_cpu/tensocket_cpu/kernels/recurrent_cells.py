"""Kinds of recurrent cells: one time step of one unit, and its backward pass by the chain rule.

The cells are those of Elman (1990), Hochreiter and Schmidhuber (1997) and Cho et al. (2014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tensocket_plugins.ir.nodes import Expr, call, select


@dataclass(frozen=True)
class Cell:
    """A kind of cell.

    Attributes:
        gates: The number of weighted sums of inputs and states per unit.
        saved: The number of values per unit that the backward pass needs.
        state: Whether the cell has a state besides its output.
        forward: Maps the inputs (None if the hidden sums contain them), hidden sums, last output and last cell state of
            one unit to the new output, the new cell state (or None) and the saved values.
        backward: Maps the gradients of output and cell state, the saved values, the output, the cell states after and
            before and the output before to the gradients of the inputs and of the hidden sums, the gradient of the last
            output without the part through the hidden sums (or None), and that of the last cell state (or None).
        apart: Whether the last gate needs its input and its hidden sum separately.
    """

    gates: int
    saved: int
    state: bool
    forward: Callable[..., tuple[Expr, Expr | None, Sequence[Expr]]]
    backward: Callable[..., tuple[Sequence[Expr], Sequence[Expr], Expr | None, Expr | None]]
    separate_last_gate: bool = False


def _sigmoid(x: Expr) -> Expr:
    return 1.0 / (1.0 + call("exp", -x))


def _slope(gate: Expr) -> Expr:
    """Return the derivative of a sigmoid, from its value."""
    return gate * (1.0 - gate)


def _total(given: Expr | None, total: Expr) -> Expr:
    return total if given is None else given + total


def _lstm(inputs: Sequence[Expr | None], sums: Sequence[Expr], output: Expr,
          cell: Expr) -> tuple[Expr, Expr, list[Expr]]:
    i, f, g, o = map(_total, inputs, sums)
    i, f, g, o = _sigmoid(i), _sigmoid(f), call("tanh", g), _sigmoid(o)
    new = f * cell + i * g
    return o * call("tanh", new), new, [i, f, g, o]


def _lstm_back(hidden: Expr, cell: Expr, saved: Sequence[Expr], output: Expr, after: Expr, before: Expr, last: Expr
               ) -> tuple[list[Expr], list[Expr], None, Expr]:
    i, f, g, o = saved
    shown = call("tanh", after)
    total = cell + hidden * (o * (1.0 - shown * shown))
    changes = [total * (g * _slope(i)), total * (before * _slope(f)), total * (i * (1.0 - g * g)),
               hidden * (shown * _slope(o))]
    return changes, changes, None, total * f


def _gru(inputs: Sequence[Expr | None], sums: Sequence[Expr], output: Expr,
         cell: Expr) -> tuple[Expr, None, list[Expr]]:
    r, z = _sigmoid(_total(inputs[0], sums[0])), _sigmoid(_total(inputs[1], sums[1]))
    n = call("tanh", _total(inputs[2], r * sums[2]))
    return n + z * (output - n), None, [r, z, n, sums[2]]


def _gru_back(hidden: Expr, cell: Expr, saved: Sequence[Expr], output: Expr, after: Expr, before: Expr, last: Expr
              ) -> tuple[list[Expr], list[Expr], Expr, None]:
    r, z, n, through = saved
    new = hidden * ((1.0 - z) * (1.0 - n * n))
    gates = [new * (through * _slope(r)), hidden * ((last - n) * _slope(z))]
    return [*gates, new], [*gates, new * r], hidden * z, None


def _tanh(inputs: Sequence[Expr | None], sums: Sequence[Expr], output: Expr,
          cell: Expr) -> tuple[Expr, None, list[Expr]]:
    return call("tanh", _total(inputs[0], sums[0])), None, []


def _tanh_back(hidden: Expr, cell: Expr, saved: Sequence[Expr], output: Expr, after: Expr, before: Expr, last: Expr
               ) -> tuple[list[Expr], list[Expr], None, None]:
    change = hidden * (1.0 - output * output)
    return [change], [change], None, None


def _relu(inputs: Sequence[Expr | None], sums: Sequence[Expr], output: Expr,
          cell: Expr) -> tuple[Expr, None, list[Expr]]:
    return call("max", _total(inputs[0], sums[0]), 0.0), None, []


def _relu_back(hidden: Expr, cell: Expr, saved: Sequence[Expr], output: Expr, after: Expr, before: Expr, last: Expr
               ) -> tuple[list[Expr], list[Expr], None, None]:
    change = select(output > 0.0, hidden, 0.0 * hidden)
    return [change], [change], None, None


CELLS: Final = {
    "lstm": Cell(4, 4, True, _lstm, _lstm_back),
    "gru": Cell(3, 4, False, _gru, _gru_back, separate_last_gate=True),
    "rnn_tanh": Cell(1, 0, False, _tanh, _tanh_back),
    "rnn_relu": Cell(1, 0, False, _relu, _relu_back),
}
