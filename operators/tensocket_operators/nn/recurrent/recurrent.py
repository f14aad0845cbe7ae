"""Recurrent networks: cells, and layers of cells over time in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import AUTOGRAD
from tensocket_plugins.contract.errors import ShapeError

from ...kinds.composite import composite
from .recurrent_layers import gru_step, lstm_step, relu_step, tanh_step

_CELL = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"
_LAYERS = ("Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, "
           "bool batch_first")


def _cell(operator: str, step: Callable[..., tuple[Any, ...]], gates: int, input: Any, state: tuple[Any, ...],
          weights: tuple[Any, Any, Any, Any]) -> tuple[Any, ...]:
    """Run one step of a cell."""
    w_ih, w_hh, b_ih, b_hh = weights
    if input.shape[-1] != w_ih.shape[-1] or w_ih.shape[0] % gates or any(
            tuple(x.shape) != (*input.shape[:-1], w_ih.shape[0] // gates) for x in state):
        raise ShapeError(operator, f"input {list(input.shape)}, state {list(state[0].shape)}, weight "
                         f"{list(w_ih.shape)}", "a state [N, H] goes with an input [N, I] and weights of I and H "
                         "columns", "check the layer's sizes")
    return step(functions.linear(input, w_ih, b_ih), functions.linear(state[0], w_hh, b_hh), state)


@composite(f"lstm_cell(Tensor input, Tensor[] hx, {_CELL}) -> (Tensor, Tensor)", method=False)
def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Run one step of a long short-term memory (Hochreiter and Schmidhuber, 1997); return new output and cell state.

    Args:
        input: [N, I] or [I].
        hx: Previous output and cell state, [N, H] each.
        w_ih: [4 H, I], for the input, forget, cell and output gates.
        w_hh: [4 H, H].
        b_ih: [4 H].
        b_hh: [4 H].

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    return _cell("lstm_cell", lstm_step, 4, input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))


@composite(f"gru_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", method=False)
def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Run one step of a gated recurrent unit (Cho et al., 2014); weights are for the reset, update and new gates.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    return _cell("gru_cell", gru_step, 3, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@composite(f"rnn_tanh_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", method=False)
def rnn_tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Return tanh(w_ih @ input + b_ih + w_hh @ hx + b_hh) for each row.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    return _cell("rnn_tanh_cell", tanh_step, 1, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@composite(f"rnn_relu_cell(Tensor input, Tensor hx, {_CELL}) -> Tensor", method=False)
def rnn_relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Return relu(w_ih @ input + b_ih + w_hh @ hx + b_hh) for each row.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    return _cell("rnn_relu_cell", relu_step, 1, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


#: A function that runs one layer in one direction: from (kind, input, first state, weights, biases, reverse) to outputs
#: and the last state, [1, N, H].
Direction = Callable[[str, Any, tuple[Any, ...], Sequence[Any], bool, bool], tuple[Any, tuple[Any, ...]]]


def _biases(weights: Sequence[Any], biases: bool) -> tuple[Any, Any]:
    """Return the biases of inputs and of hidden sums."""
    return (weights[2], weights[3]) if biases else (None, None)


def _projected(kind: str, input: Any, weights: Sequence[Any], biases: bool) -> tuple[Any, Any]:
    """Return inputs times their weight, and the bias of the hidden sums."""
    b_ih, b_hh = _biases(weights, biases)
    if kind == "gru" or not biases:  # a GRU multiplies the hidden sum of its new gate by another gate
        return functions.linear(input, weights[0], b_ih), b_hh
    return functions.linear(input, weights[0]), b_ih + b_hh


def _advanced(kind: str, source: tuple[Any, Any, Any], state: tuple[Any, ...], weights: Sequence[Any], b_hh: Any,
              reverse: bool) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs [T, N, H] and the last state [1, N, H], from inputs, their weight and their bias.

    Weight and bias may be None for inputs that are multiplied already.
    """
    operator = COMPOSITES[f"{kind}_layer"]
    args = (*source, *state, weights[1], b_hh, reverse)
    saving = STATE.grad_enabled and any(x is not None and x._key & AUTOGRAD for x in args[:-1])
    found = call(operator, *args, saving)[:-1]
    return found[0], tuple([x[:1] if reverse else x[-1:] for x in found])


def _with_projection(inputs: Any, state: tuple[Any, ...], weights: Sequence[Any], b_hh: Any,
                     reverse: bool) -> tuple[Any, tuple[Any, ...]]:
    """Return outputs and last state [1, N, H] of an LSTM with projected outputs, from multiplied inputs."""
    outputs: list[Any] = []
    moments = inputs.unbind(0)
    for moment in reversed(moments) if reverse else moments:
        hidden, cell = lstm_step(moment, functions.linear(state[0], weights[1], b_hh), (state[0], state[1]))
        state = functions.linear(hidden, weights[-1]), cell
        outputs.append(state[0])
    return functions.stack(outputs[::-1] if reverse else outputs), tuple([x.unsqueeze(0) for x in state])


def _direction(kind: str, input: Any, state: tuple[Any, ...], weights: Sequence[Any], biases: bool,
               reverse: bool) -> tuple[Any, tuple[Any, ...]]:
    """Run one layer in one direction over [T, N, I] and return outputs [T, N, H] and the last state [1, N, H]."""
    if len(weights) % 2:
        inputs, b_hh = _projected(kind, input, weights, biases)
        return _with_projection(inputs, state, weights, b_hh, reverse)
    b_ih, b_hh = _biases(weights, biases)
    return _advanced(kind, (input, weights[0], b_ih), state, weights, b_hh, reverse)


def _packed_direction(sizes: Sequence[int]) -> Direction:
    """Return ``_direction`` for packed sequences [sum of sizes, I]; ``sizes[t]`` of them have an element at time t."""
    # Adjacent times with the same sequences are computed together.
    runs = [(size, len(list(moments))) for size, moments in groupby(sizes)]

    def run(kind: str, input: Any, state: tuple[Any, ...], weights: Sequence[Any], biases: bool,
            reverse: bool) -> tuple[Any, tuple[Any, ...]]:
        inputs, b_hh = _projected(kind, input, weights, biases)
        parts = list(zip(runs, inputs.split([size * count for size, count in runs]), strict=True))
        outputs, first, ended = [], state, []
        state = tuple(x[:sizes[-1]] for x in first) if reverse else first
        for (size, count), part in reversed(parts) if reverse else parts:
            old = state[0].shape[0]
            if size < old:
                ended.append(tuple(x[size:] for x in state))
                state = tuple(x[:size] for x in state)
            elif size > old:
                state = tuple(functions.cat([x, y[old:size]]) for x, y in zip(state, first, strict=True))
            moments = part.reshape(count, size, -1)
            output, last = (
                _with_projection(moments, state, weights, b_hh, reverse) if len(weights) % 2
                else _advanced(kind, (moments, None, None), state, weights, b_hh, reverse))
            state = tuple([x.squeeze(0) for x in last])
            outputs.append(output.reshape(count * size, -1))
        last = tuple(functions.cat(ends) for ends in zip(state, *reversed(ended), strict=True)) if ended else state
        return functions.cat(outputs[::-1] if reverse else outputs), tuple([x.unsqueeze(0) for x in last])

    return run


def _stacked(run: Direction, kind: str, values: Any, states: tuple[Any, ...], params: Sequence[Any],
             has_biases: bool, num_layers: int, dropout: float, directions: int) -> tuple[Any, ...]:
    """Return the outputs of the last layer, and the last states of all layers."""
    each = len(params) // (num_layers * directions)
    finals = []
    for layer in range(num_layers):
        outputs = []
        for k in range(layer * directions, (layer + 1) * directions):
            output, final = run(kind, values, tuple(x[k] for x in states), params[k * each:(k + 1) * each],
                                has_biases, k % directions == 1)
            outputs.append(output)
            finals.append(final)
        values = outputs[0] if directions == 1 else functions.cat(outputs, -1)
        if dropout and layer < num_layers - 1:
            values = functions.dropout(values, dropout, True)
    if len(finals) == 1:  # a copy: in-place changes of the state must not reach the outputs
        return values, *[state.clone() for state in finals[0]]
    return values, *[functions.cat([final[k] for final in finals]) for k in range(len(states))]


def _layers(operator: str, input: Any, states: tuple[Any, ...], params: Sequence[Any], has_biases: bool,
            num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Any, ...]:
    """Return the outputs [T, N, directions * H] of the last layer, and the last states of all layers."""
    directions = 2 if bidirectional else 1
    count = num_layers * directions
    shape, shapes = input.shape, [x.shape for x in states]
    if not params or len(params) % count or len(shape) != 3 or shape[batch_first] == 0 or any(
            len(x) != 3 or x[0] != count or x[1] != shape[not batch_first] for x in shapes):
        given = f"input {list(shape)}, state {list(states[0].shape)}, {len(params)} parameters"
        raise ShapeError(operator, given,
                         "an input [T, N, I] goes with states [layers * directions, N, H] and parameters for each",
                         "check num_layers and batch_first")
    values, *last = _stacked(_direction, operator, input.transpose(0, 1) if batch_first else input, states, params,
                             has_biases, num_layers, dropout if train else 0.0, directions)
    return values.transpose(0, 1) if batch_first else values, *last


def packed_layers(operator: str, data: Any, batch_sizes: Sequence[int], states: tuple[Any, ...], params: Sequence[Any],
                  has_biases: bool, num_layers: int, dropout: float, train: bool,
                  bidirectional: bool) -> tuple[Any, ...]:
    """Run layers over packed sequences; return outputs [elements, directions * H] and the last states of all layers.

    Args:
        operator: ``lstm``, ``gru``, ``rnn_tanh`` or ``rnn_relu``.
        data: [elements, I]: the first elements of all sequences, longest first, then their second elements, ...
        batch_sizes: The number of sequences with an element at each time; never increasing.
        states: First outputs (and cell states), [layers * directions, N, H] each.
        params: Parameters in the order of ``lstm``.
        has_biases: Whether ``params`` includes biases.
        num_layers: Number of layers.
        dropout: Probability of dropout between layers while training.
        train: Whether dropout applies.
        bidirectional: Whether each layer also has a direction from the end of each sequence.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    directions = 2 if bidirectional else 1
    count = num_layers * directions
    if not batch_sizes or data.ndim != 2 or data.shape[0] != sum(batch_sizes) or len(params) % count or any(
            x.ndim != 3 or tuple(x.shape[:2]) != (count, batch_sizes[0]) for x in states):
        given = f"data {list(data.shape)}, batch sizes {list(batch_sizes)}, state {list(states[0].shape)}"
        raise ShapeError(operator, given, "packed sequences [elements, I] have as many elements as their batch sizes "
                         "say, and states [layers * directions, N, H]", "pass what pack_padded_sequence returns")
    return _stacked(_packed_direction(batch_sizes), operator, data, states, params, has_biases, num_layers,
                    dropout if train else 0.0, directions)


@composite(f"lstm(Tensor input, Tensor[] hx, {_LAYERS}) -> (Tensor, Tensor, Tensor)", method=False)
def lstm(input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
         bidirectional: bool, batch_first: bool) -> Any:
    """Run layers of ``lstm_cell`` over time; return outputs, last outputs and last cell states.

    Args:
        input: [T, N, I], or [N, T, I] with ``batch_first``.
        hx: First outputs and cell states, [layers * directions, N, H] each.
        params: w_ih, w_hh, b_ih, b_hh of each layer and direction, and a projection [P, H] of outputs if used.
        has_biases: Whether ``params`` includes biases.
        num_layers: Number of layers.
        dropout: Probability of dropout between layers while training.
        train: Whether dropout applies.
        bidirectional: Whether each layer also has a direction from the end.
        batch_first: Whether the batch is the first dimension of input and outputs.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    return _layers("lstm", input, tuple(hx), params, has_biases, num_layers, dropout, train,
                   bidirectional, batch_first)


@composite(f"gru(Tensor input, Tensor hx, {_LAYERS}) -> (Tensor, Tensor)", method=False)
def gru(input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool) -> Any:
    """Run layers of ``gru_cell`` over time; return outputs and last outputs. Arguments are those of ``lstm``.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    return _layers("gru", input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional,
                   batch_first)


@composite(f"rnn_tanh(Tensor input, Tensor hx, {_LAYERS}) -> (Tensor, Tensor)", method=False)
def rnn_tanh(input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
             bidirectional: bool, batch_first: bool) -> Any:
    """Run layers of ``rnn_tanh_cell`` over time; return outputs and last outputs. Arguments are those of ``lstm``.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    return _layers("rnn_tanh", input, (hx,), params, has_biases, num_layers, dropout, train,
                   bidirectional, batch_first)


@composite(f"rnn_relu(Tensor input, Tensor hx, {_LAYERS}) -> (Tensor, Tensor)", method=False)
def rnn_relu(input: Any, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
             bidirectional: bool, batch_first: bool) -> Any:
    """Run layers of ``rnn_relu_cell`` over time; return outputs and last outputs. Arguments are those of ``lstm``.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    return _layers("rnn_relu", input, (hx,), params, has_biases, num_layers, dropout, train,
                   bidirectional, batch_first)
