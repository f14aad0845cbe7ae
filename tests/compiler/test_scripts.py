"""Compiled functions do the same as plain ones in scripts that change all that calls may depend on, between calls."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tensocket as torch
from tensocket_compiler.capture.layout import LAYOUT

from . import (
    scripts_arguments,
    scripts_calls,
    scripts_containers,
    scripts_equal,
    scripts_hidden,
    scripts_models,
    scripts_objects,
    scripts_results,
    scripts_runtime,
    scripts_world,
)
from .scripts import scripts_of

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")

MODULES = (scripts_arguments, scripts_calls, scripts_containers, scripts_equal, scripts_hidden, scripts_models,
           scripts_objects, scripts_results, scripts_runtime, scripts_world)


def outcomes(script, backend):
    """All that a script yields, with functions that a backend compiled, or plain ones."""
    def compiled(function, **options):
        return torch.compile(function, backend=backend, **options) if backend else function
    torch.manual_seed(0)
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the compiler failed")
        warnings.filterwarnings("error", message="a graph of ")
        return list(script(compiled))


@pytest.mark.parametrize("backend", ["tensocket", "eager"])
@pytest.mark.parametrize("script", [
    pytest.param(script, id=f"{module.__name__.rpartition('_')[2]}-{script.__name__}")
    for module in MODULES for script in scripts_of(module)])
def test_all_that_can_be_told_is_equal(script, backend):
    plain = outcomes(script, None)
    assert same(outcomes(script, None), plain), "the script has to do the same in every run"
    compiled = outcomes(script, backend)
    assert len(compiled) == len(plain)
    for number, (found, wanted) in enumerate(zip(compiled, plain, strict=True)):
        assert same(found, wanted), (number, found, wanted)


def same(found, wanted):
    """Whether two outcomes are equal, up to the order of additions in products."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and list(found) == list(wanted) and all(
            same(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        return type(found) is type(wanted) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float):
        return found == pytest.approx(wanted, 1e-5, 1e-6, nan_ok=True)
    return found == wanted
