"""Indices with tensors on small arrays: the path through NumPy returns bits, layout and errors of the general one."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tensocket as torch
from tensocket_operators.indexing.subscript import getitem, setitem


def random_index(rng: random.Random, shape: tuple[int, ...]) -> Any:
    """Return an index of a random form, now and then one that is out of range or does not fit."""
    parts: list[Any] = []
    common = rng.choice([(2,), (3, 1), (1,), (2, 2), (0,), ()])
    while len(parts) < 6 and rng.random() < 0.85:
        taken = sum(p.ndim if getattr(p, "dtype", None) is torch.bool else p is not None for p in parts)
        if taken == len(shape):
            break
        size, excess = shape[taken], int(rng.random() < 0.02)
        form = rng.choice(["int", "slice", "none", "positions", "mask"])
        if form == "int":
            parts.append(rng.randrange(-size - excess, size))
        elif form == "slice":
            parts.append(slice(rng.choice([None, 0, 1, -1]), rng.choice([None, 2, -1, 9]), rng.choice([None, 1, 2])))
        elif form == "none":
            parts.append(None)
        elif form == "positions":
            parts.append(torch.randint(-size, size + excess, common))
        else:
            parts.append(torch.rand(shape[taken:taken + rng.randint(1, 2)]) > 0.4)
    return tuple(parts) if len(parts) != 1 or rng.random() < 0.5 else parts[0]


def outcome(function: Any, *args: Any) -> Any:
    """Return what a call returns, or its error."""
    try:
        result = function(*args)
    except Exception as error:
        return type(error), str(error)
    return result if result is None else (
        tuple(result.shape), result.stride(), result.dtype, result.tolist(), result._base is None)


@pytest.mark.parametrize("seed", range(8))
def test_reads_return_what_the_general_path_returns(seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(150):
        x = torch.randn(*[rng.choice([1, 2, 3, 5]) for _ in range(rng.randint(1, 4))])
        if rng.random() < 0.3:
            x = x.permute(*rng.sample(range(x.ndim), x.ndim))
        index = random_index(rng, tuple(x.shape))
        assert outcome(lambda x, index: x[index], x, index) == outcome(getitem, x, index), (x.shape, index)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_numbers_at_masks_are_those_of_the_general_path(dtype: Any) -> None:
    for value in (0, 1.5, -2, True, 1e40, float("nan"), float("inf"), 2 ** 40):
        x = torch.arange(12).reshape(3, 4).to(dtype)
        mask = torch.arange(12).reshape(3, 4) % 3 == 0
        one, other = x.clone(), x.clone()
        assert outcome(one.__setitem__, mask, value) == outcome(setitem, other, mask, value)
        assert repr(one.tolist()) == repr(other.tolist())
        assert one._version == other._version


def test_a_mask_that_is_the_target_is_read_first() -> None:
    x = torch.tensor([True, False, True])
    x[x] = False
    assert x.tolist() == [False, False, False]
