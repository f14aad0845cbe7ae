"""Replays of operators at positions: every call checks its positions, and arguments by name belong to the recording."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket_plugins.contract.errors import IndexOutOfRange

pytestmark = pytest.mark.native
#: Calls after which all launches are recorded.
CALLS = 12
X = np.arange(20, dtype=np.float32).reshape(5, 4)


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(X), torch.tensor([1, 0])


@pytest.mark.parametrize("name", ["index_select", "index_fill", "index_copy", "index_add", "take", "put", "gather"])
def test_each_call_checks_its_positions(name: str) -> None:
    x, index = tensors()
    rest = {"index_select": (0, index), "index_fill": (0, index, 2.0), "index_copy": (0, index, x[:2]),
            "index_add": (0, index, x[:2]), "take": (index,), "put": (index, x[0, :2]),
            "gather": (0, index.reshape(1, 2))}[name]
    expected = [getattr(x, name)(*rest).tolist() for _ in range(CALLS)]
    assert all(made == expected[0] for made in expected)
    before = x.tolist()
    index[0] = 20  # the tensors of the recording hold other positions
    with pytest.raises(IndexOutOfRange):
        getattr(x, name)(*rest)
    assert x.tolist() == before
    index[0] = 1
    assert getattr(x, name)(*rest).tolist() == expected[0]


@pytest.mark.parametrize("last", [-1, 1, -5, 4])
def test_positions_of_both_signs_replay(last: int) -> None:
    x, _ = tensors()
    for k in range(CALLS):
        index = torch.tensor([0, last if k == CALLS - 1 else 2])
        made = x.index_put((index,), torch.tensor([[1.0], [2.0]]))
    wanted = X.copy()
    wanted[0], wanted[last] = 1, 2
    assert made.tolist() == wanted.tolist()


def test_arguments_by_name_and_variadic_ones_belong_to_the_recording() -> None:
    x, index = tensors()
    for _ in range(CALLS):
        doubled = x.index_add(0, index, x[:2], alpha=2)
        added = x.index_add(0, index, x[:2])
        turned, both, nested = x.flip(0), x.flip(0, 1), x.flip((0, 1))
    assert (doubled - added).tolist() == (added - x).tolist()
    assert turned.tolist() == X[::-1].tolist()
    assert both.tolist() == nested.tolist() == X[::-1, ::-1].tolist()


def test_gradients_of_repeated_positions_are_sums() -> None:
    index = torch.tensor([1, 1, 3])
    for _ in range(CALLS):
        x = torch.tensor(X, requires_grad=True)
        (x.index_select(0, index) * 2).sum().backward()
    wanted = np.zeros_like(X)
    wanted[1], wanted[3] = 4, 2
    assert x.grad.tolist() == wanted.tolist()


def test_empty_results_replay_with_their_strides() -> None:
    for _ in range(CALLS):
        made = torch.zeros(0, 3, 4).roll(1, 0)
    assert made.shape == (0, 3, 4)
    assert made.stride() == (12, 4, 1)
