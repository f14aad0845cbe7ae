"""Training steps as C libraries: optimizers with step counts, rates that programs change, and random numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn, optim
from tensocket.errors import CompileError
from tensocket.export import Dim, compile_c, export
from tensocket.export.c_library.random_numbers import RandomNumbers
from tensocket.nn import functional as F

from .c_programs import Loaded, needs_compiler

pytestmark = needs_compiler
STREAM = "generator:state"


class Loss(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 3))

    def forward(self, x: Any, target: Any) -> Any:
        return F.cross_entropy(self.model(x), target)


class Noisy(nn.Module):
    """Draws of all kinds as a result."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: Any) -> Any:
        return self.draw(x), self.draw(x)


def write_state(library: Loaded, path: str, values: np.ndarray[Any, Any]) -> None:
    find = library.function("state")
    find.restype = ctypes.c_void_p
    ctypes.memmove(find(library.model, path.encode(), None), values.ctypes.data, values.nbytes)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "adam": lambda p: optim.Adam(p, lr=0.05),
    "adam with a penalty": lambda p: optim.Adam(p, lr=0.05, weight_decay=0.1, maximize=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.05, amsgrad=True),
    "groups": lambda p: optim.AdamW([{"params": p[:2]}, {"params": p[2:], "lr": 0.1}]),
    "adamax": lambda p: optim.Adamax(p, lr=0.05),
    "nadam": lambda p: optim.NAdam(p, lr=0.05),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.1, initial_accumulator_value=0.3),
    "rmsprop": lambda p: optim.RMSprop(p, momentum=0.9, centered=True),
    "adadelta": optim.Adadelta,
    "rprop": optim.Rprop,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_with_step_counts(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    loss, make = Loss(), OPTIMIZERS[name]
    x, target = torch.randn(6, 4), torch.randint(0, 3, (6,))
    compile_c(export(loss, (x, target)), tmp_path, name="step", optimizer=make)
    library, eager = Loaded(tmp_path, "step"), make(list(loss.parameters()))
    for count in range(1, 8):
        eager.zero_grad()
        expected = loss(x, target)
        expected.backward()
        eager.step()
        found = library.run([], [x, target], expected.detach().numpy())
        np.testing.assert_allclose(found, expected.detach().numpy(), rtol=2e-5)
        assert library.state("step:model.0.weight", np.float32) == count
    for path, p in loss.named_parameters():
        weight = library.state(path, np.float32)
        assert weight is not None
        np.testing.assert_allclose(weight.reshape(p.shape), p.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_adam_agrees_with_numpy_and_its_rate_is_state(tmp_path: Path) -> None:
    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))

        def forward(self, x: Any) -> Any:
            return ((self.weight - x) ** 2).sum()

    compile_c(export(Square(), (torch.ones(3),)), tmp_path, name="step",
              optimizer=lambda p: optim.Adam(p, lr=torch.tensor(0.1), betas=(0.8, 0.999)))
    library = Loaded(tmp_path, "step")
    weight, mean, square = np.array([1.0, -2.0, 0.5]), np.zeros(3), np.zeros(3)
    x, rate = np.array([0.3, 0.4, 2.0], np.float32), 0.1
    for step in range(1, 9):
        if step == 5:
            rate = 0.02
            write_state(library, "lr", np.array(rate, np.float32))
        assert library.status([], x, np.zeros((), np.float32)) == 0
        gradient = 2 * (weight - x)
        mean, square = 0.8 * mean + 0.2 * gradient, 0.999 * square + 0.001 * gradient**2
        weight = weight - rate * (mean / (1 - 0.8**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        found = library.state("weight", np.float32)
        assert found is not None
        np.testing.assert_allclose(found, weight, rtol=3e-6)


@pytest.mark.parametrize("dynamic", [False, True])
def test_dropout_draws_the_numbers_of_eager_runs(dynamic: bool, tmp_path: Path) -> None:
    torch.manual_seed(3)
    loss, batch = Loss(0.4), Dim("batch", min=1, max=8)
    x, target = torch.randn(8, 4), torch.randint(0, 3, (8,))
    program = export(loss, (x, target), dynamic_shapes=({0: batch}, {0: batch}) if dynamic else None)

    def make(parameters: Any) -> Any:
        return optim.AdamW(parameters, lr=0.05)

    compile_c(program, tmp_path, name="step", optimizer=make)
    library, eager = Loaded(tmp_path, "step"), make(list(loss.parameters()))
    for k, n in enumerate((6, 8, 3, 1) if dynamic else (8, 8, 8)):
        if k == 2:
            torch.manual_seed(2**40 + 5)
            write_state(library, STREAM, np.array([2**40 + 5, 0], np.uint64))
        eager.zero_grad()
        expected = loss(x[:n], target[:n])
        expected.backward()
        eager.step()
        found = library.run([n] if dynamic else [], [x[:n], target[:n]], expected.detach().numpy())
        np.testing.assert_allclose(found, expected.detach().numpy(), rtol=2e-5)
        stream = library.state(STREAM, np.uint64)
        assert stream is not None
        np.testing.assert_array_equal(stream, torch.get_rng_state().numpy().view(np.uint64))


DRAWS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda x: torch.rand(3, 5),
    "rand of float64": lambda x: torch.rand((7,), dtype=torch.float64),
    "rand of float16": lambda x: torch.rand(9, dtype=torch.float16).float(),
    "rand_like": torch.rand_like,
    "rand_like of a transposed tensor": lambda x: torch.rand_like(x.t()),
    "randn": lambda x: torch.randn(1001),
    "randn of float64": lambda x: torch.randn(101, dtype=torch.float64),
    "randn_like": lambda x: torch.randn_like(x, dtype=torch.float64),
    "randint": lambda x: torch.randint(-5, 1000000, (13,)),
    "randint from 0": lambda x: torch.randint(9, (3,), dtype=torch.int32),
    "randint_like": lambda x: torch.randint_like(x.t(), 2, 9),
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout of channels": lambda x: F.dropout2d(x.reshape(1, 5, 3, 1), 0.5),
    "dropout of attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.2),
    "nothing": lambda x: x + torch.rand(0, 3).shape[1] + torch.randint(3, (2, 0)).shape[0],
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_eager_runs(name: str, tmp_path: Path) -> None:
    torch.manual_seed(11)
    model, x = Noisy(DRAWS[name]), torch.randn(5, 3)
    torch.rand(2**6)
    compile_c(export(model, (x,)), tmp_path, name="noise")
    library = Loaded(tmp_path, "noise")
    for _ in range(2):
        expected = [y.numpy() for y in model(x)]
        outputs = [np.empty_like(y, order="C") for y in expected]
        assert library.status([], x.numpy(), *outputs) == 0
        for found, y in zip(outputs, expected, strict=True):
            if "randn" in name or "attention" in name:
                np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-6)
            else:
                np.testing.assert_array_equal(found, y)


@pytest.mark.parametrize("offset", [0, 2**32 - 3])
@pytest.mark.parametrize("seed", [0, 2**40 + 17, 2**64 - 3])
def test_streams_of_large_seeds_and_offsets(seed: int, offset: int) -> None:
    words = np.array([seed, offset], np.uint64)
    torch.set_rng_state(torch.from_numpy(words.view(np.uint8).copy()))
    expected = torch.cat([torch.rand(21), torch.randint(0, 2**20, (7,)).float()])
    state = torch.from_numpy(words.view(np.int64).copy())
    with RandomNumbers(state) as numbers:
        found = torch.cat([torch.rand(21), torch.randint(0, 2**20, (7,)).float()])
    numbers.advance()
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    np.testing.assert_array_equal(state.numpy().view(np.uint8), torch.get_rng_state().numpy())


@pytest.mark.parametrize(("draw", "text"), [
    (lambda x: torch.bernoulli(x.sigmoid()), "an operator that draws random numbers by a kernel of its own"),
    (lambda x: torch.normal(0.0, 1.0, (3,)), "an operator that draws random numbers by a kernel of its own — random "
     "numbers in C come from dropout, rand, randn, randint, and their _like forms — use one of these, or pass the"),
    (lambda x: torch.randn(3, dtype=torch.complex64), "randn of dtype complex64 — random numbers in C are real floats "
     "or integers — draw these, and convert them"),
])
def test_draws_that_c_does_not_have(draw: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=rf"\[compile_c\] {text}"):
        compile_c(export(Noisy(draw), (torch.randn(5, 3),)), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_draws_from_other_streams() -> None:
    with pytest.raises(CompileError, match=r"\[compile_c\] rand with a generator — random numbers in C are those of "
                                           "one stream, which is a part of the state — leave the generator out"), (
            RandomNumbers(torch.tensor([0, 0]))):
        torch.rand(3, generator=torch.Generator())


def test_a_range_that_has_no_numbers() -> None:
    with pytest.raises(CompileError, match=r"\[compile_c\] randint from 5 to 5 — a range has from 1 to 2\*\*63 - 1 "
                                           "numbers — choose another range"), RandomNumbers(torch.tensor([0, 0])):
        torch.randint(5, 5, (2,))
