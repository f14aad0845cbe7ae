"""Steps of optimizers, and attention with modified scores: the preview domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensocket as torch

from .table import PREVIEW, TRAINING, operator
from .values import DTYPES, text


def _each(values: Any, count: int, step: Callable[..., list[Any]]) -> Any:
    """Return the results of a step on each tensor; inputs and results are grouped by what they are."""
    size = len(values) // count
    found = [step(*values[k::size]) for k in range(size)]
    return tuple([item for column in zip(*found, strict=True) for item in column])


@operator("Adagrad", domain=TRAINING)
def adagrad(rate: Any, count: Any, *values: Any, decay_factor: float = 0.0, epsilon: float = 0.0,
            norm_coefficient: float = 0.0) -> Any:
    """Return weights and sums of squares after a step (Duchi et al., 2011)."""
    now = rate / (1 + count * decay_factor)

    def step(x: Any, grad: Any, total: Any) -> list[Any]:
        grad = norm_coefficient * x + grad
        total = total + grad * grad
        return [(x - now * grad / (torch.sqrt(total) + epsilon)).to(x.dtype), total]

    return _each(values, 3, step)


@operator("Adam", domain=TRAINING)
def adam(rate: Any, count: Any, *values: Any, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 0.0,
         norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0) -> Any:
    """Return weights and moments after a step (Kingma and Ba, 2015)."""
    correction = torch.where(count > 0, torch.sqrt(1 - beta ** count.to(rate.dtype)) / (1 - alpha ** count.to(
        rate.dtype)), torch.ones_like(rate))

    def step(x: Any, grad: Any, first: Any, second: Any) -> list[Any]:
        grad = norm_coefficient * x + grad
        first = alpha * first + (1 - alpha) * grad
        second = beta * second + (1 - beta) * grad * grad
        new = x - rate * correction * (first / (torch.sqrt(second) + epsilon))
        return [(1 - norm_coefficient_post) * new, first, second]

    return _each(values, 4, step)


@operator("Momentum", domain=TRAINING)
def momentum(rate: Any, count: Any, *values: Any, alpha: float, beta: float, mode: str,
             norm_coefficient: float) -> Any:
    """Return weights and velocities after a step, in Nesterov's form if ``mode`` asks for it."""
    share = torch.where(count > 0, torch.full_like(rate, beta), torch.ones_like(rate))

    def step(x: Any, grad: Any, velocity: Any) -> list[Any]:
        grad = norm_coefficient * x + grad
        velocity = alpha * velocity + share * grad
        return [x - rate * (grad + alpha * velocity if text(mode) == "nesterov" else velocity), velocity]

    return _each(values, 3, step)


@operator("FlexAttention", domain=PREVIEW)
def flex_attention(q: Any, k: Any, v: Any, scale: float | None = None, score_mod: Any = None, prob_mod: Any = None,
                   softmax_precision: int | None = None) -> Any:
    """Return attention whose scores and shares subgraphs modify."""
    root = (q.shape[3] ** -0.5 if scale is None else scale) ** 0.5
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q * root) @ (k * root).transpose(2, 3)
    if softmax_precision is not None:
        scores = scores.to(DTYPES[softmax_precision])
    elif scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.to(torch.float32)
    scores = scores if score_mod is None else score_mod(scores)[0]
    shares = torch.softmax(scores, -1)
    shares = shares if prob_mod is None else prob_mod(shares)[0]
    return (shares @ v.to(shares.dtype)).to(v.dtype)
