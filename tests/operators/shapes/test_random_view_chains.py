"""Chains of views and mixed indices of random geometry against NumPy: values, strides, offsets, shared memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket_operators as torch

QUICK = settings(max_examples=120, deadline=None, derandomize=True)
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def pair(shape):
    """The same values as a tensor and as an array."""
    values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return torch.tensor(values), values


def steps(shape, strides):
    """Strides that matter."""
    return [s for n, s in zip(shape, strides, strict=True) if n > 1]


def check(x, values, root):
    assert tuple(x.shape) == values.shape
    assert x.tolist() == values.tolist()
    if values.size:
        assert steps(x.shape, x.stride()) == steps(values.shape, [s // values.itemsize for s in values.strides])
        distance = values.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        assert x.storage_offset() == distance // values.itemsize


def permuted(data, x, a):
    order = data.draw(st.permutations(range(a.ndim)))
    return x.permute(order), a.transpose(order)


def moved(data, x, a):
    start, stop = (data.draw(st.integers(-a.ndim, a.ndim - 1)) for _ in range(2))
    return x.movedim(start, stop), np.moveaxis(a, start, stop)


def sliced(data, x, a):
    axis = data.draw(st.integers(0, a.ndim - 1))
    first = data.draw(st.integers(0, a.shape[axis] - 1))
    index = (slice(None),) * axis + (slice(first, None, data.draw(st.integers(1, 2))),)
    return x[index], a[index]


def narrowed(data, x, a):
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    start = data.draw(st.integers(0, a.shape[axis] - 1))
    length = data.draw(st.integers(1, a.shape[axis] - start))
    return x.narrow(axis, start, length), np.moveaxis(np.moveaxis(a, axis, 0)[start:start + length], 0, axis)


def selected(data, x, a):
    axis = data.draw(st.integers(0, a.ndim - 1))
    place = data.draw(st.integers(0, a.shape[axis] - 1))
    index = (slice(None),) * axis + (place, ...)
    return x.select(axis, place), a[index]


def widened(data, x, a):
    axis = data.draw(st.integers(-a.ndim - 1, a.ndim))
    return x.unsqueeze(axis), np.expand_dims(a, axis)


def windows(data, x, a):
    axis = data.draw(st.integers(0, a.ndim - 1))
    size = data.draw(st.integers(1, a.shape[axis]))
    step = data.draw(st.integers(1, 3))
    whole = np.lib.stride_tricks.sliding_window_view(a, size, axis)
    return x.unfold(axis, size, step), whole[(slice(None),) * axis + (slice(None, None, step),)]


def diagonal(data, x, a):
    if a.ndim < 2:
        return x, a
    first, second = data.draw(st.permutations(range(a.ndim)))[:2]
    offset = data.draw(st.integers(-1, 1))
    return x.diagonal(offset, first, second), a.diagonal(offset, first, second)


def split(data, x, a):
    axis = data.draw(st.integers(0, a.ndim - 1))
    parts = data.draw(st.integers(1, 3))
    which = data.draw(st.integers(0, parts - 1))
    return x.tensor_split(parts, axis)[which], np.array_split(a, parts, axis)[which]


def unflattened(data, x, a):
    axis = data.draw(st.integers(0, a.ndim - 1))
    return x.unflatten(axis, (1, -1)), np.expand_dims(a, axis)


VIEWS = [permuted, moved, sliced, narrowed, selected, widened, windows, diagonal, split, unflattened]


@QUICK
@given(st.data(), SHAPES)
def test_chains_of_views(data, shape):
    x, values = pair(shape)
    view, array = x, values
    for _ in range(data.draw(st.integers(1, 5))):
        if array.ndim and array.size:
            view, array = data.draw(st.sampled_from(VIEWS))(data, view, array)
    check(view, array, values)
    assert view.untyped_storage() is x.untyped_storage()
    # Values written to the view arrive in the tensor, and the other way round.
    if len(set(array.ravel().tolist())) == array.size:
        places = np.isin(values, array)
        view.fill_(-1)
        assert x.tolist() == np.where(places, -1, values).tolist()
    x.fill_(-2)
    assert view.tolist() == np.full(array.shape, -2.0).tolist()


@QUICK
@given(st.data(), SHAPES)
def test_a_view_keeps_the_memory_alive(data, shape):
    # Large enough for pooled memory.
    values = np.arange(int(np.prod(shape)) * 1500, dtype=np.float32).reshape((*shape, 1500))
    view, array = torch.tensor(values), values
    for _ in range(data.draw(st.integers(1, 4))):
        view, array = data.draw(st.sampled_from([permuted, sliced, selected, widened]))(data, view, array)
        if not array.ndim:
            break
    others = [torch.full(values.shape, -1.0) for _ in range(3)]
    assert view.tolist() == array.tolist()
    assert all(other.untyped_storage() != view.untyped_storage() for other in others)


def part(data, size):
    """One part of an index, for a tensor and for an array, and whether it is an index tensor."""
    kind = data.draw(st.sampled_from(["slice", "tensor", "list", "mask"]))
    if kind == "slice":
        first, last = (data.draw(st.none() | st.integers(-5, 5)) for _ in range(2))
        cut = slice(first, last, data.draw(st.none() | st.integers(1, 2)))
        return cut, cut
    if kind == "mask":
        chosen = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        count = int(chosen.sum())
        # As many positions as the other index tensors have, so that they broadcast.
        while count > 2:
            chosen[chosen.argmax()] = False
            count -= 1
        while count < 2 and count < size:
            chosen[chosen.argmin()] = True
            count += 1
        return torch.tensor(chosen), chosen
    places = np.array(data.draw(st.lists(st.integers(-size, size - 1), min_size=2, max_size=2)))
    return (places.tolist() if kind == "list" else torch.tensor(places)), places


@QUICK
@given(st.data(), SHAPES)
def test_mixed_indices(data, shape):
    x, values = pair(shape)
    turned = data.draw(st.booleans())
    if turned:
        x, values = x.permute(tuple(range(len(shape)))[::-1]), values.transpose()
    count = data.draw(st.integers(1, len(shape)))
    parts = [part(data, n) for n in values.shape[:count]]
    key, reference = tuple(p[0] for p in parts), tuple(p[1] for p in parts)
    expected = values[reference]
    found = x[key]
    assert tuple(found.shape) == expected.shape
    assert found.tolist() == expected.tolist()
    # Writing: a number, or values that broadcast. Where positions meet, their values are equal.
    written = data.draw(st.sampled_from(["number", "tensor", "row"]))
    if written == "number":
        x[key], values[reference] = -3.0, -3.0
    elif written == "row":
        row = np.full(expected.shape[-1:], -4.0, np.float32)
        x[key], values[reference] = torch.tensor(row), row
    else:
        fresh = -expected - 1
        x[key], values[reference] = torch.tensor(np.ascontiguousarray(fresh)), fresh
    assert x.tolist() == values.tolist()


@QUICK
@given(st.data(), SHAPES)
def test_scattered_reductions(data, shape):
    x, values = pair(shape)
    axis = data.draw(st.integers(0, len(shape) - 1))
    counts = [data.draw(st.integers(1, n)) if k != axis else data.draw(st.integers(1, 5)) for k, n in enumerate(shape)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    index, source = rng.integers(0, shape[axis], counts), rng.integers(-3, 4, counts).astype(np.float32)
    places = list(np.indices(counts))
    places[axis] = index
    for mode, ufunc in (("sum", np.add), ("prod", np.multiply), ("amax", np.maximum), ("amin", np.minimum)):
        expected = values.copy()
        ufunc.at(expected, tuple(places), source)
        found = x.scatter_reduce(axis, torch.tensor(index), torch.tensor(source), mode)
        assert found.tolist() == expected.tolist()
