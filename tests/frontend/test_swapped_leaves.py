"""Exchange of what two tensors are."""

from __future__ import annotations

import weakref

import pytest

import tensocket as torch
from tensocket.errors import AutogradError


class Slotted(torch.Tensor):
    __slots__ = ("extra",)


def slotted(values):
    return torch.tensor(values).as_subclass(Slotted)


def test_objects_stay_and_everything_else_is_exchanged():
    a, b = torch.tensor([1.0, 2.0]), torch.nn.Parameter(torch.eye(3))
    b.note = "b"
    b.grad = torch.ones(3, 3)
    kept = [a]
    torch.utils.swap_tensors(a, b)
    assert kept[0] is a
    assert (type(a), a.requires_grad, a.note) == (torch.nn.Parameter, True, "b")
    assert a.tolist() == torch.eye(3).tolist()
    assert a.grad.tolist() == torch.ones(3, 3).tolist()
    assert (type(b), b.requires_grad, b.tolist(), b.grad) == (torch.Tensor, False, [1.0, 2.0], None)
    assert not hasattr(b, "note")


def test_graphs_of_the_new_values_are_differentiated():
    a, b = torch.nn.Parameter(torch.tensor([2.0])), torch.tensor([5.0], dtype=torch.float64)
    torch.utils.swap_tensors(a, torch.nn.Parameter(b))
    (a * a).sum().backward()
    assert a.grad.dtype is torch.float64
    assert a.grad.tolist() == [10.0]
    (a * 3).sum().backward()
    assert a.grad.tolist() == [13.0]


def test_graphs_of_the_old_values_are_refused():
    a = torch.tensor([2.0], requires_grad=True)
    linear, other = (a + 1).sum(), torch.tensor([7.0])
    torch.utils.swap_tensors(a, other)
    with pytest.raises(AutogradError, match="AccumulateGrad node that was poisoned by swap_tensors"):
        linear.backward()
    assert a.grad is None


def test_saved_tensors_that_were_exchanged_are_noticed():
    factor, x = torch.tensor([2.0]), torch.tensor([3.0], requires_grad=True)
    product = (factor * x).sum()
    torch.utils.swap_tensors(factor, torch.tensor([50.0]))
    with pytest.raises(AutogradError, match="has been modified by an inplace operation"):
        product.backward()


def test_slots_are_exchanged_also_where_one_is_not_set():
    a, b = slotted([1.0]), slotted([2.0])
    a.extra = "a"
    torch.utils.swap_tensors(a, b)
    assert not hasattr(a, "extra")
    assert b.extra == "a"
    a.extra = "again"
    torch.utils.swap_tensors(a, b)
    assert (a.extra, b.extra) == ("a", "again")


def test_what_cannot_be_exchanged():
    a, b = torch.tensor([1.0]), torch.tensor([2.0])
    with pytest.raises(AutogradError, match="Cannot swap t1 and t2 if they have different slots"):
        torch.utils.swap_tensors(a, slotted([1.0]))
    held = weakref.ref(b)
    with pytest.raises(AutogradError, match="Cannot swap t2 because it has weakref associated with it"):
        torch.utils.swap_tensors(a, b)
    assert held() is b
    base = torch.ones(3, requires_grad=True).clone()
    view = base[:2]
    with pytest.raises(AutogradError, match="Expected use_count of t1 to be 1: its views share its history"):
        torch.utils.swap_tensors(base, a)
    assert view.tolist() == [1.0, 1.0]
