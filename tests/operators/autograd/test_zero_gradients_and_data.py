"""Rules of autograd that stand alone: zeros in place of gradients, strict functions, data, sizes, warnings."""

from __future__ import annotations

from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.autograd.graph import GradientEdge, get_gradient_edge
from tensocket_operators.autograd import functional
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


def test_zeros_in_place_of_gradients_are_differentiable_where_that_is_asked() -> None:
    x, unused = leaf([1.0, 2.0]), leaf([3.0])
    for create_graph in (False, True):
        zeros = torch.autograd.grad((x * x).sum(), (x, unused), create_graph=create_graph, materialize_grads=True)[1]
        assert (zeros.tolist(), zeros.requires_grad) == ([0.0], create_graph)
    edge = GradientEdge(*get_gradient_edge(unused * 2))
    assert torch.autograd.grad((x * x).sum(), (x, edge), allow_unused=True)[1] is None
    with pytest.raises(AutogradError, match=r"True for a gradient edge .* — zeros have the shape of a tensor"):
        torch.autograd.grad((x * x).sum(), (x, edge), materialize_grads=True)


def test_strict_derivatives_depend_on_the_inputs() -> None:
    x = leaf([1.0, 2.0])
    for run in (lambda **more: functional.jacobian(lambda a: a * 2, x, **more),
                lambda **more: functional.vjp(lambda a: a * 2, x, x.detach(), **more),
                lambda **more: functional.jvp(lambda a: a * 2, x, x.detach(), **more),
                lambda **more: functional.hvp(lambda a: (a * a).sum(), x, x.detach(), **more)):
        run(strict=True)
        run(create_graph=True)
        with pytest.raises(AutogradError, match="a derivative to differentiate that is the same for all inputs"):
            run(create_graph=True, strict=True)
    functional.jacobian(lambda a: a * a, x, create_graph=True, strict=True)


def test_data_keeps_its_layout_and_is_a_tensor() -> None:
    x = torch.ones(1, 2)
    sparse = torch.ones(1, 2).to_sparse()
    for target, value in ((x, sparse), (sparse, x)):
        with pytest.raises(AutogradError, match="a sparse and a strided tensor — data keeps its layout"):
            target.data = value
    with pytest.raises(ArgumentTypeError, match="NoneType — data is a tensor"):
        x.data = None


def test_another_size_is_one_change() -> None:
    x, y = torch.ones(1), torch.ones(3)
    x.resize_((1, 2))
    assert x._version == 1
    x.resize_as_(y)
    assert x._version == 2
    x.resize_((3,)).resize_as_(y)
    assert x._version == 2
    with torch.inference_mode():
        c = torch.ones(1, 2, 3, requires_grad=True)
        assert c.resize_(1, 2).shape == (1, 2)
        assert c.requires_grad


def test_division_by_zero_in_place_of_a_part_warns_of_nothing() -> None:
    x = torch.ones(10)
    x[0] /= 0
    assert x[0].item() == float("inf")
