"""``copy_`` between small arrays: values, versions and errors are those of the general path."""

from __future__ import annotations

from typing import Any

import pytest

import tensocket as torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("other", [torch.float32, torch.bfloat16, torch.uint16])
def test_values_are_converted(dtype: Any, other: Any) -> None:
    x, y = torch.zeros(2, 3).to(dtype), torch.tensor([[1, 0, 1], [0, 1, 1]]).to(other)
    assert x.copy_(y) is x
    assert x.to(torch.int64).tolist() == [[1, 0, 1], [0, 1, 1]]
    assert x._version == 1


def test_rows_broadcast_and_columns_are_turned() -> None:
    x, row = torch.zeros(2, 3), torch.tensor([1.0, 2.0, 3.0])
    assert x.copy_(row).tolist() == [[1.0, 2.0, 3.0]] * 2
    assert torch.zeros(3, 2).t().copy_(x).tolist() == x.tolist()


def test_parts_of_one_array() -> None:
    x = torch.arange(6.0)
    x[3:].copy_(x[:3])
    assert x.tolist() == [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="copy_"):
        x[1:].copy_(x[:-1])


def test_what_cannot_be_written_raises() -> None:
    with pytest.raises(RuntimeError, match="expanded"):
        torch.zeros(1).expand(3).copy_(torch.ones(3))
    with torch.inference_mode():
        made = torch.zeros(3)
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        made.copy_(torch.ones(3))


def test_the_copy_is_part_of_the_graph() -> None:
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.zeros(2)
    y.copy_(x)
    (gradient,) = torch.autograd.grad((y * 3).sum(), x)
    assert gradient.tolist() == [3.0, 3.0]
