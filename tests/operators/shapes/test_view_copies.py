"""Copies in place of several views: values, memory and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import DimensionError

DTYPES = ["bool_", "uint8", "int64", "float16", "bfloat16", "float64", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4), (3, 0), (0, 3), (2, 1000)])
def test_unbind_copy(shape: tuple[int, ...], dtype: str) -> None:
    values = np.arange(np.prod(shape)).reshape(shape) % 2
    x = torch.tensor(values).to(getattr(dtypes, dtype))
    for given in (x, x.transpose(0, -1)):
        for dim in range(-len(shape), len(shape)):
            parts: Any = torch.unbind_copy(given, dim)
            assert type(parts) is tuple
            expected = np.moveaxis(np.array(given.tolist()).reshape(given.shape), dim, 0)
            assert len(parts) == len(expected)
            for part, row in zip(parts, expected, strict=True):
                assert part.dtype is x.dtype
                assert part.is_contiguous()
                assert part._base is None
                np.testing.assert_array_equal(np.array(part.tolist()).reshape(row.shape), row)
                part.zero_()
    np.testing.assert_array_equal(np.array(x.to(torch.float64).tolist()).reshape(shape), values)


def test_unbind_copy_of_many_rows_with_a_gradient() -> None:
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    first, _, last = torch.unbind_copy(x)
    (first.sum() + (last * last).sum()).backward()
    assert x.grad.tolist() == [[1, 1], [0, 0], [8, 10]]
    for wrong in (torch.tensor(1.0), x):
        with pytest.raises(DimensionError):
            torch.unbind_copy(wrong, 5)
