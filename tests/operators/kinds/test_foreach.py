"""Rules over lists of tensors: one kernel for all rows where there is one, the same numbers everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.kinds import foreach as lists_module
from tensocket_operators.kinds.foreach import ListFunction


def rule(p, g, mean, share, rate):
    mean = mean.lerp(g, share)
    root = (mean.abs() + 0.5).sqrt()
    return p.addcdiv(mean.masked_fill(g < 0, 0.25), root, value=-rate), mean, -root


def expected(p, g, mean, share, rate):
    mean = mean + share * (g - mean)
    root = np.sqrt(np.abs(mean) + 0.5)
    return p - rate * np.where(g < 0, 0.25, mean) / root, mean, -root


SHAPES = [(2, 3), (), (4,), (0,)]


def given(seed):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape) for shape in SHAPES]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_new_values_and_results(device, dtype):
    if dtype == "bfloat16" and device == "plain":
        pytest.skip("the device has no bfloat16")
    kind = getattr(torch, dtype)
    p, g, m = ([torch.tensor(x, dtype=kind, device=device) for x in given(seed)] for seed in (1, 2, 3))
    wanted = [expected(*[x.to(torch.float64).detach()._values() for x in row], 0.25, rate)
              for row, rate in zip(zip(p, g, m, strict=True), (0.5, 1.0, 2.0, 3.0), strict=True)]
    before = [x.tolist() for x in g]
    (roots,) = ListFunction("test", rule, (0, 2), 1)([p, g, m], (0.25, [0.5, 1.0, 2.0, 3.0]))
    bound = 4 * float(torch.finfo(kind).eps)
    for found, parts in zip(zip(p, m, roots, strict=True), wanted, strict=True):
        for x, value in zip(found, parts, strict=True):
            assert x.dtype is kind
            np.testing.assert_allclose(x.to(torch.float64).detach()._values(), value, rtol=bound, atol=bound)
    assert [x.tolist() for x in g] == before
    assert [(x._version, y._version, z._version) for x, y, z in zip(p, g, m, strict=True)] == [(1, 0, 1)] * 4


def launches(monkeypatch):
    """How many rows each call has."""
    rows = []
    launch = lists_module.launch_list

    def counted(entry, key, build, strategy, buffers, scalars):
        rows.append(len(buffers[0]))
        launch(entry, key, build, strategy, buffers, scalars)

    monkeypatch.setattr(lists_module, "launch_list", counted)
    return rows


def test_one_launch_for_each_kind(monkeypatch):
    rows = launches(monkeypatch)
    double = ListFunction("double", lambda x: (x * 2,))
    double([[torch.ones(2), torch.ones(3, 2)]])
    assert rows == [2]
    mixed = [torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(3), torch.ones(2, dtype=torch.int32)]
    double([mixed])
    assert rows == [2, 2, 1]
    assert [x.tolist() for x in mixed] == [[2.0] * 2, [2.0] * 2, [2.0] * 3, [2] * 2]


def test_rows_that_share_memory_run_in_order(monkeypatch):
    rows = launches(monkeypatch)
    x = torch.ones(4)
    ListFunction("triple", lambda x, y: (x + y * 2,))([[x[:3], x[1:]], [x[:3], x[:3]]])
    assert rows == [1]  # the second row reads memory that it writes at another index, which a kernel allows
    assert x.tolist() == [3.0, 9.0, 9.0, 7.0]


def test_a_list_that_is_given_twice(monkeypatch):
    rows = launches(monkeypatch)
    x, y = [torch.ones(2), torch.ones(1)], [torch.full((2,), 3.0), torch.full((1,), 2.0)]
    ListFunction("square", lambda x, y, z: (x.addcmul(y, z),))([x, y, y])
    assert rows == [2]
    assert [a.tolist() for a in x] == [[10.0, 10.0], [5.0]]


def test_recorded_rows_are_computed_by_operators(monkeypatch):
    rows = launches(monkeypatch)
    x = [torch.ones(2, requires_grad=True), torch.ones(2)]
    (found,) = ListFunction("half", lambda x: (x * 0.5,), (), 1)([x])
    found[0].sum().backward()
    assert x[0].grad.tolist() == [0.5, 0.5]
    assert rows == [1]
    with torch.no_grad():
        ListFunction("half", lambda x: (x * 0.5,))([x])
    assert rows == [1, 2]


def test_an_element_has_the_methods_that_have_formulas():
    with pytest.raises(AttributeError, match="cumsum"):
        ListFunction("scan", lambda x: (x.cumsum(0),))([[torch.ones(2)]])
    with pytest.raises(TypeError, match="addcmul has no parameter 'factor'"):
        ListFunction("product", lambda x: (x.addcmul(x, x, factor=2),))([[torch.ones(2)]])
    assert ListFunction("nothing", lambda x: (x,))([[]]) == []
