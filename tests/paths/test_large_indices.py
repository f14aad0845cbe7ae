"""Index tensors that are large enough for generated kernels: their range is checked in one pass."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.tensor import Tensor
from tensocket_operators.reductions.minmax_kernel import both_extremes


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("size", [1, 63, 64, 1000, 40000, 1 << 20])
def test_extremes_are_those_of_numpy(dtype: str, size: int) -> None:
    info = np.iinfo(dtype)
    array = np.random.default_rng(size).integers(info.min, info.max, size, dtype, endpoint=True)
    x: Tensor = torch.from_numpy(array)
    assert both_extremes(x._device_state, x._array, x.dtype) == (array.min(), array.max())


@pytest.mark.parametrize("place", [0, 1, 70000, 99999])
@pytest.mark.parametrize("wrong", [-1, 300])
def test_one_wrong_index_among_many_is_found(place: int, wrong: int) -> None:
    index = torch.randint(0, 300, (100_000,))
    index[place] = wrong
    with pytest.raises(IndexError, match=f"index {wrong} of a dimension of size 300"):
        torch.zeros(300).gather(0, index)


def test_triangles_of_large_matrices_are_numpys() -> None:
    array = np.random.default_rng(3).standard_normal((2, 257, 300)).astype(np.float32)
    x = torch.from_numpy(array)
    for diagonal in (0, 1, -1, 40, -40, 299, 300, -257, 1 << 62, -(1 << 63)):
        near = max(min(diagonal, 1000), -1000)
        np.testing.assert_array_equal(x.tril(diagonal).numpy(), np.tril(array, near))
        np.testing.assert_array_equal(x.triu(diagonal).numpy(), np.triu(array, near))
