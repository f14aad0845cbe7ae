"""Reductions followed by a root, a quotient or a logarithm: only the result is rounded, so sums may be out of range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F

#: Large arrays take long on the interpreter.
needs_cpu = pytest.mark.skipif(not torch.is_available("cpu"), reason="the CPU backend is not installed")
#: Largest magnitude of the elements: their squares are beyond the dtype, or vanish.
SCALES = {"float16": (3e4, 300.0, 1e-4), "bfloat16": (1e30, 1e-30), "float32": (1e30, 1e19, 1e-30)}
EPS = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7, "float32": 2.0 ** -22}
SHAPES = [(4, 6), (3, 700)]


def norm(x: Any, p: float, axis: Any = None) -> Any:
    size = np.abs(x)
    top = size.max()
    return top * ((size / top) ** p).sum(axis) ** (1 / p)


def unit(x: Any, y: Any) -> Any:
    return x / np.sqrt((x * x).sum(1, keepdims=True)) * y / np.sqrt((y * y).sum(1, keepdims=True))


#: Operators by name, with references in float64.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "std": (F.std, lambda x: x.std(ddof=1)),
    "std along rows": (lambda x: F.std(x, 1), lambda x: x.std(1, ddof=1)),
    "std along columns": (lambda x: F.std(x, 0, correction=0), lambda x: x.std(0)),
    "std_mean": (lambda x: F.std_mean(x, 1)[0], lambda x: x.std(1, ddof=1)),
    "vector_norm": (F.linalg_vector_norm, lambda x: norm(x, 2)),
    "normalize": (F.normalize, lambda x: x / norm(x, 2, 1)[:, None]),
    "renorm": (lambda x: F.renorm(x, 2, 0, float(x.abs().amax())),
               lambda x: x * np.abs(x).max() / norm(x, 2, 1)[:, None]),
    "dist": (lambda x: F.dist(x, x * 0.5), lambda x: norm(x * 0.5, 2)),
    "cdist": (lambda x: F.cdist(x, x * 0.0), lambda x: np.repeat(norm(x, 2, 1)[:, None], len(x), 1)),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x.flip(0) * 0.5), lambda x: unit(x, x[::-1] * 0.5).sum(1)),
    "mean": (lambda x: F.mean(x.abs()), lambda x: np.abs(x).mean()),
}
#: The same through powers, which float32 computes in float32.
POWERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "vector_norm of order 3": (lambda x: F.linalg_vector_norm(x, 3, 1), lambda x: norm(x, 3, 1)),
    "normalize of order 3": (lambda x: F.normalize(x, 3.0), lambda x: x / norm(x, 3, 1)[:, None]),
    "dist of order 3": (lambda x: F.dist(x, x * 0.5, 3), lambda x: norm(x * 0.5, 3)),
}


def compare(case: tuple[Callable[[Any], Any], Callable[[Any], Any]], dtype: str, scale: float,
            shape: tuple[int, int], device: str) -> None:
    values = np.random.default_rng(0).uniform(-1, 1, shape) * scale
    try:
        x = torch.tensor(values.tolist(), dtype=getattr(torch, dtype), device=device)
    except torch.errors.UnsupportedDtype:
        pytest.skip("the device lacks the dtype")
    expected = case[1](np.array(x.tolist()))
    largest = torch.finfo(x.dtype).max
    expected = np.where(expected > largest, math.inf, expected)
    found = case[0](x)
    assert found.dtype is x.dtype
    smallest = torch.finfo(x.dtype).tiny * EPS[dtype]
    np.testing.assert_allclose(np.array(found.tolist()), expected, rtol=4 * EPS[dtype], atol=2 * smallest)


@needs_cpu
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "scale"), [(d, s) for d, scales in SCALES.items() for s in scales])
@pytest.mark.parametrize("name", CASES)
def test_sums_out_of_range(name: str, dtype: str, scale: float, shape: tuple[int, int]) -> None:
    if name in ("normalize", "renorm", "cosine_similarity") and scale < 1e-3:
        return  # lengths have a lower limit
    compare(CASES[name], dtype, scale, shape, "cpu")


@needs_cpu
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", SCALES["float16"])
@pytest.mark.parametrize("name", POWERS)
def test_sums_of_powers_out_of_range(name: str, scale: float, shape: tuple[int, int]) -> None:
    compare(POWERS[name], "float16", scale, shape, "cpu")


@pytest.mark.parametrize("scale", SCALES["float16"])
@pytest.mark.parametrize("name", ["std", "std along rows", "vector_norm", "mean"])
def test_sums_out_of_range_elsewhere(name: str, scale: float, device: str) -> None:
    compare(CASES[name], "float16", scale, (4, 6), device)


def test_logarithms_of_sums_are_rounded_once(device: str) -> None:
    x = torch.full((3000,), 8.0, dtype=torch.float16, device=device)
    assert F.logsumexp(x, 0).item() == float(np.float16(8 + math.log(3000)))


def test_lengths_beyond_the_range_divide_to_zero() -> None:
    x = torch.full((2, 8), 1e200, dtype=torch.float64)
    assert F.cosine_similarity(x, x).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_the_gradient_of_a_deviation_of_equal_elements_is_zero(dtype: str) -> None:
    x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 3.0, 3.0]]).to(getattr(torch, dtype)).requires_grad_()
    F.std(x, 1).sum().backward()
    assert x.grad[1].tolist() == [0, 0, 0]
    deviation = math.sqrt(7 / 3)
    np.testing.assert_allclose(np.array(x.grad[0].tolist()), [(v - 7 / 3) / 2 / deviation for v in (1, 2, 4)],
                               rtol=1e-5)
