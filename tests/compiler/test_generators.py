"""Generators of the program: graphs draw from them what eager calls draw, and leave them where these leave them."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.capture.layout import LAYOUT
from tensocket_compiler.capture.recorder import CannotRecord, Recorder

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
CALLS = 12


class Noise(nn.Module):
    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def forward(self, x, generator=None):
        return x * 2 + torch.randn(4, generator=self.generator)


def by_module(first, second):
    return Noise(first)


def by_argument(first, second):
    return lambda x, generator: x + torch.rand(4, generator=generator)


def interleaved(first, second):
    def function(x):
        a, b = torch.rand(4, generator=first), torch.randn(4, generator=second)
        c = torch.rand(4)
        return a - b * c + torch.randperm(4, generator=first) + torch.randint(9, (4,), generator=second) + x
    return function


def in_place(first, second):
    def function(x):
        y = x.clone().uniform_(generator=first)
        return torch.bernoulli(y, generator=second) + y.normal_(generator=first)
    return function


def several(first, second):
    def function(x):
        for _ in range(3):
            x = x + torch.multinomial(torch.ones(4), 4, generator=first)
        return x
    return function


def run(make, compiled, change=lambda call, first, second: None, **options):
    torch.manual_seed(5)
    first, second, found = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2), []
    function = make(first, second)
    function = torch.compile(function, **options) if compiled else function
    for call in range(CALLS):
        change(call, first, second)
        extra = (first,) if make is by_argument else ()
        found.append(function(torch.full((4,), float(call)), *extra).tolist())
    return found, [first.get_state().tolist(), second.get_state().tolist(), torch.get_rng_state().tolist()], function


def served(function):
    return torch.compiler.compiled(function).report().graph_count


MAKES = [by_module, by_argument, interleaved, in_place, several]


@pytest.mark.parametrize("make", MAKES)
def test_draws_and_positions_are_those_of_eager_calls(make):
    found, positions, function = run(make, True)
    assert (found, positions) == run(make, False)[:2]
    assert served(function) == (make is not in_place)  # methods that fill a tensor are no operators


@pytest.mark.parametrize("make", MAKES)
def test_every_call_is_checked(make):
    assert run(make, True, options={"check": 1})[:2] == run(make, False)[:2]


@pytest.mark.parametrize("make", MAKES)
def test_states_change_between_calls(make):
    def change(call, first, second):
        if call == 7:
            first.manual_seed(11)
        if call == 9:
            second.set_state(first.get_state())
        torch.rand(1, generator=first)
    assert run(make, True, change)[:2] == run(make, False, change)[:2]


def test_a_generator_that_a_call_makes_draws_the_same_numbers_each_time():
    function = torch.compile(lambda x: x + torch.rand(4, generator=torch.Generator()))
    found = [function(torch.zeros(4)).tolist() for _ in range(CALLS)]
    assert all(x == found[0] for x in found)
    assert not served(function)


def test_a_generator_that_the_run_alone_makes():
    with pytest.raises(CannotRecord, match="it draws from a generator that it makes"), Recorder() as recorder:
        recorder._symbolic(torch.Generator())


@pytest.mark.parametrize("read", [
    lambda g: torch.rand(4, generator=g.clone_state()),
    lambda g: g.manual_seed(4) and torch.rand(4, generator=g),
    lambda g: torch.rand(4, generator=g) + g.initial_seed(),
    lambda g: torch.rand(4, generator=g) + g.get_state().sum(),
])
def test_states_that_a_call_reads_or_sets(read):
    found = []
    for compiled in (True, False):
        generator = torch.Generator().manual_seed(3)
        function = lambda x, generator=generator: x + read(generator)
        function = torch.compile(function) if compiled else function
        values = []
        for _ in range(CALLS):
            values.append(function(torch.zeros(4)).tolist())
            torch.rand(1, generator=generator)
        found.append(values)
        if compiled:
            assert "the state of a random number generator" in torch.compiler.compiled(function).report(
                ).break_reasons[0]
    assert found[0] == found[1]


def test_another_generator_takes_another_graph():
    generators = [torch.Generator().manual_seed(k) for k in range(2)]
    function = torch.compile(lambda x, g: x + torch.rand(4, generator=g))
    found = [function(torch.zeros(4), generators[k // 5 % 2]).tolist() for k in range(20)]
    wanted = [torch.Generator().manual_seed(k) for k in range(2)]
    assert found == [torch.rand(4, generator=wanted[k // 5 % 2]).tolist() for k in range(20)]


def test_backward_passes_of_draws():
    found = []
    for compiled in (True, False):
        generator, weight = torch.Generator().manual_seed(3), torch.ones(4, requires_grad=True)
        function = lambda x, g=generator, w=weight: (x * w * torch.rand(4, generator=g)).sum()
        function = torch.compile(function) if compiled else function
        for _ in range(CALLS):
            function(torch.arange(4.0)).backward()
        found.append((weight.grad.tolist(), generator.get_state().tolist()))
    assert found[0] == found[1]


def test_backends_of_a_program():
    found = []
    for compiled in (True, False):
        generator = torch.Generator().manual_seed(3)
        function = lambda x, g=generator: x + torch.rand(4, generator=g)
        function = torch.compile(function, backend="eager") if compiled else function
        found.append(([function(torch.zeros(4)).tolist() for _ in range(CALLS)], generator.get_state().tolist()))
    assert found[0] == found[1]
