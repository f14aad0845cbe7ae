"""Scans and maps of functions, compared with loops in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket._higher_order_ops.associative_scan import associative_scan
from tensocket._higher_order_ops.map import map as mapped
from tensocket._higher_order_ops.scan import scan
from tensocket.errors import ArgumentError


def recurrence(a, b, reverse):
    """Return ``h[i] = a[i] * h[i - 1] + b[i]`` along the last axis, beside the product of ``a``."""
    order = range(a.shape[-1])[::-1] if reverse else range(a.shape[-1])
    products, states = np.empty_like(a), np.empty_like(b)
    product, state = np.ones(a.shape[:-1]), np.zeros(a.shape[:-1])
    for i in order:
        product, state = product * a[..., i], a[..., i] * state + b[..., i]
        products[..., i], states[..., i] = product, state
    return products, states


def combine(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("mode", ["pointwise", "generic"])
def test_an_associative_scan_is_a_recurrence(length, reverse, mode):
    rng = np.random.default_rng(length)
    a, b = rng.standard_normal((2, 3, length))
    found = associative_scan(combine, (torch.tensor(a), torch.tensor(b)), 1, reverse, mode)
    for each, expected in zip(found, recurrence(a, b, reverse), strict=True):
        np.testing.assert_allclose(each.numpy(), expected, rtol=1e-12)


def test_the_gradient_of_an_associative_scan_is_that_of_its_sum():
    x = torch.arange(5.0, dtype=torch.float64).requires_grad_()
    associative_scan(torch.add, x, 0, combine_mode="generic").sum().backward()
    assert x.grad.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_passes_its_state_on(reverse):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4, 6))

    def step(state, element):
        following = element[0] * state + element[1]
        return following, {"state": following, "double": 2 * following}

    last, outputs = scan(step, torch.zeros(4, dtype=torch.float64), (torch.tensor(a), torch.tensor(b)), dim=1,
                         reverse=reverse)
    expected = recurrence(a, b, reverse)[1]
    np.testing.assert_allclose(outputs["state"].numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(outputs["double"].numpy(), 2 * expected, rtol=1e-12)
    np.testing.assert_allclose(last.numpy(), expected[:, 0 if reverse else -1], rtol=1e-12)


def test_a_map_stacks_the_results():
    x = torch.arange(6.0).reshape(3, 2)
    found = mapped(lambda pair, factor: {"sum": (pair[0] + pair[1]) * factor}, (x, x + 1), 10)
    assert found["sum"].tolist() == ((2 * np.arange(6.0).reshape(3, 2) + 1) * 10).tolist()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: associative_scan(torch.add, torch.ones(2), 0, combine_mode="other"),
     r"\[associative_scan\] combine_mode='other' — Combine_mode must either 'pointwise' or 'generic', but got other — "
     "pass one of these"),
    (lambda: associative_scan(torch.add, [1.0], 0),
     r"\[associative_scan\] xs=\[1.0\] — Expected at least 1 xs leaf, and xs leaves must be a Tensor — pass tensors"),
    (lambda: associative_scan(torch.add, torch.ones(0), 0),
     r"\[associative_scan\] an empty sequence in dim 0 — All xs leaves must at least have 'dim' number of dimensions "
     "and scan dimension > 0 — pass a sequence of elements"),
    (lambda: scan(combine, torch.ones(1), torch.ones(0)),
     r"\[scan\] an empty sequence in dim 0 — All xs leaves must at least have 'dim' number of dimensions and scan "
     "dimension > 0 — pass a sequence of elements"),
    (lambda: mapped(torch.neg, torch.ones(0, 2)),
     r"\[map\] an empty sequence — Leading dimensions of mapped xs cannot be 0 — pass a sequence of elements"),
])
def test_sequences_have_elements(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
