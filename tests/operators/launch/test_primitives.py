"""Backends without a code generator: the primitives are enough, and each one that is missing is named."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import UnsupportedDtype, UnsupportedOperator
from tensocket_plugins.contract.primitives import PRIMITIVES
from tensocket_plugins.contract.registry import registry


def floats(device):
    return tc.tensor([1.0, 2.0, 3.0], device=device)


def integers(device):
    return tc.tensor([1, 2, 3], device=device)


#: A call that needs each primitive.
NEEDS = {
    "neg": lambda d: -floats(d),
    "abs": lambda d: floats(d).abs(),
    "sqrt": lambda d: floats(d).sqrt(),
    "floor": lambda d: floats(d).floor(),
    "ceil": lambda d: floats(d).ceil(),
    "trunc": lambda d: floats(d).trunc(),
    "rint": lambda d: floats(d).round(),
    "exp": lambda d: floats(d).exp(),
    "expm1": lambda d: floats(d).expm1(),
    "log": lambda d: floats(d).log(),
    "log1p": lambda d: floats(d).log1p(),
    "sin": lambda d: floats(d).sin(),
    "cos": lambda d: floats(d).cos(),
    "tanh": lambda d: floats(d).tanh(),
    "erf": lambda d: floats(d).erf(),
    "bitwise_not": lambda d: ~integers(d),
    "add": lambda d: floats(d) + floats(d),
    "sub": lambda d: floats(d) - floats(d),
    "mul": lambda d: floats(d) * floats(d),
    "div": lambda d: floats(d) / floats(d),
    "idiv": lambda d: integers(d) // integers(d),
    "imod": lambda d: integers(d) % integers(d),
    "fma": lambda d: tc.randn(3, device=d),
    "fmod": lambda d: f.fmod(floats(d), floats(d)),
    "pow": lambda d: floats(d) ** floats(d),
    "maximum": lambda d: f.maximum(floats(d), floats(d)),
    "minimum": lambda d: f.minimum(floats(d), floats(d)),
    "bitwise_and": lambda d: integers(d) & integers(d),
    "bitwise_or": lambda d: integers(d) | integers(d),
    "bitwise_xor": lambda d: integers(d) ^ integers(d),
    "eq": lambda d: floats(d) == floats(d),
    "ne": lambda d: floats(d) != floats(d),
    "lt": lambda d: floats(d) < floats(d),
    "le": lambda d: floats(d) <= floats(d),
    "where": lambda d: f.where(floats(d) > 1, floats(d), floats(d)),
    "sum": lambda d: floats(d).sum(),
    "prod": lambda d: floats(d).prod(),
    "amax": lambda d: floats(d).amax(),
    "amin": lambda d: floats(d).amin(),
    "argmax": lambda d: floats(d).argmax(),
    "argmin": lambda d: floats(d).argmin(),
    "matmul": lambda d: floats(d) @ floats(d),
    "copy": lambda d: floats(d).clone(),
    "gather": lambda d: floats(d).gather(0, tc.tensor([0], device=d)),
    "scatter": lambda d: floats(d).scatter(0, tc.tensor([0], device=d), floats(d)),
    "scatter_add": lambda d: floats(d).scatter_add(0, tc.tensor([0], device=d), floats(d)),
    "fill": lambda d: tc.zeros(2, device=d),
    "arange": lambda d: tc.arange(3, device=d),
    "philox_bits": lambda d: tc.rand(3, device=d),
    "bitcast": lambda d: tc.randn(3, device=d),
}
#: Primitives that no operator of core uses yet.
UNUSED = {"shl", "shr"}


def test_the_table_is_complete():
    assert set(PRIMITIVES) == set(NEEDS) | UNUSED


@pytest.mark.parametrize("primitive", NEEDS)
def test_a_missing_primitive_is_named(make_plain, primitive):
    name = f"lacks{sorted(NEEDS).index(primitive):02d}x"
    registry().add(make_plain(name, frozenset({primitive})), name=name, distribution="the tests of core")
    try:
        with pytest.raises(
            UnsupportedOperator, match=rf"^\[\w+\] \w+ on {name}:0 — "
                           rf"the backend registers no kernel for the primitive '{primitive}' — .*set_fallback"
        ):
            NEEDS[primitive](name)
        # The device works afterwards.
        tensor = tc.tensor([1.0, 2.0], device=name)
        assert tensor.view(2, 1).tolist() == [[1.0], [2.0]]
        assert primitive in ("fill", "copy") or tc.full((2,), 3.0, device=name).clone().tolist() == [3.0, 3.0]
    finally:
        registry().remove(name)


def test_a_training_step_on_primitives(near):
    """The same numbers as on ``ref``, whose kernels are generated."""
    results = []
    for device in ("ref", "plain"):
        w = tc.tensor(np.linspace(-1, 1, 12).reshape(3, 4), dtype=tc.float64, device=device, requires_grad=True)
        x = tc.tensor(np.linspace(0, 1, 8).reshape(2, 4), dtype=tc.float64, device=device)
        loss = f.cross_entropy(f.gelu(f.layer_norm(x, (4,))) @ w.t(), tc.tensor([2, 0], device=device))
        loss.backward()
        results.append((loss.item(), np.array(w.grad.tolist())))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-10, atol=1e-14)


def test_what_the_listing_says():
    listed = tc.registrations("plain")
    assert listed["exp"] == "registered"
    assert listed["gelu"] == "composite"
    assert listed["transpose"] == "view"
    assert tc.registrations("ref")["exp"] == "plan"


def test_dtypes_that_the_device_lacks():
    with pytest.raises(UnsupportedDtype, match=r"\[tensor\] bfloat16 on plain:0"):
        tc.tensor([1.0], dtype=tc.bfloat16, device="plain")
    with pytest.raises(UnsupportedDtype, match=r"\[to\] bfloat16 on plain:0"):
        tc.tensor([1.0], device="plain").bfloat16()


@pytest.mark.skipif(not tc.is_available("cpu"), reason="no backend on the host is installed")
def test_a_missing_primitive_falls_back_when_allowed(make_plain):
    registry().add(make_plain("lackserf", frozenset({"erf"})), name="lackserf", distribution="the tests of core")
    try:
        tc.reset_fallback_ledger()
        tc.set_fallback("cpu")
        x = tc.tensor([0.5, 1.0], device="lackserf", requires_grad=True)
        y = x.erf()
        assert str(y.device) == "lackserf:0"
        assert y.tolist() == pytest.approx([0.5204999, 0.8427008])
        y.sum().backward()
        assert x.grad.tolist() == pytest.approx([0.8787826, 0.4151075])
        (record,) = tc.fallback_ledger()
        assert (record.operator, record.dtype, record.device, record.kind, record.count) == (
            "erf",
            "float32",
            "lackserf:0",
            "fallback",
            1,
        )
        assert record.bytes == 16
    finally:
        tc.set_fallback(None)
        tc.reset_fallback_ledger()
        registry().remove("lackserf")
    assert tc.fallback_ledger() == []
