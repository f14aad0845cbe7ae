"""Backpropagation through time for recurrent layers in one direction, written by hand.

The equations follow by the chain rule from Hochreiter and Schmidhuber (1997) and Cho et al. (2014). Terms that do not
depend on later times are computed for all times at once; only one product with ``w_hh`` remains per time. Shapes are
those of ``recurrent_layers``.
"""

from __future__ import annotations

from typing import Any

from tensocket_core import functions


def states_before(first: Any, states: Any, reverse: bool) -> Any:
    """Return the states before each time."""
    return functions.cat([states[1:], first.unsqueeze(0)] if reverse else [first.unsqueeze(0), states[:-1]])


def _backwards(values: Any, reverse: bool) -> Any:
    """Return pairs of a time and a value, in backward order."""
    pairs = list(enumerate(values))
    return pairs if reverse else reversed(pairs)


def _slope(gate: Any) -> Any:
    """Return the derivative of a sigmoid, from its value."""
    return gate * (1 - gate)


def _moments(grad: Any, count: int) -> tuple[Any, ...]:
    return (None,) * count if grad is None else grad.unbind(0)


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def lstm_gradients(grads: Any, inputs: Any, hx: Any, cx: Any, w_hh: Any, b_hh: Any, outputs: Any,
                   cells: Any, reverse: bool) -> tuple[Any, ...]:
    """Return the gradients of inputs, hidden sums, first output and first cell state."""
    count = outputs.shape[0]
    before, before_cells = states_before(hx, outputs, reverse), states_before(cx, cells, reverse)
    i, f, g, o = (inputs + functions.linear(before, w_hh, b_hh)).chunk(4, -1)
    i, f, g, o, shown = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid(), cells.tanh()
    to_cell = (o * (1 - shown * shown)).unbind(0)
    factors = functions.cat([g * _slope(i), before_cells * _slope(f), i * (1 - g * g), shown * _slope(o)], -1)
    weight = w_hh.to(factors.dtype)
    forget, given, given_cells = f.unbind(0), _moments(grads[0], count), _moments(grads[1], count)
    changes: list[Any] = [None] * count
    hidden = cell = None
    for k, factor in _backwards(factors.unbind(0), reverse):
        hidden, cell = _sum(given[k], hidden), _sum(given_cells[k], cell)
        if hidden is not None:
            cell = _sum(hidden * to_cell[k], cell)
        else:
            hidden = cell.new_zeros(cell.shape)
        changes[k] = functions.cat([cell, cell, cell, hidden], -1) * factor
        hidden, cell = changes[k] @ weight, cell * forget[k]
    total = functions.stack(changes)
    return total, total, hidden, cell


def _simple_gradients(grad: Any, factors: Any, carry: Any, w_hh: Any, reverse: bool) -> tuple[Any, ...]:
    """Return the gradients of outputs, hidden sums and the first state of a layer without cell states.

    Args:
        grad: Gradient of the outputs.
        factors: Factors from an output's gradient to those of its hidden gates, [T, N, gates * H].
        carry: Factors from it directly to the gradient of the previous state, or None without such a path.
        w_hh: The weight of the states.
        reverse: Whether the layer runs from the end.
    """
    kept = None if carry is None else carry.unbind(0)
    given = grad.unbind(0)
    totals: list[Any] = [None] * len(given)
    changes = list(totals)
    weight, gates = w_hh.to(factors.dtype), factors.shape[-1] // grad.shape[-1]
    hidden = None
    for k, factor in _backwards(factors.unbind(0), reverse):
        hidden = totals[k] = _sum(given[k], hidden)
        changes[k] = (hidden if gates == 1 else functions.cat([hidden] * gates, -1)) * factor
        through = changes[k] @ weight
        hidden = through if kept is None else through + hidden * kept[k]
    return functions.stack(totals), functions.stack(changes), hidden


def gru_gradients(grad: Any, inputs: Any, hx: Any, w_hh: Any, b_hh: Any, outputs: Any,
                  reverse: bool) -> tuple[Any, ...]:
    """Return the gradients of inputs, hidden sums and first output."""
    before = states_before(hx, outputs, reverse)
    (r, z, n), (rh, zh, nh) = inputs.chunk(3, -1), functions.linear(before, w_hh, b_hh).chunk(3, -1)
    r, z = (r + rh).sigmoid(), (z + zh).sigmoid()
    n = (n + r * nh).tanh()
    to_new = (1 - z) * (1 - n * n)
    gates = to_new * nh * _slope(r), (before - n) * _slope(z)
    total, through, hidden = _simple_gradients(grad, functions.cat([*gates, to_new * r], -1), z, w_hh, reverse)
    return functions.cat([total * factor for factor in (*gates, to_new)], -1), through, hidden


def plain_gradients(grad: Any, w_hh: Any, slope: Any, reverse: bool) -> tuple[Any, ...]:
    """Return the gradients of inputs, hidden sums and first output of a layer whose gate has the given slope."""
    _, through, hidden = _simple_gradients(grad, slope, None, w_hh, reverse)
    return through, through, hidden
