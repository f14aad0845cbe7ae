"""Reductions and normalisations of masked tensors, and masked operations of sparse ones, against ``numpy.ma``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket.masked import (
    _canonical_dim,
    _combine_input_and_mask,
    _input_mask,
    _output_mask,
    _reduction_identity,
    _where,
    masked_tensor,
)
from tensocket_operators.reductions.masked import identity_of
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UnsupportedOperator

DATA = np.array([[0.5, 2.0, 0.75], [3.0, 0.9, 0.6], [1.0, 7.0, 5.0]])
MASK = np.array([[True, False, True], [False, False, True], [False, False, False]])
HELD = np.ma.MaskedArray(DATA, mask=~MASK)
LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)


def in_layout(array: Any, layout: Any) -> Any:
    return torch.tensor(array) if layout is torch.strided else torch.tensor(array).to_sparse(layout=layout)


def made(layout: Any = torch.strided, data: Any = DATA, **options: Any) -> Any:
    marks = in_layout(MASK, layout)
    return masked_tensor(torch.tensor(data) if layout is torch.strided else torch.tensor(data).sparse_mask(marks),
                         marks, **options)


def check(result: Any, expected: Any) -> None:
    """A masked tensor has the values and the mask of a masked array."""
    expected = np.ma.asarray(expected)
    held = ~np.ma.getmaskarray(expected)
    assert result.get_mask().tolist() == held.tolist()
    got = np.ma.MaskedArray(np.array(result.get_data().tolist()), mask=~held)
    np.testing.assert_allclose(got.filled(0), expected.filled(0), rtol=1e-12)


def _norm(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.ma.sqrt((x * x).sum(axis, keepdims=keepdims))


def _spread(name: str) -> Any:
    return lambda x, axis=None, keepdims=False: getattr(x, name)(axis, keepdims=keepdims, ddof=0)


_FOLDS: Any = {
    "sum": (np.ma.sum, {}), "prod": (np.ma.prod, {}), "mean": (np.ma.mean, {}), "amax": (np.ma.max, {}),
    "amin": (np.ma.min, {}), "norm": (_norm, {}), "var": (_spread("var"), {"correction": 0}),
    "std": (_spread("std"), {"correction": 0})}


@pytest.mark.parametrize("name", _FOLDS)
def test_reductions(name: str) -> None:
    fold, options = _FOLDS[name]
    x = made()
    check(getattr(torch, name)(x, **options), fold(HELD))
    check(getattr(x, name)(dim=0, **options), fold(HELD, 0))
    check(getattr(x, name)(dim=1, keepdim=True, **options), fold(HELD, 1, keepdims=True))
    check(getattr(x, name)(dim=(0, -1), **options), fold(HELD))


@pytest.mark.parametrize("layout", LAYOUTS[1:])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin", "norm"])
def test_reductions_of_sparse_data(name: str, layout: Any) -> None:
    check(getattr(made(layout), name)(), _FOLDS[name][0](HELD))
    with pytest.raises(ArgumentTypeError, match=rf"\[{name}\].*The sparse version of {name} is not implemented.*"
                       "sparse masked tensors are reduced over all dimensions"):
        getattr(made(layout), name)(dim=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_places(layout: Any) -> None:
    assert made(layout).argmax().get_data().item() == 5 - 3  # 0.75, the third in row-major order
    assert made(layout, -DATA).argmax().get_data().item() == 0
    assert made(layout).argmin().get_data().item() == 0
    check(made().argmax(dim=1), np.ma.MaskedArray([2.0, 2.0, 0.0], mask=[False, False, True]))


def test_truth_of_all() -> None:
    truth = DATA > 0.7
    x = masked_tensor(torch.tensor(truth), torch.tensor(MASK))
    held = np.ma.MaskedArray(truth, mask=~MASK)
    check(x.all(), np.ma.all(held))
    check(x.all(dim=0), np.ma.all(held, 0))


def test_options() -> None:
    x = made()
    assert x.sum(dtype=torch.float32).dtype is torch.float32
    check(torch.norm(x, 1, 1), abs(HELD).sum(1))
    check(x.norm(p=3.0), ((HELD ** 3).sum()) ** (1 / 3))
    check(x.var(False), HELD.var())
    check(torch.var(x, 0, unbiased=False), HELD.var(0))
    check(x.std(), HELD.std(ddof=1))
    with pytest.raises(ArgumentError, match=r"\[norm\] p='nuc' of a MaskedTensor.*norms are those of vectors"):
        torch.norm(x, "nuc")


def test_normalisations() -> None:
    powers = np.ma.exp(HELD)
    check(torch.softmax(made(), 1), powers / powers.sum(1, keepdims=True))
    check(torch.log_softmax(made(), dim=0), HELD - np.ma.log(powers.sum(0, keepdims=True)))
    check(torch.nn.functional.softmax(made(), -1), powers / powers.sum(1, keepdims=True))
    x = made(requires_grad=True)
    (torch.softmax(x, 1) * torch.tensor(DATA)).sum().backward()
    shares = powers / powers.sum(1, keepdims=True)
    check(x.grad, shares * (HELD - (shares * HELD).sum(1, keepdims=True)))
    with pytest.raises(ArgumentError, match=r"\[softmax\].*MaskedTensors with sparse data do not have softmax"):
        torch.softmax(made(torch.sparse_coo), 1)


_SLOPES: Any = {
    "sum": np.ones((3, 3)), "mean": np.full((3, 3), 1 / 3), "amax": np.where(DATA == 0.75, 1.0, 0.0),
    "prod": HELD.prod() / DATA, "norm": DATA / np.sqrt((HELD ** 2).sum()),
    "var": (DATA - HELD.mean())}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", _SLOPES)
def test_gradients_of_reductions(name: str, layout: Any) -> None:
    x = made(layout, np.where(MASK, DATA, np.nan), requires_grad=True)
    getattr(x, name)().backward()
    grad = x.grad if layout is torch.strided else x.grad.to_dense()
    check(grad, np.ma.MaskedArray(_SLOPES[name], mask=~MASK))


# ------------------------------------------------------------------------------------ functions of tensocket.masked


def test_functions_take_masked_tensors() -> None:
    x = made(requires_grad=True)
    total = torch.masked.sum(x, 0)
    assert total.tolist() == HELD.sum(0).filled(0).tolist()
    (total * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    check(x.grad, np.ma.MaskedArray(np.tile([1.0, 2.0, 3.0], (3, 1)), mask=~MASK))
    np.testing.assert_allclose(torch.masked.mean(made(), 0, mask=torch.tensor(MASK)).tolist(),
                               HELD.mean(0).filled(np.nan))
    assert torch.masked.cumsum(made(), 0).tolist() == HELD.filled(0).cumsum(0).tolist()
    both = torch.masked.logaddexp(made(), made()).masked_fill(~torch.tensor(MASK), 0)
    np.testing.assert_allclose(both.tolist(), np.where(MASK, DATA + np.log(2), 0))
    with pytest.raises(ArgumentTypeError, match=r"\[masked_sum\] a MaskedTensor as mask.*"
                       r"masks are plain tensors of bools"):
        torch.masked.sum(torch.tensor(DATA), mask=made())


_SPARSE: Any = {"sum": np.ma.sum, "prod": np.ma.prod, "amax": np.ma.max, "amin": np.ma.min, "mean": np.ma.mean}


@pytest.mark.parametrize("dim", [0, 1, (0, 1), None])
@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", _SPARSE)
def test_functions_of_sparse_tensors(name: str, layout: Any, kind: Any, dim: Any) -> None:
    if name == "mean" and layout is torch.sparse_coo:
        return
    x, marks = in_layout(DATA, layout), in_layout(MASK, kind)
    expected = _SPARSE[name](HELD, dim, keepdims=True)
    got = getattr(torch.masked, name)(x, dim, keepdim=True, mask=marks)
    assert got.layout is layout
    dense = got if layout is torch.strided else got.to_dense()
    held = ~np.ma.getmaskarray(expected)
    np.testing.assert_allclose(np.where(held, np.array(dense.tolist()), 0), expected.filled(0), rtol=1e-12)
    if layout is torch.sparse_coo:
        less = getattr(torch.masked, name)(x, dim, mask=marks)
        assert tuple(less.shape) == np.ma.sum(HELD, dim).shape


def test_dense_dimensions() -> None:
    data, mask = DATA.reshape(3, 3), MASK
    x, marks = torch.tensor(data).to_sparse(1), torch.tensor(mask).to_sparse(1)
    assert torch.masked.amax(x, 1, mask=marks).to_dense().tolist()[:2] == [0.75, 0.6]
    assert torch.masked.prod(x, (0, 1), mask=marks).to_dense().item() == pytest.approx(HELD.prod())
    assert torch.masked.sum(x, 1, keepdim=True, mask=marks.to_dense()).to_dense().tolist() == [[1.25], [0.6], [0.0]]
    assert torch.masked.sum(x, 0, mask=torch.tensor(mask).to_sparse()).to_dense().tolist() == (
        HELD.sum(0).filled(0).tolist())


def test_dtypes_of_sparse_results() -> None:
    x, marks = torch.tensor([[1, 0, 3]], dtype=torch.int8).to_sparse(), torch.tensor([[True, False, True]])
    assert torch.masked.sum(x, 1, mask=marks).dtype is torch.int64
    assert torch.masked.amax(x, 1, mask=marks).dtype is torch.int8
    assert torch.masked.sum(x, 1, dtype=torch.float32).to_dense().tolist() == [4.0]
    assert torch.masked.sum(x, mask=torch.tensor([[False] * 3])).to_dense().tolist() == 0


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_gradients_of_sparse_sums(layout: Any) -> None:
    x = in_layout(DATA, layout).requires_grad_()
    torch.masked.prod(x, 1, keepdim=True, mask=torch.tensor(MASK)).to_dense().sum().backward()
    expected = np.where(MASK, HELD.prod(1, keepdims=True).filled(1) / DATA, 0)
    np.testing.assert_allclose(x.grad.to_dense().tolist(), expected, rtol=1e-12)


_coo, _csr, _marks = (torch.tensor(DATA).to_sparse(), torch.tensor(DATA).to_sparse_csr(), torch.tensor(MASK))
_REFUSED: Any = [
    (lambda: torch.masked.prod(_coo, 0), "masked.prod", "masked prod expects explicit mask for sparse_coo",
     "elements that are not stored are zeros to a fold, unless a mask leaves them out"),
    (lambda: torch.masked.amax(_csr, 0, keepdim=True), "masked.amax", "expects explicit mask for sparse_csr",
     "elements that are not stored are zeros to a fold"),
    (lambda: torch.masked.sum(_csr, 0, mask=_marks), "masked.sum", "with keepdim=False is unsupported",
     "tensors of layout sparse_csr are matrices"),
    (lambda: torch.masked.mean(_coo, 0, mask=_marks), "masked.mean", "masked mean expects strided or sparse_csr",
     "the operation is defined for some layouts"),
    (lambda: torch.masked.mean(_csr.to(torch.int64), 0, keepdim=True, mask=_marks), "masked.mean",
     "dtype int64", "means are of floating-point numbers"),
    (lambda: torch.masked.softmax(_coo, 0, mask=_marks), "masked.softmax", "masked softmax expects strided tensor",
     "the operation is defined for some layouts"),
    (lambda: torch.masked.sum(torch.tensor(DATA), mask=torch.tensor(MASK).to_sparse_csc()), "masked.sum",
     "expects strided or sparse COO or sparse CSR tensor", "masks have one of these layouts"),
    (lambda: _where(_marks.to_sparse(), _csr, 0), "masked.where", "a mask of layout",
     "mask and input have one layout and shape"),
    (lambda: _input_mask(_coo), "_input_mask", "_input_mask requires explicit mask", "a mask is given by name"),
    (lambda: _output_mask(torch.add, _coo, mask=_marks), "_output_mask", "expected masked operation",
     "the operation is a function of tensocket.masked"),
    (lambda: _output_mask("sum", _coo, mask=_marks), "_output_mask", "got str object",
     "the operation is a function of tensocket.masked"),
    (lambda: _combine_input_and_mask("sum", _coo, _marks), "_combine_input_and_mask", "got str object",
     "the operation is a function of tensocket.masked"),
]


@pytest.mark.parametrize(("call", "name", "words", "rule"), _REFUSED)
def test_errors(call: Any, name: str, words: str, rule: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(f"[{name}]") + ".*" + re.escape(words)
                       + ".* — " + re.escape(rule)):
        call()


def test_masks_have_no_more_dimensions() -> None:
    with pytest.raises(IndexError, match="got mask dimensionality higher than of the input"):
        _input_mask(torch.ones(3), mask=_marks)


# ---------------------------------------------------------------------------------------------------------- helpers


def test_canonical_masks() -> None:
    row = torch.tensor([1, 0, 1])
    expected = np.tile([True, False, True], (3, 1)).tolist()
    for x in (torch.tensor(DATA), _coo, _csr):
        for mask in (row, row.to_sparse()):
            made = _input_mask(x, mask=mask)
            assert (made.layout, made.dtype) == (x.layout, torch.bool)
            assert (made if made.layout is torch.strided else made.to_dense()).tolist() == expected


def test_masks_of_results() -> None:
    x = torch.tensor(DATA)
    assert _output_mask(torch.masked.sum, x, 0, mask=_marks).tolist() == MASK.any(0).tolist()
    assert _output_mask(torch.masked.norm, x, 2.0, (1,), keepdim=True, mask=_marks).tolist() == (
        MASK.any(1, keepdims=True).tolist())
    assert _output_mask(torch.masked.softmax, x, 0, mask=_marks[:1]).tolist() == np.tile(MASK[:1], (3, 1)).tolist()


def test_combination_with_identities() -> None:
    x = torch.tensor(DATA)
    for op, identity in ((torch.masked.sum, 0), (torch.prod, 1), (torch.masked.amax, -np.inf),
                         (torch.Tensor.amin, np.inf)):
        assert _combine_input_and_mask(op, x, _marks).tolist() == np.where(MASK, DATA, identity).tolist()
        assert _combine_input_and_mask(op, made(), None).tolist() == np.where(MASK, DATA, identity).tolist()
    assert _combine_input_and_mask(torch.masked.norm, x, _marks, -1).isinf().tolist() == (~MASK).tolist()
    assert _combine_input_and_mask(torch.masked.sum, x, None) is x


def test_identities() -> None:
    byte, short, wide = (torch.tensor(0, dtype=d) for d in (torch.uint8, torch.int16, torch.float32))
    assert [_reduction_identity(n, short).item() for n in ("sum", "prod", "amax", "argmin", "logsumexp")] == [
        0, 1, -32768, 32767, -32768]
    assert [_reduction_identity(n, byte).item() for n in ("amax", "amin")] == [0, 255]
    assert _reduction_identity("masked.norm", wide, float("-inf")).item() == np.inf
    assert np.isnan(_reduction_identity("median", short).item())
    assert [_reduction_identity(n, wide) for n in ("mean", "var", "std")] == [None] * 3
    with pytest.raises(UnsupportedOperator, match=r"\[argsort\].*identity of argsort.*"
                       r"only reductions have an identity"):
        _reduction_identity("argsort", wide)
    with pytest.raises(ArgumentError, match=r"\[masked.mean\].*the operation has no identity"):
        identity_of("mean", torch.float32)


def test_dimensions() -> None:
    assert [_canonical_dim(d, 3) for d in (None, (), 1, -1, (2, 0))] == [(0, 1, 2), (0, 1, 2), (1,), (2,), (0, 2)]
    assert _canonical_dim(0, 0) == (0,)
    with pytest.raises(IndexError):
        _canonical_dim(3, 3)
    with pytest.raises(RuntimeError, match="at most once"):
        _canonical_dim((1, -2), 3)


def test_choices_between_sparse_tensors() -> None:
    marks = torch.tensor(MASK).to_sparse(1)
    chosen = _where(marks, torch.tensor(DATA).to_sparse(1), torch.tensor(9.0, dtype=torch.float64))
    assert chosen.to_dense().tolist() == np.where(MASK, DATA, np.where(MASK.any(1, keepdims=True), 9.0, 0.0)).tolist()
    empty = _where(torch.tensor([True, False]).to_sparse(), torch.tensor([0.0, 1.0]).to_sparse(), 0)
    assert (empty._nnz(), empty.to_dense().tolist()) == (1, [0.0, 0.0])


def test_elements_are_chosen_in_their_own_dtype() -> None:
    """Positions and extremes are found before results are converted, and running sums keep the dtype."""
    x = torch.tensor([1.2, 1.9, 1.1])
    assert torch.masked.argmax(x, 0, dtype=torch.int64).item() == 1
    assert torch.masked.amax(x, 0, dtype=torch.int64).item() == 1
    assert torch.masked.cumsum(torch.tensor([1, 2], dtype=torch.int16), 0).dtype is torch.int16
