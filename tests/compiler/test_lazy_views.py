"""Compiled functions and lazily conjugated or negated views, whose memory does not hold their elements."""

from __future__ import annotations

import types

import numpy as np
import pytest

import tensocket as torch
from tensocket.compiler import compiled as handle_of

REASON = "graphs have no lazily conjugated or negated views"
VALUES = np.array([1 + 2j, 3 - 1j, -0.5 + 1j])
Z = torch.tensor(VALUES)
CONJUGATE, NEGATIVE = Z.conj(), Z.conj().imag
HELD = types.SimpleNamespace(x=Z.conj())


def replace():
    HELD.x = HELD.x.resolve_conj() * 2
    return Z + 1


#: By name: a function, its argument, and the result.
PROGRAMS = {
    "a conjugated argument": (lambda x: x * 2, CONJUGATE, VALUES.conj() * 2),
    "a negated argument": (lambda x: x * 2, NEGATIVE, -VALUES.imag * 2),
    "a captured conjugate": (lambda x: x * CONJUGATE, Z, VALUES * VALUES.conj()),
    "a captured negative": (lambda x: x + NEGATIVE, Z, VALUES - VALUES.imag),
    "a conjugate in between": (lambda x: x.conj() * 2, Z, VALUES.conj() * 2),
    "a negative in between": (lambda x: x.conj().imag + 2, Z, 2 - VALUES.imag),
    "a conjugated result": (lambda x: (x * 2).conj(), Z, VALUES.conj() * 2),
    "a view of an argument": (lambda x: x.conj(), Z, VALUES.conj()),
    "a product": (lambda x: torch.vdot(x, x), Z, np.vdot(VALUES, VALUES)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_such_calls_run_eagerly(name):
    function, argument, wanted = PROGRAMS[name]
    run = torch.compile(function)
    for _ in range(5):
        np.testing.assert_allclose(run(argument).resolve_conj().resolve_neg().numpy(), wanted, rtol=1e-12)
    found = handle_of(run).report()
    assert found.hits == 0
    assert [reason.partition(" at ")[0] for reason in found.break_reasons] == [REASON]


def test_an_attribute_that_is_replaced():
    run = torch.compile(replace)
    for _ in range(5):
        HELD.x = Z.conj()
        np.testing.assert_allclose(run().numpy(), VALUES + 1)
        np.testing.assert_allclose(HELD.x.numpy(), VALUES.conj() * 2)
    assert handle_of(run).report().hits == 0


def test_a_graph_serves_no_lazy_arguments():
    run = torch.compile(lambda x: x * 2)
    plain, real = Z.clone(), Z.imag.clone()
    for _ in range(5):
        run(plain), run(real)
    served = handle_of(run).report().hits
    assert served > 2
    np.testing.assert_allclose(run(CONJUGATE).numpy(), VALUES.conj() * 2)
    np.testing.assert_allclose(run(NEGATIVE).numpy(), -VALUES.imag * 2)
    assert handle_of(run).report().hits == served


def test_lazy_gradients_reach_a_graph():
    run = torch.compile(lambda x: x * x)
    x, weight = torch.tensor(VALUES, requires_grad=True), torch.tensor([1j, 2 + 1j, -1.0])
    for _ in range(8):
        gradient, = torch.autograd.grad(run(x), x, weight.conj())
        np.testing.assert_allclose(gradient.resolve_conj().numpy(), 2 * VALUES.conj() * weight.numpy().conj())
        y = torch.tensor(VALUES.real, requires_grad=True)
        gradient, = torch.autograd.grad(run(y), y, weight.conj().imag)
        np.testing.assert_allclose(gradient.resolve_neg().numpy(), -2 * VALUES.real * weight.numpy().imag)
    assert handle_of(run).report().hits > 3
