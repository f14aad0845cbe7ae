"""In-place operators: values, version counters, refusals, overlapping memory and the graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators.kinds.inplace import FORMS, InPlace
from tensocket_plugins.contract.errors import AutogradError, DtypeError, ShapeError

A = np.array([[0.5, -1.25, 2.0], [3.5, -0.75, 1.5]])
B = np.array([[1.5, 0.5, -2.5], [0.25, 4.0, -1.0]])
#: Method, arguments, and the value that NumPy gives for A.
FLOATS: dict[str, tuple[tuple[Any, ...], Callable[[], np.ndarray]]] = {
    "add_": ((B,), lambda: A + B),
    "sub_": ((B,), lambda: A - B),
    "mul_": ((B,), lambda: A * B),
    "div_": ((B,), lambda: A / B),
    "pow_": ((2,), lambda: A**2),
    "floor_divide_": ((B,), lambda: np.floor(A / B)),
    "remainder_": ((B,), lambda: np.mod(A, B)),
    "fmod_": ((B,), lambda: np.fmod(A, B)),
    "clamp_": ((-1, 1), lambda: np.clip(A, -1, 1)),
    "clamp_min_": ((0.75,), lambda: np.maximum(A, 0.75)),
    "clamp_max_": ((B,), lambda: np.minimum(A, B)),
    "addcmul_": ((B, B), lambda: A + B * B),
    "addcdiv_": ((A, B), lambda: A + A / B),
    "lerp_": ((B, 0.25), lambda: A + 0.25 * (B - A)),
    "abs_": ((), lambda: np.abs(A)),
    "neg_": ((), lambda: -A),
    "exp_": ((), lambda: np.exp(A)),
    "expm1_": ((), lambda: np.expm1(A)),
    "sin_": ((), lambda: np.sin(A)),
    "cos_": ((), lambda: np.cos(A)),
    "tan_": ((), lambda: np.tan(A)),
    "sinh_": ((), lambda: np.sinh(A)),
    "cosh_": ((), lambda: np.cosh(A)),
    "tanh_": ((), lambda: np.tanh(A)),
    "asinh_": ((), lambda: np.arcsinh(A)),
    "atan_": ((), lambda: np.arctan(A)),
    "exp2_": ((), lambda: np.exp2(A)),
    "atan2_": ((B,), lambda: np.arctan2(A, B)),
    "copysign_": ((B,), lambda: np.copysign(A, B)),
    "hypot_": ((B,), lambda: np.hypot(A, B)),
    "nextafter_": ((B,), lambda: np.nextafter(A.astype(np.float32), B.astype(np.float32))),
    "sigmoid_": ((), lambda: 1 / (1 + np.exp(-A))),
    "relu_": ((), lambda: np.maximum(A, 0)),
    "reciprocal_": ((), lambda: 1 / A),
    "square_": ((), lambda: A * A),
    "sign_": ((), lambda: np.sign(A)),
    "floor_": ((), lambda: np.floor(A)),
    "ceil_": ((), lambda: np.ceil(A)),
    "trunc_": ((), lambda: np.trunc(A)),
    "round_": ((), lambda: np.rint(A)),
    "eq_": ((A,), lambda: np.ones_like(A)),
    "ne_": ((A,), lambda: np.zeros_like(A)),
    "lt_": ((B,), lambda: (A < B) * 1.0),
    "le_": ((0.5,), lambda: (A <= 0.5) * 1.0),
    "gt_": ((B,), lambda: (A > B) * 1.0),
    "ge_": ((0.5,), lambda: (A >= 0.5) * 1.0),
    "logical_not_": ((), lambda: np.zeros_like(A)),
    "logical_and_": ((B,), lambda: np.ones_like(A)),
    "logical_or_": ((B,), lambda: np.ones_like(A)),
    "logical_xor_": ((B,), lambda: np.zeros_like(A)),
    "copy_": ((B,), lambda: B),
    "fill_": ((2.5,), lambda: np.full_like(A, 2.5)),
    "zero_": ((), lambda: np.zeros_like(A)),
    "masked_fill_": ((A > 1, 9), lambda: np.where(A > 1, 9, A)),
}
#: Values from 0.1 to 3 for functions of positive numbers.
P = np.linspace(0.1, 3, 6).reshape(2, 3)
POSITIVE = {"log_": np.log, "log1p_": np.log1p, "log2_": np.log2, "log10_": np.log10, "sqrt_": np.sqrt,
            "rsqrt_": lambda x: 1 / np.sqrt(x),
            "acosh_": lambda x: np.where(x < 1, np.nan, np.arccosh(np.maximum(x, 1)))}
#: Functions of numbers between -1 and 1.
UNIT = {"acos_": np.arccos, "asin_": np.arcsin, "atanh_": np.arctanh}
BITS = {"bitwise_and_": np.bitwise_and, "bitwise_or_": np.bitwise_or, "bitwise_xor_": np.bitwise_xor}


def tensors(values: tuple[Any, ...]) -> list[Any]:
    return [torch.tensor(x.astype(np.float32) if x.dtype == np.float64 else x) if isinstance(x, np.ndarray) else x
            for x in values]


@pytest.mark.parametrize("name", FLOATS)
def test_values_and_version(device: str, name: str, near: Callable[..., None]) -> None:
    args, reference = FLOATS[name]
    x = torch.tensor(A, dtype=torch.float32)
    place = x.data_ptr()
    assert getattr(x, name)(*tensors(args)) is x
    near(x, reference(), dtype="float32")
    assert x._version > 0
    assert x.data_ptr() == place


@pytest.mark.parametrize("name", POSITIVE)
def test_values_of_positive_numbers(device: str, name: str, near: Callable[..., None]) -> None:
    x = torch.tensor(P, dtype=torch.float32)
    near(getattr(x, name)(), POSITIVE[name](P), scale=4)


@pytest.mark.parametrize("name", UNIT)
def test_values_of_numbers_between_minus_one_and_one(device: str, name: str, near: Callable[..., None]) -> None:
    x = torch.tensor(A / 4, dtype=torch.float32)
    near(getattr(x, name)(), UNIT[name](A / 4), scale=4)


def test_error_function_in_place(device: str) -> None:
    # Abramowitz and Stegun's table.
    x = torch.tensor([0.0, 0.5, 1.0, -2.0]).erf_()
    np.testing.assert_allclose(x.tolist(), [0, 0.5204998778, 0.8427007929, -0.9953222650], rtol=1e-6)


@pytest.mark.parametrize("name", BITS)
def test_bits(device: str, name: str) -> None:
    a, b = np.array([12, -7, 255, 0]), np.array([10, 3, -1, 9])
    x = torch.tensor(a)
    getattr(x, name)(torch.tensor(b))
    assert x.tolist() == BITS[name](a, b).tolist()
    assert torch.tensor([True, False]).bitwise_not_().tolist() == [False, True]


#: Tested with complex numbers and with dtypes.
ELSEWHERE = {"conj_physical_", "sgn_", "bitwise_left_shift_", "bitwise_right_shift_"}


def test_every_form_has_a_case() -> None:
    tested = {*FLOATS, *POSITIVE, *UNIT, *BITS, "bitwise_not_", "erf_", *ELSEWHERE}
    inplace = {name for name, operator in OPERATORS.items() if operator.kind == "inplace"}
    assert {form.name for form in FORMS.values()} <= inplace
    families = {name for name, form in OPERATORS.items() if isinstance(form, InPlace) and form.origin.formula.__module__
                .startswith(("tensocket_operators.pointwise.numeric", "tensocket_operators.special"))}  # tested there
    assert inplace - tested - families == {"basic_put_"}  # assignment to items, tested with indexing


@pytest.mark.parametrize("apply", [
    lambda x: x.__iadd__(1), lambda x: x.__isub__(1), lambda x: x.__imul__(2), lambda x: x.__itruediv__(2)])
def test_augmented_assignment_keeps_the_tensor(apply: Callable[[Any], Any]) -> None:
    x = torch.tensor([2.0, 4.0])
    assert apply(x) is x
    assert x._version == 1


def test_augmented_assignment_values() -> None:
    x = torch.tensor([2.0, 5.0])
    x += 1
    x *= torch.tensor([2.0, 3.0])
    x -= 1
    x /= 2
    assert x.tolist() == [2.5, 8.5]
    x //= 2
    x **= 3
    x %= 5
    assert x.tolist() == [1.0, 4.0]
    assert x._version == 7
    bits = torch.tensor([6, 9])
    bits &= 5
    bits |= 8
    bits ^= 1
    assert bits.tolist() == [13, 8]


def test_factors_of_sums() -> None:
    x = torch.tensor([1.0, 2.0])
    assert x.add_(torch.tensor([10.0, 20.0]), alpha=3) is x
    assert x.tolist() == [31.0, 62.0]
    assert x.sub_(1, alpha=0.5).tolist() == [30.5, 61.5]
    assert x.addcmul_(x, x, value=2).tolist() == [30.5 + 2 * 30.5**2, 61.5 + 2 * 61.5**2]


def test_broadcast_operands_and_empty_tensors(device: str) -> None:
    x = torch.zeros(2, 3)
    x.add_(torch.tensor([1.0, 2.0, 3.0])).mul_(torch.tensor([[1.0], [10.0]]))
    assert x.tolist() == [[1, 2, 3], [10, 20, 30]]
    assert torch.zeros(0, 3).add_(1).shape == (0, 3)
    assert torch.tensor(3.0).mul_(2).item() == 6.0


def test_lower_categories_convert(device: str) -> None:
    assert torch.tensor([1.5, 2.5]).add_(torch.tensor([1, 2])).tolist() == [2.5, 4.5]
    half = torch.tensor([1.0, 2.0], dtype=torch.float16).add_(torch.tensor([0.25, 0.5], dtype=torch.float64))
    assert half.dtype is torch.float16
    assert half.tolist() == [1.25, 2.5]
    assert torch.tensor([1, 2]).mul_(True).tolist() == [1, 2]


@pytest.mark.parametrize(("change", "error", "message"), [
    (lambda: torch.tensor([1, 2]).add_(0.5), DtypeError,
     "[add_] a result of dtype float32 for a tensor of dtype int64 — an in-place result keeps the tensor's"),
    (lambda: torch.tensor([1, 2]).div_(2), DtypeError, "[div_] a result of dtype float32 for a tensor of dtype int64"),
    (lambda: torch.tensor([True]).add_(1), DtypeError, "[add_] a result of dtype int64 for a tensor of dtype bool"),
    (lambda: torch.tensor([1, 2]).exp_(), DtypeError, "[exp_] a result of dtype float32 for a tensor of dtype int64"),
    (lambda: torch.zeros(3).add_(torch.zeros(2, 3)), ShapeError,
     "[add_] operands that broadcast beyond the tensor's shape [3] — an in-place result has the tensor's shape"),
    (lambda: torch.tensor(1.0).add_(torch.zeros(2)), ShapeError, "[add_] operands that broadcast beyond"),
    (lambda: torch.zeros(3).add_(torch.zeros(2)), ShapeError, "[add_] shapes [3] and [2] — sizes at dimension 0"),
    (lambda: torch.zeros(2, 1).expand(2, 3).add_(1), ShapeError,
     "[add_] an expanded tensor of shape [2, 3] — elements that are written have memory of their own — clone() it"),
    (lambda: torch.zeros(1).expand(3).exp_(), ShapeError, "[exp_] an expanded tensor of shape [3]"),
    (lambda: torch.zeros(1).expand(3).copy_(torch.zeros(3)), ShapeError, "[copy_] an expanded tensor of shape [3]"),
    (lambda: torch.zeros(3).copy_(torch.zeros(2)), ShapeError, "[copy_] shapes [3] and [2]"),
    (lambda: torch.zeros(3).copy_(torch.zeros(2, 3)), ShapeError, "[copy_] src [2, 3] for a tensor of shape [3]"),
    (lambda: torch.zeros(3).fill_(torch.zeros(3)), ShapeError, "[fill_] a value of shape [3] — the value is a number"),
], ids=range(13))
def test_refusals(change: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        change()
    assert torch.zeros(2).add_(1).tolist() == [1, 1]


def test_a_refused_change_changes_nothing(device: str) -> None:
    x = torch.tensor([1, 2])
    with pytest.raises(DtypeError):
        x.add_(0.5)
    assert x.tolist() == [1, 2]
    assert x._version == 0


def test_expanded_targets_of_one_element_are_written(device: str) -> None:
    assert torch.zeros(1).expand(1, 1).add_(2).tolist() == [[2.0]]


def test_the_target_is_its_own_operand(device: str) -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    assert x.mul_(x).add_(x).tolist() == [2.0, 8.0, 18.0]


def test_overlapping_operands_are_read_before_they_are_written(device: str) -> None:
    values = np.arange(12.0)
    x = torch.tensor(values, dtype=torch.float32)
    x[1:7].add_(x[::2])
    assert x.tolist() == [0.0, *(values[1:7] + values[::2]), *values[7:]]
    shifted = torch.arange(6)
    shifted[1:4].copy_(shifted[::2])
    assert shifted.tolist() == [0, 0, 2, 4, 4, 5]
    row = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert row.add_(row[0, :1].expand(2)).tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_views_share_memory_and_the_version_counter(device: str) -> None:
    x = torch.zeros(2, 3)
    row, column, flat = x[0], x.t()[1], x.view(6)
    row.add_(1)
    assert x.tolist() == [[1, 1, 1], [0, 0, 0]]
    column.fill_(5)
    assert flat.tolist() == [1, 5, 1, 0, 5, 0]
    assert {t._version for t in (x, row, column, flat, x.detach())} == {2}
    copy = x.clone()
    copy.zero_()
    assert (x._version, copy._version) == (2, 1)


def test_strided_targets(device: str) -> None:
    values = np.arange(24.0).reshape(4, 6)
    x = torch.tensor(values, dtype=torch.float32)
    x[::2, 1::3].mul_(-1)
    values[::2, 1::3] *= -1
    assert x.tolist() == values.tolist()


def test_copy_converts_and_moves() -> None:
    assert torch.zeros(3, dtype=torch.int32).copy_(torch.tensor([1.9, -1.9, 0.2])).tolist() == [1, -1, 0]
    other = torch.zeros(2, 2, device="ref:1")
    assert other.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()).tolist() == [[1, 3], [2, 4]]
    assert str(other.device) == "ref:1"
    assert torch.zeros(2).copy_(torch.tensor([7, 8], device="ref:1")).tolist() == [7.0, 8.0]
    assert torch.zeros(2, 2).copy_(3).tolist() == [[3, 3], [3, 3]]


# --------------------------------------------------------------------------------------------------------- autograd


@pytest.mark.parametrize("change", [
    lambda x: x.add_(1), lambda x: x.copy_(torch.zeros(2, 2)), lambda x: x.fill_(1), lambda x: x.zero_()])
def test_leaves_that_require_grad_are_not_changed(change: Callable[[Any], Any]) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(AutogradError, match=r"\] a leaf tensor that requires grad — a leaf that requires grad is not"):
        change(x)
    with pytest.raises(AutogradError, match=r"\] a view of a leaf tensor that requires grad — "):
        change(x.view(2, 2))
    assert x.tolist() == [[1, 1], [1, 1]]
    with torch.no_grad():
        change(x)
    assert x.is_leaf
    assert x.requires_grad


def test_the_target_becomes_the_result_of_the_operator() -> None:
    a, b = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([5.0, 7.0], requires_grad=True)
    x = a * 1
    x.mul_(b).add_(a)  # a b + a
    assert x.grad_fn.name() == "AddBackward0"
    x.sum().backward()
    assert a.grad.tolist() == [6.0, 8.0]
    assert b.grad.tolist() == [2.0, 3.0]


def test_a_tensor_without_gradient_becomes_part_of_the_graph() -> None:
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    x = torch.zeros(2)
    x.add_(a * a)
    assert x.requires_grad
    x.sum().backward()
    assert a.grad.tolist() == [4.0, 6.0]


@pytest.mark.parametrize(("change", "slope"), [
    (lambda x: x.exp_(), np.exp), (lambda x: x.tanh_(), lambda v: 1 - np.tanh(v) ** 2),
    (lambda x: x.pow_(3), lambda v: 3 * v**2), (lambda x: x.sin_(), np.cos), (lambda x: x.mul_(x), lambda v: 2 * v),
    (lambda x: x.div_(4), lambda v: np.full_like(v, 0.25)), (lambda x: x.fill_(1), np.zeros_like),
    (lambda x: x.clamp_(-1, 1), lambda v: (np.abs(v) < 1) * 1.0), (lambda x: x.floor_(), np.zeros_like),
    (lambda x: x.copy_(torch.ones(3)), np.zeros_like)])
def test_gradients(change: Callable[[Any], Any], slope: Callable[[np.ndarray], np.ndarray]) -> None:
    values = np.array([0.5, -1.5, 2.25])
    leaf = torch.tensor(values, requires_grad=True, dtype=torch.float64)
    x = leaf * 1
    change(x)
    x.backward(torch.ones(3, dtype=torch.float64))
    grad = np.zeros(3) if leaf.grad is None else leaf.grad.tolist()
    np.testing.assert_allclose(grad, slope(values), rtol=1e-12, atol=1e-12)


def test_changes_of_views_reach_the_base() -> None:
    leaf = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    factor = torch.tensor([5.0, 6.0], requires_grad=True)
    x = leaf * 1
    x[0].mul_(factor)
    assert x.tolist() == [[5.0, 12.0], [3.0, 4.0]]
    (x * x).sum().backward()
    assert leaf.grad.tolist() == [[2 * 5 * 5.0, 2 * 12 * 6.0], [6.0, 8.0]]
    assert factor.grad.tolist() == [2 * 5 * 1.0, 2 * 12 * 2.0]


def test_changes_of_the_base_reach_views() -> None:
    leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = leaf * 1
    view = x[1:]
    x.mul_(10)
    assert view.tolist() == [20.0, 30.0]
    view.sum().backward()
    assert leaf.grad.tolist() == [0.0, 10.0, 10.0]


@pytest.mark.parametrize("name", [name for name in FLOATS if name in torch.__all__])
def test_functions_change_their_first_argument(name: str, near: Callable[..., None]) -> None:
    args, reference = FLOATS[name]
    x = torch.tensor(A, dtype=torch.float32)
    assert getattr(torch, name)(x, *tensors(args)) is x
    near(x, reference(), dtype="float32")


def test_functions_in_place_have_their_aliases() -> None:
    x = torch.tensor([-1.5, 2.5])
    assert torch.negative_(torch.fix_(x)) is x
    assert x.tolist() == [1.0, -2.0]
    assert torch.zero_(torch.fill_(x, 3)).tolist() == [0.0, 0.0]


def test_expanded_tensors_are_filled(device):
    x = torch.zeros(3)
    x.unsqueeze(0).expand(4, 3).fill_(2)
    assert x.tolist() == [2.0, 2.0, 2.0]
    x.expand(4, 3).zero_()
    assert x.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ShapeError, match="elements that are written have memory of their own"):
        x.expand(4, 3).add_(1)


def test_masks_are_of_bools(device):
    x = torch.ones(2)
    for mask in (torch.ones(2, dtype=torch.uint8), torch.ones(2, dtype=torch.int64)):
        with pytest.raises(DtypeError, match="a mask is of bools"):
            x.masked_select(mask)


def test_a_complex_number_fills_no_real_tensor(device):
    for dtype in (torch.bool_, torch.int32, torch.float32):
        with pytest.raises(DtypeError, match="a complex number has no real form"):
            torch.ones(2, dtype=dtype).index_fill_(0, torch.tensor([0]), 1 + 1j)
