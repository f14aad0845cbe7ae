"""The promises of a ``Function``'s ``mark_dirty``, ``mark_non_differentiable`` and ``save_for_backward``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.autograd.inspection import SavedTensor
from tensocket_operators.autograd import Function
from tensocket_plugins.contract.errors import AutogradError


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


def make(forward: Callable[..., Any], backward: Callable[..., Any], **more: Any) -> Any:
    return type("F", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward), **more})


def test_what_is_not_an_argument_needs_no_mark() -> None:
    def forward(ctx: Any, a: Any) -> Any:
        result = a * 3
        ctx.mark_dirty(result)
        return result

    x = leaf([1.0, 2.0])
    with pytest.warns(UserWarning, match="mark_dirty was given a tensor that is not an argument"):
        y = make(forward, lambda ctx, g: g * 3).apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_what_is_modified_is_returned() -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.mark_dirty(a.add_(1))
        return a.clone()

    for x in (leaf([1.0]).clone(), torch.ones(1)):
        with pytest.raises(AutogradError, match="marked as modified that is not returned"):
            make(forward, lambda ctx, g: g).apply(x)


def test_a_modified_view_is_the_only_result() -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.mark_dirty(a.add_(1))
        return a, a * 2

    function = make(forward, lambda ctx, g, h: g + 2 * h)
    x = leaf([1.0, 2.0])
    first, second = function.apply(x.clone())
    (first + second).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    with pytest.raises(AutogradError, match="a modified view beside other results — a function that modifies a view "
                       "returns nothing else"):
        function.apply(x.clone()[:1])


@pytest.mark.parametrize("zeros", [True, False])
def test_zeros_for_results_without_gradients_are_optional(zeros: bool) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, a: Any) -> Any:
        fixed = a.clone()
        ctx.mark_non_differentiable(fixed)
        ctx._materialize_non_diff_grads = zeros
        return a.clone(), fixed, a * 2

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.extend(None if g is None else g.tolist() for g in grads)
        return grads[0]

    make(forward, backward).apply(leaf([1.0]))[0].sum().backward()
    assert seen == [[1.0], [0.0] if zeros else None, [0.0]]


def test_nodes_have_a_class_of_their_function() -> None:
    first, second = (make(lambda ctx, a: a * 2, lambda ctx, g: g * 2) for _ in range(2))
    x = leaf([1.0])
    assert type(first.apply(x).grad_fn) is first._backward_cls
    assert first._backward_cls is not second._backward_cls
    assert first._backward_cls.__name__ == "FBackward"


def test_saved_tensors_by_their_former_name_and_packed() -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a, None)
        return a * a

    def backward(ctx: Any, g: Any) -> Any:
        with pytest.warns(DeprecationWarning, match="saved_variables.* is deprecated"):
            a, _ = ctx.saved_variables
        return 2 * a * g

    x = leaf([3.0])
    y = make(forward, backward).apply(x)
    saved, nothing = y.grad_fn._raw_saved_tensors
    assert isinstance(saved, SavedTensor)
    with pytest.raises(AutogradError, match=r"None, saved by FBackward — only tensors have hooks"):
        nothing.register_hooks(lambda t: t, lambda t: t)
    saved.register_hooks(lambda t: t + 1, lambda t: t)
    y.backward()
    assert x.grad.tolist() == [8.0]
    with pytest.raises(AutogradError, match="a second time"):
        _ = y.grad_fn._raw_saved_tensors
    with pytest.raises(AutogradError, match="saved tensors are made by nodes only"):
        SavedTensor()
