"""The order in which hooks run, which of them run, and what they may return."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core import warned
from tensocket_core.autograd.graph import register_multi_grad_hook
from tensocket_operators.autograd import Function
from tensocket_operators.differentiation.delayed import UndefinedGrad
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


def test_hooks_of_a_leaf_run_from_the_tensor_to_its_node() -> None:
    x = leaf([1.0, 1.0, 1.0])
    accumulator = x.view_as(x).grad_fn.next_functions[0][0]
    x.register_hook(lambda g: g - 2)
    accumulator.register_prehook(lambda gs: (gs[0] / 5,))
    x.register_post_accumulate_grad_hook(lambda t: setattr(t, "grad", t.grad.add_(0.5)))
    accumulator.register_hook(lambda _, gs: setattr(x, "grad", gs[0] * 10))
    x.sum().backward()
    # The first gradient becomes .grad itself, so that the last hook sees the change before it: ((1 - 2) / 5 + 0.5) * 10
    assert x.grad.tolist() == pytest.approx([3.0, 3.0, 3.0])


def test_the_nodes_of_chosen_inputs_run_in_backward_and_not_in_grad() -> None:
    log: list[str] = []
    x = leaf(1.0)
    y = x.clone()
    y.register_hook(lambda g: log.append("tensor") or g * 3)
    y.grad_fn.register_prehook(lambda gs: log.append("node") or (gs[0] * 2,))
    accumulator = y.grad_fn.next_functions[0][0]
    x.register_hook(lambda g: log.append("leaf"))
    accumulator.register_prehook(lambda gs: log.append("accumulator"))
    torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert log == ["tensor", "node", "leaf"]
    log.clear()
    y.sum().backward(inputs=(y,))
    assert log == ["tensor", "node"]
    assert y.grad.item() == 3  # kept before the node's own hook


def test_hooks_on_inputs_run_inside_the_pass() -> None:
    x, y, seen = leaf(2.0), leaf(3.0), []
    register_multi_grad_hook((x, y), lambda g: seen.append(g.item()), mode="any")
    out = x * y
    threads = [threading.Thread(target=lambda: out.backward(inputs=(x, y), retain_graph=True)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3  # once in each pass
    assert (x.grad.item(), y.grad.item()) == (9.0, 6.0)


def test_hooks_after_accumulation_return_nothing() -> None:
    x = leaf([1.0])
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(AutogradError, match="a value from hook '<lambda>' — hooks that run after a gradient was "
                       "accumulated return None"):
        x.sum().backward()


def test_hooks_can_be_set_before_a_gradient_is_required() -> None:
    x, seen = torch.ones(2), []
    x._backward_hooks = OrderedDict()
    x._backward_hooks["first"] = seen.append
    (x * leaf([1.0, 2.0])).sum().backward()
    assert not seen
    x.requires_grad_()
    (x * 3).sum().backward()
    assert [g.tolist() for g in seen] == [[3.0, 3.0]]


def test_a_graph_without_saved_tensors_is_used_twice() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = (x + 1)[0].reshape(2, 1).expand(2, 3).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [[6.0, 6.0], [0.0, 0.0]]
    z = (x * x).sum()
    z.backward()
    with pytest.raises(AutogradError, match="a second time"):
        z.backward()


def test_nodes_say_how_many_gradients_they_take() -> None:
    x = leaf([2.0])
    node = (x**2).grad_fn
    for given in ((), (torch.ones(1), torch.ones(1))):
        with pytest.raises(ArgumentTypeError, match=f"expected 1 arguments, got {len(given)} instead — "
                           "a node is given a gradient for each of its outputs"):
            node(*given)


def test_warnings_of_gradients_that_will_not_come() -> None:
    x = leaf([2.0])
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None
    assert x.grad is None
    y.sum().backward()
    assert y.grad.tolist() == [1.0]


def test_a_recorded_backward_warns_of_the_cycle_once_or_always() -> None:
    x = leaf([2.0])

    def warnings_of_backward() -> int:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            (x * x).sum().backward(create_graph=True)
        x.grad = None
        return sum("create_graph=True" in str(w.message) for w in given)

    warnings_of_backward()
    assert warnings_of_backward() == 0
    warned.set_warn_always(True)
    try:
        assert warned.is_warn_always_enabled()
        assert warnings_of_backward() == 1
    finally:
        warned.set_warn_always(False)


def test_a_recorded_gradient_is_laid_out_by_a_copy() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        (x**3).t().sum().backward(create_graph=True)
    assert x.grad.grad_fn.name() == "torch::autograd::CopyBackwards"
    assert x.grad.stride() == x.stride()
    (second,) = torch.autograd.grad(x.grad.sum(), x)
    assert second.tolist() == [[6.0, 12.0], [18.0, 24.0]]


def test_functions_behind_one_without_gradient_are_given_zeros() -> None:
    seen: list[Any] = []

    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, zeros: bool) -> Any:
            ctx.set_materialize_grads(zeros)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(grad if grad is None else grad.tolist())
            return grad, None

    class Stop(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    for zeros, expected in ((True, [0.0]), (False, None)):
        x = leaf([3.0])
        y = First.apply(x, zeros) * 5
        y.register_hook(seen.append)
        Stop.apply(y).sum().backward()
        assert seen == ([None, None] if expected is None else [None, [0.0]])
        assert (None if x.grad is None else x.grad.tolist()) == expected
        (First.apply(x, zeros) + Stop.apply(y.detach() + y)).sum().backward()
        assert x.grad.tolist() == [1.0]
        seen.clear()


def test_a_node_that_passes_no_gradients_on() -> None:
    x, seen = leaf([3.0]), []
    y = x * 2
    y.register_hook(seen.append)
    z = UndefinedGrad()(y)
    assert z.tolist() == [6.0]
    (z * 1).sum().backward()
    assert seen == [None]
    assert x.grad is None
    assert UndefinedGrad()(torch.ones(1)).grad_fn is None
