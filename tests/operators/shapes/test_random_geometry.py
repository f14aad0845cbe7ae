"""Views, indices and broadcasting of random geometry against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket_operators as torch

QUICK = settings(max_examples=40, deadline=None, derandomize=True)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
FULL_SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def pair(shape):
    """The same values as a tensor and as an array."""
    values = np.arange(int(np.prod(shape))).reshape(shape)
    return torch.tensor(values), values


def same(x, values):
    assert tuple(x.shape) == values.shape
    assert x.tolist() == values.tolist()


def changed(data, x, values):
    """One random view of both."""
    rank = values.ndim
    kind = data.draw(st.sampled_from(["permute", "slice", "unsqueeze", "squeeze", "select", "step"]))
    if kind == "unsqueeze" or rank == 0:
        axis = data.draw(st.integers(-rank - 1, rank))
        return x.unsqueeze(axis), np.expand_dims(values, axis)
    if kind == "permute":
        order = data.draw(st.permutations(range(rank)))
        return x.permute(order), values.transpose(order)
    if kind == "squeeze":
        return x.squeeze(), values.squeeze()
    axis = data.draw(st.integers(0, rank - 1))
    size = values.shape[axis]
    if kind == "select" and size:
        place = data.draw(st.integers(-size, size - 1))
        return x.select(axis, place), values.take(place, axis)
    start, stop = (data.draw(st.integers(-5, 5)) for _ in range(2))
    index = (slice(None),) * axis + (slice(start, stop, data.draw(st.integers(1, 3)) if kind == "step" else None),)
    return x[index], values[index]


@QUICK
@given(st.data(), SHAPES)
def test_views_of_views(data, shape):
    x, values = pair(shape)
    view = x
    for _ in range(data.draw(st.integers(1, 4))):
        view, values = changed(data, view, values)
    same(view, values)
    same(view.contiguous(), values)
    same(view.reshape(-1), values.reshape(-1))
    # Values written to the view arrive in the tensor, and nowhere else.
    view.fill_(-1)
    whole = pair(shape)[1]
    same(x, np.where(np.isin(whole, values), -1, whole))


@QUICK
@given(st.data(), FULL_SHAPES)
def test_reshape_of_permuted_tensors(data, shape):
    x, values = pair(shape)
    order = data.draw(st.permutations(range(len(shape))))
    sizes = [1]
    for size in data.draw(st.permutations(shape)):
        sizes = [*sizes, size] if data.draw(st.booleans()) else [*sizes[:-1], sizes[-1] * size]
    same(x.permute(order).reshape(sizes), values.transpose(order).reshape(sizes))


@QUICK
@given(st.data(), FULL_SHAPES)
def test_basic_indices(data, shape):
    x, values = pair(shape)
    index: list[object] = []
    for size in shape[:data.draw(st.integers(0, len(shape)))]:
        if data.draw(st.booleans()):
            index.append(data.draw(st.integers(-size, size - 1)))
        else:
            start, stop = (data.draw(st.none() | st.integers(-5, 5)) for _ in range(2))
            index.append(slice(start, stop, data.draw(st.none() | st.integers(1, 3))))
    for extra in data.draw(st.lists(st.sampled_from([None, ...]), max_size=2, unique=True)):
        # An Ellipsis stands at the end here, where it changes no meaning of what is before.
        index.insert(len(index) if extra is ... else data.draw(st.integers(0, len(index))), extra)
    if ... in index:
        index.append(index.pop(index.index(...)))
    key = tuple(index)
    same(x[key], values[key])
    x[key] = -3
    values[key] = -3
    same(x, values)


@QUICK
@given(st.data(), FULL_SHAPES)
def test_index_tensors(data, shape):
    x, values = pair(shape)
    chosen = data.draw(st.integers(1, len(shape)))
    rows = data.draw(st.integers(1, 3))
    parts = [data.draw(st.lists(st.integers(-n, n - 1), min_size=rows, max_size=rows)) for n in shape[:chosen]]
    # The first index tensor has a dimension more, so that they broadcast.
    places = [np.array(part)[:, None] if k == 0 else np.array(part) for k, part in enumerate(parts)]
    tensors = tuple(torch.tensor(part) for part in places)
    same(x[tensors], values[tuple(places)])
    last = (..., tensors[0] % min(shape)), (..., places[0] % min(shape))
    same(x[last[0]], values[last[1]])
    x[tensors] = -3
    values[tuple(places)] = -3
    same(x, values)


@QUICK
@given(st.data(), SHAPES)
def test_masks(data, shape):
    x, values = pair(shape)
    mask = values % data.draw(st.integers(2, 5)) == 0
    same(x[torch.tensor(mask)], values[mask])
    same(torch.tensor(mask).nonzero(), np.argwhere(mask))
    same(x.masked_fill(torch.tensor(mask), -1), np.where(mask, -1, values))
    x[torch.tensor(mask)] = 9
    same(x, np.where(mask, 9, values))


@QUICK
@given(st.data(), SHAPES)
def test_broadcasting(data, shape):
    def operand():
        part = shape[data.draw(st.integers(0, len(shape))):]
        return tuple(n if data.draw(st.booleans()) else 1 for n in part)

    (x, a), (y, b), (z, c) = (pair(operand()) for _ in range(3))
    same(x + y, a + b)
    same(x.T * y.T if x.ndim == y.ndim > 0 else x * y, a.T * b.T if a.ndim == b.ndim else a * b)
    same(torch.where(x > 1, y, z), np.where(a > 1, b, c))
    for found, expected in zip(torch.broadcast_tensors(x, y, z), np.broadcast_arrays(a, b, c), strict=True):
        same(found, expected)


@QUICK
@given(st.data(), FULL_SHAPES)
def test_parts_join_to_the_whole(data, shape):
    x, values = pair(shape)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    for parts in (x.split(data.draw(st.integers(1, 5)), axis), x.chunk(data.draw(st.integers(1, 5)), axis)):
        same(torch.cat(parts, axis), values)
    same(torch.stack(x.unbind(axis), axis), values)
    same(x.flip(axis), np.flip(values, axis))
    repeats = [data.draw(st.integers(0, 2)) for _ in shape]
    same(x.repeat(repeats), np.tile(values, repeats))
