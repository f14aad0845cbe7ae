"""Transforms of transforms against closed forms."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.autograd import Function
from tensocket_operators.transforms import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    trace,
    vjp,
    vmap,
)

X = np.array([0.7, -1.3, 1.6])


def tensor(values: Any, **options: Any) -> Any:
    return torch.tensor(np.asarray(values), dtype=torch.float64, **options)


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(actual.detach().tolist()), np.asarray(expected), rtol=1e-12, atol=1e-13)


def cubic(x: Any) -> Any:
    """x0 * sum(x ** 3): gradient 3 x0 x^2 + e0 sum(x^3)."""
    return (x**3).sum() * x[0]


def cubic_gradient(x: np.ndarray) -> np.ndarray:
    gradient = 3 * x[0] * x**2
    gradient[0] += (x**3).sum()
    return gradient


def cubic_hessian(x: np.ndarray) -> np.ndarray:
    matrix = np.diag(6 * x[0] * x)
    matrix[0] += 3 * x**2
    matrix[:, 0] += 3 * x**2
    return matrix


def test_gradient_of_gradient_of_gradient() -> None:
    close(grad(grad(grad(lambda x: x**5)))(tensor(1.5)), 60 * 1.5**2)
    close(grad(grad(grad(torch.sin)))(tensor(0.4)), -np.cos(0.4))


def test_values_come_with_gradients() -> None:
    gradient, value = grad_and_value(cubic)(tensor(X))
    close(gradient, cubic_gradient(X))
    close(value, (X**3).sum() * X[0])
    gradient, (value, extra) = grad_and_value(lambda x: (cubic(x), x * 2), has_aux=True)(tensor(X))
    close(gradient, cubic_gradient(X))
    close(extra, 2 * X)
    assert extra._level == 0


@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev, grad])
def test_hessians_by_all_pairs_of_modes(outer: Any, inner: Any) -> None:
    close(outer(inner(cubic))(tensor(X)), cubic_hessian(X))


def test_hessian_of_a_polynomial_and_of_a_batch() -> None:
    close(hessian(cubic)(tensor(X)), cubic_hessian(X))
    rows = np.stack([X, X + 1, X * 2])
    close(vmap(hessian(cubic))(tensor(rows)), np.stack([cubic_hessian(row) for row in rows]))
    close(hessian(lambda d: (d["a"] * d["b"]).sum())({"a": tensor(X), "b": tensor(X)})["a"]["b"], np.eye(3))
    blocks = hessian(lambda x, y: (x * x * y).sum(), argnums=(0, 1))(tensor(X), tensor(X + 1))
    close(blocks[0][0], np.diag(2 * (X + 1)))
    close(blocks[0][1], np.diag(2 * X))
    close(blocks[1][1], np.zeros((3, 3)))


def test_forward_over_reverse_and_reverse_over_forward() -> None:
    v = np.array([1.0, -0.5, 2.0])
    close(jvp(grad(cubic), (tensor(X),), (tensor(v),))[1], cubic_hessian(X) @ v)
    close(grad(lambda x: jvp(cubic, (x,), (tensor(v),))[1])(tensor(X)), cubic_hessian(X) @ v)
    close(vjp(grad(cubic), tensor(X))[1](tensor(v))[0], cubic_hessian(X) @ v)
    third = jvp(jacfwd(grad(cubic)), (tensor(X),), (tensor(v),))[1]
    step = 1e-5
    np.testing.assert_allclose(third.tolist(), (cubic_hessian(X + step * v) - cubic_hessian(X - step * v)) / (2 * step),
                               rtol=1e-7, atol=1e-8)


def test_gradients_of_batches_and_batches_of_gradients() -> None:
    rows = np.stack([X, X + 1, X * 2])
    expected = np.stack([cubic_gradient(row) for row in rows])
    close(vmap(grad(cubic))(tensor(rows)), expected)
    close(grad(lambda x: vmap(cubic)(x).sum())(tensor(rows)), expected)
    close(vmap(vmap(lambda x, y: x * y, in_dims=(0, None)), in_dims=(None, 0))(tensor(X), tensor(X)), np.outer(X, X))
    close(vmap(lambda v: vjp(lambda x: x**2, tensor(X))[1](v)[0])(tensor(np.eye(3))), np.diag(2 * X))
    close(vmap(lambda x, v: jvp(cubic, (x,), (v,))[1])(tensor(rows), tensor(rows)), (expected * rows).sum(1))


def test_jacobians_of_several_arguments_and_results() -> None:
    def function(x: Any, y: Any) -> Any:
        return {"sum": x.sum() * y, "product": (x * y[0],)}

    for transform in (jacrev, jacfwd):
        found = transform(function, argnums=(0, 1))(tensor(X), tensor(X[:2]))
        close(found["sum"][0], np.outer(X[:2], np.ones(3)))
        close(found["sum"][1], X.sum() * np.eye(2))
        close(found["product"][0][0], X[0] * np.eye(3))
        close(found["product"][0][1], np.stack([X, np.zeros(3)], 1))
        value, extra = transform(lambda x: (x * 2, x.sum()), has_aux=True)(tensor(X))
        close(value, 2 * np.eye(3))
        close(extra, X.sum())
    close(jacrev(lambda x: x**2, chunk_size=2)(tensor(X)), np.diag(2 * X))
    close(jacfwd(lambda x: x**2, chunk_size=2)(tensor(X)), np.diag(2 * X))


def test_the_linear_part_is_computed_once() -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x.sin() * x[0]

    value, push = linearize(function, tensor(X))
    close(value, np.sin(X) * X[0])
    for v in (X, X * 2 - 1):
        close(push(tensor(v)), np.cos(X) * X[0] * v + np.sin(X) * v[0])
    assert len(calls) == 1


def test_detached_tensors_are_constants_for_all_levels() -> None:
    close(grad(lambda x: grad(lambda y: x.detach() * y * x)(x))(tensor(3.0)), 3.0)
    close(grad(grad(lambda x: x.detach() * x))(tensor(3.0)), 0.0)
    close(jvp(lambda x: x.detach() * x, (tensor(X),), (tensor(X),))[1], X * X)


def test_no_grad_concerns_the_level_that_it_is_in() -> None:
    def function(x: Any) -> Any:
        with torch.no_grad():
            c = x**2
        return x - c

    with torch.no_grad():
        close(grad(lambda x: x**2)(tensor(3.0)), 6.0)
    close(grad(function)(tensor(3.0)), 1.0)
    close(grad(lambda x: grad(function)(x) * x)(tensor(3.0)), 1.0)
    outside = tensor(3.0, requires_grad=True)
    gradient = grad(lambda y: y * outside)(tensor(2.0))
    gradient.backward()
    close(outside.grad, 1.0)
    assert torch.is_grad_enabled()


def test_graphs_outside_and_inside_are_separate() -> None:
    x = tensor(X, requires_grad=True)
    grad(cubic)(x).sum().backward()
    close(x.grad, cubic_hessian(X).sum(0))
    rows = tensor(np.stack([X, X]), requires_grad=True)
    vmap(cubic)(rows).sum().backward()
    close(rows.grad, np.stack([cubic_gradient(X)] * 2))

    def inner(y: Any) -> Any:
        (gradient,) = torch.autograd.grad(cubic(y), y, create_graph=True)
        return gradient.sum()

    close(grad(inner)(tensor(X)), cubic_hessian(X).sum(0))


def in_place(x: Any) -> Any:
    """(x0, x0^2 x2, x1^2 x2 + x1, x2^2) by writing into views of views."""
    y = x.new_zeros(4)
    y[1:] = x * x
    y[0] = x[0]
    y[1:3].mul_(x[2])
    y.view(2, 2).t()[0, 1] += x[1]
    flat = y.view(-1)
    flat[3:].copy_(x[2:] ** 2)
    return y


def in_place_jacobian(x: np.ndarray) -> np.ndarray:
    a, b, c = x
    return np.array([[1, 0, 0], [2 * a * c, 0, a * a], [0, 2 * b * c + 1, b * b], [0, 0, 2 * c]])


@pytest.mark.parametrize("wrapped", [
    lambda f: f, functionalize, lambda f: functionalize(f, remove="mutations_and_views"),
    lambda f: lambda x: trace(f)(x).replay(x)])
@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_changes_in_place_and_through_views(transform: Any, wrapped: Any) -> None:
    close(in_place(tensor(X)), [X[0], X[0] ** 2 * X[2], X[1] ** 2 * X[2] + X[1], X[2] ** 2])
    close(transform(wrapped(in_place))(tensor(X)), in_place_jacobian(X))
    close(wrapped(transform(in_place))(tensor(X)), in_place_jacobian(X))


def test_changes_in_place_twice_differentiated_and_batched() -> None:
    weights = np.array([1.0, -2.0, 0.5, 3.0])

    def loss(x: Any) -> Any:
        return (in_place(x) * tensor(weights)).sum()

    a, b, c = X
    expected = np.array([[-4 * c, 0, -4 * a], [0, c, b], [-4 * a, b, 6]])
    close(hessian(loss)(tensor(X)), expected)
    close(jacrev(grad(loss))(tensor(X)), expected)
    rows = np.stack([X, X + 1])
    close(vmap(lambda x: x.new_zeros(2).copy_(x[:2] * 2))(tensor(rows)), 2 * rows[:, :2])
    close(vmap(grad(loss))(tensor(rows)), np.stack([in_place_jacobian(row).T @ weights for row in rows]))


def test_geometry_changed_in_place() -> None:
    def function(x: Any) -> Any:
        y = (x * 2).unsqueeze_(0)
        y.t_()
        y[0] = 5.0
        return y.squeeze_(1)

    expected = np.diag([0.0, 2.0, 2.0])
    for transform in (jacrev, jacfwd):
        close(transform(function)(tensor(X)), expected)
        close(transform(functionalize(function))(tensor(X)), expected)
    close(vmap(function)(tensor(np.stack([X, X]))), [[5, 2 * X[1], 2 * X[2]]] * 2)


def test_arguments_are_modified_by_functionalized_functions() -> None:
    x = tensor(X)
    result = functionalize(lambda x: x.add_(1) * 2)(x)
    close(x, X + 1)
    close(result, 2 * (X + 1))


def test_graphs_are_printed_and_run_again() -> None:
    graph = trace(lambda x, scale: {"y": (x * scale).sum()})(tensor(X), 3)
    assert [entry.operator.name for entry in graph] == ["mul", "sum"]
    assert str(graph).splitlines() == ["inputs %0, 3", "%1 = mul(%0, 3)", "%2 = sum(%1, None, False, dtype=None)",
                                       "return %2"]
    assert graph[0].results.shape == (3,)
    assert graph[0].results.dtype is torch.float64
    close(graph.replay(tensor(X * 2), 3)["y"], 6 * X.sum())
    close(grad(lambda x: graph.replay(x, 3)["y"])(tensor(X)), [3, 3, 3])
    close(vmap(lambda x: graph.replay(x, 3)["y"])(tensor(np.stack([X, X]))), [3 * X.sum()] * 2)
    with pytest.raises(torch.errors.ArgumentError, match=r"\[replay\] arguments .* a graph runs on arguments of the "
                       "structure that was traced"):
        graph.replay(tensor(X))


def test_tensors_made_in_a_traced_function_are_made_anew() -> None:
    def function(x: Any) -> Any:
        y = torch.zeros(3, dtype=torch.float64)
        return y.add_(x)

    graph = trace(function)(tensor(X))
    for factor in (1, 2, 3):
        close(graph.replay(tensor(X * factor)), X * factor)


class Cube(Function):
    """Its gradient is a hundred times too large, so that it is told from that of what forward calls."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x**3 * y, x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * 300 * x * x * y + h * 2, g * x**3 * 100

    @staticmethod
    def jvp(ctx: Any, t: Any, u: Any) -> Any:
        x, y = ctx.saved_tensors
        return 300 * x * x * y * t + 100 * x**3 * u, 2 * t


class Own(Function):
    """With a rule for batches, in which it calls itself."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 7

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        assert info.batch_size == 3
        assert in_dims == (0,)
        return Own.apply(x), 0


class Joined(Function):
    """Without setup_context."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def total(x: Any, y: Any) -> Any:
    first, second = Cube.apply(x, y)
    return (first + second).sum()


def test_functions_with_a_backward_of_their_own() -> None:
    x, one = tensor(X), tensor(np.ones(3))
    close(grad(total)(x, one), 300 * X**2 + 2)
    close(jacfwd(grad(total))(x, one), np.diag(600 * X))
    close(grad(lambda x: grad(total)(x, one).sum())(x), 600 * X)
    close(jvp(total, (x, one), (x, x * 0))[1], (300 * X**3 + 2 * X).sum())
    close(vmap(total)(x, one), X**3 + 2 * X)
    close(vmap(grad(total))(x, one), 300 * X**2 + 2)
    close(grad(lambda x: vmap(total)(x, one).sum())(x), 300 * X**2 + 2)
    close(grad(lambda y: vmap(total, in_dims=(0, None))(x, y).sum())(tensor(1.0)), 100 * (X**3).sum())
    close(grad(lambda x: vmap(Own.apply)(x).sum())(x), [7, 7, 7])
    close(vmap(grad(lambda x: Own.apply(x)))(x), [7, 7, 7])
    leaf = tensor(X, requires_grad=True)
    vmap(Own.apply)(leaf).sum().backward()
    close(leaf.grad, [7, 7, 7])
    with pytest.raises(torch.errors.TransformError, match=r"\[Joined\] a Function without setup_context in grad"):
        grad(lambda x: Joined.apply(x).sum())(x)


def test_threads_transform_at_once() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            torch.set_default_device("ref")
            rows = np.random.default_rng(seed).uniform(-1, 1, (3, 3))
            for _ in range(5):
                close(vmap(hessian(cubic))(tensor(rows)), np.stack([cubic_hessian(row) for row in rows]))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_nothing_is_kept_alive_without_the_collector() -> None:
    def live() -> int:
        return sum(isinstance(item, torch.Tensor) for item in gc.get_objects())

    def step() -> None:
        grad(cubic)(tensor(X))
        jvp(cubic, (tensor(X),), (tensor(X),))
        vmap(grad(cubic))(tensor(np.stack([X, X])))
        hessian(cubic)(tensor(X))

    step()
    gc.collect()
    gc.disable()
    try:
        before = live()
        for _ in range(5):
            step()
        assert live() == before
    finally:
        gc.enable()
