"""Dtypes and devices as defaults of library operators."""

from __future__ import annotations

from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_operators import library
from tensocket_operators.library import Library
from tensocket_operators.namespaces import ops
from tensocket_plugins.contract.errors import ArgumentError


def test_schemas_contain_dtypes_and_devices() -> None:
    def convert(x: torch.Tensor, to: torch.dtype = torch.float32, other: torch.dtype | None = torch.bfloat16,
                place: torch.device = torch.device("cpu")) -> torch.Tensor:  # noqa: B008
        return x

    assert library.infer_schema(convert) == (
        '(Tensor x, ScalarType to=float32, ScalarType? other=bfloat16, Device place="cpu") -> Tensor')


def test_other_defaults_are_refused() -> None:
    def sizes(x: torch.Tensor, n: tuple[int, ...] = (1, 2)) -> torch.Tensor:
        return x

    with pytest.raises(ArgumentError, match=r"the default \(1, 2\) of n — a schema follows from the annotations of all "
                                            r"parameters — use None, a number, a string, a dtype or a device"):
        library.infer_schema(sizes)


def test_kernels_receive_the_dtype() -> None:
    got: list[Any] = []

    def kernel(x: Any, to: Any, other: Any) -> Any:
        got.append((to, other))
        return x.to(to)

    made = Library("of_dtypes", "DEF")
    made.define("convert(Tensor x, ScalarType to=float64, *, ScalarType? other=None) -> Tensor")
    made.impl("convert", kernel, "CompositeExplicitAutograd")
    x = torch.tensor([1.0, 2.0])
    assert ops.of_dtypes.convert(x).dtype is torch.float64
    assert ops.of_dtypes.convert.default(x, torch.int32, other=torch.int8).tolist() == [1, 2]
    assert got == [(torch.float64, None), (torch.int32, torch.int8)]
