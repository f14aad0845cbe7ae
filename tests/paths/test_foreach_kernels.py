"""Operators over lists take one kernel call for tensors of a kind and give what the methods of tensors give."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import AutogradError, ShapeError
from tensocket.namespace.foreach import FUNCTIONS, UNARY

SHAPES = [(3, 4), (), (5,), (0,), (70, 33)]


def numbers(dtype, seed, low=0.1, high=0.9):
    generator = np.random.default_rng(seed)
    return [torch.tensor(generator.uniform(low, high, shape), dtype=dtype) for shape in SHAPES]


def same(found, expected, ulps=2):
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        a, b = x.detach().to(torch.float64).numpy(), y.detach().to(torch.float64).numpy()
        np.testing.assert_allclose(a, b, rtol=ulps * torch.finfo(x.dtype).eps, atol=0)


@pytest.mark.parametrize(("name", "dtype"), [
    *[(name, torch.float32) for name in UNARY if name in FUNCTIONS],
    *[(name, dtype) for name in ("exp", "sqrt", "neg") for dtype in (torch.float64, torch.bfloat16, torch.float16)]])
def test_functions_of_one_tensor(name, dtype):
    x = numbers(dtype, 1)
    expected = [getattr(value, name)() for value in x]
    # Both are within the bound of the function; for float64 the one is NumPy's and the other the kernel's.
    same(FUNCTIONS[name](x), expected, 8)
    if dtype is not torch.float32:
        assert FUNCTIONS[f"{name}_"](x)[0] is x[0]
        same(x, expected, 8)


BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "pow"]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("kind", "dtype"), [("tensors", torch.float32), ("numbers", torch.float32),
                                             ("number", torch.float64), ("number", torch.bfloat16)])
def test_functions_of_two(name, dtype, kind):
    x = numbers(dtype, 2)
    y = {"tensors": numbers(dtype, 3), "numbers": [0.5, 1.5, 2.0, 3.0, 0.25], "number": 0.75}[kind]
    each = y if isinstance(y, list) else [y] * len(x)
    method = {"maximum": lambda a, b: a.clamp(min=b), "minimum": lambda a, b: a.clamp(max=b)}.get(
        name, lambda a, b: getattr(a, name)(b))
    expected = [method(a, b) for a, b in zip(x, each, strict=True)]
    same(FUNCTIONS[name](x, y), expected, 4)
    FUNCTIONS[f"{name}_"](x, y)
    same(x, expected, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_functions_of_three(dtype):
    x, y, z = (numbers(dtype, seed) for seed in (4, 5, 6))
    same(torch._foreach_addcmul(x, y, z, 0.5), [a.addcmul(b, c, value=0.5) for a, b, c in zip(x, y, z, strict=True)])
    same(torch._foreach_addcdiv(x, y, y, [1.0, 2.0, 3.0, 4.0, 5.0]),
         [a.addcdiv(b, b, value=k + 1.0) for k, (a, b) in enumerate(zip(x, y, strict=True))])
    same(torch._foreach_lerp(x, y, z), [a.lerp(b, c) for a, b, c in zip(x, y, z, strict=True)])
    same(torch._foreach_add(x, y, alpha=-0.5), [a.add(b, alpha=-0.5) for a, b in zip(x, y, strict=True)])


def test_changes_are_counted_and_views_see_them():
    base = torch.zeros(6)
    parts = [base[:2], base[2:6], torch.zeros(3)]
    versions = [x._version for x in parts]
    torch._foreach_add_(parts, [1.0, 2.0, 3.0])
    assert base.tolist() == [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    assert parts[2].tolist() == [3.0] * 3
    assert [after > before for before, after in zip(versions, (x._version for x in parts), strict=True)] == [True] * 3


def test_a_tensor_that_is_given_twice_changes_twice():
    x = torch.ones(4)
    torch._foreach_mul_([x, x], [2.0, 3.0])
    assert x.tolist() == [6.0] * 4
    y = torch.arange(5.0)
    torch._foreach_add_([y[1:], y[:4]], [torch.ones(4), 2 * torch.ones(4)])
    assert y.tolist() == [2.0, 1.0 + 3.0, 2.0 + 3.0, 3.0 + 3.0, 4.0 + 1.0]


def test_layouts_other_than_row_by_row():
    x = [torch.arange(12.0).reshape(3, 4).t(), torch.arange(10.0)[::2], torch.ones(2, 2)]
    y = [torch.full((4, 3), 2.0), torch.full((5,), 3.0), torch.full((2, 2), 4.0)]
    expected = [a.numpy() * b.numpy() for a, b in zip(x, y, strict=True)]
    torch._foreach_mul_(x, y)
    for a, b in zip(x, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    assert x[0].stride() == (1, 4)


def test_kinds_side_by_side():
    x = [torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64),
         torch.ones(2, dtype=torch.complex64), torch.ones(3)]
    found = torch._foreach_add(x, [1, 2, 3, 4, 5])
    assert [y.dtype for y in found] == [y.dtype for y in x]
    assert [y.tolist() for y in found] == [[2.0] * 2, [3.0] * 2, [4] * 2, [5 + 0j] * 2, [6.0] * 3]


def test_gradients_are_recorded():
    x = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
    sum(y.sum() for y in torch._foreach_mul(x, [2.0, 3.0])).backward()
    assert [y.grad.tolist() for y in x] == [[2.0] * 2, [3.0] * 3]
    with pytest.raises(AutogradError):
        torch._foreach_mul_(x, 2.0)


def test_what_cannot_be_written_is_refused():
    with pytest.raises(ShapeError, match="expanded"):
        torch._foreach_add_([torch.ones(1).expand(3)], 1.0)
    with torch.inference_mode():
        made = torch.ones(2)
    with pytest.raises(AutogradError):
        torch._foreach_add_([made], 1.0)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError):
        torch._foreach_add([torch.ones(2, 3), torch.ones(2)], [torch.ones(3, 2), torch.ones(2)])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_do_not_depend_on_threads(threads):
    before = torch.get_num_threads()
    x = [torch.linspace(0.1, 1.0, n) for n in (100_003, 1, 65_536, 7, 200_000)]
    expected = [a.numpy() * np.float32(3.0) for a in x]
    torch.set_num_threads(threads)
    try:
        torch._foreach_mul_(x, 3.0)
    finally:
        torch.set_num_threads(before)
    for a, b in zip(x, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize("order", [1, 2, 3, float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_norms_and_clipping(order, dtype):
    x = [value for value in numbers(dtype, 8, -1.0, 1.0) if value.numel()]
    wide = [value.double().numpy() for value in x]
    norms = [np.linalg.norm(value.ravel(), order) for value in wide]
    bound = 8 * torch.finfo(dtype).eps
    np.testing.assert_allclose([value.item() for value in torch._foreach_norm(x, order)], norms, rtol=bound)
    parameters = [torch.nn.Parameter(torch.zeros_like(value)) for value in x]
    for parameter, value in zip(parameters, x, strict=True):
        parameter.grad = value
    total = np.linalg.norm(norms, order)
    found = torch.nn.utils.clip_grad_norm_(parameters, 0.5, order)
    np.testing.assert_allclose(found.item(), total, rtol=bound)
    for parameter, value in zip(parameters, wide, strict=True):
        np.testing.assert_allclose(parameter.grad.double().numpy(), value * min(1.0, 0.5 / (total + 1e-6)),
                                   rtol=4 * bound, atol=4 * bound)
    torch.nn.utils.clip_grad_value_(parameters, 0.01)
    assert max(parameter.grad.abs().max().item() for parameter in parameters) <= 0.01 + 1e-5


def test_zeroed_gradients_are_the_same_objects():
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
    for parameter in parameters[:2]:
        parameter.grad = torch.full((2,), float("nan"))
    before = [parameter.grad for parameter in parameters]
    torch.optim.SGD(parameters, lr=0.1).zero_grad(set_to_none=False)
    assert all(parameter.grad is gradient for parameter, gradient in zip(parameters, before, strict=True))
    assert [parameter.grad.tolist() for parameter in parameters[:2]] == [[0.0, 0.0]] * 2
