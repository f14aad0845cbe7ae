"""Compiled functions do the same as plain ones, call by call, before and after a change of what they read."""

from __future__ import annotations

import types

import pytest

import tensocket as torch
from tensocket_compiler.capture.layout import LAYOUT

from . import (
    programs_attributes,
    programs_classes,
    programs_containers,
    programs_harmless,
    programs_models,
    programs_names,
    programs_outside,
    programs_runtime,
    programs_tricks,
)
from .judge import outcome

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")

#: Calls before and after the change.
CALLS = 6
MODULES = (programs_names, programs_attributes, programs_classes, programs_containers, programs_harmless,
           programs_models, programs_outside, programs_runtime, programs_tricks)

#: Programs whose results tell how they were called.
TELLING = {"stack", "reference_count", "collector", "lazily_run"}


def programs():
    for module in MODULES:
        for name, value in vars(module).items():
            if isinstance(value, types.FunctionType) and value.__code__.co_flags & 0x20 and (
                    value.__module__ == module.__name__) and name not in TELLING:
                yield pytest.param(value, id=f"{module.__name__.rpartition('_')[2]}-{name}")


def outcomes(program, backend):
    """The outcomes of all calls of a program, compiled by a backend or plain."""
    torch.manual_seed(0)
    steps = program()
    function, change, *rest = next(steps)
    idle = rest[0] if rest else lambda: None
    run = torch.compile(function, backend=backend) if backend else function
    x = torch.arange(1.0, 5.0)
    found = []
    try:
        for k in range(2 * CALLS):
            if k == CALLS:
                change()
            found.append(outcome(run, x))
            if k < CALLS:
                idle()
    finally:
        next(steps, None)
    served = sum(v.hits for v in run._compiled.variants) if backend else 0
    return found, served


@pytest.mark.parametrize("backend", ["tensocket", "eager"])
@pytest.mark.parametrize("program", [*programs()])
def test_calls_are_equal(program, backend):
    plain, _ = outcomes(program, None)
    again, _ = outcomes(program, None)
    if plain != again:
        pytest.skip("plain runs differ from each other")
    compiled, _ = outcomes(program, backend)
    assert len(compiled) == len(plain)
    for found, wanted in zip(compiled, plain, strict=True):
        assert same(found, wanted), (found, wanted)


def same(found, wanted):
    """Whether two outcomes are equal, up to the order of additions in products."""
    if isinstance(wanted, (list, tuple)):
        return type(found) is type(wanted) and len(found) == len(wanted) and all(map(same, found, wanted))
    return found == (pytest.approx(wanted, 1e-5, 1e-6) if isinstance(wanted, float) else wanted)
