"""Sparse tensors against the dense computation in NumPy, their gradients and errors."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators import sparse
from tensocket_operators.differentiation.function import Function
from tensocket_operators.differentiation.gradcheck import gradcheck
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
    UnsupportedOperator,
)

pytestmark = pytest.mark.usefixtures("place")
PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]
VALUES = [3.0, 4.0, 5.0, 1.0]
DENSE = np.array([[0.0, 0.0, 4.0], [4.0, 0.0, 5.0]])
RIGHT = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]])


def coo(**options):
    return tc.sparse_coo_tensor(PLACES, VALUES, (2, 3), **options)


def csr():
    return coo().to_sparse_csr()


def t(array, grad=False):
    return tc.tensor(np.asarray(array, np.float32).tolist(), requires_grad=grad)


def same(tensor, expected, kind=None):
    if kind is not None:
        assert tensor.layout is kind
        tensor = tensor.to_dense()
    got = np.array(tensor.detach().tolist(), np.float64).reshape(tuple(tensor.shape))
    np.testing.assert_allclose(got, expected, 1e-5, 1e-6)


def test_dimensions_of_plain_tensors_are_dense():
    for shape in ((), (2,), (2, 3)):
        assert (tc.ones(shape).sparse_dim(), tc.ones(shape).dense_dim()) == (0, len(shape))


def test_parts():
    s = coo()
    assert (s.is_sparse, s.is_coalesced(), s._nnz(), s.sparse_dim(), s.dense_dim()) == (True, False, 4, 2, 0)
    assert tuple(s.shape) == (2, 3)
    assert s.size(1) == 3
    assert s._values().tolist() == VALUES
    assert s._indices().tolist() == PLACES
    c = s.coalesce()
    assert c.coalesce() is c
    assert c.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert c.values().tolist() == [4.0, 4.0, 5.0]
    same(s, DENSE, tc.sparse_coo)
    rows = csr()
    assert rows.is_sparse_csr
    assert rows.crow_indices().tolist() == [0, 1, 3]
    assert rows.col_indices().tolist() == [2, 0, 2]
    assert rows.values().tolist() == [4.0, 4.0, 5.0]
    same(rows, DENSE, tc.sparse_csr)
    same(rows.to_sparse(), DENSE, tc.sparse_coo)
    assert tc.sparse_coo_tensor(PLACES, VALUES).shape == (2, 3)
    assert tc.sparse_coo_tensor((2, 3))._nnz() == 0


def test_conversions():
    same(t(DENSE).to_sparse(), DENSE, tc.sparse_coo)
    same(t(DENSE).to_sparse_coo(), DENSE, tc.sparse_coo)
    same(t(DENSE).to_sparse(layout=tc.sparse_csr), DENSE, tc.sparse_csr)
    slices = t(DENSE[:, :2]).to_sparse(1)
    assert slices.values().tolist() == [[4.0, 0.0]]
    same(slices, DENSE[:, :2], tc.sparse_coo)
    made = tc.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [4.0, 4.0, 5.0], dtype=tc.float64)
    assert made.dtype is tc.float64
    same(made, DENSE, tc.sparse_csr)
    same(tc.sparse_compressed_tensor([0, 1, 3], [2, 0, 2], [4.0, 4.0, 5.0], layout=tc.sparse_csr), DENSE, tc.sparse_csr)
    twice = np.array([[0.0, 0.0, 2.0], [1.0, 0.0, 1.0]])  # the mask has a position twice
    same(t(np.ones((2, 3))).sparse_mask(coo()), twice, tc.sparse_coo)
    same(coo().sparse_mask(csr()), DENSE, tc.sparse_csr)
    assert t(DENSE).to_dense(tc.float64).dtype is tc.float64
    assert coo().double().dtype is tc.float64
    same(coo().clone(), DENSE, tc.sparse_coo)
    same(tc.zeros_like(coo()), DENSE * 0, tc.sparse_coo)


@pytest.mark.parametrize("make", [coo, csr])
def test_elementwise(make):
    s = make()
    kind = s.layout
    same(s + make(), 2 * DENSE, kind)
    same(s - make() * 3, -2 * DENSE, kind)
    same(s * 2, 2 * DENSE, kind)
    same(2 * s, 2 * DENSE, kind)
    same(s / 2, DENSE / 2, kind)
    same(-s, -DENSE, kind)
    same(s.sqrt(), np.sqrt(DENSE), kind)
    same(s ** 2, DENSE ** 2, kind)
    same(s * make(), DENSE ** 2, kind)
    same(s * t(DENSE + 1), DENSE * (DENSE + 1), kind)
    same(t(np.ones((2, 3))) + s, DENSE + 1)
    other = tc.sparse_coo_tensor([[0, 1], [0, 2]], [7.0, 2.0], (2, 3))
    same(make() * other, DENSE * np.array([[7, 0, 0], [0, 0, 2]]), kind)
    same(s * tc.sparse_coo_tensor((2, 3)), DENSE * 0, kind)
    same(s.t(), DENSE.T, {tc.sparse_csr: tc.sparse_csc}.get(kind, kind))
    same(s.transpose(0, 1).transpose(1, 0), DENSE, kind)


def test_sums_and_softmax():
    same(sparse.sum(coo()), DENSE.sum())
    same(sparse.sum(coo(), 0), DENSE.sum(0), tc.sparse_coo)
    same(sparse.sum(coo(), 1), DENSE.sum(1), tc.sparse_coo)
    same(sparse.sum(coo(), (0, 1), keepdim=True), [[DENSE.sum()]])
    blocks = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, -1.0]])
    mixed = t(blocks).to_sparse(1)
    same(sparse.sum(mixed, 1), blocks.sum(1), tc.sparse_coo)
    same(sparse.sum(mixed, 0), blocks.sum(0))
    masked = np.where(DENSE == 0, -np.inf, DENSE)
    shares = np.exp(masked - masked.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    same(sparse.softmax(coo(), 1), shares, tc.sparse_coo)
    same(sparse.log_softmax(coo(), 1), np.log(np.where(shares == 0, 1, shares)), tc.sparse_coo)
    exact = np.exp(blocks[[0, 2]])
    same(sparse.softmax(mixed, 1).values(), exact / exact.sum(1, keepdims=True))
    vector = t([1.0, 0.0, 2.0]).to_sparse()
    same(sparse.softmax(vector, 0).values(), np.exp([1, 2]) / np.exp([1, 2]).sum())


@pytest.mark.parametrize("make", [coo, csr])
def test_products(make):
    s, d = make(), t(RIGHT)
    same(sparse.mm(s, d), DENSE @ RIGHT)
    same(s @ d, DENSE @ RIGHT)
    same(s @ t(RIGHT[:, 0]), DENSE @ RIGHT[:, 0])
    same(t(RIGHT[:2].T @ np.eye(2)) @ s, RIGHT[:2].T @ DENSE)
    same(sparse.mm(s, s.t()), DENSE @ DENSE.T, s.layout)
    same(sparse.addmm(t(np.ones((2, 2))), s, d, beta=2, alpha=3), 2 + 3 * DENSE @ RIGHT)
    same(f.addmm(t(np.ones((2, 2))), s, d), 1 + DENSE @ RIGHT)
    same(sparse.mm(s.to_sparse_csr(), d, "amax"), np.array(
        [4 * RIGHT[2], np.maximum(4 * RIGHT[0], 5 * RIGHT[2])]))
    same(sparse.mm(s.to_sparse_csr(), d, "mean"), np.array([4 * RIGHT[2], (4 * RIGHT[0] + 5 * RIGHT[2]) / 2]))
    left, right = RIGHT[:2], RIGHT.T
    sampled = sparse.sampled_addmm(csr(), t(left), t(right), beta=2, alpha=0.5)
    same(sampled, np.where(DENSE != 0, 2 * DENSE + 0.5 * left @ right, 0), tc.sparse_csr)


def test_gradients(place):
    if place == "ref":
        pytest.skip("the same formulas; once is enough")
    values = tc.tensor(VALUES, dtype=tc.float64, requires_grad=True)
    right = tc.tensor(RIGHT, requires_grad=True)

    def made(v):
        return tc.sparse_coo_tensor(PLACES, v, (2, 3))

    assert gradcheck(lambda v, d: sparse.mm(made(v), d), (values, right))
    assert gradcheck(lambda v: sparse.mm(made(v), made(v).t()).to_dense(), (values,))
    assert gradcheck(lambda v: sparse.softmax(made(v), 1).to_dense(), (values,))
    assert gradcheck(lambda v: (made(v) * made(v)).to_dense(), (values,))
    assert gradcheck(lambda v: sparse.sum(made(v).to_sparse_csr(), 0).to_dense(), (values,))
    assert gradcheck(lambda d: (d.to_sparse() * 3).to_dense(), (right,))
    assert gradcheck(lambda v, a, b: sparse.sampled_addmm(made(v).to_sparse_csr(), a, b).to_dense(),
                     (values, *(x.detach().clone().requires_grad_() for x in (right[:2], right.mT))))


def test_gradients_of_sparse_leaves():
    s = coo(requires_grad=True)
    assert s.is_leaf
    assert s.grad is None
    (sparse.mm(s, t(RIGHT)) * t([[1.0, 0.0], [0.0, 1.0]])).sum().backward()
    assert s.grad.is_sparse
    same(s.grad, np.where(DENSE != 0, np.stack([RIGHT[:, 0], RIGHT[:, 1]]), 0), tc.sparse_coo)
    s.grad = None
    assert s.grad is None
    assert not s.detach().requires_grad
    assert s.detach().requires_grad_().requires_grad
    rows = tc.sparse_csr_tensor([0, 1], [0], [2.0], requires_grad=True)
    sparse.sum(rows * 3).backward()
    same(rows.grad, [[3.0]], tc.sparse_csr)
    double = rows * 2
    assert double.grad_fn is not None
    double.backward(rows.detach())


class RowsOfSum(Function):
    """A sum whose gradient claims to be one at the stored places alone."""

    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return tc.sparse_coo_tensor(PLACES, VALUES, (2, 3)) * grad.item()


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(("kinds", "expected", "is_sparse"), [
    ("s", DENSE, True), ("ss", 2 * DENSE, True), ("sd", DENSE + 3, False), ("ds", DENSE + 3, False),
    ("dss", 2 * DENSE + 3, False),
])
def test_sparse_gradients_of_dense_leaves(kinds, expected, is_sparse, create_graph):
    x = tc.ones((2, 3), requires_grad=True)
    for kind in kinds:
        (RowsOfSum.apply(x) if kind == "s" else (x * 3).sum()).backward(create_graph=create_graph)
    assert x.grad.is_sparse == is_sparse
    dense = x.grad.to_dense() if is_sparse else x.grad
    np.testing.assert_array_equal(dense.detach().tolist(), expected)


def test_dense_gradients_take_sparse_ones_in_place():
    x = tc.ones((2, 3), requires_grad=True)
    (x * 3).sum().backward()
    held = x.grad
    RowsOfSum.apply(x).backward()
    assert x.grad is held
    np.testing.assert_array_equal(held.tolist(), DENSE + 3)


def test_the_first_sparse_gradient_is_a_copy():
    given = coo()

    class Given(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            return given

    x = tc.ones((2, 3), requires_grad=True)
    Given.apply(x).backward()
    given.stored.zero_()
    np.testing.assert_array_equal(x.grad.to_dense().tolist(), DENSE)


def test_gradients_with_respect_to_sparse_tensors():
    s = csr().detach().requires_grad_()
    right = t(RIGHT, grad=True)
    weight = np.array([[1.0, -2.0], [0.5, 3.0]])
    of_sparse, of_dense = tc.autograd.grad(sparse.mm(s, right), (s, right), t(weight))
    same(of_sparse, np.where(DENSE != 0, weight @ RIGHT.T, 0), tc.sparse_csr)
    assert np.allclose(of_dense.tolist(), DENSE.T @ weight)
    # Every one of several values at a position has the gradient of their sum.
    twice = tc.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, 3.0], (3,), requires_grad=True)
    (found,) = tc.autograd.grad(twice.to_dense(), twice, tc.tensor([1.0, 2.0, 3.0]))
    assert found.to_dense().tolist() == [1.0, 2.0, 0.0]
    (found,) = tc.autograd.grad(s * 3, s, s.detach())
    same(found, 3 * DENSE, tc.sparse_csr)
    with pytest.raises(AutogradError, match="gradients are taken with respect to tensors that require grad"):
        tc.autograd.grad(sparse.mm(s, right).sum(), csr())


def test_presentation_and_copies():
    text = repr(coo())
    assert text.startswith("tensor(indices=tensor([[0, 1, 1, 0],")
    assert text.endswith("size=(2, 3), nnz=4, layout=tensocket.sparse_coo)")
    assert "crow_indices" in repr(csr())
    assert "requires_grad=True" in repr(coo(requires_grad=True))
    assert "grad_fn=<" in repr(coo(requires_grad=True) * 2)
    for made in (coo(requires_grad=True), csr()):
        for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
            same(again, DENSE, made.layout)
            assert again.requires_grad == made.requires_grad


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: coo().indices(), ArgumentError, "positions of a coalesced tensor appear once"),
    (lambda: coo().crow_indices(), ArgumentError, "crow_indices expected sparse row compressed tensor"),
    (lambda: csr().coalesce(), ArgumentError, "coalesce expected sparse coordinate tensor layout but got SparseCsr"),
    (lambda: tc.ones(2).coalesce(), ArgumentError, "coalesce expected sparse coordinate tensor layout but got Strided"),
    (lambda: tc.ones(2).indices(), ArgumentError, "indices expected sparse coordinate tensor layout but got Strided"),
    (lambda: tc.ones(2).to_sparse().to_sparse_csr(), ArgumentError, "the layout sparse_csr is one of matrices"),
    (lambda: tc.ones(2).to_sparse(2), ArgumentError, "at least one and at most all dimensions are sparse"),
    (lambda: coo().to_sparse(layout=tc.strided), ArgumentError, "the layout is a sparse one"),
    (lambda: tc.sparse_compressed_tensor([0, 1], [0], [1.0], layout=tc.sparse_coo), ArgumentError,
     "the layout is sparse_csr, sparse_csc, sparse_bsr or sparse_bsc"),
    (lambda: tc.sparse_coo_tensor([0, 1], [1.0, 2.0]), ShapeError,
     r"indices are \[sparse dimensions, nnz\] and values \[nnz, ...\]"),
    (lambda: tc.sparse_coo_tensor([[0]], [1.0], (2, 2)), ShapeError,
     "the size has the sparse dimensions, then those of a value"),
    (lambda: tc.sparse_coo_tensor([[5]], [1.0], (2,)), IndexOutOfRange,
     "positions are from 0 to the size of their dimension"),
    (lambda: tc.sparse_csr_tensor([0, 1], [0], [1.0], (3, 1)), ShapeError,
     "there is one more start than rows, and as many plain indices as values"),
    (lambda: tc.sparse_csr_tensor([0, 2], [0], [1.0], (1, 1)), ArgumentError,
     "row starts ascend from 0 to the number of values"),
    (lambda: tc.ones(2).sparse_mask(coo()), ShapeError, "mask and tensor have one shape"),
    (lambda: coo().exp(), UnsupportedOperator, "the operator has no rule for sparse tensors"),
    (lambda: coo() + tc.sparse_coo_tensor((3, 3)), ShapeError, "sparse operands have one shape"),
    (lambda: coo() + tc.ones(2, 3).to_sparse(1), ShapeError, "sparse operands have as many sparse dimensions"),
    (lambda: coo() + 1, ArgumentError, "sums with numbers have no zeros"),
    (lambda: coo() / coo(), ArgumentError, "sparse tensors are divided by numbers"),
    (lambda: coo() ** -1, ArgumentError, "powers of zeros are 0 for positive exponents"),
    (lambda: tc.ones(2, 3).to_sparse(1).t(), DimensionError, "a sparse dimension is exchanged with a sparse one"),
    (lambda: tc.ones(1, 1, 1).to_sparse().t(), ShapeError, "t is for at most 2 dimensions"),
    (lambda: coo() @ coo(), ShapeError,
     "a matrix has as many columns as what it is multiplied with has rows"),
    (lambda: tc.ones(3, 3).to_sparse(1) @ tc.ones(3, 3), ShapeError, "both dimensions of a matrix are sparse"),
    (lambda: sparse.mm(coo(), tc.ones(3, 1), "x"), ArgumentError,
     "products are reduced by 'sum', 'mean', 'amax' or 'amin'"),
    (lambda: sparse.mm(coo(), coo().t(), "mean"), ArgumentError, "other reductions are those of sparse times dense"),
    (lambda: sparse.sampled_addmm(coo(), tc.ones(2, 2), tc.ones(2, 3)), ArgumentError,
     "the input has layout sparse_csr"),
    (lambda: sparse.sampled_addmm(csr(), tc.ones(2, 2), tc.ones(2, 2)), ShapeError,
     "the input has the product's shape"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---------------------------------------------------------------------------------------- geometry, parts, in place


def hybrid(shape=(4, 3, 5), count=2, nnz=7, seed=0):
    """A tensor with ``count`` sparse dimensions, positions that repeat, and its dense value in NumPy."""
    rng = np.random.default_rng(seed)
    places = np.stack([rng.integers(0, n, nnz) for n in shape[:count]])
    values = rng.standard_normal((nnz, *shape[count:]))
    dense = np.zeros(shape)
    np.add.at(dense, tuple(places), values)
    return tc.sparse_coo_tensor(places.tolist(), t(values), shape), dense


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_of_hybrid_tensors(count):
    s, dense = hybrid(count=count)
    for axis in range(3):
        for index in (0, -1):
            part = s.select(axis, index)
            same(part.to_dense() if part.is_sparse else part, np.take(dense, index, axis))
        same(s.index_select(axis, tc.tensor([1, 0, 1])).to_dense(), np.take(dense, [1, 0, 1], axis))
        same(s.narrow_copy(axis, 1, 2).to_dense(), np.take(dense, [1, 2], axis))
        same(f.cat([s, s * 2], axis).to_dense(), np.concatenate([dense, 2 * dense], axis))
    for axis in range(4):
        same(s.unsqueeze(axis).to_dense(), np.expand_dims(dense, axis))
        same(f.stack([s, s], axis).to_dense(), np.stack([dense, dense], axis))
        same(s.unsqueeze(axis).squeeze(axis).to_dense(), dense)
    same(s[1, ..., 2:4].to_dense() if s[1, ..., 2:4].is_sparse else s[1, ..., 2:4], dense[1, ..., 2:4])
    same(s[None].to_dense(), dense[None])


def test_permute_keeps_sparse_dimensions_in_front():
    s, dense = hybrid(shape=(4, 3, 5, 2))
    same(s.permute(1, 0, 3, 2).to_dense(), dense.transpose(1, 0, 3, 2))
    with pytest.raises(ShapeError, match="sparse dimensions stay in front"):
        s.permute(2, 0, 1, 3)
    with pytest.raises(ShapeError, match="every dimension appears once"):
        s.permute(0, 0, 1, 2)


@pytest.mark.parametrize("shape", [(4, 3, 5), (5,), (1, 5), (3, 1), (2, 4, 3, 5), ()])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_products_broadcast(shape, count):
    s, dense = hybrid(count=count)
    other = np.random.default_rng(1).standard_normal(shape)
    same((s * t(other)).to_dense(), dense * other)
    same((t(other) * s).to_dense(), dense * other)
    if len(shape) == 3:
        same((s * t(other).to_sparse(count)).to_dense(), dense * other)


def test_writes():
    s, dense = hybrid()
    same(s.clone().mul_(3).to_dense(), 3 * dense)
    same(s.clone().add_(s).to_dense(), 2 * dense)
    same(s.clone().neg_().to_dense(), -dense)
    same(s.coalesce().sin_().to_dense(), np.sin(dense))
    same(s.clone().copy_(s * 5).to_dense(), 5 * dense)
    same(s.clone().zero_().to_dense(), 0 * dense)
    same(t(dense).mul_(s), dense * dense)
    same(s.clone().sparse_resize_((6, 3, 5), 2, 1).to_dense(), np.pad(dense, ((0, 2), (0, 0), (0, 0))))
    grown, flat = s.clone().sparse_resize_((6, 3, 7), 2, 1), np.zeros(s._nnz() * 7)
    flat[:s._nnz() * 5] = np.array(s._values().tolist()).reshape(-1)  # values grow as memory does
    same(grown._values(), flat.reshape(-1, 7))
    with pytest.raises(ArgumentTypeError, match="parts of sparse tensors are not written"):
        s[0] = 1


def test_factories():
    s, _ = hybrid()
    made = tc.zeros((2, 3), layout=tc.sparse_coo)
    assert (made.layout, made._nnz(), made.sparse_dim()) == (tc.sparse_coo, 0, 2)
    assert s.new_empty((2, 2)).is_sparse
    assert tc.zeros_like(s).dense_dim() == 1
    same(tc.ones_like(s, layout=tc.strided), np.ones((4, 3, 5)))
    with pytest.raises(ArgumentError, match="tensors are strided"):
        tc.ones((2, 3), layout=tc.sparse_coo)


@pytest.mark.parametrize("layout", [tc.sparse_coo, tc.sparse_csr])
def test_spdiags(layout):
    diagonals = np.arange(1.0, 16).reshape(3, 5)
    expected = np.zeros((4, 6))
    for row, offset in zip(diagonals, (0, 2, -1), strict=True):
        for column, value in enumerate(row):
            if 0 <= column - offset < 4:
                expected[column - offset, column] = value
    same(sparse.spdiags(t(diagonals), tc.tensor([0, 2, -1]), (4, 6), layout), expected, layout)
    with pytest.raises(ArgumentError, match="offsets are int64 and different"):
        sparse.spdiags(t(diagonals), tc.tensor([0, 2, 2]), (4, 6))


def test_products_with_sparse_results():
    s, left = hybrid(shape=(4, 3), count=2)
    right = np.random.default_rng(3).standard_normal((3, 5))
    for product in (sparse.smm, sparse.hspmm):
        same(product(s, t(right)).to_dense(), left @ right)
    start, base = hybrid(shape=(4, 5), count=2, seed=4)
    same(sparse.sspaddmm(start, s, t(right), beta=2, alpha=3).to_dense(), 2 * base + 3 * left @ right)
    batch, dense = hybrid(shape=(2, 4, 3), count=3, seed=5)
    other = np.random.default_rng(6).standard_normal((2, 3, 5))
    same(batch.bmm(t(other)), dense @ other)
    with pytest.raises(DtypeError, match="one dtype"):
        sparse.mm(s, t(right).double())


def test_gradients_of_parts_and_products():
    s, dense = hybrid(shape=(4, 3), count=2)
    s = s.coalesce().detach().double().requires_grad_()
    other = np.random.default_rng(7).standard_normal((4, 3))
    (s.select(0, 1).to_dense().sum() + (s * tc.tensor(other.tolist(), dtype=tc.float64)).to_dense().sum()).backward()
    expected = other + np.array([[0.0], [1], [0], [0]])
    same(s.grad.to_dense(), np.where(dense != 0, expected, 0))


@pytest.mark.parametrize(("call", "kind", "rule"), [
    (lambda s: s.numpy(), ArgumentTypeError, "arrays are dense"),
    (lambda s: s.norm(dim=0), ArgumentError, "norms of sparse tensors are those of all elements"),
    (lambda s: s.norm(1), ArgumentError, "norms of sparse tensors are those of Frobenius"),
    (lambda s: bool(s), ArgumentError, "the truth of one element is defined"),
    (lambda s: sparse.spdiags(tc.ones(2, 3), tc.tensor([0]), (3, 3)), ShapeError,
     "there is an offset for each diagonal, and the shape is a matrix's"),
    (lambda s: sparse.spdiags(tc.ones(1, 3), tc.tensor([0]), (3, 3), tc.strided), ArgumentError,
     "the layout is sparse_coo, sparse_csr or sparse_csc (only output layouts of these)"),
    (lambda s: tc.sparse_coo_tensor(PLACES, VALUES, (2, 3), is_coalesced=True), ArgumentError,
     "a coalesced tensor has each position once, in order"),
    (lambda s: tc.sparse_coo_tensor([[0]] * 3, [1.0], (1 << 22, 1 << 22, 1 << 22)), ShapeError,
     "positions are counted by 63 bits"),
    (lambda s: s.new((2,), device="nowhere"), ArgumentTypeError, "the new tensor lies on the same device"),
    (lambda s: tc.ones_like(s), ArgumentError, "a tensor whose elements are not zeros is strided"),
    (lambda s: tc.zeros_like(s, memory_format=tc.channels_last), ArgumentError,
     "memory format option is only supported by strided tensors"),
    (lambda s: s.copy_(s[:1]), ShapeError, "sparse tensors are not broadcast when they are copied"),
    (lambda s: tc.ones((4, 3, 5), dtype=tc.int64).mul_(s), DtypeError,
     "what is written can be cast to the tensor's dtype"),
    (lambda s: s.copy_(s.to_dense()), ArgumentError, "both have one layout"),
    (lambda s: tc.ones(5).mul_(s), ShapeError, "what is written has the tensor's shape"),
    (lambda s: s.sin_(), ArgumentError, "values at one position are added before they are mapped"),
    (lambda s: s.bmm(tc.ones(4, 5, 2)), ShapeError, "a sparse batch [b, m, n] is multiplied by a dense one [b, n, k]"),
    (lambda s: s.sparse_resize_((4, 3, 5), 1, 1), ShapeError, "a size has as many numbers as both together"),
    (lambda s: s.sparse_resize_and_clear_((4, 3, 5), 1, 1), ShapeError, "a size has as many numbers as both together"),
    (lambda s: s.sparse_resize_((2, 3, 5), 2, 1), ShapeError, "its sizes grow"),
    (lambda s: s.sparse_resize_((4, 3), 2, 0), ShapeError, "a tensor with values keeps it"),
    (lambda s: s.expand(4, 3, 6), ShapeError, "sizes are the same or 1"),
    (lambda s: f.cat([s, s[:, :2]]), ShapeError, "all but the concatenated dimension are the same"),
    (lambda s: f.cat([s, s.to_dense()]), ArgumentError, "sparse tensors are concatenated with sparse ones"),
    (lambda s: s[::2], UnsupportedOperator,
     "sparse tensors are indexed by numbers, slices without steps, None and vectors of integers"),
    (lambda s: s.narrow_copy(0, 3, 3), ShapeError, "the part lies inside of the dimension"),
    (lambda s: s.narrow_copy(-1, 0, 3), ShapeError, "dimensions of sparse tensors are counted from the first one"),
    (lambda s: s.index_select(0, tc.tensor([4])), IndexOutOfRange, "indices are from -4 to 3"),
    (lambda s: s.index_select(0, tc.tensor([1.0])), ShapeError, "an index is a vector of integers"),
    (lambda s: s.select(0, 4), IndexOutOfRange, "an index is from -4 to 3"),
    (lambda s: s.permute(2, 0, 1), ShapeError, "sparse dimensions stay in front of dense ones"),
    (lambda s: s.detach().requires_grad_().mul_(2), AutogradError,
     "leaves that require grad keep their values while gradients are recorded"),
    (lambda s: s.long().coalesce().sin_(), DtypeError, "what is written can be cast to the tensor's dtype"),
])
def test_rules_of_parts_and_writes(call, kind, rule):
    s, _ = hybrid()
    with pytest.raises(kind) as caught:
        call(s)
    assert f" — {rule} — " in str(caught.value)
