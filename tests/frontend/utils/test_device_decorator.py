"""The default device of a function, and ``assert`` as a function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tensocket as torch
from tensocket.utils._device import set_device


def test_functions_have_a_default_device() -> None:
    @set_device("meta")
    def make() -> Any:
        return torch.empty(2)

    @set_device("meta")
    def steps() -> Iterator[torch.Tensor]:
        yield torch.empty(2)
        yield torch.empty(3)

    assert make().device.type == "meta"
    made = []
    for x in steps():
        assert torch.empty(1).device.type == "cpu"  # between the steps
        made.append(x.device.type)
    assert made == ["meta", "meta"]


def test_assert_is_a_function_that_classes_see() -> None:
    class Condition:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> None:
            seen.append((func, args[1]))

    seen: list[Any] = []
    torch._assert(True, "holds")
    torch._assert(torch.tensor([True]), "holds")
    torch._assert(Condition(), "asked")
    assert seen == [(torch._assert, "asked")]
    for condition in (False, torch.tensor([False])):
        with pytest.raises(AssertionError, match="does not hold"):
            torch._assert(condition, "does not hold")
