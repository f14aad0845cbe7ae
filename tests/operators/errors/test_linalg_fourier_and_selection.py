"""Errors of linear algebra, Fourier transforms, selections and order: class, form, and what works afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DimensionError,
    DtypeError,
    LinAlgError,
    ShapeError,
    TensocketError,
    UndefinedDtype,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def i(*values: int) -> Any:
    return torch.tensor(list(values))


def leaf(*shape: int) -> Any:
    return torch.ones(*shape, requires_grad=True)


Case = tuple[Callable[[], Any], type[TensocketError], type[Exception], str, str]
#: The failing call, the class, PyTorch's class, the operator that the message names, and the rule.
CASES: list[Case] = [
    # linear algebra
    (lambda: F.linalg_inv(f(2, 2)), LinAlgError, RuntimeError, "linalg.inv",
     "the matrix has no such decomposition or inverse"),
    (lambda: F.linalg_inv(f(2)), ShapeError, RuntimeError, "linalg.inv", "matrices are square"),
    (lambda: F.linalg_inv(f(2, 3)), ShapeError, RuntimeError, "linalg.inv", "matrices are square"),
    (lambda: F.linalg_svd(f(2)), ShapeError, RuntimeError, "linalg.svd", "matrices have at least 2 dimensions"),
    (lambda: F.linalg_cholesky(-f(2, 2)), LinAlgError, RuntimeError, "linalg.cholesky",
     "the matrix has no such decomposition or inverse"),
    (lambda: F.linalg_solve(torch.eye(2), f(3, 1)), ShapeError, RuntimeError, "linalg.solve",
     "B has as many rows as A"),
    (lambda: F.linalg_qr(f(2, 2), "full"), ArgumentError, RuntimeError, "linalg.qr",
     "the mode is 'reduced', 'complete' or 'r'"),
    (lambda: F.linalg_qr(leaf(3, 2), "complete")[0].sum().backward(), AutogradError, RuntimeError, "linalg.qr",
     "only the first columns of a complete Q are determined"),
    (lambda: F.linalg_eigh(f(2, 2), "X"), ArgumentError, RuntimeError, "linalg.eigh", "the triangle is 'L' or 'U'"),
    (lambda: F.linalg_matrix_norm(f(2, 2), "x"), ArgumentError, RuntimeError, "linalg.matrix_norm",
     "the order is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2"),
    # Fourier transforms
    (lambda: F.fft_fft(f(2), norm="x"), ArgumentError, RuntimeError, "fft.fft",
     "the normalisation is 'backward', 'ortho' or 'forward'"),
    (lambda: F.fft_rfft(f(2) * 1j), DtypeError, RuntimeError, "fft.rfft", "the transform is one of real values"),
    (lambda: F.fft_fftn(f(2), s=(2, 2)), ShapeError, RuntimeError, "fft.fftn", "there is one size for every dim"),
    (lambda: F.fft_fftn(f(2, 2), s=(2, 2), dim=(0,)), ShapeError, RuntimeError, "fft.fftn",
     "every dim appears once and has one size"),
    (lambda: F.fft_fftn(f(2, 2), dim=(0, 0)), ShapeError, RuntimeError, "fft.fftn",
     "every dim appears once and has one size"),
    (lambda: F.fft_fft(torch.tensor(1.0)), DimensionError, IndexError, "fft.fft", "a transform runs along a dimension"),
    (lambda: F.fft_fft(f(2), 0), ArgumentError, RuntimeError, "fft.fft", "a transform has at least one point"),
    (lambda: F.fft_rfftn(torch.tensor(1.0)), ShapeError, RuntimeError, "fft.rfftn",
     "at least one dimension is transformed"),
    (lambda: F.fft_irfftn(torch.tensor(1.0)), ShapeError, RuntimeError, "fft.irfftn",
     "at least one dimension is transformed"),
    # selections and rearrangements
    (lambda: F.tril(f(2)), ShapeError, RuntimeError, "tril", "matrices have at least 2 dimensions"),
    (lambda: F.diagonal(f(2, 2), 0, 0, 0), ShapeError, RuntimeError, "diagonal",
     "a diagonal lies between two different dims"),
    (lambda: F.trace(f(2, 2, 2)), ShapeError, RuntimeError, "trace", "a trace is that of one matrix"),
    (lambda: F.roll(f(2, 2), 1, (0, 1)), ShapeError, RuntimeError, "roll", "every dim has a shift"),
    (lambda: F.roll(torch.tensor(1.0), 1, 0), DimensionError, IndexError, "roll", "a dim is one of the tensor"),
    (lambda: F.meshgrid(f(2), f(2), indexing="ji"), ArgumentError, RuntimeError, "meshgrid",
     "the order is 'ij' or 'xy'"),
    (lambda: F.meshgrid(f(2, 2), indexing="ij"), ShapeError, RuntimeError, "meshgrid",
     "coordinates are vectors or numbers"),
    (lambda: F.repeat_interleave(f(2), -1), ArgumentError, RuntimeError, "repeat_interleave",
     "counts are not negative"),
    (lambda: F.repeat_interleave(f(2), i(1, -1)), ArgumentError, RuntimeError, "repeat_interleave",
     "counts are not negative"),
    (lambda: F.repeat_interleave(f(2), i(1, 1, 1)), ShapeError, RuntimeError, "repeat_interleave",
     "there is one count for every slice, in a vector"),
    (lambda: F.repeat_interleave(torch.tensor(1.0), 2, 0), DimensionError, IndexError, "repeat_interleave",
     "slices lie along a dim of the tensor"),
    (lambda: F.take_along_dim(f(2, 2), i(0), 0), ShapeError, RuntimeError, "take_along_dim",
     "both have the same number of dimensions"),
    (lambda: F.outer(f(2, 2), f(2)), ShapeError, RuntimeError, "outer", "both are vectors"),
    (lambda: F.linalg_cross(f(3), f(2, 3)), ShapeError, RuntimeError, "linalg.cross",
     "both have the same number of dimensions"),
    (lambda: F.linalg_cross(f(2), f(2)), ShapeError, RuntimeError, "linalg.cross", "vectors have three elements"),
    (lambda: F.tensordot(f(2), f(2), 3), ArgumentError, RuntimeError, "tensordot",
     "both operands have that many dimensions"),
    (lambda: F.tensordot(f(2, 3), f(2, 3), ([0], [1])), ShapeError, RuntimeError, "tensordot",
     "the dims summed over have equal sizes"),
    # order and scans
    (lambda: F.topk(f(2), 3), ArgumentError, RuntimeError, "topk", "k lies between 0 and the dimension's size"),
    (lambda: F.sort(f(2) * 1j), DtypeError, RuntimeError, "sort", "sort is not defined for this dtype"),
    (lambda: F.searchsorted(f(2), f(1), side="left", right=True), ArgumentError, RuntimeError, "searchsorted",
     "the side is 'left' or 'right', and right=True means 'right'"),
    (lambda: F.searchsorted(f(2, 2), f(3)), ShapeError, RuntimeError, "searchsorted",
     "a sequence is a vector or has the values' leading sizes"),
    (lambda: F.searchsorted(f(2), f(1), sorter=i(0)), ShapeError, RuntimeError, "searchsorted",
     "the sorter has the sequence's shape"),
    (lambda: F.isin(1, 1), ArgumentTypeError, TypeError, "isin", "one of both is a tensor"),
    (lambda: F.cumprod(f(2), 0, dtype=torch.bool_), UndefinedDtype, NotImplementedError, "cumprod",
     "cumprod is defined for numbers"),
    (lambda: F.diff(torch.tensor(1.0)), ShapeError, RuntimeError, "diff", "neighbours lie along a dimension"),
    (lambda: F.diff(f(2), -1), ArgumentError, RuntimeError, "diff", "the number of differences is not negative"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: Case, check_error: Callable[[Case], None]) -> None:
    check_error(case)
