"""Forms that older programs use: Python's types as dtypes, old constructors, lists of tensors, deleted gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn


@pytest.mark.parametrize(("kind", "dtype"), [(float, torch.float64), (int, torch.int64), (bool, torch.bool),
                                             (complex, torch.complex128)])
def test_types_of_python_are_dtypes(kind, dtype):
    x = torch.ones(2)
    made = [torch.zeros(2, dtype=kind), torch.tensor([1], dtype=kind), torch.as_tensor([1], dtype=kind),
            torch.ones_like(x, dtype=kind), torch.full((1,), 1, dtype=kind), torch.empty(1, dtype=kind), x.to(kind),
            x.to(dtype=kind), x.to("cpu", kind), x.new_zeros(2, dtype=kind), torch.eye(2, dtype=kind)]
    if kind is not bool:
        made += [x.sum(dtype=kind), x.cumsum(0, dtype=kind)]
    if kind in (float, int):
        made.append(torch.arange(3, dtype=kind))
    assert {t.dtype for t in made} == {dtype}


def test_types_of_python_in_modules_and_promotion():
    assert nn.Linear(2, 2, dtype=float).weight.dtype is torch.float64
    assert nn.Linear(2, 2).to(float).weight.dtype is torch.float64
    assert nn.functional.softmax(torch.ones(2), 0, dtype=float).dtype is torch.float64
    assert torch.promote_types(float, int) is torch.float64
    assert not torch.can_cast(float, int)
    assert torch.finfo(float).eps == np.finfo(np.float64).eps
    np.testing.assert_array_equal(torch.ones(2).view(int).numpy(), np.ones(2, np.float32).view(np.int64))


@pytest.mark.parametrize("wrong", [str, np.float32, "float32"])
def test_other_types_are_no_dtypes(wrong):
    with pytest.raises(TypeError, match="dtype is a tensocket dtype"):
        torch.zeros(2, dtype=wrong)


def test_dtypes_of_parts_and_of_complex_numbers():
    assert torch.float32.to_complex() is torch.complex64
    assert torch.float64.to_complex() is torch.complex128
    assert torch.complex64.to_real() is torch.float32
    assert torch.int32.to_real() is torch.int32


@pytest.mark.parametrize("kind", [torch.Tensor, torch.FloatTensor, torch.LongTensor])
def test_one_integer_of_numpy_is_a_size(kind):
    for size in (np.int64(2), np.int32(2), np.array(2)):
        assert kind(size).shape == (2,)
    assert kind(size=(2, 3)).shape == (2, 3)
    assert kind(data=[1, 2]).tolist() == [1, 2]
    with pytest.raises(TypeError, match="a single number is a size, which is an integer"):
        kind(1.5)
    with pytest.raises(TypeError, match="a single number is a size, which is an integer"):
        kind(np.float32(3))
    with pytest.raises(TypeError, match="old constructors take sizes or data"):
        kind(sequence=[1])


def test_tensors_of_one_element_are_numbers_in_lists():
    assert torch.tensor([torch.ones(1), torch.full((1, 1), 2.5)]).tolist() == [1.0, 2.5]
    assert torch.tensor([[torch.ones(1, 1)], [3]]).tolist() == [[1.0], [3.0]]
    assert torch.FloatTensor([torch.tensor(1.0), torch.ones(1)]).shape == (2,)
    with pytest.raises(ValueError, match="tensors in a list have one element and count as a number"):
        torch.tensor([torch.ones(2)])


@pytest.mark.parametrize(("values", "dtype"), [
    ([np.float32(1), 2.5], torch.float32), ([np.int64(1), np.float32(1)], torch.float32),
    ([np.float16(1), 1.5], torch.float32), ([np.float32(1), 2j], torch.complex64),
    ([2, np.float64(1)], torch.float64), ([np.int8(1), True], torch.int8), ([[1.5], [np.float64(1)]], torch.float64),
    ([torch.tensor(1.0, dtype=torch.float16), torch.tensor(1.0, dtype=torch.bfloat16)], torch.float32),
    ([[], []], torch.float32), ([1, 2.5], torch.float32)])
def test_elements_of_lists_promote_to_a_dtype(values, dtype):
    assert torch.tensor(values).dtype is dtype


def test_deleting_a_gradient():
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    del x.grad
    assert x.grad is None


def test_variables():
    assert torch.autograd.Variable().shape == (0,)
    with pytest.warns(UserWarning, match="volatile has no effect"):
        assert torch.autograd.Variable(torch.ones(2), volatile=True).shape == (2,)
    with pytest.raises(TypeError, match="a variable is made of a tensor"):
        torch.autograd.Variable([1])


def test_names_of_things():
    assert not torch.FloatTensor.is_cuda
    assert torch.cuda.FloatTensor.is_cuda
    assert [torch.typename(x) for x in (1, "a", [].append)] == ["int", "str", "list.append"]
    assert torch.typename(nn.Linear).endswith("nn.modules.linear.Linear")
    assert torch.typename(torch) == "tensocket"


def test_seeds_become_integers():
    assert torch.manual_seed(1.7).initial_seed() == 1
    with pytest.raises(ValueError, match="invalid literal"):
        torch.manual_seed("a")
