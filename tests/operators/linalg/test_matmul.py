"""Matrix products against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import DtypeError, ShapeError, UnsupportedDtype

FORM = r"^\[{}\] .+ — .+ — .+"
SHAPES = [
    ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((1, 1), (1, 1)), ((2, 1), (1, 3)),
    ((1, 5), (5, 1)), ((2, 2, 3), (2, 3, 4)), ((2, 2, 3), (3, 4)), ((2, 3), (2, 3, 4)), ((2, 1, 2, 3), (3, 3, 2)),
    ((4, 1, 2, 3), (1, 2, 3, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
    ((2, 3), (3, 0)), ((0, 2, 3), (3, 2)), ((0,), (0,))]
WHOLE = ["uint8", "int8", "int16", "int32", "int64"]


def numbers(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def double(values):
    return torch.tensor(np.asarray(values, np.float64))


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_shapes(device, left, right, near):
    a, b = numbers(left), numbers(right, 1)
    near(torch.matmul(double(a), double(b)), a @ b)
    near(double(a) @ double(b), a @ b)


@pytest.mark.parametrize("dtype", [*WHOLE, "float16", "bfloat16", "float32", "float64"])
def test_dtypes(dtype, make, near):
    # Small whole numbers, so that no dtype rounds.
    a, b = np.arange(6).reshape(2, 3) % 4, np.arange(12).reshape(3, 4) % 3
    near(make(a, dtype) @ make(b, dtype), a @ b, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_of_every_device(device, dtype, make, near):
    a, b = numbers((3, 20)).astype(dtype), numbers((20, 2), 1).astype(dtype)
    near(make(a, dtype) @ make(b, dtype), a.astype(np.float64) @ b.astype(np.float64), scale=5, dtype=dtype)


def test_integers_wrap():
    a = torch.tensor([[127, 1]], dtype=torch.int8)
    assert (a @ a.t()).tolist() == [[(127 * 127 + 1 + 128) % 256 - 128]]


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
@pytest.mark.parametrize("shapes", [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2))])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.usefixtures("device")
def test_results_are_tensors_of_their_own(dtype, shapes, requires_grad):
    left, right = (torch.ones(*shape, dtype=dtype) for shape in shapes)
    left.requires_grad_(requires_grad and dtype is torch.float32)
    result = left @ right
    assert not result._is_view()
    assert not result.detach_().requires_grad
    with torch.no_grad():
        result = left @ right
    assert not result._is_view()
    assert result._fixed_view is None


def test_sums_of_narrow_floats_are_kept_in_a_wider_one(make):
    # In float16, 2048 + 1 is 2048; the exact sum is 2048 + 64.
    row = make([[2048.0] + [1.0] * 64], "float16")
    assert (row @ make(np.ones((65, 1)), "float16")).item() == 2112.0


@pytest.mark.parametrize("view", ["transposed", "sliced", "stepped", "expanded"])
def test_operands_in_any_layout(device, view, near):
    a, b = numbers((4, 6)), numbers((6, 4), 1)
    cut = {
        "transposed": (lambda x: x.T, lambda y: y.T),
        "sliced": (lambda x: x[1:, 1:4], lambda y: y[2:5, 1:3]),
        "stepped": (lambda x: x[::2, ::3], lambda y: y[::3, ::2]),
        "expanded": (lambda x: x[:1], lambda y: y[:, :1]),
    }[view]
    x, y = cut[0](double(a)), cut[1](double(b))
    left, right = cut[0](a), cut[1](b)
    if view == "expanded":
        x, y = x.expand(3, 6), y.expand(6, 5)
        left, right = np.broadcast_to(left, (3, 6)), np.broadcast_to(right, (6, 5))
    near(x @ y, left @ right)


def test_batches_in_any_layout(device, near):
    a, b = numbers((2, 3, 4)), numbers((4, 2, 3), 1)
    near(double(a) @ double(b).permute(1, 0, 2), a @ b.transpose(1, 0, 2))
    near(double(a)[:1].expand(5, 3, 4) @ double(a).mT[1], np.broadcast_to(a[:1], (5, 3, 4)) @ a[1].T)


def test_functions_for_one_rank(device, near):
    a, b, v = numbers((2, 3)), numbers((3, 4), 1), numbers(3, 2)
    near(torch.mm(double(a), double(b)), a @ b)
    near(torch.mv(double(a), double(v)), a @ v)
    near(torch.dot(double(v), double(v)), v @ v)
    batch, other = numbers((2, 2, 3), 3), numbers((2, 3, 2), 4)
    near(torch.bmm(double(batch), double(other)), batch @ other)


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, 1), (1, -2.0), (3, 0.25)])
def test_addmm(beta, alpha, near):
    a, b = numbers((2, 3)), numbers((3, 4), 1)
    for shape in ((2, 4), (4,), (2, 1), ()):
        near(torch.addmm(double(numbers(shape, 2)), double(a), double(b), beta=beta, alpha=alpha),
             beta * numbers(shape, 2) + alpha * (a @ b))


@pytest.mark.parametrize("shape", [(1, 300, 200), (40, 3, 50), (1, 1, 1), (0, 3, 4), (2, 0, 3)])
def test_addmm_without_recording(shape, near):
    m, k, n = shape
    a, b, v = numbers((m, k)), numbers((k, n), 1), numbers(n, 2)
    weight = double(b).requires_grad_()
    with torch.no_grad():
        near(torch.addmm(double(v), double(a), weight), v + a @ b)
        near(torch.addmm(double(v), double(a.T.copy()).t(), weight), v + a @ b)
        near(torch.addmm(double(v), double(a), weight, beta=True, alpha=1.0), v + a @ b)
        with pytest.raises(ShapeError):
            torch.addmm(torch.zeros(n + 1, dtype=torch.float64), double(a), weight)


def test_linear_of_batches(near):
    x, weight, bias = numbers((2, 5, 3)), numbers((4, 3), 1), numbers(4, 2)
    near(F.linear(double(x), double(weight), double(bias)), x @ weight.T + bias)


def test_sizes_beyond_one_tile(near):
    a, b = numbers((17, 33)), numbers((33, 19), 1)
    near(double(a) @ double(b), a @ b)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_broadcast_batches(data):
    batch = data.draw(st.lists(st.integers(1, 3), max_size=2))
    n, k, m = (data.draw(st.integers(0, 3)) for _ in range(3))

    def part():
        start = data.draw(st.integers(0, len(batch)))
        return [size if data.draw(st.booleans()) else 1 for size in batch[start:]]

    a = np.random.default_rng(0).integers(-4, 5, (*part(), n, k))
    b = np.random.default_rng(1).integers(-4, 5, (*part(), k, m))
    result = torch.tensor(a) @ torch.tensor(b)
    assert tuple(result.shape) == (a @ b).shape
    assert result.tolist() == (a @ b).tolist()


@pytest.mark.parametrize(("function", "left", "right"), [
    ("matmul", (2, 3), (2, 3)), ("matmul", (3,), (2, 3)), ("matmul", (2, 3), (2,)), ("matmul", (2,), (3,)),
    ("matmul", (), (2,)), ("matmul", (2,), ()), ("matmul", (2, 2, 3), (3, 3, 2)),
    ("mm", (2,), (2, 2)), ("mm", (1, 2, 2), (2, 2)),
    ("bmm", (2, 2), (2, 2)), ("bmm", (1, 2, 2), (3, 2, 2)), ("mv", (2, 2), (2, 2)), ("mv", (2,), (2,)),
    ("dot", (2, 2), (2, 2)), ("dot", (2,), (3,))])
def test_shapes_that_do_not_fit(function, left, right):
    with pytest.raises(ShapeError, match=FORM.format(r"\w+")):
        getattr(torch, function)(torch.zeros(left), torch.zeros(right))


def test_dtypes_that_do_not_fit():
    with pytest.raises(DtypeError, match=FORM.format("matmul")):
        torch.zeros(2, 2) @ torch.zeros(2, 2, dtype=torch.float64)
    with pytest.raises(UnsupportedDtype, match=FORM.format("matmul")):
        torch.zeros(2, 2, dtype=torch.bool_) @ torch.zeros(2, 2, dtype=torch.bool_)


def test_the_reflected_operator(near):
    a, b = numbers((2, 3)), numbers((3, 4), 1)
    near(double(b).__rmatmul__(double(a)), a @ b)
    assert double(b).__rmatmul__(2) is NotImplemented
