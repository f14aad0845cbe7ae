"""Numbers of operators given as tensors, changed between calls, and of wrong types: every call sees its own number."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import DtypeError, ShapeError

DEVICES = [pytest.param(name, marks=pytest.mark.skipif(not torch.is_available(name), reason="it is not installed"))
           for name in ("ref", "cpu")]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [5, 20_000])
def test_a_number_that_is_changed_in_place(device, size):
    x, slope = torch.full((size,), -1.0, device=device), torch.tensor(0.0)
    found = []
    for k in range(8):
        slope.fill_(k / 8)
        found.append(F.leaky_relu(x, slope)[0].item())
    assert found == [-k / 8 for k in range(8)]


class Mutable:
    """An integer that changes."""

    def __init__(self):
        self.value = 1

    def __index__(self):
        return self.value


@pytest.mark.parametrize("device", DEVICES)
def test_a_dimension_that_is_a_mutable_object(device):
    x, dim = torch.ones(2, 3, device=device), Mutable()
    for k in range(8):
        dim.value = k % 2
        np.testing.assert_array_equal(x.cumsum(dim).tolist(), np.ones((2, 3)).cumsum(k % 2))


def test_numbers_that_are_tensors_are_not_kept_alive():
    x, refs = torch.ones(5, device="ref"), []
    for k in range(20):
        slope = torch.tensor(k / 10)
        refs.append(weakref.ref(slope))
        F.leaky_relu(x, slope)
        del slope
    gc.collect()
    assert not any(ref() is not None for ref in refs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(4,), (150, 150)])
def test_a_number_has_one_element(device, shape):
    x = torch.full(shape, -1.0, device=device)
    many = torch.rand(3, *shape, device=device)
    for call in (lambda: F.leaky_relu(x, many), lambda: F.nan_to_num(x, many), lambda: F.leaky_relu(x, many[0])):
        for _ in range(5):
            with pytest.raises(ShapeError, match="only one element converts to a Python number"):
                call()


@pytest.mark.parametrize("device", DEVICES)
def test_a_number_takes_no_gradient(device):
    x = torch.full((4,), -1.0, device=device)
    with pytest.raises(TypeError):
        F.leaky_relu(x, torch.tensor(0.5, device=device, requires_grad=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("transposed", [False, True])
def test_eps_of_a_norm(device, transposed):
    x = torch.rand(5, 4, device=device)
    x = x.t().contiguous().t() if transposed else x
    wanted = F.layer_norm(x, (4,), None, None, 0.25).tolist()
    for eps in (torch.tensor(0.25), torch.tensor(0.25, device=device), np.float32(0.25)):
        for _ in range(5):
            np.testing.assert_array_equal(F.layer_norm(x, (4,), None, None, eps).tolist(), wanted)
    for eps, error in ((None, TypeError), (1j, TypeError), ("a", ValueError)):
        for _ in range(5):
            with pytest.raises(error):
                F.layer_norm(x, (4,), None, None, eps)


@pytest.mark.parametrize("device", DEVICES)
def test_the_dtype_of_a_reduction_is_checked_before_its_dimension(device):
    with pytest.raises(DtypeError, match="floating-point"):
        torch.ones(3, 3, dtype=torch.int64, device=device).mean(2)
