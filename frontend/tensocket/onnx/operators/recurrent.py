"""Recurrent layers: RNN, GRU and LSTM, with any activations, peepholes, limits, lengths and directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensocket as torch
from tensocket.errors import ArgumentError
from tensocket.nn import functional as F

from .table import operator, results
from .values import floats, text

#: Functions of the attribute ``activations`` by name in lower case; alpha and beta are their parameters.
_ACTIVATIONS: Final[dict[str, Callable[[Any, float, float], Any]]] = {
    "relu": lambda x, a, b: torch.relu(x),
    "tanh": lambda x, a, b: torch.tanh(x),
    "sigmoid": lambda x, a, b: torch.sigmoid(x),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: F.leaky_relu(x, a),
    "thresholdedrelu": lambda x, a, b: torch.where(x > a, x, torch.zeros_like(x)),
    "scaledtanh": lambda x, a, b: a * torch.tanh(b * x),
    "hardsigmoid": lambda x, a, b: torch.clamp(a * x + b, 0, 1),
    "elu": lambda x, a, b: F.elu(x, a),
    "softsign": lambda x, a, b: F.softsign(x),
    "softplus": lambda x, a, b: F.softplus(x),
}
#: Defaults of alpha and beta.
_DEFAULTS: Final = {"leakyrelu": (0.01, 0.0), "thresholdedrelu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5),
                    "affine": (1.0, 0.0), "scaledtanh": (1.0, 1.0), "elu": (1.0, 0.0)}
#: Takes what the inputs give all gates at a step, and the state; returns the new state.
Step = Callable[[Any, list[Any]], list[Any]]


def _functions(names: Any, default: list[str], directions: int, alphas: Any, betas: Any,
               limit: float | None) -> list[list[Callable[[Any], Any]]]:
    """Return the activations of each direction."""
    words = [text(n).lower() for n in (names or default * directions)]
    left = (floats(alphas) or [], floats(betas) or [])
    made = []
    for word in words:
        if word not in _ACTIVATIONS:
            raise ArgumentError("RNN", f"the activation {word!r}", "activations are those of ONNX's recurrent layers",
                                f"use one of {', '.join(_ACTIVATIONS)}")
        first, second = _DEFAULTS.get(word, (0.0, 0.0))
        if word in _DEFAULTS:
            first = left[0].pop(0) if left[0] else first
            second = left[1].pop(0) if left[1] and word in ("affine", "scaledtanh", "hardsigmoid") else second
        made.append(_limited(_ACTIVATIONS[word], first, second, limit))
    size = len(default)
    return [made[k * size:(k + 1) * size] for k in range(directions)]


def _limited(function: Callable[[Any, float, float], Any], alpha: float, beta: float,
             limit: float | None) -> Callable[[Any], Any]:
    if limit is None:
        return lambda x: function(x, alpha, beta)
    return lambda x: function(x.clamp(-limit, limit), alpha, beta)


def _walk(inputs: Any, states: list[Any], step: Step, lengths: Any, reverse: bool) -> tuple[Any, list[Any]]:
    """Return the first state after each step, and all states after the last; steps beyond a length change nothing."""
    count = inputs.shape[0]
    outputs: list[Any] = [None] * count
    for t in reversed(range(count)) if reverse else range(count):
        new = step(inputs[t], states)
        if lengths is not None:
            active = (t < lengths).reshape(-1, 1)
            outputs[t] = torch.where(active, new[0], torch.zeros_like(new[0]))
            states = [torch.where(active, n, s) for n, s in zip(new, states, strict=True)]
        else:
            outputs[t], states = new[0], new
    return torch.stack(outputs), states


def _layer(x: Any, w: Any, r: Any, b: Any, sequence_lens: Any, initial: list[Any], direction: str, hidden: int,
           layout: int, make: Callable[[int, Any, Any], tuple[Any, Any, Step]], outputs: int) -> Any:
    """Run all directions; ``make`` returns weight and bias of the inputs, and the step of a direction."""
    x = x.transpose(0, 1) if layout else x
    initial = [s.transpose(0, 1) if layout and s is not None else s for s in initial]
    directions, size = r.shape[0], r.shape[2]
    found = []
    for d in range(directions):
        bias = torch.zeros(2 * r.shape[1], dtype=x.dtype, device=x.device) if b is None else b[d]
        weight, shift, step = make(d, bias[:r.shape[1]], bias[r.shape[1]:])
        states = [torch.zeros(x.shape[1], size, dtype=x.dtype, device=x.device) if s is None else s[d]
                  for s in initial]
        reverse = text(direction) == "reverse" or d == 1
        found.append(_walk(x @ weight.t() + shift, states, step, sequence_lens, reverse))
    y = torch.stack([each for each, _ in found], 1)
    last = [torch.stack([states[k] for _, states in found]) for k in range(len(initial))]
    if layout:
        y, last = y.permute(2, 0, 1, 3), [s.transpose(0, 1) for s in last]
    return results([y, *last], outputs)


@operator("RNN", counts=True)
def rnn(x: Any, w: Any, r: Any, b: Any = None, sequence_lens: Any = None, initial_h: Any = None,
        activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
        direction: str = "forward", hidden_size: int = 0, layout: int = 0, output_sequence: int = 0,
        outputs: int = 1) -> Any:
    """Return the states of a simple recurrent layer, and the last one: h = f(x W + h R + b)."""
    functions = _functions(activations, ["Tanh"], r.shape[0], activation_alpha, activation_beta, clip)

    def make(d: int, own: Any, recurrent: Any) -> tuple[Any, Any, Step]:
        return w[d], own + recurrent, lambda given, states: [functions[d][0](given + states[0] @ r[d].t())]

    return _layer(x, w, r, b, sequence_lens, [initial_h], direction, hidden_size, layout, make, outputs)


@operator("GRU", counts=True)
def gru(x: Any, w: Any, r: Any, b: Any = None, sequence_lens: Any = None, initial_h: Any = None,
        activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
        direction: str = "forward", hidden_size: int = 0, layout: int = 0, linear_before_reset: int = 0,
        output_sequence: int = 0, outputs: int = 1) -> Any:
    """Return the states of a gated recurrent layer (Cho et al., 2014), and the last one."""
    functions = _functions(activations, ["Sigmoid", "Tanh"], r.shape[0], activation_alpha, activation_beta, clip)
    n = r.shape[2]

    def make(d: int, own: Any, recurrent: Any) -> tuple[Any, Any, Step]:
        gate, candidate = functions[d]

        def step(given: Any, states: list[Any]) -> list[Any]:
            h = states[0]
            z, reset = gate(given[:, :2 * n] + h @ r[d, :2 * n].t() + recurrent[:2 * n]).split(n, 1)
            if linear_before_reset:
                inner = reset * (h @ r[d, 2 * n:].t() + recurrent[2 * n:])
            else:
                inner = (reset * h) @ r[d, 2 * n:].t() + recurrent[2 * n:]
            return [(1 - z) * candidate(given[:, 2 * n:] + inner) + z * h]

        return w[d], own, step

    return _layer(x, w, r, b, sequence_lens, [initial_h], direction, hidden_size, layout, make, outputs)


@operator("LSTM", counts=True)
def lstm(x: Any, w: Any, r: Any, b: Any = None, sequence_lens: Any = None, initial_h: Any = None,
         initial_c: Any = None, p: Any = None, activation_alpha: Any = None, activation_beta: Any = None,
         activations: Any = None, clip: float | None = None, direction: str = "forward", hidden_size: int = 0,
         input_forget: int = 0, layout: int = 0, output_sequence: int = 0, outputs: int = 1) -> Any:
    """Return the states of a long short-term memory (Hochreiter and Schmidhuber, 1997), the last one and its cells."""
    functions = _functions(activations, ["Sigmoid", "Tanh", "Tanh"], r.shape[0], activation_alpha, activation_beta,
                           clip)
    n = r.shape[2]

    def make(d: int, own: Any, recurrent: Any) -> tuple[Any, Any, Step]:
        gate, candidate, output = functions[d]
        peephole = (0, 0, 0) if p is None else p[d].split(n)

        def step(given: Any, states: list[Any]) -> list[Any]:
            h, c = states
            i, o, f, g = (given + h @ r[d].t()).split(n, 1)
            i = gate(i + peephole[0] * c)
            f = 1 - i if input_forget else gate(f + peephole[2] * c)
            c = f * c + i * candidate(g)
            return [gate(o + peephole[1] * c) * output(c), c]

        return w[d], own + recurrent, step

    return _layer(x, w, r, b, sequence_lens, [initial_h, initial_c], direction, hidden_size, layout, make, outputs)
