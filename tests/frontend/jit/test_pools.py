"""Pools return tensors in scripts, and pairs with indices; a constant decides."""

from __future__ import annotations

import pytest

import tensocket as torch
import tensocket.nn.functional as F
from tensocket import Tensor, nn
from tensocket.jit.frontend import ScriptError

VALUES = torch.arange(64.0).reshape(1, 4, 4, 4)


def largest(x: Tensor) -> Tensor:
    return F.adaptive_max_pool2d(x, [2, 2]) + 1


def largest_of_positional_flag(x: Tensor) -> Tensor:
    return F.adaptive_max_pool2d(x, [2, 2], False).add(1)


def largest_of_volumes(x: Tensor) -> Tensor:
    return F.adaptive_max_pool3d(x, [4, 2, 2]).add(1)


def largest_of_rows(x: Tensor) -> Tensor:
    return F.adaptive_max_pool1d(x[0], 2).add(1)


def places(x: Tensor) -> Tensor:
    return F.adaptive_max_pool2d(x, [2, 2], return_indices=True)[1]


def chosen(x: Tensor, flag: bool) -> Tensor:
    return F.max_pool2d(x, 2, return_indices=flag)


class Chosen(nn.Module):
    __constants__ = ["flag"]

    def __init__(self, flag: bool) -> None:
        super().__init__()
        self.flag = flag

    def forward(self, x):
        return F.max_pool2d(x, 2, return_indices=self.flag)


#: The last element of each window of 2 by 2: elements rise.
LAST = VALUES[:, :, 1::2, 1::2]


@pytest.mark.parametrize("function", [largest, largest_of_positional_flag, largest_of_volumes])
def test_pools_without_indices_are_tensors(function):
    assert torch.jit.script(function)(VALUES).tolist() == (LAST + 1).tolist()


def test_pools_of_rows_are_tensors():
    assert torch.jit.script(largest_of_rows)(VALUES).tolist() == (VALUES[0, :, :, 1::2] + 1).tolist()


def test_pools_with_indices_are_pairs():
    assert torch.jit.script(places)(VALUES)[0, 0].tolist() == [[5, 7], [13, 15]]


def test_a_constant_decides():
    assert torch.jit.script(Chosen(False))(VALUES).tolist() == LAST.tolist()
    values, indices = torch.jit.script(Chosen(True))(VALUES)
    assert values.tolist() == LAST.tolist()
    assert indices[0, 0].tolist() == [[5, 7], [13, 15]]


def test_a_variable_does_not_decide():
    with pytest.raises(ScriptError, match="argument 'return_indices', which decides the result's type, was not const"):
        torch.jit.script(chosen)
