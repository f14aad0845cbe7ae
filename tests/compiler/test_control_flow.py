"""``cond`` and ``while_loop`` in compiled and exported functions: values are those of the function."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket import nn
from tensocket._dynamo.exc import Unsupported
from tensocket.errors import ExportError
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
CALLS = 14


def by_value(x, w):
    return torch.cond(x.sum() > 0, lambda a: (a * w).sin(), lambda a: a.cos() + w, (x,))


def by_size(x, w):
    return torch.cond(x.shape[0] > 4, lambda a: (a * w[0]).sin(), lambda a: a.cos() + w[0], (x,))


def nested(x, w):
    return torch.cond(x[0] > 0, lambda a: torch.cond(a[1] > 0, lambda b: b * w, lambda b: b - w, (a,)),
                      lambda a: a.exp(), (x,))


def counted(x, w):
    return torch.while_loop(lambda k, y: k < 5, lambda k, y: (k + 1, y * 1.5 + w), (torch.tensor(0), x))[1]


def until(x, w):
    return torch.while_loop(lambda y: y.abs().max() > 0.1, lambda y: (y * 0.5,), (x,))[0] + w


def of_numbers(x, w):
    return torch.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * w), (0, x))[1]


FUNCTIONS = [by_value, by_size, nested, counted, until, of_numbers]
#: Functions that read no element.
GRAPHS = [by_size, of_numbers]


def calls(function, sizes):
    """Values and gradients of calls."""
    torch.manual_seed(0)
    found = []
    for call in range(CALLS):
        size = sizes[call % len(sizes)]
        x, w = torch.randn(size, requires_grad=True), torch.randn(size, requires_grad=True)
        result = function(x, w)
        result.sum().backward()
        found.append([result.tolist(), x.grad.tolist(), None if w.grad is None else w.grad.tolist()])
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("sizes", [(4,), (4, 5)])
def test_compiled_calls_are_those_of_the_function(function, sizes):
    compiled = torch.compile(function)
    assert calls(compiled, sizes) == calls(function, sizes)
    assert (torch.compiler.compiled(compiled).report().graph_count > 0) is (function in GRAPHS)


@pytest.mark.parametrize("function", [x for x in FUNCTIONS if x not in GRAPHS])
def test_fullgraph_names_the_read(function):
    with pytest.raises(Unsupported, match=r"elements of a tensor are read at .*test_control_flow\.py"):
        calls(torch.compile(function, fullgraph=True), (4,))


class Module(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, w):
        return self.function(x, w)


@pytest.mark.parametrize("function", GRAPHS)
def test_exported_programs_of_sizes_and_numbers(function):
    program = torch.export.export(Module(function), (torch.randn(4), torch.randn(4))).module()
    for _ in range(4):
        x, w = torch.randn(4), torch.randn(4)
        assert program(x, w).tolist() == function(x, w).tolist()


@pytest.mark.parametrize("function", [x for x in FUNCTIONS if x not in GRAPHS])
def test_export_refuses_branches_on_values(function):
    with pytest.raises(ExportError, match="a read of elements of a tensor"):
        torch.export.export(Module(function), (torch.randn(4), torch.randn(4)))
