"""Views that programs of the fuzzer are made of: a name, the model's view (None for a copy), and the project's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tensocket as ts

from .changes import Rng, axis_of
from .tangents import Var

Drawn = tuple[str, Var | None, Callable[[Any], Any]]


def _same(x: Var) -> Var:
    return x.view(x.places[...])


def _index(rng: Rng, x: Var) -> Drawn | None:
    """Ints, slices with steps, None and Ellipsis."""
    parts: list[Any] = []
    for size in x.shape[:int(rng.integers(0, len(x.shape) + 1))]:
        kind = rng.integers(5)
        if kind == 0 and size:
            parts.append(int(rng.integers(-size, size)))
        elif kind == 1:
            parts += [None, slice(None)]
        else:
            start, stop = (None if rng.random() < 0.3 else int(n) for n in rng.integers(-size - 1, size + 2, 2))
            parts.append(slice(start, stop, int(rng.integers(1, 4))))
    if rng.random() < 0.5:
        parts.append(...)
    index = tuple(parts)
    return f"[{index}]", x.view(x.places[(*index, ...) if ... not in index else index]), lambda t: t[index]


def _transpose(rng: Rng, x: Var) -> Drawn | None:
    if not x.shape:
        return None
    a, b = axis_of(rng, x), axis_of(rng, x)
    return f"transpose({a}, {b})", x.view(x.places.swapaxes(a, b)), lambda t: t.transpose(a, b)


def _permute(rng: Rng, x: Var) -> Drawn:
    order = [int(n) for n in rng.permutation(len(x.shape))]
    return f"permute({order})", x.view(x.places.transpose(order)), lambda t: t.permute(order)


def _movedim(rng: Rng, x: Var) -> Drawn | None:
    if not x.shape:
        return None
    a, b = axis_of(rng, x), axis_of(rng, x)
    return f"movedim({a}, {b})", x.view(np.moveaxis(x.places, a, b)), lambda t: t.movedim(a, b)


def _expand(rng: Rng, x: Var) -> Drawn:
    shape = tuple(int(rng.integers(1, 4)) if n == 1 and rng.random() < 0.7 else n for n in x.shape)
    if rng.random() < 0.5 and len(shape) < 4:
        shape = (int(rng.integers(1, 3)), *shape)
    strides = (0,) * (len(shape) - len(x.shape)) + tuple(
        0 if n == 1 and m != 1 else s for n, m, s in zip(x.shape, shape[-len(x.shape):] if x.shape else (),
                                                          x.places.strides, strict=True))
    places = np.lib.stride_tricks.as_strided(x.places, shape, strides)
    return f"expand({shape})", x.view(places), lambda t: t.expand(shape)


def _target(rng: Rng, x: Var) -> tuple[int, ...]:
    """Another shape of as many elements."""
    rest, shape = int(np.prod(x.shape)), []
    while rest > 1 and len(shape) < 3:
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        shape.append(int(rng.choice(divisors)))
        rest //= shape[-1]
    shape += [rest] if rest != 1 or rng.random() < 0.3 else []
    return tuple(int(n) for n in rng.permutation(shape))


def _reshape(rng: Rng, x: Var) -> Drawn | None:
    if not x.places.size:
        return None
    shape = _target(rng, x)
    places = x.places.reshape(shape)
    shared = np.shares_memory(places, x.buffer.positions)
    return f"reshape({list(shape)})", x.view(places) if shared else None, lambda t: t.reshape(shape)


def _view(rng: Rng, x: Var) -> Drawn | None:
    made = _reshape(rng, x)
    if made is None or made[1] is None:
        return None
    shape = made[1].shape
    return f"view({shape})", made[1], lambda t: t.view(shape)


def _as_strided(rng: Rng, x: Var) -> Drawn | None:
    if not x.places.size:
        return None
    step = 2 if x.is_complex else 1
    first = int(x.places[(0,) * x.places.ndim]) // step
    held = len(x.buffer.positions) // step
    shape = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3))))
    strides = tuple(int(n) for n in rng.integers(0, 4, len(shape)))
    offset = int(rng.integers(0, held))
    if offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) >= held:
        return None
    seen = x.strided(shape, tuple(s * step for s in strides), (offset - first) * step, x.is_complex)
    if x.tracked and not set(seen.places.ravel()) <= set(x.places.ravel()):
        return None  # elements beyond the tensor pass no gradient to its base
    return f"as_strided({shape}, {strides}, {offset})", seen, lambda t: t.as_strided(shape, strides, offset)


def _diagonal(rng: Rng, x: Var) -> Drawn | None:
    if len(x.shape) < 2:
        return None
    a, b = (int(n) for n in rng.permutation(len(x.shape))[:2])
    offset = int(rng.integers(-1, 2))
    places = x.places.diagonal(offset, a, b)
    return f"diagonal({offset}, {a}, {b})", x.view(places), lambda t: t.diagonal(offset, a, b)


def _unfold(rng: Rng, x: Var) -> Drawn | None:
    if not x.shape or not x.places.size:
        return None
    axis = axis_of(rng, x)
    size, step = int(rng.integers(1, x.shape[axis] + 1)), int(rng.integers(1, 3))
    place = axis % len(x.shape)
    windows = np.lib.stride_tricks.sliding_window_view(x.places, size, place, writeable=True)
    places = windows[(slice(None),) * place + (slice(None, None, step),)]
    return f"unfold({axis}, {size}, {step})", x.view(places), lambda t: t.unfold(axis, size, step)


def _select(rng: Rng, x: Var) -> Drawn | None:
    if not x.places.size or not x.shape:
        return None
    axis = axis_of(rng, x)
    k = int(rng.integers(-x.shape[axis], x.shape[axis]))
    places = x.places[(slice(None),) * (axis % len(x.shape)) + (k,)]
    return f"select({axis}, {k})", x.view(np.asarray(places)) if np.ndim(places) else _index_of(x, axis, k), (
        lambda t: t.select(axis, k))


def _index_of(x: Var, axis: int, k: int) -> Var:
    return x.view(x.places[(slice(None),) * (axis % len(x.shape)) + (k, ...)])


def _part(rng: Rng, x: Var) -> Drawn | None:
    """One of the results of ``unbind`` and ``split``."""
    if not x.places.size or not x.shape:
        return None
    axis = axis_of(rng, x)
    size, before = x.shape[axis], (slice(None),) * (axis % len(x.shape))
    if rng.random() < 0.5:
        k = int(rng.integers(size))
        return f"unbind({axis})[{k}]", x.view(x.places[(*before, k, ...)]), lambda t: t.unbind(axis)[k]
    length = int(rng.integers(1, size + 1))
    k = int(rng.integers(-(-size // length)))
    places = x.places[(*before, slice(k * length, (k + 1) * length))]
    return f"split({length}, {axis})[{k}]", x.view(places), lambda t: t.split(length, axis)[k]


def _narrow(rng: Rng, x: Var) -> Drawn | None:
    if not x.shape:
        return None
    axis = axis_of(rng, x)
    start = int(rng.integers(0, x.shape[axis] + 1))
    length = int(rng.integers(0, x.shape[axis] - start + 1))
    places = x.places[(slice(None),) * (axis % len(x.shape)) + (slice(start, start + length),)]
    return f"narrow({axis}, {start}, {length})", x.view(places), lambda t: t.narrow(axis, start, length)


def _unsqueeze(rng: Rng, x: Var) -> Drawn:
    axis = int(rng.integers(0, len(x.shape) + 1))
    return f"unsqueeze({axis})", x.view(np.expand_dims(x.places, axis)), lambda t: t.unsqueeze(axis)


def _squeeze(rng: Rng, x: Var) -> Drawn:
    del rng
    index = (*(0 if n == 1 else slice(None) for n in x.shape), ...)
    return "squeeze()", x.view(x.places[index]), lambda t: t.squeeze()


def _parts(rng: Rng, x: Var) -> Drawn | None:
    """Parts of complex tensors, and pairs as complex ones."""
    if not x.places.size:
        return None
    strides = tuple(s // 8 for s in x.places.strides)
    if not x.is_complex:
        pairs = x.shape and x.shape[-1] == 2 and strides[-1] == 1
        if not pairs or any(s % 2 for s in strides[:-1]) or int(x.places.flat[0]) % 2:
            return None
        return "view_as_complex", x.view(x.places[..., 0], True), ts.view_as_complex
    kind = 0 if x.conjugate else rng.integers(3)  # of conjugates, imag is a negative view, and pairs are refused
    if kind == 0:
        return "real", x.view(x.places[...], False), lambda t: t.real
    if kind == 1:
        return "imag", x.strided(x.shape, strides, 1, False), lambda t: t.imag
    return "view_as_real", x.strided((*x.shape, 2), (*strides, 1), 0, False), ts.view_as_real


def _conj(rng: Rng, x: Var) -> Drawn | None:
    del rng
    if not x.is_complex:
        return None
    seen = _same(x)
    seen.conjugate = not x.conjugate
    return "conj()", seen, lambda t: t.conj()


def _itself(rng: Rng, x: Var) -> Drawn:
    """A conversion to what the tensor is."""
    del rng
    return "to(its dtype)", x, lambda t: t.to(t.dtype)


def _detach(rng: Rng, x: Var) -> Drawn:
    del rng
    return "detach()", _same(x), lambda t: t.detach()


def _whole(rng: Rng, x: Var) -> Drawn:
    del rng
    return "view_as(itself)", _same(x), lambda t: t.view_as(t)


VIEWS: Final = (
    _index, _index, _index, _transpose, _permute, _movedim, _expand, _reshape, _view, _as_strided, _diagonal, _unfold,
    _select, _part, _part, _narrow, _unsqueeze, _squeeze, _parts, _parts, _detach, _whole, _conj, _conj, _itself,
)
