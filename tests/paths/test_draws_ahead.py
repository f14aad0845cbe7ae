"""Small draws that are parts of longer ones: the numbers are those of the stream, wherever they are drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_operators.random import ahead

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
