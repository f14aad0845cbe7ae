"""Copies between dtypes, layouts and devices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket_operators as torch
from tensocket_plugins.contract.errors import ArgumentTypeError, ShapeError

NATIVE = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
VALUES = np.array([[0, 1, 2.5], [3.75, 100, 7]])


def bfloat16(value: float) -> float:
    """The nearest number with eight significant bits, ties to the even one; for normal numbers."""
    if value == 0 or not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 256), exponent - 8)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(NATIVE, NATIVE)))
def test_between_dtypes(source, target, dtypes):
    stored = VALUES.astype(source)
    result = torch.tensor(stored).to(dtypes[target])
    assert result.dtype is dtypes[target]
    assert result.tolist() == stored.astype(target).tolist()


@pytest.mark.parametrize("target", NATIVE)
def test_between_dtypes_on_every_device(device, target, dtypes):
    x = torch.tensor(VALUES)
    assert x.to(dtypes[target]).t().tolist() == VALUES.astype(target).T.tolist()
    assert x.t().to(dtypes[target]).tolist() == VALUES.astype(target).T.tolist()


@pytest.mark.parametrize(("name", "dtype"), [
    ("float", "float32"), ("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16"), ("int", "int32"),
    ("long", "int64"), ("short", "int16"), ("char", "int8"), ("byte", "uint8"), ("bool", "bool")])
def test_methods_named_by_dtypes(name, dtype, dtypes):
    x = torch.tensor([0.0, 1.0, 5.0])
    result = getattr(x, name)()
    assert result.dtype is dtypes[dtype]
    assert result.tolist() == ([False, True, True] if name == "bool" else [0, 1, 5])
    assert x.type_as(result).dtype is dtypes[dtype]


@pytest.mark.parametrize("value", [
    0.0, -0.0, 1.0, -2.5, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -(1 + 2**-8), 0.1, 3.14159, 65535.0, 1e30,
    -1e-30, 3.0e38, math.inf, -math.inf])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_bfloat16_is_rounded_to_nearest_even(value, source, dtypes):
    x = torch.tensor([value], dtype=dtypes[source])
    expected = bfloat16(value)
    for result in (x.bfloat16(), torch.tensor([value], dtype=torch.bfloat16)):
        assert result.dtype is torch.bfloat16
        assert result.tolist() == [expected]
        assert math.copysign(1, result.item()) == math.copysign(1, value)
    assert x.bfloat16().to(dtypes[source]).tolist() == [expected]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False), min_size=1, max_size=8))
def test_bfloat16_of_any_number(values):
    values = [v for v in values if v == 0 or abs(v) > 2.0**-120] or [1.0]
    assert torch.tensor(values).bfloat16().tolist() == [bfloat16(v) for v in values]


def test_bfloat16_beyond_the_largest_is_infinite_and_nan_stays():
    result = torch.tensor([3.4e38, -3.4e38, math.nan]).bfloat16().float().tolist()
    assert result[:2] == [math.inf, -math.inf]
    assert math.isnan(result[2])


def test_to_returns_the_tensor_itself_where_nothing_changes():
    x = torch.ones(2)
    assert x.to(torch.float32) is x
    assert x.to("ref") is x
    assert x.to(x) is x
    assert x.float() is x
    assert x.to(None) is x
    for copied in (x.to(torch.float32, copy=True), x.to("ref", torch.float32, False, True), x.clone()):
        assert copied is not x
        assert copied.data_ptr() != x.data_ptr()
        assert copied.tolist() == [1.0, 1.0]


def test_arguments_of_to():
    x = torch.ones(2)
    other = torch.ones(1, dtype=torch.int8, device="ref:1")
    assert x.to(other).dtype is torch.int8
    assert str(x.to(other).device) == "ref:1"
    assert str(x.to(device="ref:1").device) == "ref:1"
    assert x.to("ref:1", torch.float64).dtype is torch.float64
    assert x.to(torch.device("ref", 1), non_blocking=True).tolist() == [1.0, 1.0]
    assert x.to(dtype=torch.int16).tolist() == [1, 1]
    with pytest.raises(ArgumentTypeError, match=r"^\[to\] int 3 — .+ — .+"):
        x.to(3)
    with pytest.raises(ArgumentTypeError, match=r"^\[to\] dtype 'int' — .+ — .+"):
        x.to(dtype="int")


@pytest.mark.parametrize("dtype", [*NATIVE, "bfloat16"])
def test_between_devices(dtype, dtypes):
    values = VALUES.astype(np.int64).astype(bool) if dtype == "bool" else VALUES.astype(np.int64)
    x = torch.tensor(values, dtype=dtypes[dtype])
    there = x.to("ref:1")
    assert str(there.device) == "ref:1"
    assert there.dtype is dtypes[dtype]
    assert there.tolist() == values.tolist()
    there.zero_()
    assert x.tolist() == values.tolist()


@pytest.mark.parametrize("view", [
    lambda x: x.T, lambda x: x[:, 1:], lambda x: x[1], lambda x: x[..., ::2], lambda x: x[0, 1], lambda x: x[:, :0],
    lambda x: x[None].swapaxes(0, 2)])
def test_views_between_devices(device, view):
    values = np.arange(12).reshape(3, 4)
    x = view(torch.tensor(values))
    for name in ("ref:1", device):
        moved = x.to(name)
        assert moved.tolist() == view(values).tolist()
        assert tuple(moved.shape) == view(values).shape
        assert moved.to("ref:0", torch.float64).tolist() == view(values).astype(float).tolist()


def test_expanded_tensors_between_devices():
    x = torch.tensor([1.0, 2.0]).expand(3, 2)
    assert x.to("ref:1").tolist() == [[1.0, 2.0]] * 3
    assert x.to("ref:1").is_contiguous()


@pytest.mark.skipif(not torch.is_available("cpu"), reason="no backend on the host is installed")
def test_to_the_host_and_back():
    x = torch.tensor(VALUES, dtype=torch.float32)
    there = x.t().cpu()
    assert str(there.device) == "cpu"
    assert there.cpu() is there
    np.testing.assert_array_equal(there.numpy(), VALUES.T.astype(np.float32))
    assert there[1:].t().to("ref").tolist() == VALUES.T[1:].T.tolist()


def test_clone_and_contiguous(device):
    values = np.arange(6).reshape(2, 3)
    x = torch.tensor(values)
    assert x.contiguous() is x
    row_major = x.t().clone(memory_format=torch.contiguous_format)
    for copied, stride in ((x.t().contiguous(), (2, 1)), (row_major, (2, 1)), (x.t().clone(), (1, 3))):
        assert copied.stride() == stride
        assert copied.tolist() == values.T.tolist()
        copied.zero_()
        assert x.tolist() == values.tolist()


@pytest.mark.parametrize(("source", "dtype"), [
    ([[7], [8]], "int64"), ([1.9, 2.9, -3.9], "float32"), ([True, False, True], "bool"), (5, "int16")])
def test_copy_broadcasts_and_converts(device, source, dtype, dtypes):
    target = torch.zeros(2, 3, dtype=torch.int32)
    result = target.copy_(torch.tensor(source, dtype=dtypes[dtype]))
    assert result is target
    expected = np.zeros((2, 3), np.int32)
    expected[...] = np.asarray(source)
    assert target.tolist() == expected.tolist()


def test_copy_into_a_view_from_another_device():
    target = torch.zeros(3, 4)
    target[:, 1::2].copy_(torch.arange(6, device="ref:1").reshape(2, 3).t())
    expected = np.zeros((3, 4))
    expected[:, 1::2] = np.arange(6).reshape(2, 3).T
    assert target.tolist() == expected.tolist()


def test_copies_within_one_memory(device):
    x = torch.arange(6)
    with pytest.raises(ShapeError, match=r"\[copy_\] an operand in the memory of the tensor of shape \[5\]"):
        x[1:].copy_(x[:-1])
    x[:3].copy_(x[::2])
    assert x.tolist() == [0, 2, 4, 3, 4, 5]
    y = torch.arange(9).reshape(3, 3)
    with pytest.raises(ShapeError, match=r"\[copy_\] an operand in the memory"):
        y.copy_(y.t())


def test_copy_checks_shapes():
    with pytest.raises(ShapeError, match=r"^\[copy_\] .+ — .+ — .+"):
        torch.zeros(2).copy_(torch.zeros(3))
    with pytest.raises(ShapeError, match=r"^\[copy_\] .+ — .+ — .+"):
        torch.zeros(2).copy_(torch.zeros(1, 2, 2))


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_lists_may_change_after_a_call(name):
    x = torch.ones(2, requires_grad=True)
    parts = [x, x * 2]
    result = getattr(torch, name)(parts)
    parts.append(x)
    result.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_ranges_fill_an_out_of_any_shape(device):
    for make, expected in ((lambda out: torch.linspace(0, 3, 4, out=out), [[0.0, 0, 1], [0, 2, 3]]),
                           (lambda out: torch.arange(4, out=out), [[0.0, 0, 1], [0, 2, 3]]),
                           (lambda out: torch.logspace(0, 3, 4, base=2, out=out), [[0.0, 1, 2], [0, 4, 8]])):
        x = torch.zeros(2, 3)
        make(x[:, 1:])
        np.testing.assert_allclose(x.tolist(), expected, rtol=1e-6)


def test_joined_tensors_keep_their_memory_format(device):
    values = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    last = torch.tensor(values).contiguous(memory_format=torch.channels_last)
    for dim in range(4):
        joined = torch.cat([last, last], dim)
        assert joined.is_contiguous(memory_format=torch.channels_last)
        assert joined.tolist() == np.concatenate([values, values], dim).tolist()
        assert torch.cat([last, last.contiguous()], dim).is_contiguous()
    parts = torch.cat([last[:, :, :2], last[:, :, 1:]], -2)
    assert parts.is_contiguous(memory_format=torch.channels_last)
    deep = torch.ones(2, 3, 2, 2, 2).contiguous(memory_format=torch.channels_last_3d)
    assert torch.cat([deep, deep]).is_contiguous(memory_format=torch.channels_last_3d)


def test_tensors_of_no_elements_are_joined_along_any_dim(device):
    empty = torch.empty(0)
    assert torch.cat([empty, empty], 1).shape == (0,)
    assert torch.cat([empty, torch.ones(2, 3)], 1).shape == (2, 3)
