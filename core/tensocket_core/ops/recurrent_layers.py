"""Recurrent layers in one direction, with gradients that go back through time by hand.

Of all: ``input`` is [T, N, I] and ``w_ih`` its weight, [gates * H, I]; without a weight it is what such a product made,
``inputs`` [T, N, gates * H]. Outputs are [T, N, H]. The gradients are of Hochreiter and Schmidhuber (1997) and of Cho
et al. (2014) by the chain rule. Everything that does not depend on later moments is computed for all moments at once;
what is left for each is one product with ``w_hh``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_plugins.contract.dtypes import float32

from .. import tensors
from .._generated import functions
from ..autograd.derivative import Derivative
from ..device import DeviceEntry
from ..dispatch.call import call
from ..dispatch.composite import composite
from ..dispatch.keys import AUTOGRAD, DTYPE_MASK, DTYPE_OF, dtype_bit
from ..dispatch.modes import STATE, thread_state
from ..dispatch.operator import Direct
from ..dispatch.registry import COMPOSITES
from ..execute.primitive import tracked

#: Sums of inputs and states that a cell makes of each unit, and values of each that a kernel saves for the way back.
_GATES: Final = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_SAVED: Final = {"lstm": 4, "gru": 4, "rnn_tanh": 0, "rnn_relu": 0}

#: For so few examples, a kernel that arranges a weight of more elements than this is slower than plain products.
_FEW: Final = 2
_LARGE: Final = 1 << 17
#: Examples from which, and elements of both weights up to which, a kernel multiplies inputs itself: it reads its
#: weights anew at every moment. Of fewer elements, this costs less than another call.
_SEVERAL: Final = 4
_CACHED: Final = 1 << 18
_TINY: Final = 1 << 14

#: What all layers take first.
_SOURCE: Final = "Tensor input, Tensor? w_ih, Tensor? b_ih, Tensor hx"


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
             b_hh: Any, reverse: bool) -> tuple[Any, ...]:
    """All states, stacked."""
    states = []
    moments = inputs.unbind(0)
    for moment in reversed(moments) if reverse else moments:
        state = step(moment, functions.linear(state[0], w_hh, b_hh), state)
        states.append(state)
    return tuple(functions.stack(part[::-1] if reverse else part) for part in zip(*states, strict=True))


def _projected(input: Any, w_ih: Any, b_ih: Any) -> Any:
    """Inputs times their weight."""
    return input if w_ih is None else functions.linear(input, w_ih, b_ih)


def _before(first: Any, states: Any, reverse: bool) -> Any:
    """The states before each moment."""
    return functions.cat([states[1:], first.unsqueeze(0)] if reverse else [first.unsqueeze(0), states[:-1]])


def _backwards(values: Any, reverse: bool) -> Any:
    """Pairs of a moment's number and a value, in the order of the way back."""
    pairs = list(enumerate(values))
    return pairs if reverse else reversed(pairs)


def _slope(gate: Any) -> Any:
    """The derivative of a sigmoid, from its value."""
    return gate * (1 - gate)


def _moments(grad: Any, count: int) -> tuple[Any, ...]:
    return (None,) * count if grad is None else grad.unbind(0)


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _lstm_gradients(grads: Any, inputs: Any, hx: Any, cx: Any, w_hh: Any, b_hh: Any, outputs: Any,
                    cells: Any, reverse: bool) -> tuple[Any, ...]:
    """Of inputs, hidden sums, first output and first cell state."""
    count = outputs.shape[0]
    before, before_cells = _before(hx, outputs, reverse), _before(cx, cells, reverse)
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
    """Gradients of outputs, hidden sums and the first state of a layer without cells.

    Args:
        grad: Gradient of the outputs.
        factors: What an output's gradient is multiplied by for those of its hidden gates, [T, N, gates * H].
        carry: What it is multiplied by for the state before, directly; None for nothing.
        w_hh: The weight of states.
        reverse: Whether the layer walks from the end.
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


def _gru_gradients(grad: Any, inputs: Any, hx: Any, w_hh: Any, b_hh: Any, outputs: Any,
                   reverse: bool) -> tuple[Any, ...]:
    """Of inputs, hidden sums and first output."""
    before = _before(hx, outputs, reverse)
    (r, z, n), (rh, zh, nh) = inputs.chunk(3, -1), functions.linear(before, w_hh, b_hh).chunk(3, -1)
    r, z = (r + rh).sigmoid(), (z + zh).sigmoid()
    n = (n + r * nh).tanh()
    to_new = (1 - z) * (1 - n * n)
    gates = to_new * nh * _slope(r), (before - n) * _slope(z)
    total, through, hidden = _simple_gradients(grad, functions.cat([*gates, to_new * r], -1), z, w_hh, reverse)
    return functions.cat([total * factor for factor in (*gates, to_new)], -1), through, hidden


def _plain_gradients(grad: Any, w_hh: Any, slope: Any, reverse: bool) -> tuple[Any, ...]:
    """Of inputs, hidden sums and first output of a layer whose output has the given slope for its gate."""
    _, through, hidden = _simple_gradients(grad, slope, None, w_hh, reverse)
    return through, through, hidden


# --------------------------------------------------------------------------------------------- devices' own kernels


def _fits(name: str, dtype: Any, input: Any, w_ih: Any, b_ih: Any, states: Sequence[Any], w_hh: Any,
          b_hh: Any) -> bool:
    """Whether tensors are a layer's, none of them empty, and there is more to do than to read a large weight."""
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


def _layer_kernel(name: str) -> Direct:
    """The shortcut to a device's own kernel for a layer."""

    def direct(key: int, entry: DeviceEntry, general: Callable[..., Any]) -> Callable[..., Any] | None:
        dtype = DTYPE_OF.get(key & DTYPE_MASK)
        kernel = None if dtype is None or key & AUTOGRAD else (
            entry.runtime.kernels.find(f"{name}_layer", dtype.name, direct=False))
        if dtype is None or kernel is None:
            return None
        run, work = tracked(kernel), dtype if dtype.itemsize >= 4 else float32
        parts, saved_parts = 2 if name == "lstm" else 1, _SAVED[name]

        def layer(input: Any, w_ih: Any, b_ih: Any, *args: Any) -> tuple[Any, ...]:
            *states, w_hh, b_hh, reverse, saving = args
            if not _fits(name, dtype, input, w_ih, b_ih, states, w_hh, b_hh):
                return general(input, w_ih, b_ih, *args)  # type: ignore[no-any-return]
            if w_ih is not None and not _folds(input, w_ih, w_hh):
                with thread_state(exclude=STATE.exclude | AUTOGRAD):
                    input, w_ih, b_ih = functions.linear(input, w_ih, b_ih), None, None
            shape = (*input.shape[:2], w_hh.shape[1])
            stream = entry.stream
            outs = [entry.runtime.empty(shape, dtype, stream) for _ in range(parts)]
            saved = None
            if saving and saved_parts:
                saved = entry.runtime.empty((*shape[:2], saved_parts * shape[2]), work, stream)
            ins = [None if x is None else x._array for x in (input, w_ih, b_ih, *states, w_hh, b_hh)]
            run([*outs, saved], ins, (reverse,), stream)
            last = input.new_empty(0) if saved is None else tensors.wrap(saved, entry.key | dtype_bit(work))
            return *[tensors.wrap(out, entry.key | dtype_bit(dtype)) for out in outs], last

        return layer

    return direct


def _gradients_kernel(name: str) -> Direct:
    """The shortcut to a device's own kernel for the way back through a layer."""

    def direct(key: int, entry: DeviceEntry, general: Callable[..., Any]) -> Callable[..., Any] | None:
        if key & AUTOGRAD:
            return None
        parts = 2 if name == "lstm" else 1

        def gradients(*args: Any) -> tuple[Any, ...]:
            given, rest = args[:parts], args[parts:]
            (input, w_ih, b_ih), states, (w_hh, b_hh) = rest[:3], rest[3:3 + parts], rest[3 + parts:5 + parts]
            outputs, saved, reverse = rest[5 + parts:5 + 2 * parts], rest[-2], rest[-1]
            dtype = input.dtype
            kernel = entry.runtime.kernels.find(f"{name}_layer_gradients", dtype.name, direct=False)
            missing = _SAVED[name] and not saved.shape[-1]
            if kernel is None or missing or not _fits(name, dtype, input, w_ih, b_ih, states, w_hh, b_hh) or any(
                    x is not None and x.dtype is not dtype for x in given):
                return general(*args)  # type: ignore[no-any-return]
            stream = entry.stream
            sums = (*input.shape[:2], w_hh.shape[0])
            shapes = [sums] * (2 if name == "gru" else 1) + [tuple(x.shape) for x in states]
            outs = [entry.runtime.empty(shape, dtype, stream) for shape in shapes]
            arrays = [None if x is None else x._array for x in (*given, *states, w_hh, *outputs)]
            tracked(kernel)(outs, [*arrays, saved._array], (reverse,), stream)
            found = [tensors.wrap(out, entry.key | dtype_bit(dtype)) for out in outs]
            return tuple(found) if name == "gru" else (found[0], *found)

        return gradients

    return direct


def _all_gradients(name: str, given: tuple[Any, ...], source: tuple[Any, Any, Any], states: tuple[Any, ...], w_hh: Any,
                   b_hh: Any, results: tuple[Any, ...], reverse: bool, wanted: Any) -> tuple[Any, ...]:
    """Gradients of all of a layer's arguments; ``source`` are inputs, their weight and their bias."""
    changes, through, *firsts = call(COMPOSITES[f"{name}_layer_gradients"], *given[:-1], *source, *states, w_hh, b_hh,
                                     *results, reverse)
    input, w_ih, b_ih = source
    rows = through.flatten(0, 1)
    before = _before(states[0], results[0], reverse)
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
    """The derivative of a layer without cell states."""
    return Derivative(
        lambda grads, input, w_ih, b_ih, hx, w_hh, b_hh, result0, result1, reverse, wanted: _all_gradients(
            name, grads, (input, w_ih, b_ih), (hx,), w_hh, b_hh, (result0, result1), reverse, wanted))


# ------------------------------------------------------------------------------------------------------- operators


@composite(
    f"lstm_layer_gradients(Tensor? grad, Tensor? grad_cells, {_SOURCE}, Tensor cx, Tensor w_hh, Tensor? b_hh, "
    "Tensor outputs, Tensor cells, Tensor saved, bool reverse) -> (Tensor, Tensor, Tensor, Tensor)",
    method=False, function=False, direct=_gradients_kernel("lstm"))
def lstm_layer_gradients(grad: Any, grad_cells: Any, input: Any, w_ih: Any, b_ih: Any, hx: Any, cx: Any, w_hh: Any,
                         b_hh: Any, outputs: Any, cells: Any, saved: Any, reverse: bool) -> Any:
    """Gradients of a layer's inputs, of its hidden sums, of its first output and cell state."""
    inputs = _projected(input, w_ih, b_ih)
    return _lstm_gradients((grad, grad_cells), inputs, hx, cx, w_hh, b_hh, outputs, cells, reverse)


@composite(
    f"gru_layer_gradients(Tensor grad, {_SOURCE}, Tensor w_hh, Tensor? b_hh, Tensor outputs, "
    "Tensor saved, bool reverse) -> (Tensor, Tensor, Tensor)",
    method=False, function=False, direct=_gradients_kernel("gru"))
def gru_layer_gradients(grad: Any, input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any,
                        outputs: Any, saved: Any, reverse: bool) -> Any:
    """Gradients of a layer's inputs, of its hidden sums and of its first output."""
    return _gru_gradients(grad, _projected(input, w_ih, b_ih), hx, w_hh, b_hh, outputs, reverse)


@composite(
    f"rnn_tanh_layer_gradients(Tensor grad, {_SOURCE}, Tensor w_hh, Tensor? b_hh, Tensor outputs, "
    "Tensor saved, bool reverse) -> (Tensor, Tensor, Tensor)",
    method=False, function=False, direct=_gradients_kernel("rnn_tanh"))
def rnn_tanh_layer_gradients(grad: Any, input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any,
                             outputs: Any, saved: Any, reverse: bool) -> Any:
    """Gradients of a layer's inputs, of its hidden sums and of its first output."""
    return _plain_gradients(grad, w_hh, 1 - outputs * outputs, reverse)


@composite(
    f"rnn_relu_layer_gradients(Tensor grad, {_SOURCE}, Tensor w_hh, Tensor? b_hh, Tensor outputs, "
    "Tensor saved, bool reverse) -> (Tensor, Tensor, Tensor)",
    method=False, function=False, direct=_gradients_kernel("rnn_relu"))
def rnn_relu_layer_gradients(grad: Any, input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any,
                             outputs: Any, saved: Any, reverse: bool) -> Any:
    """Gradients of a layer's inputs, of its hidden sums and of its first output."""
    return _plain_gradients(grad, w_hh, (outputs > 0).to(outputs.dtype), reverse)


@composite(
    f"lstm_layer({_SOURCE}, Tensor cx, Tensor w_hh, Tensor? b_hh, bool reverse, bool saving) -> "
    "(Tensor, Tensor, Tensor)", method=False, function=False, direct=_layer_kernel("lstm"),
    derivative=Derivative(
        lambda grads, input, w_ih, b_ih, hx, cx, w_hh, b_hh, result0, result1, result2, reverse, wanted:
        _all_gradients("lstm", grads, (input, w_ih, b_ih), (hx, cx), w_hh, b_hh, (result0, result1, result2), reverse,
                       wanted)),
)
def lstm_layer(input: Any, w_ih: Any, b_ih: Any, hx: Any, cx: Any, w_hh: Any, b_hh: Any, reverse: bool,
               saving: bool) -> Any:
    """Outputs and cell states of a layer of ``lstm_cell`` over time, and what its gradients may need.

    Args:
        input: [T, N, I], or [T, N, 4 * H] without a weight.
        w_ih: [4 * H, I].
        b_ih: [4 * H].
        hx: First output, [N, H].
        cx: First cell state, [N, H].
        w_hh: [4 * H, H].
        b_hh: [4 * H].
        reverse: Whether it walks from the end.
        saving: Whether there will be gradients; what is saved may be empty without, and with.
    """
    return *_outputs(lstm_step, _projected(input, w_ih, b_ih), (hx, cx), w_hh, b_hh, reverse), input.new_empty(0)


@composite(
    f"gru_layer({_SOURCE}, Tensor w_hh, Tensor? b_hh, bool reverse, bool saving) -> (Tensor, Tensor)",
    method=False, function=False, direct=_layer_kernel("gru"), derivative=_derivative("gru"))
def gru_layer(input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any, reverse: bool, saving: bool) -> Any:
    """Outputs of a layer of ``gru_cell`` over time, and what its gradients may need."""
    return *_outputs(gru_step, _projected(input, w_ih, b_ih), (hx,), w_hh, b_hh, reverse), input.new_empty(0)


@composite(
    f"rnn_tanh_layer({_SOURCE}, Tensor w_hh, Tensor? b_hh, bool reverse, bool saving) -> (Tensor, Tensor)",
    method=False, function=False, direct=_layer_kernel("rnn_tanh"), derivative=_derivative("rnn_tanh"))
def rnn_tanh_layer(input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any, reverse: bool, saving: bool) -> Any:
    """Outputs of a layer of ``rnn_tanh_cell`` over time; the second result is empty."""
    return *_outputs(tanh_step, _projected(input, w_ih, b_ih), (hx,), w_hh, b_hh, reverse), input.new_empty(0)


@composite(
    f"rnn_relu_layer({_SOURCE}, Tensor w_hh, Tensor? b_hh, bool reverse, bool saving) -> (Tensor, Tensor)",
    method=False, function=False, direct=_layer_kernel("rnn_relu"), derivative=_derivative("rnn_relu"))
def rnn_relu_layer(input: Any, w_ih: Any, b_ih: Any, hx: Any, w_hh: Any, b_hh: Any, reverse: bool, saving: bool) -> Any:
    """Outputs of a layer of ``rnn_relu_cell`` over time; the second result is empty."""
    return *_outputs(relu_step, _projected(input, w_ih, b_ih), (hx,), w_hh, b_hh, reverse), input.new_empty(0)
