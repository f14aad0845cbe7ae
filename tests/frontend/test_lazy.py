"""Lazily conjugated and negated tensors on the host, and what other libraries, files and processes see of them."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ExchangeError

A = np.array([[1 + 2j, 3 - 1j], [0.5 + 0.25j, -2 + 4j]])


def made():
    return torch.tensor(A)


def test_arrays_of_conjugates():
    c = made().conj()
    with pytest.raises(ExchangeError, match=re.escape("Can't call numpy() on Tensor that has conjugate bit set")):
        c.numpy()
    with pytest.raises(RuntimeError, match=r"negative bit set — Use tensor.resolve_neg\(\).numpy\(\) instead"):
        c.imag.numpy()
    with pytest.raises(ExchangeError, match="conjugate bit set"):
        np.asarray(c)
    np.testing.assert_array_equal(c.numpy(force=True), A.conj())
    np.testing.assert_array_equal(c.imag.numpy(force=True), -A.imag)
    np.testing.assert_array_equal(c.resolve_conj().numpy(), A.conj())
    for x in (c, c.imag):
        with pytest.raises(BufferError, match="Can't export tensors with the conjugate or negative bit set"):
            x.__dlpack__()


def test_files_keep_conjugates():
    x = made()
    file = io.BytesIO()
    torch.save({"x": x, "c": x.conj()}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["c"].is_conj()
    assert loaded["c"].is_leaf
    assert loaded["c"].data_ptr() == loaded["x"].data_ptr()
    assert loaded["c"].tolist() == A.conj().tolist()
    file = io.BytesIO()
    torch.save(x.conj().imag, file)
    file.seek(0)
    part = torch.load(file)
    assert part.is_neg()
    assert part.tolist() == (-A.imag).tolist()


def test_conjugates_are_shared():
    shared = made().conj().share_memory_()
    assert shared.is_shared()
    assert shared.is_conj()
    assert shared.tolist() == A.conj().tolist()


@pytest.mark.parametrize("size", [3, 5000])
def test_small_and_large_arrays(size):
    values = np.random.default_rng(0).standard_normal(size)
    x = torch.tensor(values, requires_grad=True)
    n = torch._neg_view(x)
    (n * n * torch._neg_view(torch.tensor(values)) + n).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), -2 * values**2 - 1, rtol=1e-12)
    leaf = torch._neg_view(torch.tensor(values)).requires_grad_()
    for _ in range(2):
        (leaf.relu() * 2 + leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 2 * (1 + 2 * (-values > 0)), rtol=1e-12)


def test_indices_may_be_negated():
    x, index = torch.arange(6.0).reshape(3, 2), torch._neg_view(torch.tensor([-2, 0]))
    assert x[index].tolist() == [[4.0, 5.0], [0.0, 1.0]]
    x[index] = torch._neg_view(torch.tensor([[-10.0, -20.0], [-30.0, -40.0]]))
    assert x.tolist() == [[30.0, 40.0], [2.0, 3.0], [10.0, 20.0]]
    negated = torch._neg_view(x)
    negated[index] = 1.0
    assert x.tolist() == [[-1.0, -1.0], [2.0, 3.0], [-1.0, -1.0]]
    negated[index] = torch.tensor(2.0)
    assert x.tolist() == [[-2.0, -2.0], [2.0, 3.0], [-2.0, -2.0]]


def test_lists_of_lazy_tensors():
    x = made()
    lists = [x.conj(), torch._neg_view(torch.ones(2))]
    assert [y.tolist() for y in torch._foreach_mul(lists, 2.0)] == [(2 * A.conj()).tolist(), [-2.0, -2.0]]
    torch._foreach_add_(lists, 1.0)
    assert x.tolist() == (A + 1).tolist()
    assert torch._foreach_norm(lists[1:])[0].item() == 0.0
