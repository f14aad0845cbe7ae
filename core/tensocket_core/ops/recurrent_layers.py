"""Recurrent layers in one direction, with gradients that go back through time by hand.

Of all: ``inputs`` are the inputs of all moments times their weight, [T, N, gates * H]; outputs are [T, N, H]. The
gradients are of Hochreiter and Schmidhuber (1997) and of Cho et al. (2014) by the chain rule. Everything that does not
depend on later moments is computed for all moments at once; what is left for each is one product with ``w_hh``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import functions
from ..autograd.derivative import Derivative
from ..dispatch.composite import composite


def _gates(values: Any, count: int) -> tuple[Any, ...]:
    """Equal parts along the last dimension; cheaper than chunk()."""
    shape = values.shape
    parts: tuple[Any, ...] = values.reshape((*shape[:-1], count, shape[-1] // count)).unbind(-2)
    return parts


def lstm_step(inputs: Any, hidden: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
    """New output and cell state; the gates are input, forget, cell and output."""
    i, f, g, o = _gates(inputs + hidden, 4)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """New output; the gates are reset, update and new."""
    (reset, update, new), (reset_h, update_h, new_h) = _gates(inputs, 3), _gates(hidden, 3)
    update = (update + update_h).sigmoid()
    new = (new + (reset + reset_h).sigmoid() * new_h).tanh()
    return (new + update * (state[0] - new),)


def tanh_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """New output."""
    return ((inputs + hidden).tanh(),)


def relu_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """New output."""
    return ((inputs + hidden).relu(),)


def _outputs(step: Callable[..., tuple[Any, ...]], inputs: Any, state: tuple[Any, ...], w_hh: Any,
             b_hh: Any) -> tuple[Any, ...]:
    """All states, stacked."""
    states = []
    for moment in inputs.unbind(0):
        state = step(moment, functions.linear(state[0], w_hh, b_hh), state)
        states.append(state)
    return tuple(functions.stack(part) for part in zip(*states, strict=True))


def _before(first: Any, states: Any) -> Any:
    """The states before each moment."""
    return functions.cat([first.unsqueeze(0), states[:-1]])


def _slope(gate: Any) -> Any:
    """The derivative of a sigmoid, from its value."""
    return gate * (1 - gate)


def _moments(grad: Any, count: int) -> tuple[Any, ...]:
    return (None,) * count if grad is None else grad.unbind(0)


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _weights_gradients(changes: Any, before: Any, b_hh: Any) -> tuple[Any, Any]:
    """Gradients of ``w_hh`` and ``b_hh``, from those of the hidden gates [T, N, gates * H]."""
    rows = changes.flatten(0, 1)
    weight = rows.t() @ before.flatten(0, 1).to(rows.dtype)
    return weight, None if b_hh is None else rows.sum(0)


def _lstm_gradients(grads: Any, inputs: Any, hx: Any, cx: Any, w_hh: Any, b_hh: Any, outputs: Any,
                    cells: Any) -> tuple[Any, ...]:
    """Of all arguments."""
    count = outputs.shape[0]
    before, before_cells = _before(hx, outputs), _before(cx, cells)
    i, f, g, o = (inputs + functions.linear(before, w_hh, b_hh)).chunk(4, -1)
    i, f, g, o, shown = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid(), cells.tanh()
    to_cell = (o * (1 - shown * shown)).unbind(0)
    factors = functions.cat([g * _slope(i), before_cells * _slope(f), i * (1 - g * g), shown * _slope(o)], -1)
    weight = w_hh.to(factors.dtype)
    forget, given, given_cells = f.unbind(0), _moments(grads[0], count), _moments(grads[1], count)
    changes: list[Any] = [None] * count
    hidden = cell = None
    for k, factor in reversed(list(enumerate(factors.unbind(0)))):
        hidden, cell = _sum(given[k], hidden), _sum(given_cells[k], cell)
        if hidden is not None:
            cell = _sum(hidden * to_cell[k], cell)
        else:
            hidden = cell.new_zeros(cell.shape)
        changes[k] = functions.cat([cell, cell, cell, hidden], -1) * factor
        hidden, cell = changes[k] @ weight, cell * forget[k]
    total = functions.stack(changes)
    return total.to(inputs.dtype), hidden, cell, *_weights_gradients(total, before, b_hh)


def _simple_gradients(grad: Any, factors: Any, carry: Any, before: Any, w_hh: Any, b_hh: Any) -> tuple[Any, ...]:
    """Gradients of outputs, first state, ``w_hh`` and ``b_hh`` of a layer without cells.

    Args:
        grad: Gradient of the outputs.
        factors: What an output's gradient is multiplied by for those of its hidden gates, [T, N, gates * H].
        carry: What it is multiplied by for the state before, directly; None for nothing.
        before: The states before each moment.
        w_hh: The weight of states.
        b_hh: Its bias, or None.
    """
    kept = None if carry is None else carry.unbind(0)
    given, totals, changes = grad.unbind(0), [], []
    weight, gates = w_hh.to(factors.dtype), factors.shape[-1] // grad.shape[-1]
    hidden = None
    for k, factor in reversed(list(enumerate(factors.unbind(0)))):
        hidden = _sum(given[k], hidden)
        totals.append(hidden)
        change = (hidden if gates == 1 else functions.cat([hidden] * gates, -1)) * factor
        changes.append(change)
        through = change @ weight
        hidden = through if kept is None else through + hidden * kept[k]
    total = functions.stack(changes[::-1])
    return functions.stack(totals[::-1]), hidden, *_weights_gradients(total, before, b_hh)


def _gru_gradients(grad: Any, inputs: Any, hx: Any, w_hh: Any, b_hh: Any, outputs: Any) -> tuple[Any, ...]:
    """Of all arguments."""
    before = _before(hx, outputs)
    (r, z, n), (rh, zh, nh) = inputs.chunk(3, -1), functions.linear(before, w_hh, b_hh).chunk(3, -1)
    r, z = (r + rh).sigmoid(), (z + zh).sigmoid()
    n = (n + r * nh).tanh()
    to_new = (1 - z) * (1 - n * n)
    gates = to_new * nh * _slope(r), (before - n) * _slope(z)
    outputs_grad, hidden, weight, bias = _simple_gradients(
        grad, functions.cat([*gates, to_new * r], -1), z, before, w_hh, b_hh)
    changes = functions.cat([outputs_grad * factor for factor in (*gates, to_new)], -1)
    return changes.to(inputs.dtype), hidden, weight, bias


def _plain_gradients(grad: Any, inputs: Any, hx: Any, w_hh: Any, b_hh: Any, outputs: Any,
                     slope: Any) -> tuple[Any, ...]:
    """Of all arguments of a layer whose output has the given slope for its gate."""
    outputs_grad, hidden, weight, bias = _simple_gradients(
        grad, slope, None, _before(hx, outputs), w_hh, b_hh)
    return (outputs_grad * slope).to(inputs.dtype), hidden, weight, bias


@composite(
    "lstm_layer(Tensor inputs, Tensor hx, Tensor cx, Tensor w_hh, Tensor? b_hh) -> (Tensor, Tensor)", method=False,
    function=False,
    derivative=Derivative(lambda grads, inputs, hx, cx, w_hh, b_hh, result0, result1: _lstm_gradients(
        grads, inputs, hx, cx, w_hh, b_hh, result0, result1)),
)
def lstm_layer(inputs: Any, hx: Any, cx: Any, w_hh: Any, b_hh: Any) -> Any:
    """Outputs and cell states of a layer of ``lstm_cell`` over time."""
    return _outputs(lstm_step, inputs, (hx, cx), w_hh, b_hh)


@composite(
    "gru_layer(Tensor inputs, Tensor hx, Tensor w_hh, Tensor? b_hh) -> Tensor", method=False, function=False,
    derivative=Derivative(lambda grad, inputs, hx, w_hh, b_hh, result: _gru_gradients(
        grad, inputs, hx, w_hh, b_hh, result)),
)
def gru_layer(inputs: Any, hx: Any, w_hh: Any, b_hh: Any) -> Any:
    """Outputs of a layer of ``gru_cell`` over time."""
    return _outputs(gru_step, inputs, (hx,), w_hh, b_hh)[0]


@composite(
    "rnn_tanh_layer(Tensor inputs, Tensor hx, Tensor w_hh, Tensor? b_hh) -> Tensor", method=False, function=False,
    derivative=Derivative(lambda grad, inputs, hx, w_hh, b_hh, result: _plain_gradients(
        grad, inputs, hx, w_hh, b_hh, result, 1 - result * result)),
)
def rnn_tanh_layer(inputs: Any, hx: Any, w_hh: Any, b_hh: Any) -> Any:
    """Outputs of a layer of ``rnn_tanh_cell`` over time."""
    return _outputs(tanh_step, inputs, (hx,), w_hh, b_hh)[0]


@composite(
    "rnn_relu_layer(Tensor inputs, Tensor hx, Tensor w_hh, Tensor? b_hh) -> Tensor", method=False, function=False,
    derivative=Derivative(lambda grad, inputs, hx, w_hh, b_hh, result: _plain_gradients(
        grad, inputs, hx, w_hh, b_hh, result, (result > 0).to(result.dtype))),
)
def rnn_relu_layer(inputs: Any, hx: Any, w_hh: Any, b_hh: Any) -> Any:
    """Outputs of a layer of ``rnn_relu_cell`` over time."""
    return _outputs(relu_step, inputs, (hx,), w_hh, b_hh)[0]
