"""Copies of arrays that are large enough for generated kernels, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_plugins.contract.errors import ShapeError


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16", "float32", "int64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(300, 301), (3, 190, 130), (8, 65, 16, 17)])
def test_permuted_copies_are_numpys(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape) % 251
    array = (values % 3 == 0 if dtype == "bool" else values).astype(dtype)
    x = torch.tensor(array)
    for order in itertools.permutations(range(len(shape))):
        np.testing.assert_array_equal(x.permute(order).contiguous().numpy(), array.transpose(order))


def test_operands_that_lie_along_different_dimensions() -> None:
    array = np.arange(90000, dtype=np.float32).reshape(300, 300)
    x = torch.tensor(array)
    np.testing.assert_array_equal((x + x.t()).numpy(), array + array.T)
    np.testing.assert_array_equal((x.t() - x).numpy(), array.T - array)
    np.testing.assert_array_equal((x * x.t() + x[:, :1]).numpy(), array * array.T + array[:, :1])
    out: Any = torch.zeros(300, 300)
    out.t().copy_(x)
    np.testing.assert_array_equal(out.numpy(), array.T)
    with pytest.raises(RuntimeError, match="share no elements, or all of them one by one"):
        x.add_(x.t())
    np.testing.assert_array_equal(x.numpy(), array)


def test_views_of_foreign_memory_share_it() -> None:
    """Views of the first array over a buffer refer to that array, which refers to the buffer."""
    values = np.arange(90000, dtype=np.float32)
    x = torch.from_numpy(np.ndarray((300, 300), np.float32, bytearray(values.tobytes())))
    with pytest.raises(RuntimeError, match="share no elements, or all of them one by one"):
        x.add_(x.t())
    y, z = torch.from_numpy(np.ndarray((90000,), np.float32, bytearray(values.tobytes()))), torch.ones(50000)
    torch._foreach_add_([y, z], [torch.ones(90000), y[:50000]])
    np.testing.assert_array_equal(z.numpy(), values[:50000] + 2)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "complex64", "complex128"])
def test_gathered_rows_are_numpys(dtype: str) -> None:
    generator = np.random.default_rng(3)
    array = generator.integers(0, 100, (20, 30, 14)).astype(dtype)
    x, places = torch.tensor(array), generator.integers(0, 14, (100, 70))
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        turned, given = x.permute(order), array.transpose(order)
        for dim in range(3):
            result = turned.index_select(dim, torch.tensor(places.reshape(-1)))
            np.testing.assert_array_equal(result.numpy(), np.take(given, places.reshape(-1), dim))
    np.testing.assert_array_equal(x[torch.tensor(places)].numpy(), array[places])
    np.testing.assert_array_equal(x[:, torch.tensor(places)].numpy(), array[:, places])


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "float32", "complex128"])
def test_joined_and_divided_arrays_are_numpys(dtype: str) -> None:
    generator = np.random.default_rng(4)
    arrays = [generator.integers(0, 100, (40, size, 130)).astype(dtype) for size in (50, 1, 70, 0)]
    tensors = [torch.tensor(array) for array in arrays]
    joined = np.concatenate(arrays, 1)
    np.testing.assert_array_equal(torch.cat(tensors, 1).numpy(), joined)
    turned = [x.permute(1, 0, 2) for x in tensors]
    np.testing.assert_array_equal(torch.cat(turned, 0).numpy(), joined.transpose(1, 0, 2))
    for array in (x.contiguous() for x in torch.tensor(joined).split(60, 1)):
        assert array.is_contiguous()
    np.testing.assert_array_equal(torch.tensor(joined)[1::2, :, 3:].contiguous().numpy(), joined[1::2, :, 3:])
    np.testing.assert_array_equal(torch.tensor(joined[:1]).expand(40, 121, 130).contiguous().numpy(),
                                  np.broadcast_to(joined[:1], joined.shape))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64", "complex64"])
@pytest.mark.parametrize("dim", [0, 1])
def test_rows_are_added_and_written_in_the_order_of_their_indices(dtype: str, dim: int) -> None:
    generator = np.random.default_rng(6)
    array = generator.integers(0, 9, (20, 30, 300)).astype(dtype)
    places = generator.integers(0, array.shape[dim], 50)
    source = generator.integers(0, 3, (50, 30, 300) if dim == 0 else (20, 50, 300)).astype(dtype)
    added, written = array.copy(), array.copy()
    at = (slice(None),) * dim
    np.add.at(added, (*at, places), source)
    for k, place in enumerate(places):
        written[(*at, place)] = source[(*at, k)]
    x, index, values = torch.tensor(array), torch.tensor(places), torch.tensor(source)
    before = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        np.testing.assert_array_equal(x.index_add(dim, index, values).numpy(), added)
        np.testing.assert_array_equal(x.index_copy(dim, index, values).numpy(), written)
    torch.set_num_threads(before)


def test_masks_select_what_numpy_selects() -> None:
    array = np.random.default_rng(8).standard_normal((50, 30, 40)).astype(np.float32)
    x = torch.tensor(array)
    for mask in (array > 0, array[:, :, 0] > 0, array[:, 0, 0] > 0, array > 9):
        np.testing.assert_array_equal(x[torch.tensor(mask)].numpy(), array[mask])
        np.testing.assert_array_equal(torch.tensor(mask).nonzero().numpy(), np.argwhere(mask))
    inner = array[0] > 0
    np.testing.assert_array_equal(x[:, torch.tensor(inner)].numpy(), array[:, inner])
    np.testing.assert_array_equal(x[3, torch.tensor(inner)].numpy(), array[3, inner])


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_reversed_arrays_are_numpys(dtype: str) -> None:
    array = np.arange(120000).reshape(30, 40, 100).astype(dtype)
    x = torch.tensor(array)
    for dims in ((0,), (2,), (0, 1), (1, 2)):
        np.testing.assert_array_equal(x.flip(dims).numpy(), np.flip(array, dims))
        np.testing.assert_array_equal(x.permute(2, 0, 1).flip(dims).numpy(), np.flip(array.transpose(2, 0, 1), dims))


@pytest.mark.parametrize("dtype", ["float32", "bool", "int16", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(300, 401), (7, 33, 1000), (70000,), (70000, 1), (5, 100, 3, 200)])
def test_dimensions_in_reverse(dtype, shape):
    array = (np.random.default_rng(5).standard_normal(shape) * 5).astype(dtype)
    x = torch.from_numpy(array)
    for dims in {(-1,), (0,), tuple(range(len(shape))), tuple(range(1, len(shape))) or (0,)}:
        np.testing.assert_array_equal(x.flip(dims).numpy(), np.flip(array, dims))
    np.testing.assert_array_equal(x[..., 1:].flip(-1).numpy(), np.flip(array[..., 1:], -1))


@pytest.mark.parametrize("counts", [(2, 3), (1, 1), (0, 2), (2, 1, 3), (2, 2, 1, 1), (60, 200)])
def test_repeats_of_small_and_large_arrays_are_numpys(counts: tuple[int, ...]) -> None:
    array = np.arange(12.0).reshape(3, 4)
    for given, x in ((array, torch.tensor(array)), (array.T, torch.tensor(array).t())):
        for result in (x.repeat(*counts), x.repeat(counts)):
            np.testing.assert_array_equal(result.numpy(), np.tile(given, counts))
            assert result.is_contiguous()
            assert not result._is_view()
    assert torch.tensor(3.0).repeat(2, 2).tolist() == [[3.0, 3.0]] * 2
    x = torch.ones(3, requires_grad=True)
    x.repeat(2, 2).sum().backward()
    assert x.grad.tolist() == [4.0] * 3


@pytest.mark.parametrize("count", [n + d for n in (1 << 14, 1 << 16, 1 << 17) for d in (0, 1)])
def test_copies_on_both_sides_of_the_limits_of_numpy(count: int) -> None:
    values = np.random.default_rng(count).standard_normal(count + 1).astype(np.float32)
    x, y = torch.tensor(values), torch.zeros(count + 1)
    np.testing.assert_array_equal(x[1:].clone().numpy(), values[1:])
    y[1:] = x[1:]
    np.testing.assert_array_equal(y.numpy(), np.concatenate([[0], values[1:]]))
    y[:-1].copy_(x[:-1])
    np.testing.assert_array_equal(y.numpy(), values)
    assert y._version == 2
    assert y[:-1].fill_(-0.5).sum().item() == -0.5 * count
    assert y[1:].zero_().count_nonzero().item() == 0
    assert y[0].item() == -0.5
    with pytest.raises(RuntimeError, match="share no elements, or all of them one by one"):
        x[1:].copy_(x[:-1])
    np.testing.assert_array_equal(x.numpy(), values)


@pytest.mark.parametrize("count", [8, 5000, 70000])
def test_out_shares_all_elements_or_none(count: int) -> None:
    values = np.random.default_rng(count).standard_normal(count + 1).astype(np.float32)
    x, out = torch.tensor(values), torch.empty(count)
    assert torch.add(x[:-1], x[1:], out=out) is out
    np.testing.assert_array_equal(out.numpy(), values[:-1] + values[1:])
    part = x[1:]
    torch.mul(part, part, out=part)
    np.testing.assert_array_equal(x.numpy()[1:], values[1:] * values[1:])
    with pytest.raises(RuntimeError, match="share no elements, or all of them one by one"):
        torch.add(x[:-1], 1, out=x[1:])
    with pytest.raises(RuntimeError, match="expanded"):
        torch.add(x[1:], 1, out=torch.zeros(1).expand(count))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "int64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(7, 11, 1), (2047,), (20, 103), (3, 5, 400), (65500,)])
def test_reversals_below_the_size_of_large_copies_are_numpys(shape, dtype):
    """Few elements are NumPy's, more a kernel's; the last calls are replayed."""
    array = np.random.default_rng(2).integers(0, 100, shape).astype(dtype)
    x = torch.tensor(array)
    for dims in itertools.chain(*[itertools.combinations(range(len(shape)), k + 1) for k in range(len(shape))]):
        for _ in range(6):
            np.testing.assert_array_equal(x.flip(dims).numpy(), np.flip(array, dims))


@pytest.mark.parametrize("dtype", ["bool", "int32", "float16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(3, 0, 5), (0,), (5,), (7, 9), (40, 30), (30, 20, 40), (5, 3, 2, 900), (200000,)])
def test_positions_and_selections_of_all_sizes_are_numpys(shape, dtype):
    rng = np.random.default_rng(6)
    array = rng.integers(-1, 2, shape).astype(dtype)
    if dtype == "float32" and array.size:
        array.reshape(-1)[0] = np.nan  # is not zero
    x, mask, source = torch.tensor(array), rng.random(shape) > 0.4, rng.integers(-9, 9, shape).astype(dtype)
    assert x.nonzero().shape == np.argwhere(array).shape
    np.testing.assert_array_equal(x.nonzero().numpy(), np.argwhere(array))
    np.testing.assert_array_equal(torch.argwhere(x).numpy(), np.argwhere(array))
    for turned in (False, True):
        t, m = (x.mT, torch.tensor(mask).mT) if turned and len(shape) > 1 else (x, torch.tensor(mask))
        given, taken = t.numpy(), m.numpy()
        np.testing.assert_array_equal(t.masked_select(m).numpy(), given[taken])
        wanted = given.copy()
        wanted[taken] = source.reshape(-1)[:taken.sum()]
        np.testing.assert_array_equal(t.masked_scatter(m, torch.tensor(source)).numpy(), wanted)
    np.testing.assert_array_equal(x.numpy(), array)


@pytest.mark.parametrize("size", [20, 3000, 200000])
def test_sources_that_are_too_small_are_refused(size):
    with pytest.raises(ShapeError, match="source has an element for every place of the mask"):
        torch.zeros(size).masked_scatter(torch.ones(size, dtype=torch.bool), torch.ones(size - 1))
