"""NumPy scalars stand for Python numbers: as operands, dims, sizes and counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_plugins.contract.errors import ArgumentTypeError

VALUES = np.arange(6.0).reshape(2, 3) - 2.5


def x() -> Any:
    return torch.tensor(VALUES)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.int64])
@pytest.mark.parametrize(("run", "expected"), [
    (lambda x, s: x.clamp(-s, s), lambda x, s: np.clip(x, -s, s)),
    (lambda x, s: x.clone().clamp_(max=s), np.minimum),
    (lambda x, s: torch.where(x > 0, x, s), lambda x, s: np.where(x > 0, x, s)),
    (lambda x, s: x.masked_fill(x > 0, s), lambda x, s: np.where(x > 0, s, x)),
    (lambda x, s: torch.lerp(x, x + 1, s), lambda x, s: x + s),
    (lambda x, s: torch.div(x, s, rounding_mode="floor"), np.floor_divide),
    (lambda x, s: x.index_fill(0, torch.tensor([0, 1]), s), lambda x, s: np.full_like(x, s)),
    (lambda x, s: torch.full((2, 3), s, dtype=torch.float64), lambda x, s: np.full_like(x, s)),
])
def test_operands(kind: Any, run: Callable[..., Any], expected: Callable[..., Any]) -> None:
    number = 2 if issubclass(kind, np.integer) else 0.5
    found = run(x(), kind(number))
    np.testing.assert_allclose(np.asarray(found.tolist()), expected(VALUES, number))


def test_a_limit_promotes_as_the_python_number_does() -> None:
    assert torch.tensor([1, 2, 3]).clamp(max=np.float32(1.5)).dtype is torch.float32
    assert torch.tensor([1, 2, 3]).clamp(max=np.int32(2)).dtype is torch.int64
    assert torch.full((2,), np.float32(1)).dtype is torch.float32
    assert torch.full((2,), np.int32(1)).dtype is torch.arange(np.int32(2)).dtype is torch.int64
    assert torch.full((2,), np.bool_(True)).dtype.name == "bool"


def test_gradients_pass_limits() -> None:
    leaf = torch.tensor([-1.0, 0.25, 1.0], requires_grad=True)
    leaf.clamp(np.float32(0), np.float32(0.5)).sum().backward()
    assert leaf.grad.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("run", [
    lambda x, i: x.sum(i), lambda x, i: x.argmax(dim=i), lambda x, i: x.softmax(i), lambda x, i: x.unsqueeze(i),
    lambda x, i: x.transpose(0, i), lambda x, i: x.cumsum(i), lambda x, i: torch.stack([x, x], i),
    lambda x, i: x.size(i), lambda x, i: x.movedim(i, 0), lambda x, i: x.roll(i, i), lambda x, i: x.narrow(i, 0, 1),
    lambda x, i: x.select(i, 0), lambda x, i: x.flatten(0, i), lambda x, i: x.squeeze(i), lambda x, i: x.logsumexp(i),
    lambda x, i: x.split(i, i)[0], lambda x, i: x.chunk(i)[0], lambda x, i: x.unbind(i)[0], lambda x, i: x.flip(i),
    lambda x, i: x.std(dim=i), lambda x, i: x.sort(dim=i)[0], lambda x, i: torch.arange(i),
    lambda x, i: torch.bincount(torch.tensor([0]), minlength=i), lambda x, i: x.gather(i, torch.tensor([[0], [1]])),
])
def test_dims_and_counts(kind: Any, run: Callable[..., Any]) -> None:
    found, expected = run(x(), kind(1)), run(x(), 1)
    if not hasattr(expected, "_key"):
        assert found == expected
        return
    assert found.dtype is expected.dtype
    assert tuple(found.shape) == tuple(expected.shape)
    assert found.tolist() == expected.tolist()


def test_windows() -> None:
    image, two = torch.arange(8.0).reshape(1, 1, 8), np.int64(2)
    assert torch.max_pool1d_with_indices(image, two)[0].tolist() == [[[1.0, 3.0, 5.0, 7.0]]]
    assert torch.adaptive_avg_pool1d(image, two).tolist() == [[[1.5, 5.5]]]


@pytest.mark.parametrize("seed", [np.int64(5), np.uint32(5), np.uint64(5)])
def test_seeds(seed: Any) -> None:
    expected = torch.manual_seed(5).initial_seed()
    assert torch.manual_seed(seed).initial_seed() == expected


def test_other_scalars_are_no_numbers() -> None:
    with pytest.raises(ArgumentTypeError, match="operands are tensors or Python numbers"):
        x().clamp(max=np.str_("2"))
    with pytest.raises(ArgumentTypeError, match="a dim is an integer"):
        x().sum(True)
