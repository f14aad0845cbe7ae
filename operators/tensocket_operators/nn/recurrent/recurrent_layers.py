"""Recurrent layers in one direction, with handwritten backpropagation through time.

In all layers, ``input`` is [T, N, I] and ``w_ih`` its weight, [gates * H, I]; without a weight, ``input`` is that
product, ``inputs`` [T, N, gates * H]. Outputs are [T, N, H].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.operator import HostPath
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import AUTOGRAD, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch.primitives import tracked
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import float32

from ...kinds.composite import composite
from ...kinds.private import private
from .recurrent_gradients import gru_gradients, lstm_gradients, plain_gradients, states_before

#: Sums of inputs and states that a cell computes per unit, and values per unit that a kernel saves for its gradients.
_GATES: Final = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_SAVED: Final = {"lstm": 4, "gru": 4, "rnn_tanh": 0, "rnn_relu": 0}

#: For at most this many examples, a kernel that packs a weight of more elements than this is slower than products.
_FEW: Final = 2
_LARGE: Final = 1 << 17
#: Examples from which on, and elements of both weights up to which, a kernel multiplies inputs itself: it reads its
#: weights again at every time. Below the last number of elements, this always costs less than another call.
_SEVERAL: Final = 4
_CACHED: Final = 1 << 18
_TINY: Final = 1 << 14

#: The first parameters of every layer.
_SOURCE: Final = "Tensor input, Tensor? w_ih, Tensor? b_ih, Tensor hx"


def _gates(values: Any, count: int) -> tuple[Any, ...]:
    """Return equal parts along the last dimension; cheaper than chunk()."""
    shape = values.shape
    parts: tuple[Any, ...] = values.reshape((*shape[:-1], count, shape[-1] // count)).unbind(-2)
    return parts


def lstm_step(inputs: Any, hidden: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return new output and cell state; the gates are input, forget, cell and output."""
    i, f, g, o = _gates(inputs + hidden, 4)
    cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """Return the new output; the gates are reset, update and new."""
    (reset, update, new), (reset_h, update_h, new_h) = _gates(inputs, 3), _gates(hidden, 3)
    update = (update + update_h).sigmoid()
    new = (new + (reset + reset_h).sigmoid() * new_h).tanh()
    return (new + update * (state[0] - new),)


def tanh_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """Return the new output."""
    return ((inputs + hidden).tanh(),)


def relu_step(inputs: Any, hidden: Any, state: tuple[Any, ...]) -> tuple[Any]:
    """Return the new output."""
    return ((inputs + hidden).relu(),)


def _outputs(step: Callable[..., tuple[Any, ...]], inputs: Any, state: tuple[Any, ...], w_hh: Any,
             b_hh: Any, reverse: bool) -> tuple[Any, ...]:
    """Return all states, stacked."""
    states = []
    moments = inputs.unbind(0)
    for moment in reversed(moments) if reverse else moments:
        state = step(moment, functions.linear(state[0], w_hh, b_hh), state)
        states.append(state)
    return tuple(functions.stack(part[::-1] if reverse else part) for part in zip(*states, strict=True))


def _projected(input: Any, w_ih: Any, b_ih: Any) -> Any:
    """Return inputs times their weight."""
    return input if w_ih is None else functions.linear(input, w_ih, b_ih)


# --------------------------------------------------------------------------------------------- devices' own kernels


def _fits(name: str, dtype: Any, input: Any, w_ih: Any, b_ih: Any, states: Sequence[Any], w_hh: Any,
          b_hh: Any) -> bool:
    """Whether the tensors form a layer, none is empty, and the work exceeds the reading of a large weight."""
    shape = input.shape
    if len(shape) != 3 or 0 in shape or w_hh.ndim != 2:
        return False
    moments, count, width = shape
    rows, units = w_hh.shape
    if (moments * count <= _FEW and w_hh.numel() > _LARGE) or rows != _GATES[name] * units or not units:
        return False
    if w_ih is None:
        if width != rows:
            return False
    elif tuple(w_ih.shape) != (rows, width) or (b_ih is None) != (b_hh is None):
        return False
    for x in (input, w_ih, b_ih, *states, w_hh, b_hh):
        if x is not None and x.dtype is not dtype:
            return False
    return (all(x.shape == (count, units) for x in states)
            and all(x is None or x.shape == (rows,) for x in (b_ih, b_hh)))


def _folds(input: Any, w_ih: Any, w_hh: Any) -> bool:
    """Whether a kernel multiplies the inputs itself."""
    return bool(w_ih is not None and input.dtype.itemsize >= 4
                and w_ih.numel() + w_hh.numel() <= (_CACHED if input.shape[1] >= _SEVERAL else _TINY))


def _layer_kernel(name: str) -> HostPath:
    """Return the shortcut to a device's registered kernel for a layer."""

    def host_path(key: int, device_state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        dtype = DTYPE_OF.get(key & DTYPE_MASK)
        kernel = None if dtype is None or key & AUTOGRAD else (
            device_state.runtime.kernels.find(f"{name}_layer", dtype.name, direct=False))
        if dtype is None or kernel is None:
            return None
        run, work = tracked(kernel), dtype if dtype.itemsize >= 4 else float32
        parts, saved_parts = 2 if name == "lstm" else 1, _SAVED[name]

        def layer(input: Any, w_ih: Any, b_ih: Any, *args: Any) -> tuple[Any, ...]:
            *states, w_hh, b_hh, reverse, saving = args
            if not _fits(name, dtype, input, w_ih, b_ih, states, w_hh, b_hh):
                return next_path(input, w_ih, b_ih, *args)  # type: ignore[no-any-return]
            if w_ih is not None and not _folds(input, w_ih, w_hh):
                with thread_state(exclude=STATE.exclude | AUTOGRAD):
                    input, w_ih, b_ih = functions.linear(input, w_ih, b_ih), None, None
            shape = (*input.shape[:2], w_hh.shape[1])
            stream = device_state.stream
            outs = [device_state.runtime.empty(shape, dtype, stream) for _ in range(parts)]
            saved = None
            if saving and saved_parts:
                saved = device_state.runtime.empty((*shape[:2], saved_parts * shape[2]), work, stream)
            ins = [None if x is None else x._array for x in (input, w_ih, b_ih, *states, w_hh, b_hh)]
            run([*outs, saved], ins, (reverse,), stream)
            last = input.new_empty(0) if saved is None else wrap(saved, device_state.key | dtype_bit(work))
            return *[wrap(out, device_state.key | dtype_bit(dtype)) for out in outs], last

        return private(name, layer)

    return host_path


def _gradients_kernel(name: str) -> HostPath:
    """Return the shortcut to a device's registered kernel for the gradients of a layer."""

    def host_path(key: int, device_state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        if key & AUTOGRAD:
            return None
        parts = 2 if name == "lstm" else 1

        def gradients(*args: Any) -> tuple[Any, ...]:
            given, rest = args[:parts], args[parts:]
            (input, w_ih, b_ih), states, (w_hh, b_hh) = rest[:3], rest[3:3 + parts], rest[3 + parts:5 + parts]
            outputs, saved, reverse = rest[5 + parts:5 + 2 * parts], rest[-2], rest[-1]
            dtype = input.dtype
            kernel = device_state.runtime.kernels.find(f"{name}_layer_gradients", dtype.name, direct=False)
            missing = _SAVED[name] and not saved.shape[-1]
            if kernel is None or missing or not _fits(name, dtype, input, w_ih, b_ih, states, w_hh, b_hh) or any(
                    x is not None and x.dtype is not dtype for x in given):
                return next_path(*args)  # type: ignore[no-any-return]
            stream = device_state.stream
            sums = (*input.shape[:2], w_hh.shape[0])
            shapes = [sums] * (2 if name == "gru" else 1) + [tuple(x.shape) for x in states]
            outs = [device_state.runtime.empty(shape, dtype, stream) for shape in shapes]
            arrays = [None if x is None else x._array for x in (*given, *states, w_hh, *outputs)]
            tracked(kernel)(outs, [*arrays, saved._array], (reverse,), stream)
            found = [wrap(out, device_state.key | dtype_bit(dtype)) for out in outs]
            return tuple(found) if name == "gru" else (found[0], *found)

        return private(name, gradients)

    return host_path


def _all_gradients(name: str, given: tuple[Any, ...], source: tuple[Any, Any, Any], states: tuple[Any, ...], w_hh: Any,
                   b_hh: Any, results: tuple[Any, ...], reverse: bool, wanted: Any) -> tuple[Any, ...]:
    """Return the gradients of all of a layer's arguments; ``source`` are inputs, their weight and their bias."""
    changes, through, *firsts = call(COMPOSITES[f"{name}_layer_gradients"], *given[:-1], *source, *states, w_hh, b_hh,
                                     *results, reverse)
    input, w_ih, b_ih = source
    rows = through.flatten(0, 1)
    before = states_before(states[0], results[0], reverse)
    weight = rows.t() @ before.flatten(0, 1).to(rows.dtype)
    total = None if b_hh is None else rows.sum(0)
    if w_ih is None:
        return changes.to(input.dtype), None, None, *firsts, weight, total
    same = name != "gru"  # gradients of inputs and of hidden sums
    changed = rows if same else changes.flatten(0, 1)
    of_input = (changed @ w_ih.to(changed.dtype)).reshape(tuple(input.shape)).to(input.dtype) if wanted[0] else None
    of_weight = changed.t() @ input.flatten(0, 1).to(changed.dtype)
    of_bias = None if b_ih is None else total if same and total is not None else changed.sum(0)
    return of_input, of_weight, of_bias, *firsts, weight, total


def _derivative(name: str) -> Derivative:
    """Return the derivative of a layer without cell states."""
    return Derivative(
        lambda grads, input, w_ih, b_ih, hx, w_hh, b_hh, result0, result1, reverse, wanted: _all_gradients(
            name, grads, (input, w_ih, b_ih), (hx,), w_hh, b_hh, (result0, result1), reverse, wanted))


# ------------------------------------------------------------------------------------------------------- operators


@composite(
    f"lstm_layer_gradients(Tensor? grad, Tensor? grad_cells, {_SOURCE}, Tensor cx, Tensor w_hh, Tensor? b_hh, "
    "Tensor outputs, Tensor cells, Tensor saved, bool reverse) -> (Tensor, Tensor, Tensor, Tensor)",
    method=False, function=False, host_path=_gradients_kernel("lstm"))
def lstm_layer_gradients(grad: Any, grad_cells: Any, input: Any, w_ih: Any, b_ih: Any, hx: Any, cx: Any, w_hh: Any,
                         b_hh: Any, outputs: Any, cells: Any, saved: Any, reverse: bool) -> Any:
    """Return the gradients of a layer's inputs, hidden sums, first output and first cell state."""
    inputs = _projected(input, w_ih, b_ih)
    return lstm_gradients((grad, grad_cells), inputs, hx, cx, w_hh, b_hh, outputs, cells, reverse)


@composite(
    f"gru_layer_gradients(Tensor grad, {_SOURCE}, Tensor w_hh, Tensor? b_hh, Tensor outputs, "
    "Tensor saved, bool reverse) -> (Tensor, Tensor, Tensor)",
    method=False, function=False, host_path=_gradients_kernel("gru"))
def gru_layer_gradients(grad: Any, input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any,
                        outputs: Any, saved: Any, reverse: bool) -> Any:
    """Return the gradients of a layer's inputs, hidden sums and first output."""
    return gru_gradients(grad, _projected(input, w_ih, b_ih), hx, w_hh, b_hh, outputs, reverse)


@composite(
    f"rnn_tanh_layer_gradients(Tensor grad, {_SOURCE}, Tensor w_hh, Tensor? b_hh, Tensor outputs, "
    "Tensor saved, bool reverse) -> (Tensor, Tensor, Tensor)",
    method=False, function=False, host_path=_gradients_kernel("rnn_tanh"))
def rnn_tanh_layer_gradients(grad: Any, input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any,
                             outputs: Any, saved: Any, reverse: bool) -> Any:
    """Return the gradients of a layer's inputs, hidden sums and first output."""
    return plain_gradients(grad, w_hh, 1 - outputs * outputs, reverse)


@composite(
    f"rnn_relu_layer_gradients(Tensor grad, {_SOURCE}, Tensor w_hh, Tensor? b_hh, Tensor outputs, "
    "Tensor saved, bool reverse) -> (Tensor, Tensor, Tensor)",
    method=False, function=False, host_path=_gradients_kernel("rnn_relu"))
def rnn_relu_layer_gradients(grad: Any, input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any,
                             outputs: Any, saved: Any, reverse: bool) -> Any:
    """Return the gradients of a layer's inputs, hidden sums and first output."""
    return plain_gradients(grad, w_hh, (outputs > 0).to(outputs.dtype), reverse)


@composite(
    f"lstm_layer({_SOURCE}, Tensor cx, Tensor w_hh, Tensor? b_hh, bool reverse, bool saving) -> "
    "(Tensor, Tensor, Tensor)", method=False, function=False, host_path=_layer_kernel("lstm"),
    derivative=Derivative(
        lambda grads, input, w_ih, b_ih, hx, cx, w_hh, b_hh, result0, result1, result2, reverse, wanted:
        _all_gradients("lstm", grads, (input, w_ih, b_ih), (hx, cx), w_hh, b_hh, (result0, result1, result2), reverse,
                       wanted)),
)
def lstm_layer(input: Any, w_ih: Any, b_ih: Any, hx: Any, cx: Any, w_hh: Any, b_hh: Any, reverse: bool,
               saving: bool) -> Any:
    """Return outputs and cell states of a layer of ``lstm_cell`` over time, and saved values for its gradients.

    Args:
        input: [T, N, I], or [T, N, 4 * H] without a weight.
        w_ih: [4 * H, I].
        b_ih: [4 * H].
        hx: First output, [N, H].
        cx: First cell state, [N, H].
        w_hh: [4 * H, H].
        b_hh: [4 * H].
        reverse: Whether the layer runs from the end.
        saving: Whether gradients will follow; the saved values may be empty in either case.
    """
    return *_outputs(lstm_step, _projected(input, w_ih, b_ih), (hx, cx), w_hh, b_hh, reverse), input.new_empty(0)


@composite(
    f"gru_layer({_SOURCE}, Tensor w_hh, Tensor? b_hh, bool reverse, bool saving) -> (Tensor, Tensor)",
    method=False, function=False, host_path=_layer_kernel("gru"), derivative=_derivative("gru"))
def gru_layer(input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any, reverse: bool, saving: bool) -> Any:
    """Return the outputs of a layer of ``gru_cell`` over time, and saved values for its gradients."""
    return *_outputs(gru_step, _projected(input, w_ih, b_ih), (hx,), w_hh, b_hh, reverse), input.new_empty(0)


@composite(
    f"rnn_tanh_layer({_SOURCE}, Tensor w_hh, Tensor? b_hh, bool reverse, bool saving) -> (Tensor, Tensor)",
    method=False, function=False, host_path=_layer_kernel("rnn_tanh"), derivative=_derivative("rnn_tanh"))
def rnn_tanh_layer(input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any, reverse: bool, saving: bool) -> Any:
    """Return the outputs of a layer of ``rnn_tanh_cell`` over time; the second result is empty."""
    return *_outputs(tanh_step, _projected(input, w_ih, b_ih), (hx,), w_hh, b_hh, reverse), input.new_empty(0)


@composite(
    f"rnn_relu_layer({_SOURCE}, Tensor w_hh, Tensor? b_hh, bool reverse, bool saving) -> (Tensor, Tensor)",
    method=False, function=False, host_path=_layer_kernel("rnn_relu"), derivative=_derivative("rnn_relu"))
def rnn_relu_layer(input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any, reverse: bool, saving: bool) -> Any:
    """Return the outputs of a layer of ``rnn_relu_cell`` over time; the second result is empty."""
    return *_outputs(relu_step, _projected(input, w_ih, b_ih), (hx,), w_hh, b_hh, reverse), input.new_empty(0)
