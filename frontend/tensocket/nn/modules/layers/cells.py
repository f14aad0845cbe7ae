"""Cells of recurrent networks: one step of a network over time."""

from __future__ import annotations

import math
from typing import Any

from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import init
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor, empty
from tensocket_operators import functions as ops


class RNNCellBase(Module):
    """Base class of cells, with their weights.

    Args:
        input_size: Size of an input.
        hidden_size: Size of a state.
        bias: Whether biases are added.
        num_chunks: Number of gates of the cell.
        device: Device of the parameters.
        dtype: Their dtype.

    ``weight_ih`` is (num_chunks * hidden_size, input_size), ``weight_hh`` (num_chunks * hidden_size, hidden_size); all
    start uniform in ±1/sqrt(hidden_size).
    """

    bias_ih: Any
    bias_hh: Any

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _checked(self, input: Tensor, states: Any) -> list[Tensor]:
        """Return first states (examples, hidden_size); a state that is None is zeros.

        Raises:
            ShapeError: Input or state have the wrong number of dimensions.
        """
        name = type(self).__name__
        for kind, given in (("input", input), *(("hidden", state) for state in states)):
            if given is not None and given.dim() not in (1, 2):
                raise ShapeError(name, f"{kind} of shape {list(given.shape)}", f"Expected {kind} to be 1D or 2D",
                                 "pass (examples, features) or (features)")
        if input.shape[-1] != self.input_size:
            raise ShapeError(name, f"input of shape {list(input.shape)}", "input has inconsistent input_size",
                             f"pass {self.input_size} features")
        return [input.new_zeros((*input.shape[:-1], self.hidden_size)) if state is None else state for state in states]

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def extra_repr(self) -> str:
        """Return the sizes and the options that differ from their defaults."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        if not self.bias:
            shown.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            shown.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(shown)


class RNNCell(RNNCellBase):
    """``tanh(weight_ih @ input + bias_ih + weight_hh @ hx + bias_hh)``, or ``relu`` as ``nonlinearity``."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Map (examples, input_size) and the old state to the new state (examples, hidden_size); or without examples.

        Raises:
            ShapeError: The shapes do not fit.
            ArgumentError: The nonlinearity is unknown.
        """
        if self.nonlinearity not in ("tanh", "relu"):
            raise ArgumentError("RNNCell", f"nonlinearity={self.nonlinearity!r}", "the nonlinearity of a cell is "
                                "'tanh' or 'relu'", "pass one of the two")
        state, = self._checked(input, (hx,))
        cell = ops.rnn_tanh_cell if self.nonlinearity == "tanh" else ops.rnn_relu_cell
        result: Tensor = cell(input, state, *self._weights())
        return result


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory (Hochreiter and Schmidhuber, 1997)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Map (examples, input_size), old output and cell state to the new ones (examples, hidden_size)."""
        states = self._checked(input, (None, None) if hx is None else hx)
        output, cell = ops.lstm_cell(input, states, *self._weights())
        return output, cell


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit (Cho et al., 2014)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Map (examples, input_size) and an old state to a new state (examples, hidden_size); examples are optional."""
        state, = self._checked(input, (hx,))
        result: Tensor = ops.gru_cell(input, state, *self._weights())
        return result


__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]
