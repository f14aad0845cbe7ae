"""The recorded graph as users see it: nodes, edges, several outputs, hooks on nodes, gradient edges."""

from __future__ import annotations

import gc
import traceback
import weakref
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.autograd.node import AccumulateGrad, MultiNode
from tensocket_core.autograd.recorders import recorder
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.schema import parse_schema
from tensocket_operators.autograd import graph


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


def operator(schema: str, run: Any, derivative: Derivative) -> Any:
    """An operator with several results, recorded as the dispatcher records it."""
    derivative.bind(parse_schema(schema))

    def below(*args: Any) -> Any:
        with torch.no_grad():
            return run(*args)

    return recorder(derivative, below, 0)


#: (x + y, x * y, a constant integer)
SUM_PRODUCT = operator(
    "sum_product(Tensor x, Tensor y) -> (Tensor, Tensor, Tensor)",
    lambda x, y: (x + y, x * y, torch.tensor([1, 2])),
    Derivative(
        x=lambda grads, y: (0 if grads[0] is None else grads[0]) + (0 if grads[1] is None else grads[1] * y),
        y=lambda grads, x: (0 if grads[0] is None else grads[0]) + (0 if grads[1] is None else grads[1] * x),
    ),
)
#: (exp(x), exp(x)^2) from saved results.
POWERS = operator(
    "powers(Tensor x) -> Tensor[]",
    lambda x: [x.exp(), (x * 2).exp()],
    Derivative(x=lambda grads, result0, result1: (
        (0 if grads[0] is None else grads[0] * result0) + (0 if grads[1] is None else grads[1] * 2 * result1)
    )),
)


def test_leaves_show_as_nodes_that_accumulate() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    (node, index), *_ = y.grad_fn.next_functions
    assert (node.name(), index, node.next_functions) == ("torch::autograd::AccumulateGrad", 0, ())
    assert node.variable is x
    assert isinstance(node, graph.Node)
    assert node is y.grad_fn.next_functions[0][0]
    assert node is (x + 1).grad_fn.next_functions[0][0]
    assert repr(node).startswith("<AccumulateGrad object at 0x")
    constant = torch.ones(2, dtype=torch.float64)
    assert (x * constant).grad_fn.next_functions == ((node, 0), (None, 0))
    reference = weakref.ref(node)
    del node
    assert reference() is None


def test_tracebacks_show_the_lines_of_recorders() -> None:
    with pytest.raises(RuntimeError) as caught:
        leaf([1.0, 2.0]) * torch.ones(3, dtype=torch.float64)
    lines = [entry.line for entry in traceback.extract_tb(caught.tb) if "recorders.py" in entry.filename]
    assert lines == ["result = below(a, b)"]


def test_saved_values_by_name() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    product, result = x * y, x.exp()
    assert product.grad_fn._saved_self is x
    assert product.grad_fn._saved_other is y
    assert result.grad_fn._saved_result.tolist() == result.tolist()
    with pytest.raises(AttributeError, match="MulBackward0 has no attribute '_saved_third'"):
        product.grad_fn._saved_third  # noqa: B018
    with pytest.raises(AttributeError, match="AccumulateGrad has no attribute '_saved_self'"):
        product.grad_fn.next_functions[0][0]._saved_self  # noqa: B018


def test_nodes_with_several_outputs() -> None:
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    total, product, constant = SUM_PRODUCT(x, y)
    assert isinstance(total.grad_fn, MultiNode)
    assert total.grad_fn is product.grad_fn
    assert (total.output_nr, product.output_nr, x.output_nr) == (0, 1, 0)
    assert not constant.requires_grad
    assert (product * 1).grad_fn.next_functions[0] == (product.grad_fn, 1)
    (total * 10 + product).sum().backward()
    assert x.grad.tolist() == [15.0, 17.0]
    assert y.grad.tolist() == [12.0, 13.0]


@pytest.mark.parametrize(("which", "expected"), [(0, [1.0, 1.0]), (1, [5.0, 7.0])])
def test_outputs_without_gradient_give_none(which: int, expected: list[float]) -> None:
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    SUM_PRODUCT(x, y)[which].sum().backward()
    assert x.grad.tolist() == expected


def test_gradients_with_respect_to_one_of_several_outputs() -> None:
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    total, product, _ = SUM_PRODUCT(x, y)
    z = (total * 2 + product * product).sum()
    of_total, of_product, of_x = torch.autograd.grad(z, (total, product, x))
    assert of_total.tolist() == [2.0, 2.0]
    assert of_product.tolist() == [20.0, 42.0]
    assert of_x.tolist() == [2 + 20.0 * 5, 2 + 42.0 * 7]


def test_hooks_and_kept_gradients_of_several_outputs() -> None:
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    total, product, _ = SUM_PRODUCT(x, y)
    product.register_hook(lambda grad: grad * 100)
    product.retain_grad()
    total.retain_grad()
    (total + product).sum().backward()
    assert (total.grad.tolist(), product.grad.tolist()) == ([1.0, 1.0], [100.0, 100.0])
    assert x.grad.tolist() == [501.0, 701.0]


def test_saved_results_of_several_outputs_in_second_derivatives() -> None:
    x = leaf([0.5, -1.0])
    first, second = POWERS(x)
    node = weakref.ref(first.grad_fn)
    grad = torch.autograd.grad((first + second).sum(), x, create_graph=True)[0]
    again = torch.autograd.grad(grad.sum(), x)[0]
    v = np.array([0.5, -1.0])
    np.testing.assert_allclose(grad.tolist(), np.exp(v) + 2 * np.exp(2 * v))
    np.testing.assert_allclose(again.tolist(), np.exp(v) + 4 * np.exp(2 * v))
    assert node() is not None
    gc.disable()
    try:
        del first, second, grad, again
        assert node() is None
    finally:
        gc.enable()


# ------------------------------------------------------------------------------------------------------ hooks of nodes


def test_hooks_of_nodes_see_and_replace_gradients() -> None:
    x, y = leaf([1.0, 2.0]), leaf(3.0)
    z = x * y
    seen: list[Any] = []
    z.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    z.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    z.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1, inputs[1]))
    z.sum().backward()
    (inputs, outputs), = seen
    assert outputs[0].tolist() == [2.0, 2.0]
    assert inputs[0].tolist() == [6.0, 6.0]
    assert inputs[1].tolist() == 6.0  # summed to the shape of y already
    assert x.grad.tolist() == [7.0, 7.0]


def test_hooks_of_nodes_can_be_removed() -> None:
    x = leaf(1.0)
    y = x * 2
    handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, None))
    with y.grad_fn.register_prehook(lambda grads: (grads[0] * 100,)):
        y.backward(retain_graph=True)
    assert x.grad.item() == 2000.0
    handle.remove()
    x.grad = None
    y.backward()
    assert x.grad.item() == 2.0


def test_hooks_of_leaves_run_in_pytorchs_order() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    order: list[str] = []
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_hook(lambda inputs, outputs: order.append(f"after {inputs} {outputs[0].tolist()}"))
    accumulator.register_prehook(lambda grads: order.append("before"))
    x.register_post_accumulate_grad_hook(lambda leaf: order.append(f"accumulated {leaf.grad.tolist()}"))
    x.register_hook(lambda grad: order.append("tensor"))
    y.register_hook(lambda grad: order.append("y"))
    y.grad_fn.register_prehook(lambda grads: order.append("node before"))
    y.grad_fn.register_hook(lambda inputs, outputs: order.append("node after"))
    del accumulator  # the hooks stay with the leaf
    y.sum().backward(retain_graph=True)
    assert order == ["y", "node before", "node after", "tensor", "before", "accumulated [2.0, 2.0]",
                     "after () [2.0, 2.0]"]
    order.clear()
    torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert order == ["y", "node before", "node after", "tensor"]
    order.clear()
    torch.autograd.grad(y.sum(), y)
    assert order == ["y"]


def test_nodes_have_a_dict_for_users() -> None:
    x = leaf(1.0)
    y = x * 2
    assert y.grad_fn.metadata == {}
    y.grad_fn.metadata["place"] = "here"
    assert y.grad_fn.metadata == {"place": "here"}
    assert y.grad_fn.requires_grad
    assert y.grad_fn._sequence_nr() < (x * 2).grad_fn._sequence_nr()
    assert AccumulateGrad()._sequence_nr() == 2**64 - 1


def test_nodes_can_be_called() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seed = torch.tensor([10.0, 100.0], dtype=torch.float64)
    first, second = (x * y).grad_fn(seed)
    assert (first.tolist(), second.tolist()) == ([30.0, 400.0], [10.0, 200.0])
    assert x.exp().grad_fn(seed).tolist() == pytest.approx([10 * np.e, 100 * np.e**2])
    assert SUM_PRODUCT(x, y)[1].grad_fn(None, seed, None)[0].tolist() == [30.0, 400.0]


# ------------------------------------------------------------------------------------------------------ gradient edges


def test_gradient_edges_stand_for_tensors() -> None:
    x, y = leaf([2.0, 3.0]), leaf([5.0, 7.0])
    _, product, _ = SUM_PRODUCT(x, y)
    edge = graph.get_gradient_edge(product)
    assert (edge.node, edge.output_nr) == (product.grad_fn, 1)
    z = (product * 2).sum()
    assert torch.autograd.grad(z, edge, retain_graph=True)[0].tolist() == [2.0, 2.0]
    of_leaf = graph.get_gradient_edge(x)
    assert of_leaf.node.variable is x
    assert torch.autograd.grad(z, (of_leaf,), retain_graph=True)[0].tolist() == [10.0, 14.0]
    seed = torch.tensor([1.0, 10.0], dtype=torch.float64)
    torch.autograd.backward(edge, seed)
    assert x.grad.tolist() == [5.0, 70.0]


def test_hooks_on_several_tensors() -> None:
    x, y, unused = leaf(2.0), leaf(3.0), leaf(4.0)
    calls: list[Any] = []
    handle = graph.register_multi_grad_hook([x, y, unused], lambda grads: calls.append(
        [None if g is None else g.item() for g in grads]))
    first: list[Any] = []
    graph.register_multi_grad_hook([x, y], lambda grad: first.append(grad.item()), mode="any")
    (x * y).backward()
    assert calls == [[3.0, 2.0, None]]
    assert len(first) == 1
    (x * y * unused).backward()
    assert calls[1] == [12.0, 8.0, 6.0]
    assert len(first) == 2
    with handle:
        pass
    (x * y).backward()
    assert len(calls) == 2


def test_changes_can_be_counted_by_hand() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    z = y * y
    graph.increment_version(y)
    assert y._version == 1
    with pytest.raises(RuntimeError, match="saved by MulBackward0, at version 1 instead of 0"):
        z.sum().backward()
    graph.increment_version([y, x])
    assert (y._version, x._version) == (2, 1)
