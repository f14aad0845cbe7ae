"""Other names of arguments that programs use, and memory that gradients do not watch."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError

VALUES = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def x():
    return torch.tensor(VALUES.tolist())


@pytest.mark.parametrize(("call", "expected"), [
    (lambda x: x.sum(axis=1, keepdims=True), VALUES.sum(1, keepdims=True)),
    (lambda x: torch.cat((x, x), axis=1), np.concatenate((VALUES, VALUES), 1)),
    (lambda x: torch.stack((x, x), axis=1), np.stack((VALUES, VALUES), 1)),
    (lambda x: x.max(axis=1)[0], VALUES.max(1)),
    (lambda x: x.argmax(axis=1), VALUES.argmax(1)),
    (lambda x: torch.unsqueeze(x, axis=0), VALUES[None]),
    (lambda x: x.unsqueeze(axis=-1), VALUES[..., None]),
    (lambda x: torch.squeeze(x[:1], axis=0), VALUES[0]),
    (lambda x: x.cumsum(axis=0), VALUES.cumsum(0)),
    (lambda x: torch.softmax(x * 0, axis=1), np.full((2, 3), 1 / 3, np.float32)),
    (lambda x: x.std(axis=0, keepdims=True), VALUES.std(0, ddof=1, keepdims=True)),
], ids=[str(k) for k in range(11)])
def test_dimensions_have_numpys_names(x, call, expected):
    np.testing.assert_allclose(call(x).numpy(force=True), expected, rtol=1e-6)


def test_a_dimension_that_is_required_is_asked_for(x):
    with pytest.raises(ArgumentTypeError, match="the argument 'dim' is required"):
        torch.unsqueeze(x)
    with pytest.raises(TypeError, match="the argument 'dim' is required"):
        x.cumsum()


def test_sizes_of_parts_have_two_names(x):
    assert [part.shape for part in x.split(split_size=2, dim=1)] == [(2, 2), (2, 1)]
    assert [part.shape for part in x.split(split_size=[1, 2], dim=1)] == [(2, 1), (2, 2)]
    assert [part.shape for part in torch.split(x, split_size_or_sections=1)] == [(1, 3), (1, 3)]
    with pytest.raises(ArgumentTypeError, match="the size of parts is required"):
        x.split()


def test_a_number_can_come_first(x):
    np.testing.assert_allclose(torch.pow(2, x).numpy(force=True), 2**VALUES, rtol=1e-6)
    assert torch.pow(2, torch.tensor([1, 2])).tolist() == [2, 4]
    assert torch.remainder(5, torch.tensor([2, 3])).tolist() == [1, 2]
    assert torch.bitwise_and(6, torch.tensor([3])).tolist() == [2]
    assert torch.pow(np.float64(2), x).dtype == torch.float32
    with pytest.raises(ArgumentTypeError, match="this operand is a tensor"):
        torch.maximum(2, x)


@pytest.mark.parametrize(("name", "compute"), [
    ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("floor_divide", np.floor_divide),
])
@pytest.mark.parametrize("number", [5, 2.5])
def test_arithmetic_takes_numbers_on_either_side(name, compute, number):
    function, divisors = getattr(torch, name), np.array([2, 3])
    found = function(number, torch.tensor(divisors.tolist()))
    np.testing.assert_allclose(found.detach()._values(), compute(number, divisors).astype(np.float32), rtol=1e-6)
    both = function(number, 2)
    assert both.shape == ()
    assert both.item() == compute(number, 2)
    out = torch.empty(2)
    assert function(number, torch.tensor([2.0, 3.0]), out=out) is out
    np.testing.assert_allclose(out.detach()._values(), compute(number, divisors), rtol=1e-6)


def test_a_number_in_front_decides_no_width(x):
    half = torch.tensor(2.0, dtype=torch.float16)
    assert torch.mul(2.5, half).dtype is torch.div(1.0, half).dtype is torch.float16
    assert torch.add(1, x, alpha=2).tolist() == (1 + 2 * VALUES).tolist()
    assert torch.sub(1, torch.tensor([2, 3]), alpha=2).tolist() == [-3, -5]
    assert torch.div(7, torch.tensor([2, -2]), rounding_mode="trunc").tolist() == [3, -3]
    assert torch.div(7.0, torch.tensor([2, -2]), rounding_mode="floor").tolist() == [3, -4]
    weight = torch.tensor([2.0], requires_grad=True)
    torch.div(1.0, weight).backward()
    assert weight.grad.tolist() == [-0.25]


def test_bounds_have_pytorchs_names(x):
    drawn = x.uniform_(**{"from": 3, "to": 4})
    assert 3 <= drawn.min().item() <= drawn.max().item() <= 4
    with pytest.raises(ArgumentTypeError, match="the bounds are called from and to"):
        x.uniform_(low=1)


def test_what_is_written_to_data_is_not_noticed():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y * y
    y.data[0] = 5
    z.sum().backward()
    assert x.grad.tolist() == [10, 4]
    y = x * 1
    z = y * y
    y.detach()[0] = 5
    with pytest.raises(AutogradError, match="has been modified"):
        z.sum().backward()


def test_streams_need_not_be_recorded(x):
    assert x.record_stream(None) is None


@pytest.mark.filterwarnings("ignore:.*This overload of")
def test_numbers_between_tensors():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0])
    assert x.add(0.5, y).tolist() == torch.add(x, 0.5, y).tolist() == [2, 4]
    assert x.sub(0.5, y).tolist() == [0, 0]
    assert torch.addcmul(x, 2, y, y).tolist() == [9, 34]
    assert x.addcdiv(2, y, y).tolist() == [3, 4]
    assert x.add_(0.5, y).addcmul_(0.5, y, y).addcdiv_(1, y, y).tolist() == [5, 13]


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_numbers_between_tensors_are_deprecated(name):
    a, b, c = torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([2.0])
    with pytest.warns(UserWarning, match=f"This overload of {name} is deprecated"):
        result = getattr(torch, name)(a, 0.5, b, c)
    assert result.tolist() == [1 + 0.5 * 3 * 2 if name == "addcmul" else 1 + 0.5 * 3 / 2]
