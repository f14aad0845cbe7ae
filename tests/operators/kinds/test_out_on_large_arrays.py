"""``out=`` of pointwise operators on arrays that are large enough to be written at once."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_plugins.contract.errors import ShapeError

SIZE = 5000


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def host():
    return lambda tensor: np.array(tensor.detach()._values())


@pytest.fixture
def operands(rng):
    return tuple(torch.tensor(rng.standard_normal(SIZE).astype(np.float32)) for _ in range(2))


def test_results_are_written_and_changes_counted(operands, host):
    x, y = operands
    out = torch.empty(SIZE)
    cases = [(torch.add, (x, y), host(x) + host(y)), (torch.mul, (x, 2.5), host(x) * np.float32(2.5)),
             (torch.neg, (x,), -host(x)), (torch.maximum, (x, y), np.maximum(host(x), host(y)))]
    for count, (function, args, expected) in enumerate(cases, 1):
        assert function(*args, out=out) is out
        np.testing.assert_array_equal(host(out), expected)
        assert out._version == count


@pytest.mark.parametrize("dtype", ["bool", "float64", "float32"])
def test_other_dtypes_of_out(operands, host, dtype):
    x, y = operands
    out = torch.empty(SIZE, dtype=getattr(torch, "bool_" if dtype == "bool" else dtype))
    function = torch.lt if dtype == "bool" else torch.add
    function(x, y, out=out)
    expected = host(x) < host(y) if dtype == "bool" else host(x) + host(y)
    np.testing.assert_array_equal(host(out), expected.astype(dtype))


def test_an_operand_as_out_and_parts_of_it(operands, host):
    x, y = operands
    before = host(x).copy()
    torch.add(x, y, out=x)
    np.testing.assert_array_equal(host(x), before + host(y))
    with pytest.raises(ShapeError, match=r"\[add\] an operand in the memory of the tensor"):
        torch.add(x[:-1], x[:-1], out=x[1:])


def test_broadcasting_layouts_and_integers(host, rng):
    rows = torch.tensor(rng.standard_normal((70, 80)).astype(np.float32))
    out = torch.empty(80, 70)
    torch.add(rows.t(), 1.0, out=out)
    np.testing.assert_array_equal(host(out), host(rows).T + 1)
    wide = torch.empty(70, 80)
    torch.mul(rows, rows[:1], out=wide)
    np.testing.assert_array_equal(host(wide), host(rows) * host(rows)[:1])
    whole = torch.arange(SIZE)
    quotient = torch.empty(SIZE)
    torch.div(whole, 4, out=quotient)
    np.testing.assert_array_equal(host(quotient), np.arange(SIZE) / np.float32(4))


def test_gradients_are_refused(operands):
    x, y = operands
    with pytest.raises(RuntimeError, match="out"):
        torch.add(x.requires_grad_(), y, out=torch.empty(SIZE))
