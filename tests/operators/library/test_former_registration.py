"""Forms of registration that PyTorch had before its present ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_operators import library
from tensocket_operators.library import Library
from tensocket_operators.namespaces import ops


@pytest.fixture
def lib() -> Iterator[Library]:
    made = Library("probe", "DEF")
    yield made
    made._destroy()


def f64(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def test_former_forms_take_the_library_first(lib: Library) -> None:
    @library.define(lib, "twice(Tensor x) -> Tensor", alias_analysis="")
    def twice(x: Any) -> Any:
        return x * 2

    assert ops.probe.twice(f64(1.0, 2.0)).tolist() == [2.0, 4.0]
    lib.define("thrice(Tensor x) -> Tensor")

    @library.impl(lib, "thrice", "CompositeExplicitAutograd")
    def thrice(x: Any) -> Any:
        return x * 3

    assert ops.probe.thrice(f64(1.0)).tolist() == [3.0]
    with pytest.raises(TypeError, match="Input function is required to be a callable"):
        lib.impl("thrice", 3)
    with pytest.raises(ValueError, match="it is a reserved namespace, for which kernels can be registered only"):
        Library("prim", "DEF")
    with pytest.raises(ValueError, match="Unsupported kind: it is 'DEF', 'FRAGMENT' or 'IMPL'"):
        Library("probe", "BLA")
    del ops.probe
    assert ops.probe.thrice(f64(1.0)).tolist() == [3.0]
