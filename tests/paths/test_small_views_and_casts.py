"""Views, conversions and comparisons of small arrays: the short paths return what the general ones return."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_operators.pointwise import casts
from tensocket_operators.shapes import slicing, storage_ops

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.int64,
          torch.uint8, torch.bool, torch.complex64]
VALUES = [0.0, 1.0, -1.0, 2.5, 100.0]


def outcome(function: Any, *args: Any) -> Any:
    """Return what a call returns, or its error."""
    try:
        found = function(*args)
    except Exception as error:
        return type(error), str(error)
    if not isinstance(found, tuple):
        found = (found,)
    return [(tuple(x.shape), x.stride(), x.dtype, x.tolist(), x._base is None, x._version, x._fixed_view)
            for x in found]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize("shape", [(5,), (), (1, 5)])
def test_conversions(source: Any, target: Any, shape: tuple[int, ...]) -> None:
    values = np.array(VALUES if shape else 2.0).reshape(shape)
    x = torch.tensor(values).abs().to(source) if source.kind == "uint" else torch.tensor(values).to(source)
    assert outcome(lambda: x.to(target)) == outcome(casts.to, x, target)
    assert outcome(lambda: x.to(dtype=target)) == outcome(casts.to, x, target)
    assert (x.to(target) is x) == (source is target)
    assert x.to("cpu") is x
    assert x.to(target, copy=True) is not x


def test_conversions_that_overflow_do_not_warn() -> None:
    assert torch.tensor([1e300, -1e300], dtype=torch.float64).float().tolist() == [math.inf, -math.inf]


def test_conversions_keep_the_graph() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert x.float() is x
    (gradient,) = torch.autograd.grad((x.double() * 3).sum(), x)
    assert (gradient.dtype, gradient.tolist()) == (torch.float32, [3.0, 3.0])


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 1, 3), (0, 3), (), (1,)])
def test_rows(shape: tuple[int, ...]) -> None:
    x = torch.arange(math.prod(shape)).reshape(shape).clone()
    for view in (x, x[...], x.t() if x.ndim == 2 else x):
        for dim in (0, -1, 1, True):
            assert outcome(lambda view, dim: view.unbind(dim), view, dim) == outcome(slicing.unbind, view, dim)


def test_rows_share_memory_and_version() -> None:
    x = torch.arange(6.0).reshape(2, 3).clone()
    first, second = x
    first += 10
    assert x.tolist() == [[10.0, 11.0, 12.0], [3.0, 4.0, 5.0]]
    assert second._version == x._version == 1


@pytest.mark.parametrize("size", [
    (3, 2), (6,), (-1,), (2, -1), (1, 6, 1), ((3, 2),), ([3, 2],), (4,), (-2,), (-1, -1), ()])
@pytest.mark.parametrize("turned", [False, True])
def test_reshapes(size: Any, turned: bool) -> None:
    x = torch.arange(6).reshape(2, 3).clone()
    x = x.t() if turned else x
    assert outcome(lambda: x.reshape(*size)) == outcome(slicing.reshape, x, *size)


@pytest.mark.parametrize("dims", [(1, 0, 2), (2, 0, 1), (-1, 0, 1), ((2, 1, 0),), ([0, 2, 1],)])
def test_permutations(dims: Any) -> None:
    values = np.arange(6).reshape(1, 2, 3)
    order = dims if isinstance(dims[0], int) else tuple(dims[0])
    found = torch.tensor(values).permute(*dims)
    assert found.tolist() == values.transpose(order).tolist()


@pytest.mark.parametrize("dims", [(0, 0, 1), (0, 1), (0, 1, 3), (0, 1, 2, 3)])
def test_what_is_not_a_permutation_raises(dims: Any) -> None:
    with pytest.raises(Exception, match="permute"):
        torch.zeros(1, 2, 3).permute(*dims)


def test_equal_elements() -> None:
    values = [[], [0.0], [-0.0], [math.nan], [1.0, 2.0], [1.0, 3.0], [[1.0, 2.0]]]
    for a, b in itertools.product(values, values):
        x, y = torch.tensor(a), torch.tensor(b)
        wanted = np.shape(a) == np.shape(b) and bool((np.array(a) == np.array(b)).all())
        assert torch.equal(x, y) is storage_ops.equal(x, y) is wanted
