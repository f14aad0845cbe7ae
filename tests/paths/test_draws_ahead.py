"""Small draws that are parts of longer ones: the numbers are those of the stream, wherever they are drawn."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.device import open_device
from tensocket_operators.creation import noted
from tensocket_operators.random import ahead, generator_of
from tensocket_plugins.contract.errors import ArgumentError

DRAWS: dict[str, Callable[[str, torch.Generator], Any]] = {
    "rand": lambda d, g: torch.rand(3, device=d, generator=g),
    "rand of float64": lambda d, g: torch.rand(2, 3, dtype=torch.float64, device=d, generator=g),
    "randn": lambda d, g: torch.randn(7, device=d, generator=g),
    "randn of float64": lambda d, g: torch.randn((), dtype=torch.float64, device=d, generator=g),
    "randint": lambda d, g: torch.randint(-5, 90, (5,), device=d, generator=g),
    "another randint": lambda d, g: torch.randint(0, 2, (1, 9), device=d, generator=g),
    "uniform_": lambda d, g: torch.empty(4, device=d).uniform_(-1, 3, generator=g),
    "uniform_ with another bound": lambda d, g: torch.empty(4, device=d).uniform_(-1, 4, generator=g),
    "bernoulli_": lambda d, g: torch.empty(4, device=d).bernoulli_(0.25, generator=g),
    "normal_": lambda d, g: torch.empty(4, device=d).normal_(0.5, 2.0, generator=g),
    "many": lambda d, g: torch.rand(1500, device=d, generator=g),
}


@pytest.fixture(autouse=True)
def _no_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead._STRETCHES.clear()
    ahead._DRAWS.clear()
    monkeypatch.setattr(ahead, "_BLOCKS", 50)  # so that stretches end
    monkeypatch.setattr(ahead, "_PATIENCE", 4)


def check_same(drawn: Any, wanted: Any) -> None:
    """The bits of all numbers are those of another device; float64 logarithms and cosines are its own functions."""
    assert np.allclose(drawn.numpy(), wanted.cpu().numpy(), rtol=1e-13 if drawn.dtype == torch.float64 else 0, atol=0)


def streams() -> tuple[torch.Generator, torch.Generator]:
    return torch.Generator("cpu").manual_seed(11), torch.Generator("ref").manual_seed(11)


@pytest.mark.parametrize("name", list(DRAWS))
def test_repeated_draws_continue_the_stream(name: str) -> None:
    own, reference = streams()
    for _ in range(60):
        drawn, wanted = DRAWS[name]("cpu", own), DRAWS[name]("ref", reference)
        assert drawn.shape == wanted.shape
        check_same(drawn, wanted)
    assert own.get_state().tolist() == reference.get_state().tolist()


NOTED: dict[str, Callable[[str], Any]] = {
    "rand": lambda d: torch.rand(3, device=d), "randn": lambda d: torch.randn(2, 3, device=d),
    "rand of float64": lambda d: torch.rand((), dtype=torch.float64, device=d),
    "rand of bfloat16": lambda d: torch.rand(4, dtype=torch.bfloat16, device=d),
    "rand_like": lambda d: torch.rand_like(torch.empty(5, device=d)),
    "randn_like": lambda d: torch.randn_like(torch.empty(2, 1, device=d).t()),
    "randn_like without dimensions": lambda d: torch.randn_like(torch.empty((), device=d)),
    "randint": lambda d: torch.randint(-5, 90, (5,), device=d),
    "randint_like": lambda d: torch.randint_like(torch.empty(3, device=d), 2, 10),
    "normal": lambda d: torch.normal(1.5, 0.25, (2, 2), device=d),
    "requires_grad": lambda d: torch.rand(2, device=d, requires_grad=True).detach(),
    "many": lambda d: torch.rand(700, device=d),
}


@pytest.mark.parametrize("name", list(NOTED))
def test_noted_draws_continue_the_stream(name: str) -> None:
    draw, calls = NOTED[name], noted._CALLS + 8
    torch.manual_seed(23)
    found = [draw("cpu") for _ in range(calls)]
    state = torch.get_rng_state()
    torch.manual_seed(23)
    for x in found:
        wanted = draw("ref")
        assert (x.dtype, x.shape, x.stride(), x.requires_grad) == (
            wanted.dtype, wanted.shape, wanted.stride(), wanted.requires_grad)
        assert np.allclose(x.float().numpy(), wanted.float().cpu().numpy(), rtol=1e-6, atol=0)
    assert state.tolist() == generator_of(open_device("ref")).get_state().tolist()


def test_noted_draws_of_several_functions_and_seeds() -> None:
    names = np.random.default_rng(1).choice(list(NOTED), 2000)
    for k, name in enumerate(names):
        if k % 97 == 0:
            torch.manual_seed(k % 5)
        found, wanted = NOTED[name]("cpu"), NOTED[name]("ref")
        assert np.allclose(found.float().numpy(), wanted.float().cpu().numpy(), rtol=1e-6, atol=0), name


def test_noted_draws_respect_generators_and_forks() -> None:
    for _ in range(noted._CALLS + 8):
        torch.rand(3)
    own = torch.Generator().manual_seed(3)
    first = torch.rand(3, generator=own)
    assert first.tolist() == torch.rand(3, generator=own.manual_seed(3)).tolist()
    state = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.manual_seed(9)
        inner = torch.rand(3).tolist()
    assert torch.get_rng_state().tolist() == state.tolist()
    torch.manual_seed(9)
    assert torch.rand(3).tolist() == inner


def test_mixed_draws_continue_the_stream() -> None:
    own, reference = streams()
    for k in np.random.default_rng(0).integers(0, len(DRAWS), 400):
        draw = [*DRAWS.values()][k]
        check_same(draw("cpu", own), draw("ref", reference))
    assert any(x.drawn[3] is not None for x in ahead._STRETCHES.values())


def test_seeds_and_positions_count() -> None:
    own, reference = streams()
    for k in range(40):
        for generator in (own, reference):
            if k % 3 == 0:
                generator.manual_seed(k // 9)
            if k % 7 == 0:
                torch.rand(1000 * k, device=generator.device, generator=generator)
        assert torch.rand(5, generator=own).tolist() == torch.rand(5, device="ref", generator=reference).tolist()


def test_drawn_memory_is_not_shared() -> None:
    generator = torch.Generator("cpu").manual_seed(3)
    made = [torch.rand(3, generator=generator) for _ in range(30)]
    wanted = [x.tolist() for x in made]
    for x in made:
        x.zero_()
    generator.manual_seed(3)
    assert [torch.rand(3, generator=generator).tolist() for _ in range(30)] == wanted


def test_threads_share_a_stream() -> None:
    torch.manual_seed(5)
    made: list[list[float]] = []

    def run() -> None:
        made.extend(torch.rand(4).tolist() for _ in range(300))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.manual_seed(5)
    assert sorted(made) == sorted(torch.rand(1200, 4).tolist())


@pytest.mark.parametrize("weights", [[math.nan, 1.0], [1.0, math.nan], [-1.0, 2.0], [math.inf, 1.0], [0.0, 0.0],
                                     [[1.0, 0.0], [0.0, 0.0]]])
def test_few_wrong_weights_are_refused(weights):
    with pytest.raises(ArgumentError, match="weights"):
        torch.multinomial(torch.tensor(weights), 1)


def test_few_weights_of_zero_are_never_drawn():
    for dtype in (torch.float32, torch.float64):
        weights = torch.tensor([[0.0, 3.0, 0.0, 1.0]] * 2, dtype=dtype)
        for _ in range(20):
            assert sorted(torch.multinomial(weights, 2).flatten().tolist()) == [1, 1, 3, 3]
    with pytest.raises(ArgumentError):
        torch.multinomial(weights, 5)
