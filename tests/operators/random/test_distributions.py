"""Distributions: forms of calls, bounds, gradients, dtypes and repeatability."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import random
from tensocket_operators.random import generator_of


def test_a_generator_is_the_only_source() -> None:
    for draw in (lambda g: torch.normal(torch.zeros(5), 1.0, generator=g),
                 lambda g: torch.normal(0.0, 1.0, (5,), generator=g),
                 lambda g: random.exponential_(torch.empty(5), generator=g),
                 lambda g: random.random_(torch.empty(5), generator=g),
                 lambda g: torch.multinomial(torch.ones(5), 5, generator=g),
                 lambda g: torch.poisson(torch.full((5,), 20.0), generator=g),
                 lambda g: torch.binomial(torch.full((5,), 50.0), torch.full((5,), 0.5), generator=g),
                 lambda g: torch.randint_like(torch.zeros(5), 1000, generator=g)):
        first, second = (draw(torch.Generator().manual_seed(3)) for _ in range(2))
        before = generator_of(first._device_state).position
        assert draw(torch.Generator().manual_seed(4)).tolist() != first.tolist()
        assert first.tolist() == second.tolist()
        assert generator_of(first._device_state).position == before


@pytest.mark.parametrize(("dtype", "last"), [("int8", 127), ("uint8", 255), ("bool", 1), ("float16", 2048),
                                             ("bfloat16", 256)])
def test_whole_numbers_reach_what_the_dtype_holds(dtype: str, last: int) -> None:
    kind = torch.bool_ if dtype == "bool" else getattr(torch, dtype)
    drawn = random.random_(torch.empty(4000, dtype=kind)).to(torch.float32)
    assert drawn.amin().item() >= 0
    assert last * 0.98 <= drawn.amax().item() <= last


def test_bounds_of_whole_numbers() -> None:
    assert random.random_(torch.empty(50), 1).tolist() == [0.0] * 50
    assert set(random.random_(torch.empty(200), -2, 1).tolist()) == {-2.0, -1.0, 0.0}
    assert set(torch.randint_like(torch.zeros(200), 3, 5).tolist()) == {3.0, 4.0}
    assert random.random_(torch.empty(8, dtype=torch.int64)).amin().item() >= 0


@pytest.mark.parametrize(("dtype", "first", "last"), [
    ("int8", -128, 127), ("int64", -(1 << 63), (1 << 63) - 1), ("float16", -2048, 2048), ("bool", 0, 1)])
def test_whole_numbers_from_a_bound_on(dtype: str, first: int, last: int) -> None:
    kind = torch.bool_ if dtype == "bool" else getattr(torch, dtype)
    drawn = random.random_(torch.empty(2000, dtype=kind), first, None).to(torch.float64)
    width = last - first
    assert first <= drawn.amin().item() <= first + 0.1 * width
    assert last - 0.1 * width <= drawn.amax().item() <= last


def test_whole_numbers_between_rounded_bounds() -> None:
    with pytest.warns(UserWarning, match=r"is out of bounds \[-\(2\^11\), 2\^11\]") as found:
        # 5001 rounds to 5000 in float16, and 6001 to 6000: neither is drawn.
        drawn = random.random_(torch.empty(500, dtype=torch.float16), 5001, 6001)
    assert len(found) == 2
    assert 5004 <= drawn.amin().item() <= drawn.amax().item() <= 6000


def test_normal_numbers_take_parameters_of_either_kind() -> None:
    mean = torch.tensor([[100.0], [-100.0]])
    assert torch.normal(mean, torch.zeros(3)).tolist() == [[100.0] * 3, [-100.0] * 3]
    assert torch.normal(5.0, torch.zeros(2)).tolist() == [5.0, 5.0]
    assert torch.normal(mean, 0.0).shape == (2, 1)
    out = torch.empty(0)
    assert torch.normal(0.0, 1.0, (4,), out=out) is out
    assert out.shape == (4,)
    assert torch.normal(0.0, 1.0, (2,), dtype=torch.float64).dtype is torch.float64


def test_samples_have_zero_gradients() -> None:
    for draw in (torch.bernoulli, torch.poisson, lambda p: torch.normal(p, 1.0)):
        probability = torch.full((3,), 0.5, requires_grad=True)
        draw(probability).sum().backward()
        assert probability.grad.tolist() == [0.0] * 3


def test_sure_things() -> None:
    sure = torch.tensor([0.0, 1.0, 1.0])
    assert torch.bernoulli(sure).tolist() == sure.tolist()
    assert random.bernoulli_(torch.empty(3, dtype=torch.int64), sure).tolist() == [0, 1, 1]
    assert torch.bernoulli(torch.empty(4), 1.0).tolist() == [1.0] * 4
    assert torch.poisson(torch.zeros(3)).tolist() == [0.0] * 3
    count = torch.tensor([0.0, 5.0, 70.0, 70.0])
    assert torch.binomial(count, torch.tensor([0.5, 1.0, 1.0, 0.0])).tolist() == [0.0, 5.0, 70.0, 0.0]
    out = torch.empty(0, dtype=torch.int64)
    assert torch.multinomial(torch.tensor([0.0, 2.0]), 4, True, out=out).tolist() == [1] * 4
    assert torch.bernoulli(sure, out=torch.empty(3)).tolist() == sure.tolist()


def test_means_and_variances_of_large_counts() -> None:
    """Rejection, where the interpreter draws only some: within six standard errors."""
    size = 4000
    for drawn, mean, variance in ((torch.poisson(torch.full((size,), 400.0)), 400.0, 400.0),
                                  (torch.binomial(torch.full((size,), 900.0), torch.full((size,), 0.8)), 720.0, 144.0)):
        values = np.array(drawn.tolist())
        assert abs(values.mean() - mean) < 6 * (variance / size) ** 0.5
        assert abs(values.var() / variance - 1) < 6 * (2 / size) ** 0.5


def test_draws_without_memory() -> None:
    meta = torch.ones(3, device="meta")
    assert torch.poisson(meta).shape == torch.bernoulli(meta).shape == random.cauchy_(meta).shape == (3,)
    assert torch.binomial(meta, meta).device.type == "meta"
