"""Gradients and gradients of gradients of every differentiable record, against central differences in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensocket_core as tc
from tensocket_core import functions as f
from tensocket_core.autograd import grad
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import OPERATORS

STEP = 1e-6
M, V = (3, 4), (4,)
PLUS = (0.3, 2.0)
ANY = (-2.0, 2.0)


def index(*values):
    return tc.tensor(list(values))


def inplace(change: Callable[..., Any]) -> Callable[..., Any]:
    """A function that changes a copy of its first argument."""

    def run(x, *others):
        y = x * 1
        change(y, *others)
        return y

    return run


# Record (and variant): function, shapes of its arguments, and their range.
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], tuple[float, float]]] = {
    "add": (f.add, [M, V], ANY), "sub": (f.sub, [M, (3, 1)], ANY), "mul": (f.mul, [M, V], ANY), "div": (f.div, [M, V], PLUS),
    "neg": (f.neg, [M], ANY), "abs": (f.abs, [M], ANY), "remainder": (f.remainder, [M, M], PLUS), "remainder of a number": (lambda x: 7.3 % x, [M], PLUS),
    "fmod": (f.fmod, [M, M], PLUS), "pow": (f.pow, [M, V], PLUS), "pow of a number": (lambda x: 2.5 ** x, [M], ANY),
    "pow to a number": (lambda x: x ** 3 + x ** -1.5 + x ** 2 + x ** 1, [M], PLUS), "pow to 0": (lambda x: x ** 0 * x, [M], PLUS),
    "maximum": (f.maximum, [M, M], ANY), "minimum": (f.minimum, [M, V], ANY), "clamp": (lambda x, a, b: f.clamp(x, a - 3, b + 2.5), [M, V, ()], ANY),
    "clamp by numbers": (lambda x: f.clamp(x, -1, 1), [M], ANY), "clamp_min": (f.clamp_min, [M, V], ANY), "clamp_max": (f.clamp_max, [M, V], ANY),
    "where": (lambda x, y: f.where(x.detach() > y.detach(), x * 2, y), [M, V], ANY), "where with numbers": (lambda x: f.where(x.detach() > 0, x, 2.0), [M], ANY),
    "addcmul": (lambda a, b, c: f.addcmul(a, b, c, value=2), [M, V, M], ANY), "addcdiv": (lambda a, b, c: f.addcdiv(a, b, c, value=2), [M, V, M], PLUS),
    "lerp": (f.lerp, [M, M, V], ANY), "exp": (f.exp, [M], ANY), "expm1": (f.expm1, [M], ANY), "log": (f.log, [M], PLUS), "log1p": (f.log1p, [M], PLUS),
    "sqrt": (f.sqrt, [M], PLUS), "rsqrt": (f.rsqrt, [M], PLUS), "reciprocal": (f.reciprocal, [M], PLUS), "sin": (f.sin, [M], ANY), "cos": (f.cos, [M], ANY),
    "tanh": (f.tanh, [M], ANY), "erf": (f.erf, [M], ANY), "sigmoid": (f.sigmoid, [M], ANY), "square": (f.square, [M], ANY),
    "sign": (lambda x: f.sign(x) * x, [M], ANY), "floor": (lambda x: f.floor(x) * x, [M], ANY), "ceil": (lambda x: f.ceil(x) * x, [M], ANY),
    "trunc": (lambda x: f.trunc(x) * x, [M], ANY), "round": (lambda x: f.round(x) * x, [M], ANY), "relu": (lambda x: f.relu(x) * x, [M], ANY),
    "gelu": (f.gelu, [M], ANY), "gelu by tanh": (lambda x: f.gelu(x, approximate="tanh"), [M], ANY),
    "gelu_backward": (lambda g, x: g.gelu_backward(x, "none"), [M, M], ANY), "gelu_backward by tanh": (lambda g, x: g.gelu_backward(x, "tanh"), [M, M], ANY),
    "silu": (f.silu, [M], ANY), "leaky_relu": (lambda x: f.leaky_relu(x, 0.2) * x, [M], ANY),
    "sum": (lambda x: x.sum(1) * x.sum(), [M], ANY), "mean": (lambda x: x.mean(0, True) * x.mean(), [M], ANY), "prod": (lambda x: x.prod(1) * x.prod(), [M], PLUS),
    "prod with a zero": (lambda x: (x * tc.tensor([0.0, 1.0, 1.0, 1.0], dtype=tc.float64)).prod(1), [M], PLUS),
    "amax": (lambda x: x.amax(1) * x.amax(), [M], ANY), "amin": (lambda x: x.amin((0, 1), True) * x, [M], ANY), "max": (lambda x: x.max(1).values * x.max(), [M], ANY),
    "var": (lambda x: x.var(1) * x.var(0, keepdim=True).sum(), [M], ANY), "std": (lambda x: x.std(1, correction=0), [M], ANY),
    "logsumexp": (lambda x: x.logsumexp(1), [M], ANY), "softmax_rows": (lambda x: f.softmax(x, 0), [M], ANY), "log_softmax_rows": (lambda x: f.log_softmax(x, 1), [M], ANY),
    "softmax_backward": (lambda g, y: call(OPERATORS["softmax_backward"], g, y, 1), [M, M], ANY),
    "log_softmax_backward": (lambda g, y: call(OPERATORS["log_softmax_backward"], g, y, 0), [M, M], ANY),
    "matmul": (f.matmul, [(2, 3, 4), (4, 2)], ANY), "matmul of vectors": (lambda x, y: f.matmul(x, y), [V, V], ANY),
    "matmul of a vector": (f.matmul, [V, (2, 4, 3)], ANY), "addmm": (lambda b, x, y: f.addmm(b, x, y, beta=0.5, alpha=2), [(2,), M, (4, 2)], ANY),
    "view": (lambda x: x.view(2, 6) ** 2, [M], ANY), "transpose": (lambda x: x.transpose(0, 1) @ x, [M], ANY), "permute": (lambda x: x.permute(2, 0, 1) ** 2, [(2, 3, 4)], ANY),
    "expand": (lambda x: x.expand(2, 3, 4) ** 2, [(3, 1)], ANY), "unsqueeze": (lambda x: x.unsqueeze(1) ** 2, [M], ANY), "squeeze": (lambda x: x.squeeze(1) ** 2, [(3, 1, 4)], ANY),
    "basic_index": (lambda x: x[1:, ::2] * x[0, 1], [M], ANY), "embed_index": (lambda x: x.embed_index((5, 6), (slice(0, 3), slice(2, 6))) ** 2, [M], ANY),
    "as_strided": (lambda x: x.as_strided((3, 3), (2, 1), 1) ** 2, [M], ANY), "as_strided of a transposed": (lambda x: x.t().as_strided((3, 2), (1, 4)) ** 2, [M], ANY),
    "alias": (lambda x: x.alias() ** 2, [M], ANY), "clone": (lambda x: x.clone() ** 2, [M], ANY), "convert": (lambda x: x.to("ref:1").to("ref") ** 2, [M], ANY),
    "cat": (lambda x, y: f.cat([x, y, x], 1) ** 2, [M, (3, 2)], ANY), "stack": (lambda x, y: f.stack([x, y], 1) ** 2, [M, M], ANY),
    "gather_valid": (lambda x: x.gather(1, tc.tensor([[0, 0], [1, 3], [2, 2]])) ** 2, [M], ANY),
    "scatter_valid": (lambda x, y: x.scatter(1, tc.tensor([[0, 1], [1, 3], [2, 3]]), y) ** 2, [M, (3, 2)], ANY),
    "scatter_valid adding": (lambda x, y: x.scatter_add(1, tc.tensor([[0, 0], [1, 1], [2, 3]]), y) ** 2, [M, (3, 3)], ANY),
    "index tensors": (lambda x: x[index(0, 0, 2), index(1, 1, 3)] ** 2, [M], ANY), "index_put": (lambda x, y: x.index_put((index(0, 2),), y) ** 2, [M, V], ANY),
    "index_put adding": (lambda x, y: x.index_put((index(0, 0),), y, True) ** 2, [M, V], ANY), "mask": (lambda x: x[x.detach() > 0] ** 2, [M], ANY),
    "nll_loss": (lambda x: f.nll_loss(x, index(1, 0, 3)), [M], ANY), "cross_entropy": (lambda x: f.cross_entropy(x, index(1, 0, 3), label_smoothing=0.1), [M], ANY),
    "layer_norm": (lambda x, w, b: f.layer_norm(x, (4,), w, b), [M, V, V], ANY), "embedding": (lambda w: f.embedding(tc.tensor([[0, 2], [2, 1]]), w) ** 2, [M], ANY),
    "copy_": (inplace(lambda y, x: y[1:].copy_(x[:2] * 3)), [M, M], ANY), "fill_": (inplace(lambda y, x: y[0].fill_(2)), [M, V], ANY),
    "basic_put_": (inplace(lambda y, x: y.__setitem__((slice(None), 1), x[:3] * 2)), [M, V], ANY),
}
INPLACE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], tuple[float, float]]] = {
    "chain": (inplace(lambda y, x: y.mul_(x).add_(1).pow_(2).sigmoid_()), [M, M], PLUS), "itself": (inplace(lambda y: y.mul_(y)), [M], PLUS),
    "slice": (inplace(lambda y, x: y[1:, ::2].mul_(x[1:, ::2])), [M, M], ANY), "transposed": (inplace(lambda y, x: y.t().add_(x.t())), [M, M], ANY),
    "view of a view": (inplace(lambda y, x: y[0].view(2, 2)[1].mul_(x[0, :2])), [M, M], ANY), "row by row": (
        inplace(lambda y, x: [y[k].mul_(x[k]).add_(y[0].detach() * 0) for k in range(3)]), [M, M], ANY),
    "index tensors": (inplace(lambda y, x: y.__setitem__(index(0, 2), x[:2])), [M, M], ANY), "mask": (
        inplace(lambda y, x: y.__setitem__(y.detach() > 0, 0.5)), [M, M], ANY)}


def values_of(shapes, bounds, seed=11):
    rng = np.random.default_rng(seed)
    return [rng.uniform(*bounds, shape) for shape in shapes]


def leaves(values, **options):
    return [tc.tensor(v, dtype=tc.float64, requires_grad=True) for v in values]


def weights_like(y, seed=5):
    return tc.tensor(np.random.default_rng(seed).normal(size=tuple(y.shape)), dtype=tc.float64)


def differences(scalar, values):
    """Central differences of a function of arrays."""
    result = [np.zeros_like(v) for v in values]
    for slope, value in zip(result, values, strict=True):
        for place in np.ndindex(value.shape):
            before = value[place]
            value[place] = before + STEP
            high = scalar(values)
            value[place] = before - STEP
            low = scalar(values)
            value[place] = before
            slope[place] = (high - low) / (2 * STEP)
    return result


def weighted(function, arguments):
    y = function(*arguments)
    return (y * weights_like(y)).sum()


def slopes(function, arguments):
    """The gradients of the weighted result, weighted again."""
    gradients = grad(weighted(function, arguments), arguments, create_graph=True, allow_unused=True)
    used = [g * weights_like(g, 7) for g in gradients if g is not None and g.requires_grad]
    return sum((g.sum() for g in used[1:]), used[0].sum()) if used else None


def test_every_differentiable_record_has_a_case():
    pointwise = {f"{name}_" for name, operator in OPERATORS.items() if operator.kind == "pointwise"}
    expected = {name for name, operator in OPERATORS.items() if operator.derivative is not None} - pointwise
    assert expected - {name.split()[0] for name in CASES} == set()


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, shapes, bounds = CASES[name]
    values = values_of(shapes, bounds)
    arguments = leaves(values)
    weighted(function, arguments).backward()
    expected = differences(lambda v: weighted(function, leaves(v)).item(), values)
    for x, slope in zip(arguments, expected, strict=True):
        actual = np.zeros_like(slope) if x.grad is None else np.array(x.grad.tolist())
        np.testing.assert_allclose(actual, slope, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_gradients(name):
    function, shapes, bounds = CASES[name]
    values = values_of(shapes, bounds)
    arguments = leaves(values)
    total = slopes(function, arguments)
    if total is None:  # linear: the gradients depend on nothing
        return
    actual = grad(total, arguments, allow_unused=True, materialize_grads=True)
    expected = differences(lambda v: slopes(function, leaves(v)).item(), values)
    for g, slope in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.array(g.tolist()), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", INPLACE)
def test_gradients_through_changes_in_place(name):
    function, shapes, bounds = INPLACE[name]
    values = values_of(shapes, bounds)
    arguments = leaves(values)
    gradients = grad(weighted(function, arguments), arguments, allow_unused=True, materialize_grads=True)
    expected = differences(lambda v: weighted(function, leaves(v)).item(), values)
    for g, slope in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(np.array(g.tolist()), slope, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", [name for name, operator in OPERATORS.items() if operator.kind == "inplace" and name[:-1] in CASES])
def test_in_place_forms_have_the_gradients_of_their_origin(name):
    """Bit by bit: the rules are the same."""
    function, shapes, bounds = CASES[name[:-1]]
    operator = OPERATORS[name]
    count = sum(p.is_tensor for p in operator.schema.parameters)
    if len(shapes) != count:
        return
    first, second = leaves(values_of(shapes, bounds)), leaves(values_of(shapes, bounds))
    changed = second[0].clone()
    options = {"value": 2} if name in ("addcmul_", "addcdiv_") else {}
    getattr(changed, name)(*second[1:], **options)
    origin = getattr(f, name[:-1])(*first, **options)
    if origin.shape != changed.shape:
        return
    (origin * weights_like(origin)).sum().backward()
    (changed * weights_like(changed)).sum().backward()
    for x, y in zip(first, second, strict=True):
        assert (x.grad is None) == (y.grad is None)
        assert x.grad is None or x.grad.tolist() == y.grad.tolist()


def test_ties_are_shared():
    x = tc.tensor([2.0, 2.0, 1.0], requires_grad=True)
    x.amax().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.0]
    a, b = tc.ones(2, requires_grad=True), tc.ones(2, requires_grad=True)
    tc.maximum(a, b).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [0.5, 0.5]


def test_conventions_at_kinks():
    x = tc.zeros(3, requires_grad=True)
    (x.abs() + x.relu() + f.leaky_relu(x, 0.5)).sum().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.5]
    y = tc.tensor([-1.0, 1.0], requires_grad=True)
    y.clamp(-1, 1).sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]
    z = tc.zeros(2, requires_grad=True)
    (z ** 0 + z ** 2 + z ** 1).sum().backward()
    assert z.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradients_have_the_dtype_of_their_tensors(dtypes, dtype):
    x = tc.tensor([1.0, 2.0], dtype=dtypes[dtype], requires_grad=True)
    (x.double() * x * tc.tensor([1, 2])).sum().backward()
    assert x.grad.dtype is dtypes[dtype]
    assert x.grad.tolist() == [2.0, 8.0]


def test_gradients_of_broadcast_arguments_are_summed():
    x, y = tc.ones(2, 1, requires_grad=True), tc.ones(3, requires_grad=True)
    (x * y * tc.tensor(2.0)).sum().backward()
    assert x.grad.tolist() == [[6.0], [6.0]]
    assert y.grad.tolist() == [4.0, 4.0, 4.0]
