"""Operators that programs of the fuzzer are made of: each as a call of the project and as formulas of its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import tensocket as ts

from .tangents import Array, Var


class Dual(NamedTuple):
    """Values and their derivatives, along a last dimension."""

    v: Array
    t: Array


Rng = np.random.Generator


def dual(x: Var) -> Dual:
    """The elements of a tensor now."""
    return Dual(x.value(), x.tangent())


def rows(x: Dual) -> Array:
    """The derivatives, one row for each element."""
    return x.t.reshape(x.v.size, x.t.shape[-1])


def moved(x: Dual, arrange: Callable[[Array], Array]) -> Dual:
    """Elements rearranged by a NumPy function."""
    order = arrange(np.arange(x.v.size).reshape(x.v.shape))
    return Dual(x.v.reshape(-1)[order], rows(x)[order])


def chained(x: Dual, value: Array, slope: Any) -> Dual:
    """A function of elements with its derivative."""
    return Dual(value, np.asarray(slope)[..., None] * x.t)


def product(x: Dual, y: Dual) -> Dual:
    """x * y, broadcast."""
    return Dual(x.v * y.v, x.v[..., None] * y.t + y.v[..., None] * x.t)


def total(x: Dual, axis: int | None, keep: bool) -> Dual:
    """Sums."""
    if axis is None:
        return Dual(x.v.sum(), rows(x).sum(0))
    return Dual(x.v.sum(axis, keepdims=keep), x.t.sum(axis, keepdims=keep))


@dataclass
class Made:
    """One drawn call.

    Attributes:
        name: Its name in reports.
        model: Its result in the model, of the operands' values.
        real: The call of the project.
        saves: Whether its gradient needs values, which must not change until then.
    """

    name: str
    model: Callable[..., Dual]
    real: Callable[..., Any]
    saves: bool = False


def axis_of(rng: Rng, x: Var) -> int:
    """A dimension, counted from either end."""
    rank = len(x.shape)
    return int(rng.integers(-rank, rank))


def number(rng: Rng) -> float:
    """Return a number that is not a special case."""
    return round(float(rng.uniform(-1.5, 1.5)), 2)


# ------------------------------------------------------------------------------------------------------------ results


def unary(rng: Rng, x: Var) -> Made | None:
    """A function of elements."""
    k = number(rng)
    choices = [
        Made(f"* {k}", lambda x: chained(x, x.v * k, np.full(x.v.shape, k)), lambda x: x * k),
        Made(f"{k} - ", lambda x: chained(x, k - x.v, np.full(x.v.shape, -1.0)), lambda x: k - x),
        Made("-", lambda x: chained(x, -x.v, np.full(x.v.shape, -1.0)), lambda x: -x),
        Made("sin", lambda x: chained(x, np.sin(x.v), np.cos(x.v)), lambda x: x.sin(), True),
        Made("square", lambda x: chained(x, x.v * x.v, 2 * x.v), lambda x: x.square(), True),
        Made("clone", lambda x: x, lambda x: x.clone()),
        Made("conj_physical", lambda x: Dual(x.v.conj(), x.t.conj()), lambda x: ts.conj_physical(x).clone()),
    ]
    if not x.is_complex:
        choices += [
            Made("tanh", lambda x: chained(x, np.tanh(x.v), 1 - np.tanh(x.v) ** 2), lambda x: x.tanh(), True),
            Made("sigmoid", lambda x: chained(x, 1 / (1 + np.exp(-x.v)), np.exp(-x.v) / (1 + np.exp(-x.v)) ** 2),
                 lambda x: x.sigmoid(), True),
            Made("atan", lambda x: chained(x, np.arctan(x.v), 1 / (1 + x.v * x.v)), lambda x: x.atan(), True),
        ]
    return choices[rng.integers(len(choices))]


def converted(rng: Rng, x: Var) -> Made | None:
    """A conversion to another dtype; to narrower ones where no gradient is rounded with the numbers."""
    if not x.is_complex and rng.random() < 0.5:
        return Made("to(complex128)", lambda x: Dual(x.v + 0j, x.t + 0j), lambda x: x.to(ts.complex128))
    if x.requires:
        return None
    wide, narrow = ("complex128", "complex64") if x.is_complex else ("float64", str(rng.choice(["float32", "float16"])))
    return Made(f"to({narrow}).to({wide})", lambda x: Dual(x.v.astype(narrow).astype(wide), x.t),
                lambda x: x.to(getattr(ts, narrow)).to(getattr(ts, wide)))


def binary(rng: Rng, x: Var, y: Var) -> Made | None:
    """A function of two operands that broadcast."""
    del x, y
    choices = [
        Made("+", lambda x, y: Dual(x.v + y.v, _spread(x, y) + _spread(y, x)), lambda x, y: x + y),
        Made("-", lambda x, y: Dual(x.v - y.v, _spread(x, y) - _spread(y, x)), lambda x, y: x - y),
        Made("*", product, lambda x, y: x * y, True),
    ]
    return choices[rng.integers(len(choices))]


def _spread(x: Dual, y: Dual) -> Array:
    return np.broadcast_to(x.t, (*np.broadcast_shapes(x.v.shape, y.v.shape), x.t.shape[-1]))


def reduced(rng: Rng, x: Var) -> Made | None:
    """Sums and running sums."""
    if not x.shape or rng.random() < 0.2:
        return Made("sum", lambda x: total(x, None, False), lambda x: x.sum())
    axis, keep = axis_of(rng, x), bool(rng.integers(2))
    size, place = x.shape[axis], axis % len(x.shape)
    choices = [
        Made(f"sum({axis}, {keep})", lambda x: total(x, place, keep), lambda x: x.sum(axis, keep)),
        Made(f"cumsum({axis})", lambda x: Dual(x.v.cumsum(place), x.t.cumsum(place)), lambda x: x.cumsum(axis)),
    ]
    if size:
        choices.append(Made(f"mean({axis})", lambda x: Dual(x.v.mean(place), x.t.mean(place)), lambda x: x.mean(axis)))
    return choices[rng.integers(len(choices))]


def rearranged(rng: Rng, x: Var) -> Made | None:
    """Copies of elements in other places."""
    if not x.shape:
        return None
    axis, rank = axis_of(rng, x), len(x.shape)
    place, size = axis % rank, x.shape[axis]
    shift = int(rng.integers(-3, 4))
    mask = rng.integers(0, 2, x.shape).astype(bool)
    times = [int(n) for n in rng.integers(1, 3, rank)]
    choices = [
        Made(f"flip({axis})", lambda x: moved(x, lambda a: np.flip(a, place)), lambda x: x.flip(axis)),
        Made(f"roll({shift}, {axis})", lambda x: moved(x, lambda a: np.roll(a, shift, place)),
             lambda x: x.roll(shift, axis)),
        Made("[mask]", lambda x: moved(x, lambda a: a[mask]), lambda x: x[ts.tensor(mask)]),
        Made(f"cat(x, x, {axis})", lambda x: moved(x, lambda a: np.concatenate([a, a], place)),
             lambda x: ts.cat([x, x], axis)),
        Made(f"stack(x, x, {place})", lambda x: moved(x, lambda a: np.stack([a, a], place)),
             lambda x: ts.stack([x, x], place)),
        Made(f"repeat({times})", lambda x: moved(x, lambda a: np.tile(a, times)), lambda x: x.repeat(*times)),
        Made(f"repeat_interleave(2, {axis})", lambda x: moved(x, lambda a: np.repeat(a, 2, place)),
             lambda x: x.repeat_interleave(2, axis)),
    ]
    if size:
        index = rng.integers(-size, size, int(rng.integers(0, 4)))
        positive = index % size
        before = (slice(None),) * place
        spread = rng.integers(0, size, x.shape)
        choices += [
            Made(f"index_select({axis}, {positive.tolist()})",
                 lambda x: moved(x, lambda a: np.take(a, positive, place)),
                 lambda x: x.index_select(axis, ts.tensor(positive))),
            Made(f"[.., {index.tolist()}]", lambda x: moved(x, lambda a: a[(*before, index)]),
                 lambda x: x[(*before, ts.tensor(index))]),
            Made(f"gather({axis})", lambda x: moved(x, lambda a: np.take_along_axis(a, spread, place)),
                 lambda x: x.gather(axis, ts.tensor(spread))),
        ]
    return choices[rng.integers(len(choices))]


def joined(rng: Rng, x: Var, y: Var) -> Made | None:
    """Products of matrices, and choices between two tensors of one shape."""
    if x.is_complex == y.is_complex and len(x.shape) == 2 == len(y.shape) and x.shape[1] == y.shape[0]:
        return Made("@", lambda x, y: Dual(x.v @ y.v, np.einsum("ijd,jk->ikd", x.t, y.v) +
                                           np.einsum("ij,jkd->ikd", x.v, y.t)), lambda x, y: x @ y, True)
    if x.shape != y.shape:
        return None
    mask = rng.integers(0, 2, x.shape).astype(bool)
    return Made("where", lambda x, y: Dual(np.where(mask, x.v, y.v), np.where(mask[..., None], x.t, y.t)),
                lambda x, y: ts.where(ts.tensor(mask), x, y))


# ----------------------------------------------------------------------------------------------------------- in place


@dataclass
class Change:
    """One drawn change of a tensor in place.

    Attributes:
        name: Its name in reports.
        model: New elements, of those from before and the operands'.
        real: The call of the project.
        saves: Whether its gradient needs values of the operands.
        filling: Whether elements that share memory may be written.
        apart: Whether operands share no memory with the tensor at all.
        out: Whether it is the result of a function, which is not differentiated.
    """

    name: str
    model: Callable[..., Dual]
    real: Callable[..., Any]
    saves: bool = False
    filling: bool = False
    apart: bool = False
    out: bool = False


def lonely_change(rng: Rng, x: Var) -> Change:
    """A change without another tensor."""
    k = number(rng)
    mask = rng.integers(0, 2, x.shape).astype(bool)
    choices = [
        Change(f"mul_({k})", lambda x: chained(x, x.v * k, np.full(x.v.shape, k)), lambda x: x.mul_(k)),
        Change(f"add_({k})", lambda x: chained(x, x.v + k, np.ones(x.v.shape)), lambda x: x.add_(k)),
        Change("neg_", lambda x: chained(x, -x.v, np.full(x.v.shape, -1.0)), lambda x: x.neg_()),
        Change("sin_", lambda x: chained(x, np.sin(x.v), np.cos(x.v)), lambda x: x.sin_(), True),
        Change(f"fill_({k})", lambda x: Dual(np.full_like(x.v, k), np.zeros_like(x.t)), lambda x: x.fill_(k),
               filling=True),
        Change("zero_", lambda x: Dual(np.zeros_like(x.v), np.zeros_like(x.t)), lambda x: x.zero_(), filling=True),
        Change(f"masked_fill_({k})", lambda x: Dual(np.where(mask, k, x.v), np.where(mask[..., None], 0, x.t)),
               lambda x: x.masked_fill_(ts.tensor(mask), k)),
        Change(f"[mask] = {k}", lambda x: Dual(np.where(mask, k, x.v), np.where(mask[..., None], 0, x.t)),
               lambda x: x.__setitem__(ts.tensor(mask), k)),
    ]
    return choices[rng.integers(len(choices) - (not x.shape))]


def change(rng: Rng, x: Var, y: Var) -> Change | None:
    """A change with another tensor that broadcasts, or has the shape of a part."""
    k = number(rng)
    if x.shape and rng.random() < 0.4:
        return _indexed(rng, x, y)
    if x.shape == y.shape and x.is_complex == y.is_complex and rng.random() < 0.2:
        return _result(rng, k)
    if np.broadcast_shapes(x.shape, y.shape) != x.shape if _fits(x.shape, y.shape) else True:
        return None
    choices = [
        Change("add_", lambda x, y: Dual(x.v + y.v, x.t + y.t), lambda x, y: x.add_(y)),
        Change(f"sub_(alpha={k})", lambda x, y: Dual(x.v - k * y.v, x.t - k * y.t), lambda x, y: x.sub_(y, alpha=k)),
        Change("mul_", product, lambda x, y: x.mul_(y), True),
        Change("copy_", lambda x, y: Dual(y.v, y.t), lambda x, y: x.copy_(y)),
        Change("[...] =", lambda x, y: Dual(y.v, y.t), lambda x, y: x.__setitem__(..., y)),
        Change(f"lerp_({k})", lambda x, y: Dual(x.v + k * (y.v - x.v), x.t + k * (y.t - x.t)),
               lambda x, y: x.lerp_(y, k)),
        Change(f"addcmul_({k})", lambda x, y: Dual(x.v + k * y.v * y.v, x.t + (2 * k * y.v)[..., None] * y.t),
               lambda x, y: x.addcmul_(y, y, value=k), True),
    ]
    return choices[rng.integers(len(choices))]


def _result(rng: Rng, k: float) -> Change:
    """A function's result, written to the tensor."""
    choices = [
        Change(f"= add(out=, {k})", lambda x, y: Dual(y.v + k, y.t), lambda x, y: ts.add(y, k, out=x), out=True),
        Change("= sin(out=)", lambda x, y: chained(y, np.sin(y.v), np.cos(y.v)), lambda x, y: ts.sin(y, out=x),
               out=True),
        Change("= mul(out=)", lambda x, y: product(y, y), lambda x, y: ts.mul(y, y, out=x), out=True),
    ]
    return choices[rng.integers(len(choices))]


def _fits(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    return len(y) <= len(x) and all(b in (1, a) for a, b in zip(x[::-1], y[::-1], strict=False))


def _indexed(rng: Rng, x: Var, y: Var) -> Change | None:
    """Slices of a dimension, replaced or added to; ``y`` has them."""
    axis = axis_of(rng, x)
    place, size = axis % len(x.shape), x.shape[axis]
    if x.is_complex != y.is_complex or len(y.shape) != len(x.shape) or not size or any(
            n != m for k, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)) if k != place):
        return None
    count = y.shape[place]
    index = rng.permutation(size)[:count]
    before = (slice(None),) * place
    chosen = ts.tensor(index)

    def put(x: Dual, y: Dual) -> Dual:
        v, t = np.array(x.v), np.array(x.t)
        v[(*before, index)], t[(*before, index)] = y.v, y.t
        return Dual(v, t)

    def add(x: Dual, y: Dual) -> Dual:
        v, t = np.array(x.v), np.array(x.t)
        np.add.at(v, (*before, again), y.v)
        np.add.at(t, (*before, again), y.t)
        return Dual(v, t)

    again = rng.integers(0, size, count)
    repeated = ts.tensor(again)
    wide = ts.tensor(np.moveaxis(np.broadcast_to(again, (*np.delete(y.shape, place), count)), -1, place).copy())
    choices = [Change(f"index_add_({axis}, {again.tolist()})", add, lambda x, y: x.index_add_(axis, repeated, y),
                      apart=True),
               Change(f"scatter_add_({axis}, {again.tolist()})", add, lambda x, y: x.scatter_add_(axis, wide, y),
                      apart=True)]
    if count <= size:
        text = f"{axis}, {index.tolist()}"
        choices += [
            Change(f"index_copy_({text})", put, lambda x, y: x.index_copy_(axis, chosen, y), apart=True),
            Change(f"[{text}] =", put, lambda x, y: x.__setitem__((*before, chosen), y), apart=True),
        ]
    return choices[rng.integers(len(choices))]
