"""Reverse and forward mode: what they refuse, tangents by hand, kinds of arguments."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.transforms import tangents
from tensocket_core.transforms.tangents import register_forward_rule
from tensocket_operators.autograd import Function
from tensocket_operators.differentiation import dual_levels as fwd
from tensocket_operators.transforms import functionalize, grad, jacfwd, jacrev, jvp, linearize, vjp, vmap
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, ShapeError, TransformError

X = np.array([0.7, -1.3, 1.6])


def tensor(values: Any, dtype: Any = torch.float64) -> Any:
    return torch.tensor(np.asarray(values), dtype=dtype)


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(actual.detach().tolist()), np.asarray(expected), rtol=1e-12, atol=1e-14)


def test_arguments_that_are_differentiated() -> None:
    function = lambda x, y, scale=1: (x * y * scale).sum()
    same(grad(function)(tensor(X), tensor(X + 1)), X + 1)
    same(grad(function, argnums=1)(tensor(X), tensor(X + 1), scale=2), 2 * X)
    both = grad(function, argnums=(-1, 0))(tensor(X), tensor(X + 1))
    same(both[0], X)
    same(both[1], X + 1)
    trees = grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": tensor(X), "b": [tensor(X + 1)]})
    same(trees["a"], X + 1)
    same(trees["b"][0], X)
    same(grad(lambda x: torch.ones(()))(tensor(X)), np.zeros(3))
    assert grad(lambda x: x.sum().long().double())(tensor(X)).dtype is torch.float64
    same(grad(lambda x: x * x.item())(tensor(2.0)), 2.0)
    assert grad(torch.sin).__name__ == "sin"


def test_pullbacks_run_again_and_take_trees() -> None:
    result, pull = vjp(lambda x: {"s": x.sin(), "c": (x.cos(),)}, tensor(X))
    for factor in (1.0, 2.0):
        same(pull({"s": tensor(np.ones(3) * factor), "c": (tensor(X),)})[0], factor * np.cos(X) - X * np.sin(X))
    same(result["c"][0], np.cos(X))
    _, pull, extra = vjp(lambda x, y: (x * y, y), tensor(X), tensor(X), has_aux=True)
    assert [tuple(g.shape) for g in pull(tensor(X))] == [(3,), (3,)]
    same(extra, X)
    once = vjp(torch.exp, tensor(X))[1]
    once(tensor(X), retain_graph=False)
    with pytest.raises(AutogradError, match="a second time"):
        once(tensor(X))


def number(x: Any) -> Any:
    return x.sum()


@pytest.mark.parametrize(("run", "message"), [
    (lambda x: grad(lambda x: x)(x), "[grad] a function that returns shape [3] — grad_and_value(f)(*args): Expected"),
    (lambda x: grad(lambda x: 1.0)(x), "[grad] a function that returns float — grad_and_value(f)(*args): Expected"),
    (lambda x: grad(lambda x: [x.sum()])(x), "[grad] a function that returns list — grad_and_value(f)(*args)"),
    (lambda x: grad(number, argnums=2)(x), "[grad] argnums=2 — Got argnum=2, but only 1 positional inputs"),
    (lambda x: grad(number, argnums=(0, 0))(x), "[grad] argnums=(0, 0) — argnums elements must be unique"),
    (lambda x: grad(number, argnums="x")(x), "[grad] argnums='x' — argnums must be int or Tuple"),
    (lambda x: grad(number, has_aux=True)(x), "[grad_and_value(f)(*args)] a function with has_aux"),
    (lambda x: grad(number)(x.long()), "only floating-point and complex tensors have gradients"),
    (lambda x: jacrev(lambda x: "no")(x), "[vjp(f, *primals)] a function that returns str"),
    (lambda x: jacrev(number, argnums=1)(x), "[jacrev] argnums=1"),
    (lambda x: jacfwd(lambda x: x, argnums=1)(x), "[jacfwd] argnums=1"),
    (lambda x: jacfwd(lambda x: x)(()), "[jacfwd] arguments without tensors"),
    (lambda x: vjp(lambda x: (x, x), x)[1](x), "[vjp] cotangents — Expected pytree structure of cotangents to be the"),
    (lambda x: jvp(number, x, x), "[jvp] primals of type Tensor — jvp(f, primals, tangents): Expected primals to be"),
    (lambda x: jvp(number, (x,), (x, x)), "[jvp] primals tuple(*) and tangents tuple(*, *)"),
    (lambda x: jvp(lambda x: 2.0, (x,), (x,)), "[jvp(f, primals, tangents)] a function that returns float"),
    (lambda x: jvp(lambda x: torch.ones(2), (x,), (x,), strict=True), "[jvp] a result that does not depend on the"),
    (lambda x: jvp(lambda x: x, (x,), (x,), has_aux=True), "[jvp(f, primals, tangents)] a function with has_aux"),
    (lambda x: linearize(torch.sin, x)[1](x, x), "[linearize] tangents tuple(*, *) for primals tuple(*)"),
    (lambda x: fwd.make_dual(x, x), "[make_dual] a tangent outside of a dual level — tangents live in a dual level"),
    (lambda x: fwd.exit_dual_level(), "[exit_dual_level] level None, 0 open — the open level is closed"),
])
def test_what_reverse_and_forward_mode_refuse(run: Any, message: str) -> None:
    with pytest.raises(AutogradError, match=re.escape(message)):
        run(tensor(X))


@pytest.mark.parametrize(("run", "kind", "message"), [
    (lambda x: grad(lambda x: x)(1.0), ArgumentError, "[grad] an argument of type float — what is differentiated is a"),
    (lambda x: jvp(number, (x,), (1.0,)), ArgumentError, "[jvp] a tangent of type float — primals and tangents are"),
    (lambda x: jvp(number, (x.long(),), (x.long(),)), ArgumentError, "[jvp] a primal of dtype int64"),
    (lambda x: jvp(number, (x,), (x[:2],)), ShapeError, "[jvp] a tangent of shape [2] for a primal of shape [3]"),
    (lambda x: vjp(number, x)[1](x), ShapeError, "[vjp] a cotangent [3] for a result of shape []"),
    (lambda x: vjp(number, x)[1](1.0), ShapeError, "[vjp] a cotangent float for a result of shape []"),
    (lambda x: functionalize(number, remove="views"), ArgumentError, "[functionalize] remove='views'"),
])
def test_arguments_are_checked(run: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        run(tensor(X))


@pytest.mark.parametrize("transform", [grad, lambda f: lambda x: jvp(f, (x,), (x,)), functionalize])
def test_tensors_from_outside_are_not_modified(transform: Any) -> None:
    outside = tensor(X)
    message = re.escape("[add_] a tensor of shape [3] from outside of the function given")
    with pytest.raises(TransformError, match=message):
        transform(lambda x: outside.add_(x).sum())(tensor(X))
    same(outside, X)


def test_arguments_of_gradients_are_leaves() -> None:
    with pytest.raises(AutogradError, match="a leaf tensor that requires grad"):
        grad(lambda x: x.mul_(2).sum())(tensor(X))


@pytest.mark.parametrize("run", [lambda f: grad(f)(tensor(X)), lambda f: jvp(f, (tensor(X),), (tensor(X),)),
                                 lambda f: functionalize(f)(tensor(X))])
def test_escaped_tensors_are_refused(run: Any) -> None:
    kept: list[Any] = []
    run(lambda x: kept.append(x) or x.sum())
    with pytest.raises(TransformError, match=re.escape("(level 1) — tensors of a transform are used while it runs")):
        kept[0] + 1


def test_tensors_print_their_level() -> None:
    seen: list[str] = []
    grad(lambda x: (seen.append(repr(x)), x.sum())[1])(torch.ones(1, device="ref"))
    assert seen[0].startswith("GradTrackingTensor(lvl=1, value=\n    tensor([1.],")


# --------------------------------------------------------------------------------------------------- tangents by hand


def test_dual_tensors() -> None:
    with fwd.dual_level():
        dual = fwd.make_dual(tensor(X), tensor(X * 2))
        result = (dual * dual).sum() + tensor(1.0)
        primal, tangent = fwd.unpack_dual(result)
        same(primal, (X * X).sum() + 1)
        same(tangent, (4 * X * X).sum())
        plain = tensor(X) * 2
        assert fwd.unpack_dual(plain) == (plain, None)
        assert plain._level == 0
        target = torch.zeros(3, dtype=torch.float64)
        target[1] = dual[0]
        same(fwd.unpack_dual(target).tangent, [0, X[0] * 2, 0])
        with pytest.raises(AutogradError, match=r"\[enter_dual_level\] a second level — dual levels do not nest"):
            fwd.enter_dual_level()
        with fwd.set_forward_grad_enabled(False):
            assert fwd.unpack_dual(dual * 2).tangent is None
    same(result * 2, 2 * (X * X).sum() + 2)
    same(target + 1, [1, X[0] + 1, 1])
    assert fwd.unpack_dual(result).tangent is None


def test_gradients_of_tangents() -> None:
    x = tensor(X).requires_grad_()
    with fwd.dual_level():
        tangent = fwd.unpack_dual((fwd.make_dual(x, tensor(np.ones(3))) ** 3).sum()).tangent
        tangent.backward()
    same(x.grad, 6 * X)


class Scaled(Function):
    """Without setup_context; its jvp is a hundred times too large."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def jvp(ctx: Any, t: Any, _: Any) -> Any:
        return t * ctx.factor * 100


def test_tangents_of_functions_of_users() -> None:
    with fwd.dual_level():
        result = Scaled.apply(fwd.make_dual(tensor(X), tensor(X)), 3.0)
        same(fwd.unpack_dual(result).tangent, X * 300)


def test_tangents_of_layouts_that_differ_from_their_primals() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    transposed = tensor(matrix.T.copy()).t()
    for function in (lambda x: x.as_strided((2, 2), (1, 3), 1) * 1, lambda x: x.t().reshape(-1),
                     torch.functions.flatten):
        primals = tensor(matrix)
        expected = jacrev(function)(primals)
        value = jvp(function, (primals,), (transposed,))[1]
        assert transposed.stride() != primals.stride()
        same(value, (np.array(expected.tolist()) * matrix).sum((-2, -1)))


def test_rules_of_tangents_can_be_registered() -> None:
    register_forward_rule("sin", lambda operator, args, tangents, result: tangents[0] * 7)
    try:
        same(jvp(torch.sin, (tensor(X),), (tensor(X),))[1], 7 * X)
    finally:
        del tangents.RULES["sin"]


def test_operators_in_place_without_a_rule() -> None:
    class Unknown:
        name = "unknown_"

    with pytest.raises(TransformError, match=re.escape("[unknown_] a tensor of shape [3] with a tangent")):
        tangents.inplace_tangent(Unknown, (tensor(X),), (tensor(X),))


def test_tangents_of_complex_numbers() -> None:
    z = np.array([0.5 + 1j, -1.2 + 0.3j, 2.0 - 0.7j])
    v = np.array([1.0 - 2j, 0.5j, -1.0])
    given = (torch.tensor(z),), (torch.tensor(v),)
    same(jvp(torch.exp, *given)[1], v * np.exp(z))
    same(jvp(lambda x: x * x, *given)[1], 2 * z * v)
    same(jvp(torch.functions.abs, *given)[1], (z.real * v.real + z.imag * v.imag) / np.abs(z))
    same(jvp(lambda x: x.conj(), *given)[1], v.conj())
    same(jvp(lambda x: torch.functions.view_as_real(x)[:, 1], *given)[1], v.imag)
    same(vmap(lambda x: torch.functions.view_as_real(x * 2)[1])(torch.tensor(z)), 2 * z.imag)


class Counted(Function):
    """x ** 2, which counts its backward passes."""

    generate_vmap_rule = True
    passes = 0

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Counted.passes += 1
        return 2 * g * ctx.saved_tensors[0]


def test_batched_gradients_are_one_pass() -> None:
    x, unused = tensor(X).requires_grad_(), tensor(1.0).requires_grad_()
    Counted.passes = 0
    rows, nothing = torch.autograd.grad(Counted.apply(x), (x, unused), tensor(np.eye(3)), is_grads_batched=True,
                                        allow_unused=True)
    same(rows, np.diag(2 * X))
    assert nothing is None
    same(torch.autograd.functional.jacobian(Counted.apply, tensor(X), vectorize=True), np.diag(2 * X))
    assert Counted.passes == 2


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_jacobians_and_hessians(strategy: str) -> None:
    inputs = tensor(X), tensor(X[:2])
    function = lambda x, y: (x.sin() * y.sum(), x.unsqueeze(1) * y)
    found = torch.autograd.functional.jacobian(function, inputs, vectorize=True, strategy=strategy)
    same(found[0][0], np.diag(np.cos(X) * X[:2].sum()))
    same(found[0][1], np.sin(X)[:, None] * np.ones((3, 2)))
    same(found[1][1], X[:, None, None] * np.eye(2))
    second = torch.autograd.functional.hessian(lambda x: (x**3).sum(), tensor(X), vectorize=True,
                                               outer_jacobian_strategy=strategy)
    same(second, np.diag(6 * X))


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians_of_functions_that_modify_other_arguments(jacobian: Any) -> None:
    x, y = tensor(X), tensor(np.zeros(3))

    def assigns(x: Any, y: Any) -> Any:
        y.copy_(x * x)
        return y

    same(jacobian(assigns)(x, y), np.diag(2 * X))

    def joins(x: Any, y: Any, z: Any) -> Any:
        x[:2] = y
        return torch.functions.stack([(x ** 2).sum(), (z ** 3).sum()])

    first, second = jacobian(joins, argnums=(1, 2))(tensor(X) * 1, tensor(X[:2]), tensor(X))
    same(first, [2 * X[:2], [0.0, 0.0]])
    same(second, [[0.0, 0.0, 0.0], 3 * X ** 2])


def test_forward_mode_that_is_off_outside_is_on_inside() -> None:
    with fwd.set_forward_grad_enabled(False):
        same(jvp(torch.sin, (tensor(X),), (tensor(np.ones(3)),))[1], np.cos(X))
        assert not fwd.is_forward_grad_enabled()

    def shifted(x: Any) -> Any:
        with fwd.set_forward_grad_enabled(False):
            inner = jvp(lambda y: x * y * y, (x,), (tensor(np.ones(3)),))[1]  # 2 x x, a constant outside
        return x * inner

    same(jvp(shifted, (tensor(X),), (tensor(np.ones(3)),))[1], 2 * X * X)


def test_arguments_without_tensors_have_no_gradients() -> None:
    assert grad(lambda x: tensor(X).sum())(()) == ()
    result, pull = vjp(lambda x, y: tensor(X), (), {})
    assert pull(result) == ((), {})
