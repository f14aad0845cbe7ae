"""Recurrent networks against step-by-step computations in NumPy."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ArgumentTypeError, ShapeError
from tensocket.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

RNG = np.random.default_rng(9)
STEPS = RNG.normal(size=(5, 3, 4))
LENGTHS = [3, 5, 1]


def t(values):
    return torch.tensor(values)


def close(result, expected):
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-9, atol=1e-11)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(inputs, hidden, state):
    i, f, g, o = np.split(inputs + hidden, 4, -1)
    cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def gru(inputs, hidden, state):
    (r, z, n), (rh, zh, nh) = np.split(inputs, 3, -1), np.split(hidden, 3, -1)
    z = sigmoid(z + zh)
    return ((1 - z) * np.tanh(n + sigmoid(r + rh) * nh) + z * state[0],)


CELLS = {"LSTM": lstm, "GRU": gru, "RNN": lambda i, h, s: (np.tanh(i + h),)}


def direction(cell, x, weights, suffix, state, reverse):
    """Outputs over x (T, I) of one example, and its last state."""
    names = {name: weights.get(f"{name}_{suffix}") for name in
             ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")}
    bias = [0 if names[f"bias_{k}"] is None else names[f"bias_{k}"] for k in ("ih", "hh")]
    outputs = []
    for moment in x[::-1] if reverse else x:
        state = cell(names["weight_ih"] @ moment + bias[0], names["weight_hh"] @ state[0] + bias[1], state)
        if names["weight_hr"] is not None:
            state = (names["weight_hr"] @ state[0], *state[1:])
        outputs.append(state[0])
    return np.stack(outputs[::-1] if reverse else outputs), state


def network(layer, x, first=None):
    """Outputs of a layer over x (T, I) of one example, and its last states (layers * directions, size)."""
    weights = {name: value.detach().numpy() for name, value in layer.state_dict().items()}
    directions = 2 if layer.bidirectional else 1
    sizes = [layer.proj_size or layer.hidden_size, layer.hidden_size][:2 if layer.mode == "LSTM" else 1]
    finals = []
    for number in range(layer.num_layers):
        outputs = []
        for way in range(directions):
            place = number * directions + way
            state = tuple(np.zeros(size) for size in sizes) if first is None else tuple(x[place] for x in first)
            output, final = direction(CELLS[layer.mode[:4].rstrip("_")], x, weights, f"l{number}" + "_reverse" * way,
                                      state, way == 1)
            outputs.append(output)
            finals.append(final)
        x = np.concatenate(outputs, -1)
    return x, [np.stack(part) for part in zip(*finals, strict=True)]


def states(hidden):
    return hidden if isinstance(hidden, tuple) else (hidden,)


OPTIONS = [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "num_layers": 2}]
LAYERS = [(name, options) for name in CELLS for options in OPTIONS]
LAYERS += [("LSTM", {"proj_size": 2}), ("LSTM", {"proj_size": 2, "bidirectional": True, "num_layers": 2})]


@pytest.mark.parametrize(("name", "options"), LAYERS)
def test_layers_over_time(name, options):
    layer = getattr(nn, name)(4, 3, dtype=torch.float64, **options)
    output, hidden = layer(t(STEPS))
    for example in range(3):
        expected, last = network(layer, STEPS[:, example])
        close(output[:, example], expected)
        for state, end in zip(states(hidden), last, strict=True):
            close(state[:, example], end)
    alone, end = layer(t(STEPS[:, 1]))
    close(alone, output[:, 1].detach().numpy())
    close(states(end)[0], states(hidden)[0][:, 1].detach().numpy())


@pytest.mark.parametrize(("name", "options"), LAYERS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences_are_computed_one_by_one(name, options, batch_first):
    layer = getattr(nn, name)(4, 3, dtype=torch.float64, batch_first=batch_first, **options)
    given = t(STEPS.swapaxes(0, 1).copy() if batch_first else STEPS)
    packed = pack_padded_sequence(given, LENGTHS, batch_first, enforce_sorted=False)
    output, hidden = layer(packed)
    assert isinstance(output, PackedSequence)
    padded, lengths = pad_packed_sequence(output, batch_first)
    assert lengths.tolist() == LENGTHS
    for example, length in enumerate(LENGTHS):
        expected, last = network(layer, STEPS[:length, example])
        row = padded[example] if batch_first else padded[:, example]
        close(row[:length], expected)
        assert not row[length:].any()
        for state, end in zip(states(hidden), last, strict=True):
            close(state[:, example], end)


@pytest.mark.parametrize("name", CELLS)
def test_first_states_belong_to_their_examples(name):
    layer = getattr(nn, name)(4, 3, dtype=torch.float64, bidirectional=True)
    first = [RNG.normal(size=(2, 3, 3)) for _ in range(2 if name == "LSTM" else 1)]
    given = tuple(map(t, first)) if name == "LSTM" else t(first[0])
    packed = pack_padded_sequence(t(STEPS), LENGTHS, enforce_sorted=False)
    for input, lengths in ((packed, LENGTHS), (t(STEPS), [5] * 3)):
        hidden = layer(input, given)[1]
        for example, length in enumerate(lengths):
            last = network(layer, STEPS[:length, example], [x[:, example] for x in first])[1]
            for state, end in zip(states(hidden), last, strict=True):
                close(state[:, example], end)


def test_gradients_of_packed_sequences():
    layer = nn.GRU(4, 3, dtype=torch.float64, bidirectional=True)
    rows = [t(STEPS[:length, k]).requires_grad_(True) for k, length in enumerate(LENGTHS)]
    output, hidden = layer(pack_sequence(rows, enforce_sorted=False))
    ((output.data ** 2).sum() + hidden.sum()).backward()
    found = [row.grad.numpy() for row in rows] + [p.grad.numpy() for p in layer.parameters()]
    layer.zero_grad()
    for row in rows:
        row.grad = None
        single, last = layer(row)
        ((single ** 2).sum() + last.sum()).backward()
    expected = [row.grad.numpy() for row in rows] + [p.grad.numpy() for p in layer.parameters()]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_dropout_between_layers():
    torch.manual_seed(0)
    layer = nn.RNN(4, 50, 2, dropout=1.0, dtype=torch.float64)
    assert layer(t(STEPS))[1][0].any()
    bias = (layer.bias_ih_l1 + layer.bias_hh_l1).detach().numpy()
    # The second layer sees zeros only.
    close(layer(t(STEPS))[0][0], np.broadcast_to(np.tanh(bias), (3, 50)))
    close(layer.eval()(t(STEPS))[0][:, 0], network(layer, STEPS[:, 0])[0])
    with pytest.warns(UserWarning, match=r"dropout=0.5 has no effect: it is between layers, and num_layers=1"):
        nn.LSTM(2, 3, dropout=0.5)


def test_rectified_networks():
    layer = nn.RNN(4, 3, nonlinearity="relu", dtype=torch.float64)
    assert (layer.mode, layer.nonlinearity) == ("RNN_RELU", "relu")
    assert nn.RNN(4, 3, 2, "relu", False).mode == "RNN_RELU"
    weights = [p.detach().numpy() for p in layer.parameters()]
    state = np.zeros(3)
    for moment in STEPS[:, 0]:
        state = np.maximum(weights[0] @ moment + weights[2] + weights[1] @ state + weights[3], 0)
    close(layer(t(STEPS))[1][0, 0], state)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("bias", [True, False])
def test_cells(name, bias):
    cell = getattr(nn, f"{name}Cell")(4, 3, bias=bias, dtype=torch.float64)
    weights = {key: value.numpy() for key, value in cell.state_dict().items()}
    first = [RNG.normal(size=(3, 3)) for _ in range(2 if name == "LSTM" else 1)]
    given = tuple(map(t, first)) if name == "LSTM" else t(first[0])
    inputs = STEPS[0] @ weights["weight_ih"].T + (weights["bias_ih"] if bias else 0)
    for state, start in ((first, given), ([x * 0 for x in first], None)):
        hidden = state[0] @ weights["weight_hh"].T + (weights["bias_hh"] if bias else 0)
        expected = CELLS[name](inputs, hidden, state)
        for result, values in zip(states(cell(t(STEPS[0]), start)), expected, strict=True):
            close(result, values)
    close(states(cell(t(STEPS[0, 0])))[0], states(cell(t(STEPS[0])))[0][0].detach().numpy())


def test_names_and_initial_values():
    torch.manual_seed(0)
    layer = nn.LSTM(3, 16, 2, bidirectional=True, proj_size=2)
    names = [f"{name}_l{k}{way}" for k in range(2) for way in ("", "_reverse")
             for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")]
    assert list(layer.state_dict()) == names
    assert [len(weights) for weights in layer.all_weights] == [5] * 4
    assert layer.weight_ih_l1.shape == (64, 4)
    assert layer.weight_hr_l0.shape == (2, 16)
    for parameter in (*layer.parameters(), *nn.GRUCell(3, 16).parameters()):
        assert parameter.abs().max().item() <= 1 / 4
    assert layer.weight_ih_l0.abs().max().item() > 0.95 / 4
    layer.flatten_parameters()


def test_copies_have_their_own_parameters():
    layer = nn.GRU(4, 3, dtype=torch.float64)
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        before = layer(t(STEPS))[0]
        with torch.no_grad():
            copied.weight_ih_l0.zero_()
        assert layer(t(STEPS))[0].equal(before)
        assert not copied(t(STEPS))[0].equal(before)
    assert layer.float()(t(STEPS).float())[0].dtype is torch.float32


def test_replaced_parameters_are_used():
    layer = nn.RNN(4, 3)
    layer.weight_ih_l0 = nn.Parameter(torch.zeros(3, 4))
    layer.weight_hh_l0 = nn.Parameter(torch.zeros(3, 3))
    expected = np.tanh((layer.bias_ih_l0 + layer.bias_hh_l0).detach().numpy())
    np.testing.assert_allclose(layer(torch.ones(1, 1, 4))[0][0, 0].detach().numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize(("layer", "text"), [
    (lambda: nn.RNN(3, 4), "RNN(3, 4)"), (lambda: nn.GRU(3, 4, 2, False), "GRU(3, 4, num_layers=2, bias=False)"),
    (lambda: nn.LSTM(3, 4, 2, batch_first=True, dropout=0.5, bidirectional=True, proj_size=2),
     "LSTM(3, 4, proj_size=2, num_layers=2, batch_first=True, dropout=0.5, bidirectional=True)"),
    (lambda: nn.RNNCell(3, 4, False, "relu"), "RNNCell(3, 4, bias=False, nonlinearity=relu)"),
    (lambda: nn.LSTMCell(3, 4), "LSTMCell(3, 4)")])
def test_printing(layer, text):
    assert repr(layer()) == text


@pytest.mark.parametrize(("make", "kind", "rule"), [
    (lambda: nn.RNN(3, 4, nonlinearity="sin"), ArgumentError, "a nonlinearity is 'tanh' or 'relu'"),
    (lambda: nn.RNNBase("QRNN", 3, 4), ArgumentError, "mode is one of LSTM, GRU, RNN_TANH, RNN_RELU"),
    (lambda: nn.GRU(3, 4, dropout=1.5), ArgumentError, r"dropout should be a number in range \[0, 1\]"),
    (lambda: nn.GRU(3, 4.0), ArgumentTypeError, "hidden_size should be of type int"),
    (lambda: nn.GRU(3, 0), ArgumentError, "hidden_size must be greater than zero"),
    (lambda: nn.GRU(3, 4, 0), ArgumentError, "num_layers must be greater than zero"),
    (lambda: nn.LSTM(3, 4, proj_size=4), ArgumentError,
     "proj_size has to be smaller than hidden_size, and not negative"),
    (lambda: nn.GRU(3, 4, proj_size=2), ArgumentError, "proj_size argument is only supported for LSTM"),
    (lambda: nn.RNNCell(3, 4, True, "sin")(torch.ones(3)), ArgumentError,
     "the nonlinearity of a cell is 'tanh' or 'relu'"),
])
def test_arguments(make, kind, rule):
    with pytest.raises(kind, match=rule):
        make()


@pytest.mark.parametrize(("call", "rule"), [
    (lambda: nn.LSTM(3, 4)(torch.ones(2, 2, 2, 3)), "Expected input to be 2D or 3D"),
    (lambda: nn.GRU(3, 4)(torch.ones(2, 2, 5)), r"input.size\(-1\) must be equal to input_size"),
    (lambda: nn.GRU(3, 4)(torch.ones(2, 2, 3), torch.ones(1, 3, 4)),
     r"Expected hidden size \(1, 2, 4\), got \[1, 3, 4\] — states are for each layer and direction, and each example"),
    (lambda: nn.LSTM(3, 4)(torch.ones(2, 2, 3), (torch.ones(1, 2, 4), torch.ones(1, 3, 4))),
     r"Expected hidden\[1\] size \(1, 2, 4\), got \[1, 3, 4\]"),
    (lambda: nn.GRU(3, 4)(torch.ones(2, 3), torch.ones(1, 1, 4)), "For unbatched 2-D input, hx should also be 2-D"),
    (lambda: nn.LSTM(3, 4)(torch.ones(2, 2, 3), (torch.ones(1, 4),) * 2),
     "For batched 3-D input, hx should also be 3-D"),
    (lambda: nn.GRU(3, 4)(PackedSequence(torch.ones(2, 2, 3), torch.tensor([2]))), "input must have 2 dimensions"),
    (lambda: nn.GRU(3, 4)(PackedSequence(torch.ones(5, 3), torch.tensor([2, 1]))),
     "packed sequences [elements, I] have as many elements as their batch sizes say, and states "
     "[layers * directions, N, H]".replace("[", r"\[").replace("*", r"\*")),
    (lambda: nn.RNNCell(3, 4)(torch.ones(2, 2, 3)), "Expected input to be 1D or 2D"),
    (lambda: nn.GRUCell(3, 4)(torch.ones(2, 3), torch.ones(2, 2, 4)), "Expected hidden to be 1D or 2D"),
    (lambda: nn.LSTMCell(3, 4)(torch.ones(2, 5)), "input has inconsistent input_size"),
])
def test_shapes(call, rule):
    with pytest.raises(ShapeError, match=rule):
        call()


def test_a_network_learns_a_sequence():
    torch.manual_seed(0)
    model, head = nn.LSTM(1, 12, batch_first=True), nn.Linear(12, 1)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], 0.03)
    wave = torch.tensor(np.sin(np.arange(41) * 2 * math.pi / 10), dtype=torch.float32).reshape(1, 41, 1)
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(head(model(wave[:, :-1])[0]), wave[:, 1:])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_no_examples(kind):
    layer, inputs = kind(3, 4), torch.ones(2, 0, 3, requires_grad=True)
    output, _ = layer(inputs)
    output.sum().backward()
    assert output.shape == (2, 0, 4)
    assert inputs.grad.shape == (2, 0, 3)
    assert layer.weight_hh_l0.grad.abs().sum() == 0


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_last_states_have_memory_of_their_own(layer):
    outputs, last = layer(3, 4)(torch.ones(2, 1, 3))
    before = outputs.detach().clone()
    hidden = last[0] if layer is nn.LSTM else last
    hidden.detach().zero_()
    assert torch.equal(outputs, before)
