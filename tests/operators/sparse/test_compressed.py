"""Compressed layouts against SciPy in float64, dense NumPy, and differences."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators import sparse
from tensocket_operators.differentiation.gradcheck import gradcheck
from tensocket_plugins.contract.errors import (
    ArgumentError,
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
    UnsupportedOperator,
)

pytestmark = pytest.mark.usefixtures("place")
scipy = pytest.importorskip("scipy.sparse")
RANDOM = np.random.default_rng(11)
DENSE = RANDOM.standard_normal((6, 4)) * (RANDOM.random((6, 4)) < 0.4)
OTHER = RANDOM.standard_normal((6, 4)) * (RANDOM.random((6, 4)) < 0.4)
RIGHT = RANDOM.standard_normal((4, 3))
KINDS = ("sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def t(array, **options):
    return tc.tensor(np.asarray(array).tolist(), dtype=tc.float64, **options)


def made(kind, array=DENSE, block=(2, 2), **options):
    given = {"blocksize": block} if kind.startswith("sparse_b") else {}
    return t(array).to_sparse(layout=getattr(tc, kind), **given, **options)


def same(tensor, expected, kind=None):
    if kind is not None:
        assert tensor.layout is getattr(tc, kind)
        tensor = tensor.to_dense()
    np.testing.assert_allclose(np.array(tensor.detach().tolist()).reshape(tuple(tensor.shape)), expected, 1e-12, 1e-12)


def parts(tensor):
    rows = tensor.layout in (tc.sparse_csr, tc.sparse_bsr)
    return ((tensor.crow_indices(), tensor.col_indices()) if rows else (
        tensor.ccol_indices(), tensor.row_indices())) + (tensor.values(),)


def test_parts_are_those_of_scipy():
    for kind, expected in (("sparse_csr", scipy.csr_matrix(DENSE)), ("sparse_csc", scipy.csc_matrix(DENSE)),
                           ("sparse_bsr", scipy.bsr_matrix(DENSE, blocksize=(2, 2)))):
        expected.sort_indices()
        for x, y in zip(parts(made(kind)), (expected.indptr, expected.indices, expected.data), strict=True):
            same(x, y)
        assert made(kind)._nnz() == len(expected.indices)
    turned = scipy.bsr_matrix(np.ascontiguousarray(DENSE.T), blocksize=(2, 2))
    turned.sort_indices()
    expected = (turned.indptr, turned.indices, turned.data.swapaxes(1, 2))
    for x, y in zip(parts(made("sparse_bsc")), expected, strict=True):
        same(x, y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("lead", "dense"), [((), ()), ((2,), ()), ((), (3,)), ((2, 1), (2,))])
def test_conversions(kind, lead, dense):
    mask = RANDOM.permuted(np.arange(24) < 8).reshape(6, 4)
    array = np.where(mask.reshape(6, 4, *(1 for _ in dense)), RANDOM.standard_normal((*lead, 6, 4, *dense)), 0)
    s = made(kind, array, dense_dim=len(dense))
    assert (s.sparse_dim(), s.dense_dim(), tuple(s.shape)) == (2, len(dense), array.shape)
    same(s, array, kind)
    same(s.to_sparse(), array, "sparse_coo")
    same(s.clone(), array, kind)
    starts, others, values = parts(s)
    again = tc.sparse_compressed_tensor(starts, others, values, tuple(s.shape), layout=s.layout)
    same(again, array, kind)
    same(getattr(tc, f"{kind}_tensor")(starts, others, values, tuple(s.shape)), array, kind)
    same(s.transpose(len(lead), len(lead) + 1).to_dense(), array.swapaxes(len(lead), len(lead) + 1))
    if lead:
        same(s[1], array[1], kind)
    if dense:
        same(s.select(-1, 1), array[..., 1], kind)


@pytest.mark.parametrize(("old", "new"), [pair for pair in itertools.product(KINDS, KINDS) if not (
    pair[0].startswith("sparse_b") and not pair[1].startswith("sparse_b"))])
def test_layouts_are_converted_into_each_other(old, new):
    given = {"blocksize": (2, 2)} if new.startswith("sparse_b") else {}
    same(made(old).to_sparse(layout=getattr(tc, new), **given), DENSE, new)
    same(made("sparse_csr").to_sparse().to_sparse(layout=getattr(tc, new), **given), DENSE, new)


@pytest.mark.parametrize("kind", KINDS)
def test_operators(kind):
    s, d = made(kind), t(RIGHT)
    same(s @ d, DENSE @ RIGHT)
    same(t(RIGHT.T) @ made(kind, DENSE.T), RIGHT.T @ DENSE.T)
    same(f.mv(s, d[:, 0]), DENSE @ RIGHT[:, 0])
    same(sparse.addmm(t(np.ones((6, 3))), s, d, beta=2, alpha=3), 2 + 3 * DENSE @ RIGHT)
    same(f.addmm(t(np.full((6, 3), np.nan)), s, d, beta=0), DENSE @ RIGHT)
    same(f.addmm(t(np.full((6, 6), np.nan)), s, made(kind, OTHER.T), beta=0), DENSE @ OTHER.T)
    same(s @ made(kind, OTHER.T), DENSE @ OTHER.T, "sparse_csr")
    same(s * 2, 2 * DENSE, kind)
    same(-s, -DENSE, kind)
    same(s.sin(), np.sin(DENSE), kind)
    same(s.clone().tanh_(), np.tanh(DENSE), kind)
    same(s + made(kind, OTHER), DENSE + OTHER, kind)
    same(t(OTHER) + s, DENSE + OTHER)
    same(s * made(kind, OTHER), DENSE * OTHER, kind)
    same(s * t(OTHER), DENSE * OTHER, kind)
    same(s.sum(), DENSE.sum())
    same(f.mm(s, d, out=t(np.zeros((6, 3)))), DENSE @ RIGHT)
    assert s.to(tc.float32).dtype is tc.float32
    target = made(kind, OTHER)
    same(target.copy_(s), DENSE, kind)


def test_sums_of_rows_and_columns():
    s = made("sparse_csr")
    for dim in (0, 1, (0, 1)):
        same(s.sum(dim, keepdim=True), DENSE.sum(dim, keepdims=True), "sparse_csr")


def test_batches_are_multiplied():
    mask = RANDOM.permuted(np.arange(24) < 9).reshape(6, 4)
    array, right = RANDOM.standard_normal((3, 6, 4)) * mask, RANDOM.standard_normal((3, 4, 5))
    for kind in KINDS:
        same(f.bmm(made(kind, array), t(right)), array @ right)
        same(made(kind, array) @ t(right), array @ right)
        same(made(kind, array[0]) @ t(right), array[0] @ right)
    left, other = RANDOM.standard_normal((3, 6, 2)), RANDOM.standard_normal((3, 2, 4))
    sampled = sparse.sampled_addmm(made("sparse_csr", array), t(left), t(other), beta=2, alpha=3)
    same(sampled, 2 * array + 3 * (left @ other) * mask, "sparse_csr")


@pytest.mark.parametrize("kind", KINDS)
def test_factories_copies_and_text(kind):
    s = made(kind)
    zeros = tc.zeros_like(s)
    assert (zeros._nnz(), zeros.layout, tuple(zeros.shape)) == (0, s.layout, (6, 4))
    if kind == "sparse_csr":
        assert tc.zeros_like(s, layout=tc.sparse_csc).layout is tc.sparse_csc
    assert tc.empty_like(s)._nnz() == s._nnz()
    assert set(np.array(tc.ones_like(s).values().tolist()).ravel()) == {1.0}
    same(copy.deepcopy(s), DENSE, kind)
    same(pickle.loads(pickle.dumps(s)), DENSE, kind)
    assert repr(s).endswith(f".{kind})")
    assert ("crow_indices=tensor(" in repr(s)) == (kind in ("sparse_csr", "sparse_bsr"))
    if not kind.startswith("sparse_b"):
        empty = tc.empty((2, 3, 4), layout=s.layout)
        assert [tuple(x.shape) for x in parts(empty)] == [(2, 4 if kind == "sparse_csr" else 5), (2, 0), (2, 0)]


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind):
    s, d = made(kind).requires_grad_(), t(RIGHT, requires_grad=True)
    for masked in (True, False):
        assert gradcheck(lambda x, masked=masked: x.to_dense(masked_grad=masked) ** 2, (s,), masked=masked,
                         fast_mode=True)
        assert gradcheck(lambda x, y: x @ y, (s, d), masked=masked, fast_mode=True)
    (grad,) = tc.autograd.grad(sparse.mm(s, d), s, t(np.ones((6, 3))))
    assert grad.layout is s.layout
    pattern = made(kind, np.ones((6, 4))) if kind.startswith("sparse_b") else None
    full = np.ones((6, 3)) @ RIGHT.T
    blocks = np.kron(np.abs(DENSE).reshape(3, 2, 2, 2).sum((1, 3)) != 0, np.ones((2, 2)))
    same(grad.to_dense(), full * ((DENSE != 0) if pattern is None else blocks))
    values = s.detach().values().clone().requires_grad_()
    starts, others, _ = parts(s.detach())
    tc.sparse_compressed_tensor(starts, others, values, (6, 4), layout=s.layout).sum().backward()
    same(values.grad, np.ones(tuple(values.shape)))


def test_invariants():
    bad = ([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2))
    with pytest.raises(IndexOutOfRange, match="plain indices are from 0 to the size of their dimension"):
        tc.sparse_csr_tensor(*bad)
    check = sparse.check_sparse_tensor_invariants
    assert not check.is_enabled()
    with check(False):
        assert tc.sparse_csr_tensor(*bad)._nnz() == 2
        with pytest.raises(IndexOutOfRange):
            tc.sparse_csr_tensor(*bad, check_invariants=True)
        with check():
            assert check.is_enabled()
            with pytest.raises(IndexOutOfRange):
                tc.sparse_coo_tensor([[3]], [1.0], (2,))
    active = check()
    with active, pytest.raises(ArgumentError, match="an instance is active once"):
        active.__enter__()
    assert check(False)(lambda: tc.sparse_coo_tensor([[3]], [1.0], (2,)))()._nnz() == 1
    check.enable()
    assert check.is_enabled()
    check.disable()
    check._enabled = None


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: tc.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2)), ArgumentError,
     "row starts ascend from 0 to the number of values"),
    (lambda: tc.sparse_csr_tensor([0, 2, 2], [1, 1], [1.0, 2.0], (2, 2)), ArgumentError,
     "plain indices of a row are sorted and distinct"),
    (lambda: tc.sparse_csr_tensor([[0]], [0], [1.0], (2, 2)), ShapeError,
     "indices have one dimension more than batches, and values fit them"),
    (lambda: tc.sparse_csr_tensor([0, 1], [0], [1.0], (3, 1)), ShapeError,
     "there is one more start than rows, and as many plain indices as values"),
    (lambda: tc.sparse_csr_tensor(tc.tensor([0, 0]).int(), tc.tensor([], dtype=tc.int64), [], (1, 1)), DtypeError,
     "compressed and plain indices are both int32 or both int64"),
    (lambda: tc.sparse_bsr_tensor([0, 1], [0], [[[1.0], [2.0]]], (3, 1)), ShapeError, "blocks divide the matrix"),
    (lambda: tc.sparse_csr_tensor(3, [0], [1.0]), ShapeError, "compressed indices must have dimensionality >= 1"),
    (lambda: tc.sparse_csr_tensor([0, 1], [0], [1.0], layout=tc.sparse_coo), ArgumentError, "the layout is sparse_csr"),
    (lambda: t(DENSE).to_sparse_bsr((4, 2)), ShapeError, "blocks divide the matrix"),
    (lambda: t(DENSE).to_sparse_bsr((0, 2)), ArgumentError, "a block has at least a row and a column"),
    (lambda: t(DENSE).to_sparse(layout=tc.sparse_bsc), ArgumentError, "layouts of blocks have a size of these"),
    (lambda: t(DENSE).to_sparse(layout=tc.sparse_csr, blocksize=(1, 1)), ArgumentError,
     "only sparse_bsr and sparse_bsc have blocks"),
    (lambda: t(DENSE).to_sparse(1, layout=tc.sparse_csr), ArgumentError, "sparse_dim stands alone"),
    (lambda: made("sparse_csr").to_sparse(1), ArgumentError, "kinds of dimensions stay"),
    (lambda: made("sparse_bsr").to_sparse_csr(), ArgumentError, "blocks stay"),
    (lambda: t(np.ones(3)).to_sparse_csr(), ArgumentError, "compressed layouts are those of matrices"),
    (lambda: made("sparse_csr", np.stack([DENSE, 0 * DENSE])), ArgumentError,
     "a compressed layout stores as many elements of every matrix of a batch"),
    (lambda: made("sparse_csr", np.stack([DENSE, DENSE])).transpose(0, 1), DimensionError,
     "dimensions of one kind are exchanged"),
    (lambda: made("sparse_bsr").select(0, 1), ArgumentError, "rows of blocks have no layout"),
    (lambda: t(DENSE).values(), ArgumentError, "only sparse tensors have positions"),
    (lambda: t(DENSE).to_sparse().norm(dtype=tc.float32), ArgumentError,
     "dtype argument is not supported in frobenius norm"),
    (lambda: tc.zeros_like(t(DENSE), layout=tc.sparse_coo), UnsupportedOperator,
     "a tensor like a strided one is strided"),
    (lambda: t(DENSE).to_sparse().to_sparse_bsr(None), ArgumentError, "layouts of blocks have a size of these"),
    (lambda: t(np.ones(3)).to_sparse().to_sparse_csr(), ArgumentError,
     "the layout sparse_csr is one of matrices and of batches of them"),
    (lambda: made("sparse_csr").sum(0), ArgumentError, "sums of layout sparse_csr keep the dimensions"),
    (lambda: made("sparse_csr", np.stack([DENSE, DENSE])).sum(0, keepdim=True), ShapeError,
     "sums of layout sparse_csr are those of matrices"),
    (lambda: tc.empty((4, 4), layout=tc.sparse_bsr), ArgumentError,
     "layouts without blocks can be empty, and their tensors are matrices"),
    (lambda: tc.zeros_like(made("sparse_csr"), layout=tc.sparse_coo), ArgumentError,
     "empty_like with different sparse layout is not supported"),
    (lambda: f.mm(made("sparse_csr"), t(RIGHT), out=made("sparse_csr")), ArgumentError, "both have one layout"),
    (lambda: f.mm(made("sparse_csr"), t(RIGHT), out=tc.zeros(6, 3, dtype=tc.int64)), DtypeError,
     "what is written can be cast to the tensor's dtype"),
])
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert f" — {message} — " in str(caught.value)


@pytest.mark.parametrize("kind", ["sparse_bsr", "sparse_bsc"])
def test_one_number_is_the_size_of_square_blocks(kind):
    array = np.arange(16.0).reshape(4, 4)
    tensor = getattr(t(array), f"to_{kind}")(2)
    same(tensor, array, kind)
    assert tensor.values().shape == (4, 2, 2)


def test_unsorted_indices_of_a_row_are_sorted_unless_a_program_asks_for_checks():
    values = tc.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    parts = ([0, 2, 4], [2, 0, 1, 0])
    matrix = tc.sparse_csr_tensor(*map(tc.tensor, parts), values, (2, 3))
    assert matrix.to_dense().tolist() == [[2.0, 0.0, 1.0], [4.0, 3.0, 0.0]]
    (matrix @ tc.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert values.grad.tolist() == [3.0, 1.0, 2.0, 1.0]
    with pytest.raises(ArgumentError, match="indices of a row that do not ascend"):
        tc.sparse_csr_tensor(*map(tc.tensor, parts), values, (2, 3), check_invariants=True)
    with pytest.raises(ArgumentError, match="indices of a row that do not ascend"):
        tc.sparse_csr_tensor(tc.tensor([0, 2, 4]), tc.tensor([1, 1, 1, 0]), values, (2, 3))
