"""The check of gradients finds what is wrong, and nothing else."""

from __future__ import annotations

import itertools
import re
import sys
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.autograd import Function, gradcheck, gradgradcheck
from tensocket_operators.differentiation import dual_levels
from tensocket_operators.differentiation.former_jacobians import get_analytical_jacobian, get_numerical_jacobian
from tensocket_operators.differentiation.gradcheck import GradcheckError
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

MODES = [{}, {"fast_mode": True}]


def leaf(values: Any, dtype: Any = None) -> Any:
    return torch.tensor(values, dtype=dtype or torch.float64, requires_grad=True)


def wrong(factor: Any = 1.0, second: float = 1.0) -> Any:
    """x^2 with a backward that is wrong by a factor, or only in its own gradient."""

    class Slope(Function):
        @staticmethod
        def forward(ctx: Any, grad: Any, x: Any) -> Any:
            ctx.save_for_backward(grad, x)
            return grad * 2 * x

        @staticmethod
        def backward(ctx: Any, again: Any) -> Any:
            grad, x = ctx.saved_tensors
            return again * 2 * x, again * 2 * grad * second

    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return Slope.apply(grad, ctx.saved_tensors[0]) * (factor() if callable(factor) else factor)

    return Square.apply


@pytest.mark.parametrize("options", MODES)
def test_right_gradients_pass(options: dict[str, Any]) -> None:
    x, y, constant = leaf([[0.5, -1.0], [2.0, 0.3]]), leaf([1.0, 3.0]), torch.tensor([2.0, 1.0])
    assert gradcheck(lambda a, b, c: (a * b + c, (a.exp() * b).sum()), (x, y, constant), **options)
    assert gradgradcheck(lambda a, b, c: (a * b * b, a.tanh() * c), (x, y, constant), **options)
    assert gradgradcheck(lambda a: a**3, x, gen_non_contig_grad_outputs=True, **options)
    assert gradgradcheck(lambda a: a**3, x, leaf([[1.0, 2.0], [3.0, 4.0]]), **options)
    assert gradcheck(wrong(), x, **options)
    assert gradgradcheck(wrong(), x, **options)
    assert x.tolist() == [[0.5, -1.0], [2.0, 0.3]]


@pytest.mark.parametrize("options", MODES)
def test_wrong_gradients_do_not(options: dict[str, Any]) -> None:
    x = leaf([0.5, -1.0])
    with pytest.raises(GradcheckError, match="gradients agree with differences"):
        gradcheck(wrong(1.01), x, **options)
    assert not gradcheck(wrong(1.01), x, raise_exception=False, **options)
    assert gradcheck(wrong(1.0, second=2.0), x, **options)
    with pytest.raises(GradcheckError, match="gradients agree with differences"):
        gradgradcheck(wrong(1.0, second=2.0), x, **options)
    assert gradcheck(wrong(1.01), x, rtol=0.1, **options)


@pytest.mark.parametrize("options", MODES)
def test_gradients_that_change_from_pass_to_pass(options: dict[str, Any]) -> None:
    drift = itertools.count()
    f = wrong(lambda: 1 + 1e-9 * next(drift))
    with pytest.raises(GradcheckError, match="the same backward gives the same gradients"):
        gradcheck(f, leaf([0.5, -1.0]), **options)
    assert gradcheck(f, leaf([0.5, -1.0]), nondet_tol=1e-5, **options)


def test_gradients_that_are_not_linear() -> None:
    class Biased(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2 + (grad == 0).to(grad.dtype) * (grad.sum() == 0).to(grad.dtype)

    x = leaf([0.5])
    with pytest.raises(GradcheckError, match="backward is linear in the gradients it is given"):
        gradcheck(Biased.apply, x)
    assert gradcheck(Biased.apply, x, check_undefined_grad=False)


@pytest.mark.parametrize("options", MODES)
def test_complex_numbers(options: dict[str, Any]) -> None:
    z = leaf([0.5 + 1j, -1 + 0.3j], torch.complex128)
    x = leaf([0.5, 2.0])
    assert gradcheck(lambda a, b: a * a * b, (z, x), **options)
    assert gradcheck(lambda a: a.abs(), z, **options)
    assert gradcheck(lambda a: a.conj() * a * 3, z, **options)
    assert gradcheck(lambda a: a.real, z, **options)
    assert gradgradcheck(lambda a: a * a * a, z, **options)

    class NotConjugated(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2 * ctx.saved_tensors[0]

    assert not gradcheck(NotConjugated.apply, z, raise_exception=False, **options)


def test_further_checks() -> None:
    x = leaf([[0.5, -1.0]])
    assert gradcheck(lambda a: (a.exp(), a.detach() * 2), x, check_batched_grad=True, check_grad_dtypes=True)
    assert gradcheck(lambda a: torch.ones(2, dtype=torch.float64), x)
    assert not gradcheck(lambda a: a.detach() * 2, x, raise_exception=False)
    assert gradcheck(lambda a: a.sum(), leaf(np.zeros((0, 2))))
    assert gradcheck(lambda a: a.exp()[:0], x)
    assert gradcheck(lambda a: (a * 2).argmax() + 0 * a.sum(), leaf([1.0, 5.0]))


@pytest.mark.parametrize("options", MODES)
def test_forward_mode(options: dict[str, Any]) -> None:
    x, y, z = leaf([[0.5, -1.0], [2.0, 0.3]]), leaf([1.0, 3.0]), leaf([0.5 + 1j, -1 + 0.3j], torch.complex128)
    options = {**options, "check_forward_ad": True, "check_batched_forward_grad": True}
    assert gradcheck(lambda a, b: (a * b, (a.exp() * b).sum()), (x, y), **options)
    assert gradcheck(lambda a: a * a * a.conj(), z, **options)
    assert gradcheck(lambda a: a.sum(), leaf(np.zeros((0, 2))), check_forward_ad=True)
    assert gradcheck(lambda a: (a * 2, a.detach() * 3), x, check_forward_ad=True)


def test_wrong_tangents_are_found() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 3

    x = leaf([0.5, -1.0])
    assert gradcheck(Double.apply, x)
    with pytest.raises(GradcheckError, match=r"(?s)output 0 with respect to input 0\nby differences.* — "
                       "tangents agree with differences"):
        gradcheck(Double.apply, x, check_forward_ad=True, check_backward_ad=False)


def test_tangents_that_differ_in_batches() -> None:
    calls = itertools.count()

    class Changing(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * (2 if next(calls) < 4 else 3)

    with pytest.raises(GradcheckError, match=r"batched tangents of output 0 — "
                       "batched tangents are those of each entry"):
        gradcheck(Changing.apply, leaf([0.5, -1.0]), check_forward_ad=True, check_batched_forward_grad=True,
                  check_undefined_grad=False)


def test_functions_see_duals_without_history_in_forward_mode() -> None:
    calls: list[bool] = []

    class Copies(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            if dual_levels.current_level() == 0:
                calls.append(x.requires_grad or y.requires_grad)
            return x.clone(), y.clone()

        @staticmethod
        def jvp(ctx: Any, t: Any, u: Any) -> Any:
            return t, u

    more = {"check_forward_ad": True, "check_backward_ad": False}
    x, y = leaf([0.5]), leaf([2.0])
    assert gradcheck(Copies.apply, (x, y), check_undefined_grad=False, **more)
    assert len(calls) == 2
    assert gradcheck(Copies.apply, (x, y), check_batched_forward_grad=True, **more)
    assert len(calls) == 2 + 12
    assert not any(calls)


def test_a_missing_tangent_that_is_no_zero() -> None:
    class Careless(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x + y

        @staticmethod
        def jvp(ctx: Any, t: Any, u: Any) -> Any:
            return 2 * t if u is None else u if t is None else t + u

        vjp = staticmethod(lambda ctx, g: (g, g))

    x, y = leaf([0.5]), leaf([2.0])
    assert gradcheck(Careless.apply, (x, y), check_undefined_grad=False, check_forward_ad=True)
    with pytest.raises(GradcheckError, match=r"tangents of output 0 .* with a zero tangent of input 1 and with none — "
                       "an input without tangent is like one whose tangent is zero"):
        gradcheck(Careless.apply, (x, y), check_forward_ad=True)


@pytest.mark.parametrize("options", MODES)
def test_functions_whose_results_change_their_form(options: dict[str, Any]) -> None:
    x = leaf([1.0])
    for function in (lambda a: torch.functions.cat([a, a]) if a.item() >= 1 else a,
                     lambda a: a.float() if a.item() >= 1 else a):
        with pytest.raises(AssertionError, match="results keep shape and dtype when the inputs are changed a little"):
            gradcheck(function, x, **options)


def test_jacobians_as_tensors() -> None:
    a, b = leaf([[0.5, -1.0]]), leaf([[2.0, 0.3]])
    function = lambda x: (2 * x[0] + x[1], x[0])
    with pytest.warns(FutureWarning, match="get_numerical_jacobian"):
        jacobians = get_numerical_jacobian(function, (a, b), eps=1e-6)
    assert [np.round(j.tolist(), 6).tolist() for j in jacobians] == [[[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]]
    with pytest.warns(FutureWarning, match="get_analytical_jacobian"):
        jacobians, same, shapes, dtypes = get_analytical_jacobian((a, b), function((a, b))[0].sum())
    assert [j.tolist() for j in jacobians] == [[[2.0], [2.0]], [[1.0], [1.0]]]
    assert (same, shapes, dtypes) == (True, True, True)
    with pytest.warns(FutureWarning), pytest.raises(ArgumentError, match="the Jacobian is taken with grad_out 1"):
        get_numerical_jacobian(function, (a, b), grad_out=2.0)
    with pytest.warns(FutureWarning), pytest.raises(ArgumentError, match="these Jacobians are of real numbers"):
        get_analytical_jacobian((leaf([1j], torch.complex128),), a)


def test_gradients_that_differ_in_batches() -> None:
    class Counting(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * (2 if type(grad) is torch.Tensor else 3)

    assert gradcheck(Counting.apply, leaf([0.5, -1.0]))
    with pytest.raises(GradcheckError, match=r"batched gradients of input 0 — "
                       "batched gradients are those of each entry"):
        gradcheck(Counting.apply, leaf([0.5, -1.0]), check_batched_grad=True)


def test_an_engine_that_loses_dtypes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sys.modules["tensocket_operators.differentiation.gradcheck"]
    gradients = engine.gradients
    monkeypatch.setattr(engine, "gradients", lambda *args, **options: tuple(
        g if g is None else g.float() for g in gradients(*args, **options)))
    x = leaf([0.5, -1.0])
    assert gradcheck(lambda a: a * 2, x)
    with pytest.raises(GradcheckError, match=r"dtype float32 and shape .* of float64 .* — "
                       "a gradient has its input's dtype and shape"):
        gradcheck(lambda a: a * 2, x, check_grad_dtypes=True)


def test_single_precision_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="input 0 has dtype float32"):
        gradcheck(lambda a: a * 2, leaf([1.0], torch.float32), eps=1e-2)


@pytest.mark.parametrize(("run", "kind", "message"), [
    (lambda: gradcheck(lambda a: a, torch.ones(1)), ArgumentError,
     "[gradcheck] no input that requires grad — at least one input requires grad"),
    (lambda: gradcheck(lambda a: a * 1, torch.ones(1, dtype=torch.float64).expand(2).requires_grad_()), ArgumentError,
     "[gradcheck] input 0 of shape [2] with elements that share memory — elements are changed one by one"),
    (lambda: gradcheck(lambda a: 3, leaf([1.0])), ArgumentTypeError, "[gradcheck] a result of type int"),
    (lambda: gradcheck(lambda a: a, leaf([1.0]), check_backward_ad=False), AssertionError,
     "[gradcheck] neither check_forward_ad nor check_backward_ad — one of the modes is checked"),
    (lambda: gradcheck(lambda a: a, leaf([1.0]), check_batched_forward_grad=True), AssertionError,
     "[gradcheck] check_batched_forward_grad without check_forward_ad — batches are checked in modes that are checked"),
], ids=range(5))
def test_refusals(run: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        run()


def test_tangents_of_gradients() -> None:
    given = leaf([0.5, -1.5]), leaf([2.0, 0.25])
    assert gradgradcheck(lambda a, b: (a * b.sin(), a.cumsum(0).exp() * a), given, check_fwd_over_rev=True)

    def hidden(a: Any) -> Any:
        """Its slope changes with the input, which no mode sees."""
        return a * (2 * a.item())

    with pytest.raises(GradcheckError, match="tangents agree with differences"):
        gradgradcheck(hidden, leaf([3.0]), check_fwd_over_rev=True, check_rev_over_rev=False)


def test_errors_say_what_was_found() -> None:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong(2.0), leaf([3.0]))
    assert isinstance(caught.value, RuntimeError)
    assert "output 0 with respect to input 0" in str(caught.value)
    assert "by backward:\n[[12.]]" in str(caught.value)


def test_results_are_tensors() -> None:
    with pytest.raises(ArgumentTypeError, match="the function returns tensors"):
        gradcheck(lambda x: (x, "text"), leaf([1.0]), raise_exception=True)


def test_hooks_that_need_a_gradient_are_found() -> None:
    def function(x: Any) -> Any:
        y = x.clone()
        y.register_hook(needed)
        return y

    def needed(grad: Any) -> None:
        if grad is None:
            raise RuntimeError("no gradient")

    x = leaf([1.0, 2.0])
    with pytest.warns(UserWarning, match="New undefined gradient support checking"), pytest.raises(
            GradcheckError, match=re.escape("Expected backward function to handle undefined output grads")):
        gradcheck(function, (x,))
    assert gradcheck(function, (x,), check_undefined_grad=False)
    assert gradcheck(lambda x: (x * 2, x.sin()), (x,))
