"""Masked tensors: what they hold, how they are refused, printed and converted."""

from __future__ import annotations

import copy
import re
import warnings
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor
from tensocket.masked.maskedtensor.core import _masks_match, _tensors_match
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

DATA = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
MASK = np.array([[True, False, True], [False, False, True]])


def made(data: Any = DATA, mask: Any = MASK, **options: Any) -> Any:
    return masked_tensor(torch.tensor(data), torch.tensor(mask), **options)


def filled(masked: Any, value: float = 0.0) -> Any:
    """Data of a masked tensor as NumPy's masked arrays fill them."""
    data, mask = masked.get_data().detach(), masked.get_mask()
    data, mask = (x.to_dense() if x.layout is not torch.strided else x for x in (data, mask))
    return np.ma.MaskedArray(np.array(data.tolist()), mask=~np.array(mask.tolist())).filled(value)


def sparse(data: Any, mask: Any, layout: Any) -> tuple[Any, Any]:
    marks = torch.tensor(mask).to_sparse(layout=layout)
    return torch.tensor(data).sparse_mask(marks), marks


def test_parts_are_copies() -> None:
    data, mask = torch.tensor(DATA), torch.tensor(MASK)
    x = masked_tensor(data, mask)
    data.zero_()
    mask.zero_()
    assert x.get_data().tolist() == DATA.tolist()
    assert x.get_mask().tolist() == MASK.tolist()
    assert x.to_tensor(7.0).tolist() == np.where(MASK, DATA, 7.0).tolist()
    assert (x.shape, x.dtype, x.layout, x.is_leaf, x.requires_grad) == ((2, 3), torch.float64, torch.strided, True,
                                                                       False)
    assert isinstance(x, MaskedTensor)
    assert is_masked_tensor(x)
    assert not is_masked_tensor(data)
    assert (x.is_sparse, x.is_sparse_coo(), x.is_sparse_csr()) == (False, False, False)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_parts(layout: Any) -> None:
    x = masked_tensor(*sparse(DATA, MASK, layout))
    assert (x.layout, x.is_sparse) == (layout, True)
    assert (x.is_sparse_coo(), x.is_sparse_csr()) == (layout is torch.sparse_coo, layout is torch.sparse_csr)
    assert filled(x).tolist() == np.where(MASK, DATA, 0).tolist()


def test_data_take_the_positions_of_the_mask() -> None:
    marks = torch.tensor(MASK).to_sparse()
    x = masked_tensor(torch.tensor(DATA).to_sparse(), marks)
    assert x.get_data()._nnz() == 3
    assert filled(x).tolist() == np.where(MASK, DATA, 0).tolist()


def test_words() -> None:
    assert repr(made()) == ("MaskedTensor(\n  [\n    [  1.0000,       --,   3.0000],\n"
                            "    [      --,       --,  -6.0000]\n  ]\n)")
    assert repr(masked_tensor(torch.tensor(2), torch.tensor(True))) == "MaskedTensor(2, True)"
    assert repr(masked_tensor(torch.tensor(2), torch.tensor(False))) == "MaskedTensor(--, False)"
    assert repr(masked_tensor(torch.tensor([10, 20]), torch.tensor([False, True]))) == (
        "MaskedTensor(\n  [      --, 20]\n)")
    assert repr(masked_tensor(*sparse([[1, 2]], [[True, False]], torch.sparse_csr))) == (
        "MaskedTensor(\n  [\n    [1,       --]\n  ]\n)")


f, b = torch.ones(2, 3), torch.ones(2, 3) > 0
_REFUSED: Any = [
    (lambda: masked_tensor(made(), b), ArgumentTypeError, "data must be a Tensor",
     "a masked tensor is made of two plain ones"),
    (lambda: masked_tensor(0, b), ArgumentTypeError, "data must be a Tensor",
     "a masked tensor is made of two plain ones"),
    (lambda: masked_tensor(f, made()), ArgumentTypeError, "mask must be a Tensor",
     "a masked tensor is made of two plain ones"),
    (lambda: masked_tensor(f, [True]), ArgumentTypeError, "mask must be a Tensor",
     "a masked tensor is made of two plain ones"),
    (lambda: masked_tensor(f.to_sparse(), b), ArgumentTypeError, "data and mask must have the same layout",
     "the mask has an element for each of the data"),
    (lambda: masked_tensor(f.to_sparse_csc(), b.to_sparse_csc()), ArgumentTypeError,
     "sparse_csc is not supported", "the layout is strided, sparse_coo or sparse_csr"),
    (lambda: masked_tensor(f, f), ArgumentTypeError, "mask must have dtype bool", "an element counts or does not"),
    (lambda: masked_tensor(f.to(torch.complex64), b), ArgumentTypeError, "is not supported in MaskedTensor",
     "dtypes are bool, signed integers, float16, float32 and float64"),
    (lambda: masked_tensor(f, b[0]), ArgumentError, "data.dim() must equal mask.dim()",
     "the mask has an element for each"),
    (lambda: masked_tensor(f, b[:, :2]), ArgumentError, "data.size() must equal mask.size()",
     "the mask has an element for each"),
    (lambda: masked_tensor(torch.tensor([1.0, 0.0]).to_sparse(), torch.tensor([False, True]).to_sparse()),
     ArgumentError, "do not have the same indices", "the mask has an element for each of the data"),
    (lambda: masked_tensor(torch.tensor([[1.0, 0.0]]).to_sparse_csr(), torch.tensor([[False, True]]).to_sparse_csr()),
     ArgumentError, "do not share either crow or col indices", "the mask has an element for each"),
]


@pytest.mark.parametrize(("call", "kind", "words", "rule"), _REFUSED)
def test_parts_fit_together(call: Any, kind: Any, words: str, rule: str) -> None:
    with pytest.raises(kind, match=re.escape("[masked_tensor]") + ".*" + re.escape(words) + ".* — " + re.escape(rule)):
        call()


def test_only_numbers_with_gradients_require_them() -> None:
    with pytest.raises(RuntimeError, match="only floating-point and complex tensors have gradients"):
        made(MASK, MASK, requires_grad=True)


def test_data_that_require_grad_are_warned_of() -> None:
    leaf = torch.tensor(DATA, requires_grad=True)
    with pytest.warns(UserWarning, match="It is not recommended to create a MaskedTensor with a tensor that requires"):
        x = masked_tensor(leaf, torch.tensor(MASK))
    assert not x.requires_grad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_masked_tensor(leaf, torch.tensor(MASK)).requires_grad


def test_copies() -> None:
    x = made(requires_grad=True)
    for other in (x.clone(), x.detach(), copy.deepcopy(x)):
        assert isinstance(other, MaskedTensor)
        assert filled(other).tolist() == filled(x).tolist()
    assert not x.detach().requires_grad
    assert copy.deepcopy(x).requires_grad


def test_memory_in_order() -> None:
    x = made(DATA.T.copy(), MASK.T.copy()).transpose(0, 1)
    assert filled(x).tolist() == filled(made()).tolist()
    strided = masked_tensor(torch.tensor(DATA).mT, torch.tensor(MASK).mT)
    assert not strided.is_contiguous()
    assert strided.contiguous().is_contiguous()
    assert made().contiguous().is_contiguous()
    assert filled(strided.contiguous()).tolist() == filled(strided).tolist()
    with pytest.raises(ArgumentError, match=r"\[is_contiguous\].*MaskedTensors with sparse data do not have is_contig.*"
                       "memory of sparse tensors has no order of dimensions"):
        strided.to_sparse().contiguous()


@pytest.mark.parametrize("name", ["to_sparse", "to_sparse_coo", "to_sparse_csr"])
def test_layouts_keep_gradients(name: str) -> None:
    x = made(requires_grad=True)
    other = getattr(x, name)()
    back = other.to_dense()
    assert (other.layout, back.layout) == (torch.sparse_csr if name.endswith("csr") else torch.sparse_coo,
                                           torch.strided)
    assert filled(other).tolist() == filled(back).tolist() == filled(x).tolist()
    assert getattr(other, name)() is other
    (back * back).sum().backward()
    assert filled(x.grad).tolist() == np.where(MASK, 2 * DATA, 0).tolist()
    leaf = masked_tensor(*sparse(DATA, MASK, other.layout), requires_grad=True)
    (leaf.to_dense(torch.float32) * 3).sum().backward()
    assert leaf.grad.layout is other.layout
    assert filled(leaf.grad).tolist() == np.where(MASK, 3.0, 0).tolist()
    with pytest.raises(ArgumentError, match=r"\[to_sparse_csr\] Only 2D tensors can be converted to the SparseCsr.*"
                       "the layout is one of matrices"):
        made([1.0], [True]).to_sparse_csr()


def test_dtypes() -> None:
    x = made(requires_grad=True)
    y = x.to(torch.float32) * 2
    assert (y.dtype, x.long().dtype, x.bool().get_mask().tolist()) == (torch.float32, torch.int64, MASK.tolist())
    y.sum().backward()
    assert x.grad.dtype is torch.float64
    assert filled(x.grad).tolist() == np.where(MASK, 2.0, 0).tolist()


def test_tensors_like_masked_ones() -> None:
    x = made(requires_grad=True)
    for like, value in ((torch.ones_like(x), 1), (torch.zeros_like(x), 0), (torch.full_like(x, 3), 3),
                        (x.new_ones(2, 3), 1)):
        assert filled(like, -1).tolist() == np.where(MASK, value, -1).tolist()
        assert not like.requires_grad
    assert x.new_zeros(4).get_mask().tolist() == [True] * 4
    assert torch.ones_like(x, requires_grad=True).requires_grad
    assert filled(torch.zeros_like(x.detach().to_sparse())).tolist() == np.zeros((2, 3)).tolist()


def test_writes_keep_the_mask() -> None:
    x = made()
    x.fill_(2.0)
    assert filled(x).tolist() == np.where(MASK, 2.0, 0).tolist()
    x.copy_(made())
    assert filled(x).tolist() == filled(made()).tolist()
    assert filled(x.zero_()).sum() == 0
    with pytest.raises(ArgumentError, match=r"\[copy_\].*args\[0\] mask and args\[1\] mask must match but do not.*"
                       "a copy in place keeps the mask"):
        x.copy_(made(mask=~MASK))
    with pytest.raises(ArgumentError, match=r"\[copy_\]"):
        torch.zeros(2, 3).copy_(x)


def test_one_element() -> None:
    assert masked_tensor(torch.tensor(2.5), torch.tensor(True)).item() == 2.5
    with pytest.raises(ArgumentError, match=r"\[item\] an element that the mask leaves out.*"
                       r"only elements that count have a value"):
        masked_tensor(torch.tensor(2.5), torch.tensor(False)).item()


def test_comparisons_of_tensors() -> None:
    x, y = torch.tensor(DATA), torch.tensor(DATA + 1e-9)
    assert _tensors_match(x, x.float())
    assert not _tensors_match(x, y)
    assert _tensors_match(x, y, exact=False)
    assert not _tensors_match(x, x[0], exact=False)
    assert _tensors_match(x.to_sparse(), x.to_sparse())
    assert not _tensors_match(x.to_sparse_csr(), (x + 1).to_sparse_csr())
    assert _masks_match(made(), made())
    assert not _masks_match(made(), made(mask=~MASK))
    assert _masks_match(made(), x)
    with pytest.raises(ArgumentError, match=r"Neither `a` nor `b` can be a MaskedTensor.*plain tensors are compared"):
        _tensors_match(made(), x)
    with pytest.raises(ArgumentError, match=r"`a` and `b` must have the same layout.*"
                       r"plain tensors of one layout are compared"):
        _tensors_match(x, x.to_sparse())
