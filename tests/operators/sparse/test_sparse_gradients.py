"""Gradients of sparse tensors: dense ones of ordinary operators, sparse ones of masked operators, and differences."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core.autograd.graph import saved_tensors_hooks
from tensocket_operators import functions as f
from tensocket_operators import sparse
from tensocket_operators.differentiation.function import Function
from tensocket_operators.differentiation.gradcheck import GradcheckError, gradcheck

pytestmark = pytest.mark.usefixtures("place")
PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]
DENSE = np.array([[0.0, 0.0, 4.0], [4.0, 0.0, 5.0]])
RIGHT = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]])


def coo(**options):
    return tc.sparse_coo_tensor(PLACES, [3.0, 4.0, 5.0, 1.0], (2, 3), **options)


def t(array):
    return tc.tensor(np.asarray(array, np.float32).tolist())


def same(tensor, expected):
    np.testing.assert_allclose(np.array(tensor.detach().tolist()).reshape(tuple(tensor.shape)), expected, 1e-5, 1e-6)


def _pattern(grad):
    return grad._indices().tolist(), grad._values().tolist()


@pytest.mark.parametrize(("call", "expected"), [
    (lambda s, d: s @ d, np.ones((2, 2)) @ RIGHT.T),
    (lambda s, d: f.mm(s, d), np.ones((2, 2)) @ RIGHT.T),
    (lambda s, d: f.addmm(tc.zeros(2, 2), s, d, alpha=3), 3 * np.ones((2, 2)) @ RIGHT.T),
    (lambda s, d: f.mv(s, d[:, 0]), np.outer([1, 1], RIGHT[:, 0])),
    (lambda s, d: s.sum(), np.ones((2, 3))),
    (lambda s, d: s * 2, 2 * np.ones((2, 3))),
    (lambda s, d: s / 4, np.ones((2, 3)) / 4),
    (lambda s, d: -s, -np.ones((2, 3))),
    (lambda s, d: s - s.detach(), np.ones((2, 3))),
    (lambda s, d: s.t(), np.ones((2, 3))),
    (lambda s, d: s.permute(1, 0), np.ones((2, 3))),
    (lambda s, d: s[1], [[0, 0, 0], [1, 1, 1]]),
    (lambda s, d: s.index_select(1, tc.tensor([0, 0])), [[2, 0, 0], [2, 0, 0]]),
    (lambda s, d: s.narrow_copy(1, 1, 2), [[0, 1, 1], [0, 1, 1]]),
    (lambda s, d: f.cat([s, s], 1), 2 * np.ones((2, 3))),
    (lambda s, d: s.unsqueeze(0), np.ones((2, 3))),
    (lambda s, d: s.clone().mul_(5), 5 * np.ones((2, 3))),
])
def test_operators_have_the_gradients_of_strided_ones(call, expected):
    s, d = coo(requires_grad=True), t(RIGHT)
    result = call(s, d)
    (grad,) = tc.autograd.grad(result, s, tc.ones(tuple(result.shape)))
    assert grad.layout is tc.strided
    same(grad, expected)


def test_masked_operators_have_sparse_gradients():
    s, d = coo(requires_grad=True), t(RIGHT)
    places = [[0, 1, 1], [2, 0, 2]]
    full = np.ones((2, 2)) @ RIGHT.T
    for result in (sparse.mm(s, d), sparse.addmm(tc.zeros(2, 2), s, d)):
        (grad,) = tc.autograd.grad(result, s, tc.ones(2, 2))
        assert _pattern(grad) == (places, [full[0, 2], full[1, 0], full[1, 2]])
    assert _pattern(tc.autograd.grad(sparse.sum(s), s)[0]) == (places, [1.0, 1.0, 1.0])
    assert _pattern(tc.autograd.grad(s.coalesce().values().sum(), s)[0]) == (places, [1.0, 1.0, 1.0])
    assert _pattern(tc.autograd.grad(s.to_dense(), s, tc.ones(2, 3))[0]) == (places, [1.0, 1.0, 1.0])
    (grad,) = tc.autograd.grad(s.to_dense(masked_grad=False), s, tc.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
    assert _pattern(grad) == ([[0, 0, 1], [0, 2, 1]], [1.0, 2.0, 3.0])
    (grad,) = tc.autograd.grad(s * coo().coalesce(), s, tc.ones(2, 3))
    assert _pattern(grad) == (places, [4.0, 4.0, 5.0])


def test_gradients_of_different_layouts_are_added():
    s = coo(requires_grad=True)
    sparse.sum(s).backward()
    assert s.grad.is_sparse
    s.sum().backward()
    same(s.grad, np.ones((2, 3)) + (DENSE != 0))


@pytest.mark.parametrize("masked", [False, True])
def test_gradcheck_of_sparse_inputs(masked):
    s = coo(dtype=tc.float64).coalesce().requires_grad_()
    d = tc.tensor(RIGHT.tolist(), dtype=tc.float64, requires_grad=True)
    if masked:
        assert gradcheck(sparse.mm, (s, d), masked=True)
        assert gradcheck(lambda x: sparse.softmax(x, 1), (s,), masked=True)
    assert gradcheck(lambda x, y: (x @ y).sin(), (s, d), masked=masked)
    assert gradcheck(lambda x: x.to_dense(masked_grad=masked) ** 2, (s,), masked=masked)
    assert sparse.as_sparse_gradcheck(gradcheck)(lambda x: x.t() * 3, (s,), masked=masked)
    assert gradcheck(lambda x: x.to_dense(), tc.sparse_coo_tensor((2, 0), dtype=tc.float64, requires_grad=True))


def test_a_wrong_gradient_of_a_sparse_input_is_found():
    s = coo(dtype=tc.float64).coalesce().requires_grad_()
    with pytest.raises(GradcheckError, match="gradients agree with differences"):
        gradcheck(_WithoutGradient.apply, (s,))


class _WithoutGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x.to_dense() * 2

    @staticmethod
    def backward(ctx, grad):
        return None


def test_saved_sparse_tensors_go_through_hooks():
    x = coo(requires_grad=True)
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return tensor.clone()

    with saved_tensors_hooks(pack, lambda stored: stored):
        y = (x * x).to_dense().sum()
    assert packed
    assert all(p.layout is tc.sparse_coo and not p.requires_grad for p in packed)
    y.backward()
    same(x.grad.to_dense(), 2 * DENSE)


def test_a_dense_gradient_replaces_a_sparse_one():
    x = t([1.5, 2.5, 3.5]).requires_grad_()
    old = x.grad = tc.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,))
    (x * 1).sum().backward()
    assert x.grad is not old
    same(x.grad, [2.0, 1.0, 3.0])
    same(old.to_dense(), [1.0, 0.0, 2.0])


def test_a_sparse_gradient_is_added_to_the_one_that_there_is():
    weight = t([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).requires_grad_()
    f.embedding(weight, tc.tensor([0, 2]), sparse=True).sum().backward()
    first = weight.grad
    f.embedding(weight, tc.tensor([2]), sparse=True).sum().backward()
    assert weight.grad is first
    same(weight.grad.to_dense(), [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]])


def test_sparse_tensors_are_detached_in_place():
    x = coo(requires_grad=True)
    y = x * 2
    assert y.detach_() is y
    assert not y.requires_grad
    assert y.grad_fn is None
    same(y.to_dense(), 2 * DENSE)


def test_gradients_of_changes_of_layout_have_the_layout_of_the_operand():
    x = t(DENSE).to_sparse_csr().requires_grad_()
    (grad,) = tc.autograd.grad(x.to_sparse(), x, t(RIGHT[:2, [0, 1, 1]]).to_sparse())
    assert grad.layout is tc.sparse_csr
    same(grad.to_dense(), RIGHT[:2, [0, 1, 1]])


def test_sparse_gradients_with_gaps_are_copied():
    class Spread(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            values = t([[1.0, 2.0, 3.0]]).expand(2, 3)
            return tc.sparse_coo_tensor(tc.tensor([[0]]).expand(1, 2), values, (2, 3))

    x = t(DENSE).requires_grad_()
    Spread.apply(x).backward(t(DENSE))
    assert x.grad._values().is_contiguous()
    same(x.grad.to_dense(), [[2.0, 4.0, 6.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("kind", ["sparse_coo", "sparse_csr", "sparse_csc"])
@pytest.mark.parametrize("lead", [(), (4,), (2, 2)])
def test_sparse_weights_of_linear_layers(kind, lead):
    rng = np.random.default_rng(3)
    inputs, shift, seed = rng.random((*lead, 3)), rng.random(2), rng.random((*lead, 2))
    x, weight, bias = t(inputs).requires_grad_(), t(DENSE).to_sparse(layout=getattr(tc, kind)), t(shift)
    weight.requires_grad_()
    y = f.linear(x, weight, bias)
    same(y, inputs @ DENSE.T + shift)
    y.backward(t(seed))
    same(x.grad, seed @ DENSE)
    grad = weight.grad.to_dense() if weight.grad.layout is not tc.strided else weight.grad
    same(grad, seed.reshape(-1, 2).T @ inputs.reshape(-1, 3))
    same(f.linear(weight.detach(), t(RIGHT.T)), DENSE @ RIGHT)


def test_sums_save_no_operands():
    values = tc.tensor([3.0, 4.0, 5.0, 1.0], requires_grad=True)
    total = tc.zeros(2, 3)
    for scale in (1.0, 2.0):  # the second sum changes the operand of the first one
        total += tc.sparse_coo_tensor(PLACES, values * scale, (2, 3))
    (total * t(np.arange(6.0).reshape(2, 3))).sum().backward()
    same(values.grad, [6.0, 9.0, 15.0, 6.0])
