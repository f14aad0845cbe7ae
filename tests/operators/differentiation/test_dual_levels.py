"""Dual levels: tangents in memory, in-place operators and views, functions of users, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions
from tensocket_operators.autograd import Function
from tensocket_operators.differentiation import dual_levels as fwd
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, TransformError


def tensor(values: Any, **more: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64, **more)


def test_a_dual_lies_in_the_memory_of_primal_and_tangent() -> None:
    x, t = tensor([1.0, 2.0]), tensor([1.0, 1.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        assert dual.data_ptr() == x.data_ptr() == dual.untyped_storage().data_ptr()
        primal, tangent = fwd.unpack_dual(dual)
        assert tangent is t
        assert primal is not fwd.unpack_dual(dual).primal
        x.add_(1)
        assert dual._version == x._version == primal._version
        assert "tangent=tensor([1., 1.]" in repr(dual)
        assert "tangent" not in repr(primal)
    assert "tangent" not in repr(dual)


def test_operators_in_place_write_into_tangents() -> None:
    x, t = tensor([1.0, 2.0, 3.0]), tensor([1.0, 1.0, 1.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        dual *= 2
        assert t.tolist() == [2.0, 2.0, 2.0]
        dual[:2].mul_(5)
        assert t.tolist() == [10.0, 10.0, 2.0]
        assert x.tolist() == [10.0, 20.0, 6.0]
        fwd.unpack_dual(dual).tangent.mul_(3)
        assert fwd.unpack_dual(dual[1:]).tangent.tolist() == [30.0, 6.0]


@pytest.mark.parametrize("name", ["add_", "mul_", "copy_"])
def test_a_view_that_gets_a_tangent_shares_it_with_base_and_views(name: str) -> None:
    base = tensor([[1.0, 2.0], [3.0, 4.0]])
    other, view = base[0], base.t()
    with fwd.dual_level():
        dual = fwd.make_dual(tensor([[5.0, 6.0], [7.0, 8.0]]), tensor([[1.0, 2.0], [3.0, 4.0]]))
        getattr(view, name)(dual)
        slope = {"add_": np.ones((2, 2)), "mul_": np.array([[1.0, 3.0], [2.0, 4.0]]), "copy_": np.ones((2, 2))}[name]
        expected = (slope * np.array([[1.0, 2.0], [3.0, 4.0]])).T
        assert fwd.unpack_dual(base).tangent.tolist() == expected.tolist()
        view *= 2
        assert fwd.unpack_dual(base).tangent.tolist() == (2 * expected).tolist()
        assert fwd.unpack_dual(other).tangent.tolist() == (2 * expected)[0].tolist()


def test_gradients_flow_through_a_tensor_that_gets_a_tangent() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with fwd.dual_level():
        y = x * 3
        y += fwd.make_dual(tensor([1.0, 1.0]), tensor([1.0, 2.0]))
        z = (y * y).sum()
        assert fwd.unpack_dual(z).tangent.item() == pytest.approx(2 * 4.0 * 1.0 + 2 * 7.0 * 2.0)
        z.backward()
    assert x.grad.tolist() == pytest.approx([2 * 4.0 * 3, 2 * 7.0 * 3])


def test_a_tangent_of_another_layout_is_copied() -> None:
    t = tensor([1.0, 2.0, 3.0, 4.0])
    with fwd.dual_level():
        part = fwd.make_dual(tensor([1.0, 2.0, 3.0, 4.0, 5.0])[:4].detach(), t)
        fwd.unpack_dual(part).tangent.mul_(2)
        assert t.tolist() == [1.0, 2.0, 3.0, 4.0]
        assert fwd.unpack_dual(part.as_strided((5,), (1,), 0)).tangent.tolist() == [2.0, 4.0, 6.0, 8.0, 0.0]
        dual = fwd.make_dual(tensor(np.ones((2, 3))), tensor(np.arange(6.0).reshape(3, 2)).t())
        flat = dual.view(6)
        assert fwd.unpack_dual(flat).tangent.tolist() == [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
        flat.mul_(2)
        assert fwd.unpack_dual(dual).tangent.tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]


def test_backward_starts_from_duals() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with fwd.dual_level():
        dual = fwd.make_dual(x, tensor([1.0, 1.0]))
        (dual * dual).sum().backward()
        assert torch.autograd.grad((dual**3).sum(), dual)[0].tolist() == [3.0, 12.0]
        assert (dual * 2).grad_fn is not None
    assert x.grad.tolist() == [2.0, 4.0]


def test_results_written_to_out_have_no_tangent() -> None:
    with fwd.dual_level():
        dual = fwd.make_dual(tensor([1.0]), tensor([1.0]))
        for given, out in ((dual, tensor([0.0])), (tensor([1.0]), dual)):
            with pytest.raises(AutogradError, match="what is written to out has no gradient"):
                torch.add(given, 1, out=out)


def test_what_has_no_tangents() -> None:
    with fwd.dual_level():
        for given in ((torch.ones(1), torch.ones(1, dtype=torch.int64)), (torch.ones(1, dtype=torch.int64),) * 2):
            with pytest.raises(ArgumentError, match="floating-point and complex tensors have tangents"):
                fwd.make_dual(*given)


def test_the_open_level_and_its_switch() -> None:
    assert fwd.current_level() == -1
    with fwd.dual_level():
        assert fwd.current_level() == 0
        with fwd.set_forward_grad_enabled(False):
            assert not fwd.is_forward_grad_enabled()
    assert fwd.is_forward_grad_enabled()


# ---------------------------------------------------------------------------------------------- functions of users


def make(forward: Callable[..., Any], jvp: Callable[..., Any], **more: Any) -> Any:
    return type("F", (Function,), {"forward": staticmethod(forward), "jvp": staticmethod(jvp), **more})


def double(ctx: Any, x: Any) -> Any:
    ctx.mark_dirty(x)
    return x.mul_(2)


def test_forward_runs_once_and_modifies_the_tangent_in_place() -> None:
    x, t = tensor([1.0]), tensor([1.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        result = make(double, lambda ctx, g: g.mul_(2)).apply(dual)
        assert result is dual
        assert fwd.unpack_dual(result).tangent is t
        assert x.tolist() == [2.0] == t.tolist()
        for jvp in (lambda ctx, g: g * 2, lambda ctx, g: g):
            with pytest.raises(TransformError, match="jvp modifies the tangent of such an argument in place and "
                               "returns it"):
                make(double, jvp).apply(dual)


def test_jvp_has_what_was_saved_for_it() -> None:
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x, y)
        return x * y

    def jvp(ctx: Any, t: Any, u: Any) -> Any:
        x, y = ctx.saved_tensors
        return x * u + y * t

    function = make(forward, jvp, vjp=staticmethod(lambda ctx, g: (g * 7, None)))
    x = tensor([3.0], requires_grad=True)
    with fwd.dual_level():
        result = function.apply(fwd.make_dual(x, tensor([1.0])), tensor([4.0]))
        assert fwd.unpack_dual(result).tangent.tolist() == [4.0]
        result.sum().backward()
    assert x.grad.tolist() == [7.0]


def test_results_without_derivatives_have_no_tangent() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        fixed = x.clone()
        ctx.mark_non_differentiable(fixed)
        return x.clone(), fixed, (x > 0), "text"

    with fwd.dual_level():
        dual = fwd.make_dual(tensor([1.0]), tensor([5.0]))
        results = make(forward, lambda ctx, t: (t, None, None, None)).apply(dual)
        assert [fwd.unpack_dual(r).tangent is None for r in results[:3]] == [False, True, True]
        with pytest.raises(TransformError, match="result 1, which has no derivative — results that are not "
                           "differentiable have no tangent"):
            make(forward, lambda ctx, t: (t, t.clone(), None, None)).apply(dual)
        with pytest.raises(TransformError, match="1 tangents from jvp for 4 results — jvp returns a tangent or None "
                           "for each result"):
            make(forward, lambda ctx, t: t).apply(dual)


def test_views_have_views_of_tangents() -> None:
    x, t = tensor([1.0, 2.0, 3.0]), tensor([1.0, 1.0, 1.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        view = make(lambda ctx, a: a[:2], lambda ctx, g: g[:2]).apply(dual)
        assert fwd.unpack_dual(view).tangent._base is t
        same = make(lambda ctx, a: a, lambda ctx, g: g.view_as(g)).apply(dual)
        assert fwd.unpack_dual(same).tangent._base is t
        dual *= 4
        assert fwd.unpack_dual(view).tangent.tolist() == [4.0, 4.0]
        for forward, jvp in ((lambda ctx, a: a[:2], lambda ctx, g: g[:2].clone()),
                             (lambda ctx, a: a[:2], lambda ctx, g: g.clone()[:2]),
                             (lambda ctx, a: a, lambda ctx, g: g)):
            with pytest.raises(TransformError, match="where forward returns a view, or an argument as it is, jvp "
                               "returns the same view of the tangent"):
                make(forward, jvp).apply(dual)


@pytest.mark.parametrize("function", [
    lambda x: x + 1, lambda x: x - 2, lambda x: torch.add(torch.zeros(2, dtype=torch.float64), x),
    lambda x: torch.zeros_like(x).copy_(x), lambda x: torch.zeros_like(x).add_(x),
    lambda x: torch.zeros(3, 2, dtype=torch.float64).copy_(x),
], ids=["add", "sub", "operands", "copy_", "add_", "broadcast"])
def test_what_is_written_into_a_result_leaves_the_tangent_of_its_operand(function: Callable[[Any], Any]) -> None:
    t = tensor([1.0, 2.0])
    with fwd.dual_level():
        dual = fwd.make_dual(tensor([0.5, 0.25]), t)
        result = function(dual)
        result.mul_(3.0)
        assert fwd.unpack_dual(result).tangent.reshape(-1)[:2].tolist() == [3.0, 6.0]
        assert fwd.unpack_dual(dual).tangent.tolist() == t.tolist() == [1.0, 2.0]


def test_complex_numbers_of_parts_have_tangents_of_both_parts() -> None:
    with fwd.dual_level():
        z = functions.complex(fwd.make_dual(tensor([0.5, -2.0]), tensor([1.0, 0.5])),
                              fwd.make_dual(tensor([1.5, 0.25]), tensor([-2.0, 3.0])))
        assert fwd.unpack_dual(z).tangent.tolist() == [1 - 2j, 0.5 + 3j]
        square = fwd.unpack_dual(z * z).tangent.tolist()
    assert square == [2 * (0.5 + 1.5j) * (1 - 2j), 2 * (-2 + 0.25j) * (0.5 + 3j)]


def test_gradients_of_duals_have_tangents() -> None:
    x, t = tensor([1.0, 2.0], requires_grad=True), tensor([1.0, 10.0])
    w, turned = tensor([0.5, 3.0]), tensor([2.0, -1.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        cube = fwd.unpack_dual(torch.autograd.grad((dual**3).sum(), dual, create_graph=True)[0])
        assert cube.primal.tolist() == [3.0, 12.0]
        assert cube.tangent.tolist() == [6.0, 120.0]
        (third,) = torch.autograd.grad(cube.tangent.sum(), x)
        assert third.tolist() == [6.0, 60.0]
        (slope,) = torch.autograd.grad(dual.sin(), x, fwd.make_dual(w, turned))
        found = fwd.unpack_dual(slope)
        sine, cosine = np.sin([1, 2]), np.cos([1, 2])
        assert np.allclose(found.primal.tolist(), cosine * [0.5, 3])
        assert np.allclose(found.tangent.tolist(), -sine * [0.5, 3] * [1, 10] + cosine * [2, -1])
        plain = x * 2
        assert fwd.unpack_dual(torch.autograd.grad(plain.sum(), x)[0]).tangent is None


def test_a_dual_begins_to_record_and_its_primal_does_not() -> None:
    x = tensor([2.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, tensor([3.0])).requires_grad_()
        assert dual.requires_grad
        assert not x.requires_grad
        assert fwd.unpack_dual(torch.autograd.grad(dual * dual, dual)[0]).tangent.tolist() == [6.0]
        assert not dual.requires_grad_(False).requires_grad


@pytest.mark.parametrize("primal", ["plain", "conjugate", "negative"])
@pytest.mark.parametrize("tangent", ["plain", "conjugate", "negative"])
def test_tangents_are_lazy_like_their_primals(primal: str, tangent: str) -> None:
    turn: dict[str, Callable[[Any], Any]] = {
        "plain": lambda x: x, "conjugate": lambda x: x.conj(), "negative": functions._neg_view}
    x, t = (turn[kind](torch.tensor([1 + 2j, 3 - 1j])) for kind in (primal, tangent))
    with fwd.dual_level():
        dual = fwd.make_dual(x, t)
        found = fwd.unpack_dual(dual).tangent
        assert (found is t) is (primal == tangent)
        assert (found.is_conj(), found.is_neg()) == (x.is_conj(), x.is_neg())
        assert found.tolist() == t.tolist()
        assert fwd.unpack_dual(torch.imag(dual)).tangent.tolist() == [z.imag for z in t.tolist()]


def test_a_dual_that_is_detached_in_place_has_no_tangent() -> None:
    x, t = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    with fwd.dual_level():
        dual = fwd.make_dual(x, t) * 2
        dual.detach_()
        primal, tangent = fwd.unpack_dual(dual * 2)
    assert tangent is None
    assert not primal.requires_grad
    assert primal.tolist() == [4, 8]


def test_samples_of_duals_have_tangents_of_zeros() -> None:
    draws: list[Callable[[Any], Any]] = [
        torch.bernoulli, torch.poisson, lambda x: torch.normal(x, 0.5), lambda x: torch.normal(0.2, x),
        lambda x: x.bernoulli_(), lambda x: x.geometric_(0.2), lambda x: x.uniform_(), lambda x: x.cauchy_(),
        lambda x: x.log_normal_(), lambda x: x.normal_(), lambda x: x.exponential_(), lambda x: x.random_()]
    for draw in draws:
        with fwd.dual_level():
            drawn = draw(fwd.make_dual(tensor([0.5, 1.0]), tensor([1.0, 2.0])))
            assert fwd.unpack_dual(drawn).tangent.tolist() == [0.0, 0.0]


def test_constants_in_place_leave_a_tangent_of_zeros_in_its_memory() -> None:
    for write in (lambda x: x.zero_(), lambda x: x.fill_(2.0), lambda x: x.copy_(tensor([3.0, 4.0]))):
        with fwd.dual_level():
            given = tensor([1.0, 2.0])
            dual = fwd.make_dual(tensor([0.5, 1.0]), given)
            write(dual)
            assert fwd.unpack_dual(dual).tangent is given
            assert given.tolist() == [0.0, 0.0]
