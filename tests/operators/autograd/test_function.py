"""Functions with a backward of their own."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.autograd import Function
from tensocket_operators.differentiation import function
from tensocket_plugins.contract.errors import (
    ArgumentTypeError,
    AutogradError,
    DeviceMismatch,
    ShapeError,
    UnsupportedOperator,
)


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


def make(forward: Callable[..., Any], backward: Callable[..., Any], **more: Any) -> Any:
    return type("F", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward), **more})


class Scaled(Function):
    """a * b, where b is a number."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: float = 2.0) -> Any:
        ctx.shape, ctx.saved, ctx.outputs, ctx.edges = a.shape, b, "any", "name"
        return a * b

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved, None


class Product(Function):
    """a * b with the context set up apart."""

    @staticmethod
    def forward(a: Any, b: Any = 3.0) -> Any:
        return a * b

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.inputs = inputs
        ctx.save_for_backward(inputs[0], None, output)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, none, output = ctx.saved_tensors
        assert none is None
        assert output.tolist() == (a * ctx.inputs[1]).tolist()
        return grad * ctx.inputs[1], grad * a if ctx.needs_input_grad[1] else None


class Cube(Function):
    """x^3, twice differentiable through its backward, and through its own result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad * 3 * y / x


def test_forward_backward_and_attributes() -> None:
    x = leaf([1.0, 2.0])
    y = Scaled.apply(x, 5.0)
    node = y.grad_fn
    assert (y.tolist(), node.name(), node.saved_tensors) == ([5.0, 10.0], "ScaledBackward", ())
    assert node.ctx.saved == 5.0
    assert type(node.ctx).__name__ == "ScaledBackward"
    assert isinstance(node.ctx, function.FunctionCtx)
    assert node.next_functions == (((x * 1).grad_fn.next_functions[0][0], 0),)
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert Scaled.apply(x, b=7.0).tolist() == [7.0, 14.0]
    with torch.no_grad():
        assert Scaled.apply(x).grad_fn is None
    assert Scaled.apply(x.detach()).grad_fn is None


def test_attributes_of_the_context_can_be_read_from_the_node() -> None:
    x = leaf([1.0, 2.0])

    def forward(ctx: Any, a: Any) -> Any:
        ctx.factor = 3
        return a * 3

    assert make(forward, lambda ctx, g: g).apply(x).grad_fn.factor == 3


def test_context_set_up_apart_and_defaults() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    Product.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    Product.apply(x, b=y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([6.0, 7.0], [1.0, 2.0])


def test_double_backward_through_backward() -> None:
    x = leaf([1.5, -0.5])
    first = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x, create_graph=True)[0]
    third = torch.autograd.grad(second.sum(), x)[0]
    v = np.array([1.5, -0.5])
    np.testing.assert_allclose(first.tolist(), 3 * v**2)
    np.testing.assert_allclose(second.tolist(), 6 * v)
    np.testing.assert_allclose(third.tolist(), [6.0, 6.0])


def test_functions_agree_with_differences() -> None:
    from tensocket_operators.autograd import gradcheck, gradgradcheck

    x, y = leaf([1.5, -0.5]), leaf([0.3, 2.0])
    assert gradcheck(Product.apply, (x, y))
    assert gradcheck(Cube.apply, (x,))
    assert gradgradcheck(Cube.apply, (x,))


def test_several_results_of_all_kinds() -> None:
    x = leaf([1.0, 2.0])
    seen: list[Any] = []

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append(grads)
        return grads[0] + grads[1] * 10

    results = make(lambda ctx, a: (a * 1, a * 10, torch.tensor([1, 2]), "text", None), backward).apply(x)
    assert [type(r).__name__ for r in results] == ["Tensor", "Tensor", "Tensor", "str", "NoneType"]
    assert [r.requires_grad for r in results[:3]] == [True, True, False]
    assert results[1].output_nr == 1
    results[1].sum().backward()
    first, second, third, text, none = seen[0]
    assert (first.tolist(), second.tolist(), third.tolist(), text, none) == ([0.0, 0.0], [1.0, 1.0], [0, 0], None, None)
    assert third.dtype is torch.int64
    assert x.grad.tolist() == [10.0, 10.0]


def test_gradients_need_not_be_materialized() -> None:
    x = leaf([1.0, 2.0])

    def forward(ctx: Any, a: Any) -> Any:
        ctx.set_materialize_grads(False)
        return a * 1, a * 2

    seen: list[Any] = []
    f = make(forward, lambda ctx, g, h: seen.append((g, h.tolist())) or h * 2)
    f.apply(x)[1].sum().backward()
    assert seen == [(None, [1.0, 1.0])]


def test_non_differentiable_results() -> None:
    x = leaf([1.0, -2.0])

    def forward(ctx: Any, a: Any) -> Any:
        mask = a * 0 + 1
        ctx.mark_non_differentiable(mask)
        return a * 2, mask

    doubled, mask = make(forward, lambda ctx, g, h: g * 2).apply(x)
    assert (doubled.requires_grad, mask.requires_grad) == (True, False)
    doubled.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_list_is_no_tuple() -> None:
    x = leaf([1.0])
    result = make(lambda ctx, a: [a * 1], lambda ctx, g: g).apply(x)
    assert isinstance(result, list)
    assert not result[0].requires_grad
    assert make(lambda ctx, a: None, lambda ctx, g: g).apply(x) is None


def test_the_same_tensor_twice() -> None:
    x = leaf([1.0, 2.0])

    def forward(ctx: Any, a: Any) -> Any:
        result = a * 1
        return result, result

    first, second = make(forward, lambda ctx, g, h: g * 10 + h).apply(x)
    assert first is second
    assert first.output_nr == 1
    first.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


# ---------------------------------------------------------------------------------------------------- views, in place


def test_arguments_returned_as_they_are_become_views() -> None:
    x = leaf([1.0, 2.0])
    y = make(lambda ctx, a: a, lambda ctx, g: g * 5).apply(x)
    assert y is not x
    assert y._base is x
    assert x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    with torch.no_grad():
        assert make(lambda ctx, a: a, lambda ctx, g: g).apply(x) is not x


@pytest.mark.parametrize("forward", [lambda ctx, a: a, lambda ctx, a: a.view(2, 1)])
def test_views_made_inside_are_not_modified_outside(forward: Any) -> None:
    y = make(forward, lambda ctx, g: g.reshape(2)).apply(leaf([1.0, 2.0]) * 1)
    message = (r"\[add_\] a view made by a custom function — "
               "changes of such a view would go around the function's backward")
    with pytest.raises(AutogradError, match=message):
        y.add_(1)
    assert (y * 1).add_(1).tolist() == (y + 1).tolist()


class Doubled(Function):
    """Doubles its argument in place."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        a.mul_(2)
        ctx.mark_dirty(a)
        ctx.save_for_backward(a)
        return a

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        assert ctx.saved_tensors[0].tolist() == [2.0, 4.0]
        return grad * 2


def test_arguments_modified_in_place() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    z = Doubled.apply(y)
    assert z is y
    assert y.grad_fn.name() == "DoubledBackward"
    node = weakref.ref(y.grad_fn)
    (y * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    gc.disable()
    try:
        del y, z
        assert node() is None
    finally:
        gc.enable()


def test_changes_of_views_inside_reach_their_base() -> None:
    x = leaf([1.0, 2.0, 3.0])
    y = x * 1
    view = y[:2]
    Doubled.apply(view)
    assert y.tolist() == [2.0, 4.0, 3.0]
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 1.0]


def test_changes_of_bases_inside_reach_their_views() -> None:
    x = leaf([1.0, 2.0])
    y = x * 1
    view = y[:1]
    Doubled.apply(y)
    view.sum().backward()
    assert x.grad.tolist() == [2.0, 0.0]


def test_saved_tensors_are_checked() -> None:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return a * 1

    f = make(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    x = leaf([1.0, 2.0])
    y = x * 1
    z = f.apply(y)
    assert z.grad_fn.saved_tensors[0] is y
    z.sum().backward()
    for use in (lambda: z.sum().backward(), lambda: z.grad_fn.saved_tensors):
        with pytest.raises(AutogradError, match=r"\[backward\] FBackward a second time"):
            use()
    z = f.apply(y)
    y.add_(1)
    with pytest.raises(AutogradError, match="saved by FBackward, at version 1 instead of 0"):
        z.sum().backward()


def test_once_differentiable() -> None:
    x, w = leaf([1.0, 2.0]), leaf([1.0, 1.0])
    f = make(lambda ctx, a: (a * 2, a * 3), function.once_differentiable(lambda ctx, g, h: g * 2 + h * 3))
    plain = torch.autograd.grad(f.apply(x)[0].sum(), x)[0]
    assert plain.tolist() == [2.0, 2.0]
    grad = torch.autograd.grad(f.apply(x)[0], x, w, create_graph=True)[0]
    assert grad.grad_fn.name() == "Error"
    with pytest.raises(AutogradError, match="once_differentiable — such a function is differentiated once only"):
        grad.sum().backward()
    several = make(lambda ctx, a, b: a + b, function.once_differentiable(lambda ctx, g: (g, None)))
    grad = torch.autograd.grad(several.apply(x, x), x, w, create_graph=True)[0]
    assert grad.grad_fn is not None


def test_transforms_take_calls_first() -> None:
    calls: list[Any] = []

    def intercept(kind: Any, args: Any) -> Any:
        if kind is not Scaled:
            return NotImplemented
        calls.append(args[1:])
        ctx = function.make_context(kind, args)
        assert ctx.needs_input_grad == (True, False)
        return "intercepted"

    x = leaf([1.0, 2.0])
    function.INTERCEPTORS.append(intercept)
    try:
        assert Scaled.apply(x, 4.0) == "intercepted"
        assert Product.apply(x).tolist() == [3.0, 6.0]
    finally:
        function.INTERCEPTORS.remove(intercept)
    assert calls == [(4.0,)]
    assert not Function.generate_vmap_rule
    assert function.has_setup(Product)
    assert not function.has_setup(Scaled)


def test_values_for_forward_mode_are_kept() -> None:
    ctx = function.make_context(Scaled, (leaf(1.0),))
    value = torch.ones(2)
    ctx.save_for_forward(value, None)
    assert ctx.saved_for_forward == (value, None)
    assert ctx.saved_tensors == ()


# --------------------------------------------------------------------------------------------------------------- errors


def run(forward: Any, backward: Any = lambda ctx, g: g, *args: Any) -> None:
    x = leaf([1.0, 2.0])
    make(forward, backward).apply(x * 1, *args).sum().backward()


def mark_dirty(result: Callable[[Any], Any]) -> Callable[..., Any]:
    def forward(ctx: Any, a: Any) -> Any:
        ctx.mark_dirty(a)
        return result(a)

    return forward


def one(ctx: Any, a: Any) -> Any:
    return a * 1


ERRORS: list[tuple[Callable[[], Any], type[Exception], type[Exception], str]] = [
    (lambda: run(one, lambda ctx, g: (g, g)), AutogradError, RuntimeError,
     "[backward] 2 gradients from FBackward for 1 arguments — "
     "backward returns a gradient or None for each argument of apply"),
    (lambda: run(lambda ctx, a, b: a * b, lambda ctx, g: g, 3.0), AutogradError, RuntimeError,
     "[backward] 1 gradients from FBackward for 2 arguments"),
    (lambda: run(one, lambda ctx, g: 1.0), ArgumentTypeError, TypeError,
     "[backward] gradient 0 of type float from FBackward — gradients are tensors or None"),
    (lambda: run(one, lambda ctx, g: torch.ones(3)), ShapeError, RuntimeError,
     "[backward] gradient 0 of shape [3] from FBackward for an argument of shape [2] — "
     "a gradient has a shape that sums to its argument's"),
    (lambda: run(one, lambda ctx, g: torch.ones(2, device="ref:1")), DeviceMismatch, RuntimeError,
     "[backward] gradient 0 on ref:1 from FBackward for an argument on ref:0 — a gradient is on its argument's device"),
    (lambda: run(lambda ctx, a: ctx.save_for_backward(a, 3)), ArgumentTypeError, TypeError,
     "[save_for_backward] argument 1 of type int — only tensors and None are saved"),
    (lambda: run(lambda ctx, a: ctx.save_for_forward(3)), ArgumentTypeError, TypeError,
     "[save_for_forward] argument 0 of type int"),
    (lambda: run(mark_dirty(lambda a: a * 1)), AutogradError, RuntimeError,
     "[F] a tensor marked as modified that is not returned — "
     "what forward modifies are arguments that it returns"),
    (lambda: make(mark_dirty(lambda a: a), one).apply(leaf(1.0)), AutogradError, RuntimeError,
     "[F] a leaf tensor that requires grad"),
    (lambda: Scaled()(leaf(1.0)), AutogradError, RuntimeError,
     "[Scaled] a call of an instance — functions have static methods — call apply on the class"),
    (lambda: type("G", (Function,), {}).apply(leaf(1.0)), UnsupportedOperator, NotImplementedError,
     "[Function.forward] a Function without it — this use of a Function needs forward"),
    (lambda: type("G", (Function,), {"forward": staticmethod(one)}).apply(leaf(1.0)).backward(), UnsupportedOperator,
     NotImplementedError, "[Function.backward] a Function without it — this use of a Function needs backward or vjp"),
    (lambda: make(one, one, vjp=staticmethod(one)).apply(leaf(1.0)).backward(), AutogradError, RuntimeError,
     "[F] both backward and vjp — they are two names of one method"),
    (lambda: make(lambda ctx, a, *, b: a, one).apply(leaf(1.0), b=1), ArgumentTypeError, TypeError,
     "[F] keyword-only arguments b — arguments of forward have a position"),
    (lambda: Function.setup_context(None, (), None), UnsupportedOperator, NotImplementedError,
     "[Function.setup_context] a Function without it"),
    (lambda: Function.jvp(None), UnsupportedOperator, NotImplementedError, "[Function.jvp] a Function without it"),
    (lambda: Function.vmap(None, ()), UnsupportedOperator, NotImplementedError, "needs vmap, or generate_vmap_rule"),
]


@pytest.mark.parametrize("case", ERRORS, ids=range(len(ERRORS)))
def test_errors(case: Any) -> None:
    call, kind, base, message = case
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, base)
    assert message in str(caught.value)
    x = leaf([1.0])
    Scaled.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_vjp_is_another_name_of_backward() -> None:
    x = leaf([1.0])
    methods = {"forward": staticmethod(one), "vjp": staticmethod(lambda ctx, g: g * 4)}
    type("G", (Function,), methods).apply(x).backward()
    assert x.grad.tolist() == [4.0]


def test_gradients_are_fitted_to_arguments() -> None:
    x = leaf([1.0, 2.0])
    wide = make(one, lambda ctx, g: torch.ones(5, 2))
    wide.apply(x).sum().backward()  # summed and converted
    assert x.grad.tolist() == [5.0, 5.0]
    assert x.grad.dtype is torch.float64
    make(one, lambda ctx, g: (g, None, None)).apply(x).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
