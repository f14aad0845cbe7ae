"""Recurrent networks and their cells."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any, Final

from tensocket.errors import ArgumentError, ArgumentTypeError, ShapeError
from tensocket.nn import init
from tensocket.nn.parameter import Parameter
from tensocket.nn.utils.rnn import PackedSequence
from tensocket_operators import Tensor, empty
from tensocket_operators import functions as ops
from tensocket_operators.nn.recurrent.recurrent import packed_layers

from .layers.cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from .module import Module

#: By mode, the number of gates of a cell and its operator.
_MODES: Final[dict[str, tuple[int, str]]] = {
    "LSTM": (4, "lstm"), "GRU": (3, "gru"), "RNN_TANH": (1, "rnn_tanh"), "RNN_RELU": (1, "rnn_relu")}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Permute the examples, which are dimension ``dim``."""
    result: Tensor = tensor.index_select(dim, permutation)
    return result


class RNNBase(Module):
    """Layers of cells over time, in one or both directions.

    Args:
        mode: ``LSTM``, ``GRU``, ``RNN_TANH`` or ``RNN_RELU``.
        input_size: Size of an element of a sequence.
        hidden_size: Size of a state.
        num_layers: Number of layers, each of which takes the outputs of the previous one.
        bias: Whether biases are added.
        batch_first: Whether examples are the first dimension, instead of steps.
        dropout: Probability of dropout between layers while training.
        bidirectional: Whether there is a second direction, from the end.
        proj_size: Size of the outputs of an LSTM if they are projected; 0 if they are not.
        device: Device of the parameters.
        dtype: Their dtype.

    Layer k has ``weight_ih_lk`` (gates * hidden_size, its input), ``weight_hh_lk``, ``bias_ih_lk``, ``bias_hh_lk`` and,
    with projections, ``weight_hr_lk``; those of the second direction end in ``_reverse``. All start uniform in
    ±1/sqrt(hidden_size).

    Raises:
        ArgumentError: A size or the dropout is out of its range.
        ArgumentTypeError: A size is not an int.
    """

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout: Any = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_sizes()
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[:1 + bidirectional]:
                self._add_layer(layer, suffix, device, dtype)
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    def _check_sizes(self) -> None:
        if self.mode not in _MODES:
            raise ArgumentError("RNNBase", f"mode={self.mode!r}", f"mode is one of {', '.join(_MODES)}",
                                "pass one of these")
        name = type(self).__name__
        number = isinstance(self.dropout, numbers.Number) and not isinstance(self.dropout, bool)
        if not number or not 0 <= self.dropout <= 1:
            raise ArgumentError(name, f"dropout={self.dropout!r}", "dropout should be a number in range [0, 1]",
                                "pass a probability")
        self.dropout = float(self.dropout)
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(f"dropout={self.dropout} has no effect: it is between layers, and num_layers=1", UserWarning,
                          stacklevel=4)
        if not isinstance(self.hidden_size, int):
            raise ArgumentTypeError(name, f"hidden_size={self.hidden_size!r}", "hidden_size should be of type int",
                                    "pass an int")
        for size in ("hidden_size", "num_layers"):
            if getattr(self, size) <= 0:
                raise ArgumentError(name, f"{size}={getattr(self, size)}", f"{size} must be greater than zero",
                                    "pass a positive number")
        if self.proj_size < 0 or self.proj_size >= self.hidden_size:
            raise ArgumentError(name, f"proj_size={self.proj_size} for hidden_size={self.hidden_size}", "proj_size has "
                                "to be smaller than hidden_size, and not negative", "pass 0 for no projection")
        if self.proj_size and self.mode != "LSTM":
            raise ArgumentError(name, f"proj_size={self.proj_size}", "proj_size argument is only supported for LSTM",
                                "leave it out")

    def _add_layer(self, layer: int, suffix: str, device: Any, dtype: Any) -> None:
        rows = _MODES[self.mode][0] * self.hidden_size
        output = self.proj_size or self.hidden_size
        columns = self.input_size if layer == 0 else output * (1 + self.bidirectional)
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, output)}
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        self._all_weights.append([f"{name}_l{layer}{suffix}" for name in shapes])
        for name, shape in zip(self._all_weights[-1], shapes.values(), strict=True):
            self.register_parameter(name, Parameter(empty(*shape, device=device, dtype=dtype)))

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a pickle, with the list of weights that PyTorch's modules hold."""
        return {**self.__dict__, "_flat_weights": self._flat_weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name in ("_flat_weights", "_flat_weight_refs"):
            self.__dict__.pop(name, None)

    @property
    def _flat_weights(self) -> list[Any]:
        """The current parameters in the order in which operators take them."""
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: adjacent parameters have no advantage here."""

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    # ---- checks of arguments

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse inputs with another number of dimensions or another size.

        Raises:
            ShapeError: The shape does not fit.
        """
        dims = 3 if batch_sizes is None else 2
        if input.dim() != dims:
            raise ShapeError(type(self).__name__, f"input of shape {list(input.shape)}", f"input must have {dims} "
                             "dimensions", "pass steps, examples and features")
        if input.shape[-1] != self.input_size:
            raise ShapeError(type(self).__name__, f"input of shape {list(input.shape)}", "input.size(-1) must be equal "
                             "to input_size", f"pass {self.input_size} features")

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the expected shape of the initial outputs."""
        return self._state_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def _state_shape(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple[int, int, int]:
        examples = input.shape[not self.batch_first] if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (1 + self.bidirectional), examples, width

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Refuse a state with another shape.

        Raises:
            ShapeError: The state has another shape.
        """
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise ShapeError(type(self).__name__, msg.format(expected_hidden_size, list(hx.shape)), "states are for "
                             "each layer and direction, and each example", "pass one of the expected size")

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse inputs and states that do not fit.

        Raises:
            ShapeError: A shape does not fit.
        """
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Permute the examples of states."""
        return hx if permutation is None else hx.index_select(1, permutation)

    # ---- computing

    def _states(self, hx: Any) -> tuple[Tensor, ...]:
        """Return the components of a state."""
        return (hx,)

    def _first(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        """Return initial states of zeros."""
        return input.new_zeros(self.get_expected_hidden_size(input, batch_sizes))

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the outputs of the last layer and the last states of all layers.

        Args:
            input: (steps, examples, input_size), transposed with ``batch_first``; (steps, input_size) for a single
                example; or packed sequences.
            hx: Initial state, (layers * directions, examples, size), without examples for a single one; for an LSTM,
                the outputs and the cell states. Zeros if not given.

        Raises:
            ShapeError: The shapes do not fit.
            DtypeError: The input's dtype is not that of the parameters.
        """
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        if input.dim() not in (2, 3):
            raise ShapeError(type(self).__name__, f"input of shape {list(input.shape)}", "Expected input to be 2D or "
                             "3D", "pass (steps, examples, features) or (steps, features)")
        single = input.dim() == 2
        self._check_dimensions(input, hx)
        if single:
            input = input.unsqueeze(0 if self.batch_first else 1)
            hx = self._each(hx, lambda state: state.unsqueeze(1))
        if hx is None:
            self.check_input(input, None)
            hx = self._first(input, None)
        else:
            self.check_forward_args(input, hx, None)
        states = self._states(hx)
        operator = _MODES[self.mode][1]
        output, *last = getattr(ops, operator)(
            input, list(states) if operator == "lstm" else states[0], self._flat_weights, self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional, self.batch_first)
        hidden = tuple(last) if len(states) > 1 else last[0]
        if single:
            return output.squeeze(0 if self.batch_first else 1), self._each(hidden, lambda state: state.squeeze(1))
        return output, hidden

    def _packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, sorted_indices, unsorted_indices = input
        # A given state is in the original order of the examples, before they were sorted.
        hx = self._first(data, batch_sizes) if hx is None else self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        states = self._states(hx)
        output, *last = packed_layers(
            _MODES[self.mode][1], data, batch_sizes.tolist(), states, self._flat_weights, self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional)
        hidden = tuple(last) if len(states) > 1 else last[0]
        return PackedSequence(output, *input[1:]), self.permute_hidden(hidden, unsorted_indices)

    def _check_dimensions(self, input: Tensor, hx: Any) -> None:
        """Refuse states of single examples for batches, and vice versa.

        Raises:
            ShapeError: The numbers of dimensions of input and state do not fit.
        """
        if hx is not None and any(state.dim() != input.dim() for state in self._states(hx)):
            kind = "unbatched 2-D" if input.dim() == 2 else "batched 3-D"
            given = ", ".join(str(list(state.shape)) for state in self._states(hx))
            raise ShapeError(type(self).__name__, f"input of shape {list(input.shape)}, state {given}", f"For {kind} "
                             f"input, hx should also be {input.dim()}-D", "add or remove the dimension of examples")

    def _each(self, hx: Any, change: Any) -> Any:
        if hx is None:
            return None
        return tuple(change(state) for state in hx) if isinstance(hx, tuple) else change(hx)

    def extra_repr(self) -> str:
        """Return the sizes and the options that differ from their defaults."""
        optional = (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                    ("bidirectional", False))
        shown = [f"{name}={getattr(self, name)}" for name, default in optional if getattr(self, name) != default]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *shown])


class RNN(RNNBase):
    """Layers of ``RNNCell`` over time (Elman, 1990): ``tanh`` or, as ``nonlinearity``, ``relu``.

    Arguments are those of ``RNNBase`` without ``mode``; ``nonlinearity`` is the fourth.

    Raises:
        ArgumentError: The nonlinearity is unknown, or an argument out of its range.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError("RNN", f"nonlinearity={nonlinearity!r}", "a nonlinearity is 'tanh' or 'relu'",
                                "pass one of the two")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Layers of ``GRUCell`` over time (Cho et al., 2014); arguments as for ``RNNBase`` without ``mode``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Layers of ``LSTMCell`` over time (Hochreiter and Schmidhuber, 1997).

    Arguments are those of ``RNNBase`` without ``mode``. States are pairs of outputs and cell states.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the expected shape of the initial cell states."""
        return self._state_shape(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check both parts of the state as ``RNNBase`` does."""
        self.check_input(input, batch_sizes)
        expected = (self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes))
        for part, (state, shape) in enumerate(zip(hidden, expected, strict=True)):
            self.check_hidden_size(state, shape, f"Expected hidden[{part}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Permute the examples of states."""
        return hx if permutation is None else tuple(state.index_select(1, permutation) for state in hx)

    def _states(self, hx: Any) -> tuple[Tensor, ...]:
        return tuple(hx)

    def _first(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        zeros = input.new_zeros(self.get_expected_hidden_size(input, batch_sizes))
        if not self.proj_size:
            return zeros, zeros
        return zeros, input.new_zeros(self.get_expected_cell_size(input, batch_sizes))


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
