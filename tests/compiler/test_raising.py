"""Operators that raise an error for some elements raise it from graphs, too, and leave what plain calls leave."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import DtypeError, ShapeError
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")

QUOTIENTS = {
    "//": lambda x, y: x // y, "%": lambda x, y: x % y, "fmod": lambda x, y: x.fmod(y),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"), "in place": lambda x, y: x.clone().floor_divide_(y),
    "number": lambda x, y: 7 // y}


def hits(run):
    return sum(v.hits for v in run._compiled.variants)


@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_of_integers_by_zero(name):
    run = torch.compile(QUOTIENTS[name])
    x = torch.tensor([4, 5])
    for _ in range(5):
        run(x, torch.tensor([2, 1]))
    assert hits(run) == 2
    with pytest.raises(DtypeError, match="integers have no quotient by zero"):
        run(x, torch.tensor([2, 0]))
    assert run(x, torch.tensor([2, 1])).tolist() == QUOTIENTS[name](x, torch.tensor([2, 1])).tolist()
    assert run._compiled.reasons == []


def test_changes_behind_an_error_do_not_happen_and_draws_are_repeated():
    later = torch.zeros(2)

    def f(x, y):
        noise, before = torch.rand(2), later * 2
        z = x // y
        later.add_(1)
        return z + noise + before * 0
    run = torch.compile(f)
    for _ in range(5):
        run(torch.tensor([4, 5]), torch.tensor([2, 1]))
    assert hits(run) == 2
    torch.manual_seed(3)
    torch.rand(2)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    with pytest.raises(DtypeError):
        run(torch.tensor([4, 5]), torch.tensor([2, 0]))
    assert later.tolist() == [5, 5]
    assert torch.rand(2).tolist() == wanted.tolist()


def test_changes_before_an_error_are_no_graph():
    seen = torch.zeros(2)

    def f(x, y):
        seen.add_(1)
        return x // y
    run = torch.compile(f)
    for _ in range(6):
        run(torch.tensor([4, 5]), torch.tensor([2, 1]))
    assert "modifies a tensor that was there before, and calls floor_divide later" in run._compiled.reasons[0]
    with pytest.raises(DtypeError):
        run(torch.tensor([4, 5]), torch.tensor([2, 0]))
    assert seen.tolist() == [7, 7]


def test_an_error_at_the_first_call_of_a_graph_is_no_defect():
    run = torch.compile(lambda x: torch.linalg.cholesky(x) * 2)
    for _ in range(3):
        run(torch.eye(2))
    with pytest.raises(torch.linalg.LinAlgError, match="not positive definite"):
        run(-torch.eye(2))
    assert run._compiled.reasons == []
    assert run(torch.eye(2)).tolist() == [[2, 0], [0, 2]]


def test_no_indices_are_in_range():
    table = torch.arange(6.0).reshape(3, 2)
    run = torch.compile(lambda index: torch.nn.functional.embedding(index, table) * 2)
    for _ in range(6):
        assert run(torch.zeros(0, dtype=torch.int64)).shape == (0, 2)
    assert hits(run) == 3


def test_products_with_no_columns_have_gradients():
    w = torch.ones(4, 0, requires_grad=True)
    run = torch.compile(lambda x: torch.nn.functional.linear(x, w) + x @ w.t())
    for _ in range(6):
        run(torch.ones(3, 6, 0)).sum().backward()
    assert w.grad.shape == (4, 0)
    assert run._compiled.reasons == []


def test_a_bias_has_one_element_for_each_output():
    with pytest.raises(ShapeError, match=r"a bias of shape \[3\] for outputs of shape \[6, 1\]"):
        torch.nn.functional.linear(torch.ones(6, 2), torch.ones(1, 2), torch.ones(3))


def test_a_view_that_its_base_left_behind_is_no_failure_of_the_compiler():
    w = torch.ones(4, requires_grad=True)

    def f(x):
        y = x * w
        with torch.no_grad():
            view = y[1:]
        y.mul_(2)
        return view
    run = torch.compile(f)
    for _ in range(5):
        assert run(torch.ones(4)).tolist() == [2, 2, 2]
    assert not any("compiler failed" in reason for reason in run._compiled.reasons)


def freed(b):
    x = nn.functional.linear(b, WEIGHT, BIAS)
    torch.autograd.grad(x.sum(), [BIAS])
    return x


def modified(b):
    x = nn.functional.scaled_dot_product_attention(b[None], b[None], b[None])
    y = x.view_as(x)
    z = x - y
    y[..., 1:] = y[..., :-1].clone()
    return z


WEIGHT, BIAS = torch.ones(3, 3, requires_grad=True), torch.zeros(3, requires_grad=True)


@pytest.mark.parametrize("function", [freed, modified])
def test_graphs_that_a_call_spoils_raise(function):
    compiled = torch.compile(function)
    for call in [function, *[compiled] * 6]:
        result = call(torch.eye(3).requires_grad_())
        with pytest.raises(RuntimeError, match=r"a second time|at version"):
            result.sum().backward()
