"""Errors of operators that compute: class, form, and a device that works afterwards."""

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
    ShapeError,
    TensocketError,
    UndefinedDtype,
    UnsupportedDtype,
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
    # pointwise and in place
    (lambda: f(2) + f(3), ShapeError, RuntimeError, "add", "sizes at dimension 0 must be equal or 1"),
    (lambda: torch.tensor([True]) - torch.tensor([True]), DtypeError, RuntimeError, "sub",
     "sub is not defined for bools"),
    (lambda: f(2) & f(2), UndefinedDtype, NotImplementedError, "bitwise_and",
     "bitwise_and is not defined for float dtypes"),
    (lambda: F.where(f(2), f(2), f(2)), DtypeError, RuntimeError, "where", "the condition is a bool tensor"),
    (lambda: F.where(torch.tensor([True, False]), None, f(2)), ArgumentTypeError, TypeError, "result_type",
     "operands are tensors or numbers"),
    (lambda: F.where(torch.tensor([True]), "1", f(1)), ArgumentTypeError, TypeError, "where",
     "operands are tensors or Python numbers"),
    (lambda: i(1) ** -1, DtypeError, RuntimeError, "pow", "integers have no negative powers"),
    (lambda: i(1) // 0, DtypeError, RuntimeError, "floor_divide", "integers have no quotient by zero"),
    (lambda: F.div(f(1), 2, rounding_mode="up"), ArgumentError, RuntimeError, "div",
     "the mode is None, 'trunc' or 'floor'"),
    (lambda: F.add(i(1), i(1), alpha=0.5), DtypeError, RuntimeError, "add", "a factor of integers is an integer"),
    (lambda: F.clamp(f(1)), ArgumentError, RuntimeError, "clamp", "at least one limit is given"),
    (lambda: f(1).masked_fill(f(1) > 0, f(2)), ShapeError, RuntimeError, "masked_fill",
     "the value is a number or a 0-dimensional tensor"),
    (lambda: F.gelu(f(1), approximate="x"), ArgumentError, RuntimeError, "gelu",
     "the approximation is 'none' or 'tanh'"),
    (lambda: f(1).expand(2).add_(1), ShapeError, RuntimeError, "add_",
     "elements that are written have memory of their own"),
    (lambda: i(1).add_(0.5), DtypeError, RuntimeError, "add_", "an in-place result keeps the tensor's dtype category"),
    (lambda: f(1).add_(f(2)), ShapeError, RuntimeError, "add_", "an in-place result has the tensor's shape"),
    (lambda: f(2).copy_(f(3, 2)), ShapeError, RuntimeError, "copy_", "src broadcasts to the tensor's shape"),
    (lambda: f(2).fill_(f(2)), ShapeError, RuntimeError, "fill_", "the value is a number or a 0-dimensional tensor"),
    (lambda: F.add(f(2), 1, out=3), ArgumentTypeError, TypeError, "add", "out is a tensor"),
    (lambda: F.add(f(2), 1, out=i(1, 2)), DtypeError, RuntimeError, "add", "out keeps the result's dtype category"),
    (lambda: F.add(leaf(2), 1, out=f(2)), AutogradError, RuntimeError, "add", "what is written to out has no gradient"),
    (lambda: F.add(f(2), 1, out=leaf(2)), AutogradError, RuntimeError, "add", "what is written to out has no gradient"),
    (lambda: F.max(f(2, 3), 1, out=f(2)), ArgumentTypeError, TypeError, "max", "out is a tuple of 2 tensors"),
    # reductions
    (lambda: f(2).sum(1), DimensionError, IndexError, "sum", "a dim lies between -1 and 0"),
    (lambda: f(2).sum("0"), ArgumentTypeError, TypeError, "sum", "a dim is an integer or a tuple of integers"),
    (lambda: f(2).unsqueeze(0.5), ArgumentTypeError, TypeError, "unsqueeze", "a dim is an integer"),
    (lambda: f(2, 2).sum((0, -2)), ShapeError, RuntimeError, "sum", "a dim appears at most once"),
    (lambda: torch.zeros(0).amax(), ShapeError, RuntimeError, "amax",
     "no elements have no largest, smallest or positional value"),
    (lambda: torch.zeros(0, 2).argmax(0), DimensionError, IndexError, "argmax",
     "no elements have no largest, smallest or positional value"),
    (lambda: f(2).sum(dtype="float"), ArgumentTypeError, TypeError, "sum", "dtype is a tensocket dtype"),
    (lambda: f(2).mean(dtype=torch.bool_), DtypeError, RuntimeError, "mean", "mean is defined for numbers"),
    (lambda: i(1).mean(), DtypeError, RuntimeError, "mean", "mean is defined for floating-point dtypes"),
    (lambda: f(2).var(unbiased=True, correction=1), ArgumentTypeError, TypeError, "var", "only one of both is given"),
    # matrix products
    (lambda: F.matmul(f(2, 2), f(2, 2).double()), DtypeError, RuntimeError, "matmul", "both operands have one dtype"),
    (lambda: F.matmul(f(2, 2) > 0, f(2, 2) > 0), UnsupportedDtype, RuntimeError, "matmul",
     "matrix products are defined for numbers"),
    (lambda: F.matmul(f(2, 2), f(3, 2)), ShapeError, RuntimeError, "matmul",
     "the last size of the first must equal the second-to-last of the second"),
    (lambda: F.matmul(f(2), torch.tensor(1.0)), ShapeError, RuntimeError, "matmul",
     "operands have at least one dimension"),
    (lambda: F.bmm(f(1, 2, 2), f(2, 2, 2)), ShapeError, RuntimeError, "bmm", "both have the same number of matrices"),
    (lambda: F.mv(f(2, 2), f(2, 2)), ShapeError, RuntimeError, "mv", "a matrix is multiplied by a vector"),
    (lambda: F.mm(f(2), f(2)), ShapeError, RuntimeError, "mm", "both operands have 2 dimensions"),
    (lambda: F.linear(f(2, 2), f(3, 3)), ShapeError, RuntimeError, "linear",
     "the last size of the input must equal that of the weight"),
    (lambda: F.linear(f(6, 2), f(1, 2), f(3)), ShapeError, RuntimeError, "linear",
     "the bias has one element for each output, or broadcasts to them"),
    # neural networks
    (lambda: F.mse_loss(f(2), f(2), reduction="x"), ArgumentError, ValueError, "mse_loss",
     "the reduction is 'none', 'mean' or 'sum'"),
    (lambda: F.nll_loss(f(2, 3), i(0, 1), f(2)), ShapeError, ValueError, "nll_loss",
     "the weight has a factor for each class"),
    (lambda: F.nll_loss(f(2, 3), i(0)), ShapeError, ValueError, "nll_loss",
     "the target has the input's shape without the class dimension"),
    (lambda: F.cross_entropy(f(2, 3), i(0, 1), label_smoothing=2.0), ArgumentError, RuntimeError, "cross_entropy",
     "label smoothing lies between 0 and 1"),
    (lambda: F.cross_entropy(f(2, 3), f(2, 2)), ShapeError, RuntimeError, "cross_entropy",
     "target probabilities have the input's shape"),
    (lambda: F.dropout(f(2), 2.0), ArgumentError, ValueError, "dropout", "a probability lies between 0 and 1"),
    (lambda: F.embedding(f(2), i(0)), ShapeError, RuntimeError, "embedding", "the weight is a matrix"),
    (lambda: F.one_hot(f(2)), DtypeError, RuntimeError, "one_hot", "classes are int64"),
    (lambda: F.one_hot(torch.zeros(0, dtype=torch.int64)), ArgumentError, RuntimeError, "one_hot",
     "the number of classes cannot be counted"),
    (lambda: F.one_hot(i(3), 2), ArgumentError, RuntimeError, "one_hot", "classes lie between 0 and num_classes - 1"),
    (lambda: F.layer_norm(f(2, 3), (2,)), ShapeError, RuntimeError, "layer_norm",
     "the normalized shape is the end of the input's shape"),
    (lambda: F.softmax(i(1), 0), UndefinedDtype, NotImplementedError, "softmax",
     "softmax is defined for floating-point dtypes"),
    # complex numbers and other dtypes
    (lambda: f(2).imag, DtypeError, RuntimeError, "imag", "imag is defined for complex dtypes"),
    (lambda: torch.view_as_real(f(2)), DtypeError, RuntimeError, "view_as_real",
     "view_as_real is defined for complex dtypes"),
    (lambda: torch.view_as_complex(i(1, 2)), DtypeError, RuntimeError, "view_as_complex",
     "parts are float16, float32 or float64"),
    (lambda: torch.view_as_complex(f(3)), ShapeError, RuntimeError, "view_as_complex", "the last dimension has size 2"),
    (lambda: torch.view_as_complex(f(2, 2).t()), ShapeError, RuntimeError, "view_as_complex",
     "parts are adjacent, other strides and the offset even"),
    (lambda: torch.complex(f(2), f(2).double()), DtypeError, RuntimeError, "complex",
     "parts are both float16, float32 or float64"),
    (lambda: torch.polar(f(2), f(2).double()), DtypeError, RuntimeError, "polar",
     "both are float16, float32 or float64"),
    (lambda: f(2).adjoint(), ShapeError, RuntimeError, "adjoint", "matrices have at least 2 dimensions"),
    (lambda: f(2, 2, 2).H, ShapeError, RuntimeError, "H", "a matrix has 2 dimensions"),
    (lambda: float(torch.tensor(1j)), ArgumentError, RuntimeError, "float", "a real number has no imaginary part"),
    (lambda: torch.full((2,), 1j, dtype=torch.float32), ArgumentError, RuntimeError, "full",
     "real numbers have no imaginary part"),
    (lambda: torch.tensor([1j], dtype=torch.float32), ArgumentTypeError, TypeError, "tensor",
     "real dtypes hold real numbers"),
    (lambda: torch.arange(3, dtype=torch.complex64), UndefinedDtype, NotImplementedError, "arange",
     "ranges are of integers and real floats"),
    (lambda: torch.linspace(0, 1j, 3, dtype=torch.float32), ArgumentError, RuntimeError, "linspace",
     "real numbers have no imaginary part"),
    (lambda: torch.tensor([1j]).abs_(), DtypeError, RuntimeError, "abs_", "the result is real"),
    (lambda: F.addcmul(f(2), f(2), f(2), value=1j), DtypeError, RuntimeError, "addcmul",
     "a factor is of the operands' category"),
    (lambda: torch.tensor([1j]).amax(), UndefinedDtype, NotImplementedError, "amax", "amax is not defined for it"),
    (lambda: torch.tensor([1j]) < 1, UndefinedDtype, NotImplementedError, "lt", "lt is not defined for complex dtypes"),
    (lambda: torch.ones(2, dtype=torch.float8_e5m2) * 1j, DtypeError, RuntimeError, "result_type",
     "float8 dtypes are for storage"),
    (lambda: torch.ones(2, dtype=torch.float8_e5m2) * f(2), DtypeError, RuntimeError, "promote_types",
     "float8 dtypes are for storage"),
    (lambda: torch.ones(2, dtype=torch.uint16) + i(1, 2), DtypeError, RuntimeError, "promote_types",
     "wide unsigned integers mix with real floats only"),
    (lambda: torch.ones(1, 1, dtype=torch.float8_e5m2).mm(f(1, 1).to(torch.float8_e5m2)), UndefinedDtype,
     NotImplementedError, "matmul", "float8 dtypes are for storage"),
    (lambda: torch.finfo(torch.int32), ArgumentTypeError, TypeError, "finfo",
     "finfo is of floating-point and complex dtypes"),
    (lambda: torch.iinfo(torch.float32), ArgumentTypeError, TypeError, "iinfo", "iinfo is of integer dtypes"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: Case, check_error: Callable[[Case], None]) -> None:
    check_error(case)
