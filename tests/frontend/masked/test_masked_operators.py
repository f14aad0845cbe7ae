"""Operators on masked tensors: their values are those of NumPy on the data, with the mask beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket.masked import MaskedTensor, as_masked_tensor, masked_tensor
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

DATA = np.array([[0.5, 0.25, 0.75], [0.125, 0.9, 0.6]])
OTHER = np.array([[2.0, 3.0, 0.5], [1.5, 4.0, 8.0]])
MASK = np.array([[True, False, True], [False, False, True]])
LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)


def made(data: Any = DATA, mask: Any = MASK, layout: Any = torch.strided, **options: Any) -> Any:
    values, marks = torch.tensor(data), torch.tensor(mask)
    if layout is not torch.strided:
        marks = marks.to_sparse(layout=layout)
        values = values.sparse_mask(marks)
    return masked_tensor(values, marks, **options)


def check(masked: Any, expected: Any, mask: Any = MASK) -> None:
    """Elements that count are as expected, and the others are those of the mask."""
    data, held = masked.get_data().detach(), masked.get_mask()
    data, held = (x.to_dense() if x.layout is not torch.strided else x for x in (data, held))
    assert held.tolist() == np.asarray(mask).tolist()
    got = np.ma.MaskedArray(np.array(data.tolist()), mask=~np.asarray(mask))
    wanted = np.ma.MaskedArray(np.asarray(expected), mask=~np.asarray(mask))
    np.testing.assert_allclose(got.filled(0), wanted.filled(0), rtol=1e-12)


_UNARY: Any = {
    "abs": np.abs, "neg": np.negative, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "tanh": np.tanh,
    "square": np.square, "reciprocal": np.reciprocal, "floor": np.floor, "sign": np.sign, "deg2rad": np.deg2rad,
    "expm1": np.expm1, "arcsin": np.arcsin, "trunc": np.trunc, "positive": np.positive}
_BINARY: Any = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floor_divide": np.floor_divide,
    "remainder": np.remainder, "fmod": np.fmod, "atan2": np.arctan2, "maximum": np.maximum, "fmin": np.fmin,
    "logaddexp": np.logaddexp, "eq": np.equal, "lt": np.less, "greater_equal": np.greater_equal}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", _UNARY)
def test_unary(name: str, layout: Any) -> None:
    check(getattr(torch, name)(made(layout=layout)), _UNARY[name](DATA))
    x = made(layout=layout)
    if name != "positive":
        assert getattr(x, f"{name}_")() is x
        check(x, _UNARY[name](DATA))


def test_unary_with_numbers() -> None:
    check(made() ** 3, DATA ** 3)
    check(torch.clamp(made(), min=0.3, max=0.7), np.clip(DATA, 0.3, 0.7))
    check(torch.round(made(), decimals=1), np.round(DATA, 1))
    check(torch.nan_to_num(made(np.where(MASK, np.inf, 0)), posinf=1.0), np.ones((2, 3)))
    for call in (lambda: made() ** torch.ones(2, 3), lambda: torch.clamp(torch.ones(2, 3), made())):
        with pytest.raises(ArgumentTypeError, match=r"unary ops do not support additional Tensor arguments.*"
                           "the operator takes one masked tensor and numbers"):
            call()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", _BINARY)
def test_binary(name: str, layout: Any) -> None:
    function, expected = getattr(torch, name), _BINARY[name](DATA, OTHER)
    check(function(made(layout=layout), made(OTHER, layout=layout)), expected)
    if layout is torch.strided:
        check(function(made(), torch.tensor(OTHER)), expected)
        check(function(torch.tensor(DATA), made(OTHER)), expected)
    if name not in ("atan2", "maximum", "fmin", "logaddexp"):
        check(function(made(layout=layout), 2), _BINARY[name](DATA, 2))
    if name in ("add", "sub", "mul", "div"):
        x = made(layout=layout)
        assert getattr(x, f"{name}_")(made(OTHER, layout=layout)) is x
        check(x, expected)


def test_numbers_on_the_left_and_options() -> None:
    check(2 - made(), 2 - DATA)
    check(1 / made(), 1 / DATA)
    check(torch.add(made(), made(OTHER), alpha=3), DATA + 3 * OTHER)
    check(torch.div(made(OTHER), made(), rounding_mode="floor"), OTHER // DATA)
    check(made() < made(OTHER), DATA < OTHER)
    check(torch.add(made(), other=made(OTHER)), DATA + OTHER)


def test_masks_broadcast_with_data() -> None:
    x = made(DATA[0], MASK[0])
    check(x + torch.tensor(OTHER), DATA[0] + OTHER, np.broadcast_to(MASK[0], (2, 3)))


def test_operands_have_one_mask() -> None:
    for call in (lambda: made() + made(mask=~MASK), lambda: made().mul_(made(mask=~MASK))):
        with pytest.raises(ArgumentError, match=r"different masks: Input masks must match.*"
                           "an element counts in both operands or in neither"):
            call()
    with pytest.raises(ArgumentTypeError, match=r"\[add\] more than two tensors.*the operator takes two operands"):
        MaskedTensor.__torch_function__(torch.add, (), (made(), made(), made()))
    with pytest.raises(ArgumentTypeError, match=r"\[add_\] a masked operand for a plain tensor.*"
                       r"plain tensors have no mask"):
        torch.ones(2, 3, dtype=torch.float64).add_(made())


def test_sparse_operands_pair_up() -> None:
    x = made(layout=torch.sparse_coo)
    with pytest.raises(ArgumentError, match=r"input1 and input2 must have the same size for binary functions.*"
                       "sparse operands have one layout and shape"):
        x + torch.tensor(OTHER).to_sparse_csr()
    with pytest.raises(ArgumentError, match=r"sparse_coo indices must match.*sparse operands store the same elements"):
        x + torch.tensor(OTHER).to_sparse()
    check(x + torch.tensor(OTHER).sparse_mask(x.get_mask()), DATA + OTHER)


@pytest.mark.parametrize("name", ["max", "sort", "cumsum", "matmul", "mse_loss", "relu"])
def test_operators_without_a_rule_are_refused(name: str) -> None:
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    others = {"matmul": (torch.tensor(DATA.T),), "mse_loss": (made(),), "cumsum": (0,)}.get(name, ())
    with pytest.raises(ArgumentTypeError, match="the operator is not implemented in "
                       "__torch_dispatch__ for MaskedTensor"):
        function(made(), *others)


_MOVES: Any = {
    "item": (lambda x: x[1], lambda x: x[1]), "slice": (lambda x: x[:, 1:], lambda x: x[:, 1:]),
    "places": (lambda x: x[torch.tensor([1, 0])], lambda x: x[[1, 0]]),
    "select": (lambda x: x.select(1, 2), lambda x: x[:, 2]), "transpose": (lambda x: x.transpose(0, 1), lambda x: x.T),
    "t": (lambda x: x.t(), lambda x: x.T), "expand": (lambda x: x.expand(4, 2, 3), lambda x: np.stack([x] * 4)),
    "view": (lambda x: x.view(3, 2), lambda x: x.reshape(3, 2)), "reshape": (lambda x: x.reshape(-1), np.ravel),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda x: x[:, None]),
    "unfold": (lambda x: x.unfold(1, 2, 1), lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1)),
    "cat": (lambda x: torch.cat([x, x], 1), lambda x: np.concatenate([x, x], 1)),
    "stack": (lambda x: torch.stack((x, x)), lambda x: np.stack([x, x])),
    "permute": (lambda x: x.permute(1, 0), lambda x: x.T), "split": (lambda x: x.split(2, 1)[1], lambda x: x[:, 2:]),
    "unbind": (lambda x: x.unbind(1)[0], lambda x: x[:, 0]), "flatten": (lambda x: x.flatten(), np.ravel)}


@pytest.mark.parametrize("name", _MOVES)
def test_moves(name: str) -> None:
    move, expected = _MOVES[name]
    x = made(requires_grad=True)
    y = move(x)
    check(y, expected(DATA), expected(MASK))
    (y * y).sum().backward()
    times = 4 if name == "expand" else 2 if name in ("cat", "stack") else 1
    if name in ("expand", "cat", "stack", "view", "reshape", "flatten", "transpose", "t", "permute", "places",
                "unsqueeze"):
        check(x.grad, 2 * times * DATA)


def test_plain_tensors_join_as_a_whole() -> None:
    y = torch.cat([made(), torch.tensor(OTHER)])
    check(y, np.concatenate([DATA, OTHER]), np.concatenate([MASK, np.ones((2, 3), bool)]))


def test_results_are_copies() -> None:
    x = made()
    x[0].zero_()
    check(x, DATA)


def test_where() -> None:
    chosen = DATA > 0.55
    x, y = made(requires_grad=True), made(OTHER, ~MASK, requires_grad=True)
    z = torch.where(torch.tensor(chosen), x, y)
    held = np.where(chosen, MASK, ~MASK)
    check(z, np.where(chosen, DATA, OTHER), held)
    (z * 3).sum().backward()
    check(x.grad, np.where(chosen, 3.0, 0.0))
    check(y.grad, np.where(chosen, 0.0, 3.0), ~MASK)
    check(x.detach().where(torch.tensor(chosen), torch.tensor(OTHER)), np.where(chosen, DATA, OTHER),
          np.where(chosen, MASK, True))
    check(torch.where(torch.tensor(chosen), x.detach(), 1.0), np.where(chosen, DATA, 1.0), np.where(chosen, MASK, True))
    with pytest.raises(ArgumentError, match=r"torch.where: len\(args\) must be 3 but got 2.*"
                       r"a choice is between two tensors"):
        torch.where(torch.tensor(chosen), x)


# ---------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_masked(layout: Any) -> None:
    x = made(np.where(MASK, DATA, np.nan), layout=layout, requires_grad=True)
    y = (x * x + x.exp() / 2).sum()
    y.backward()
    assert x.grad.layout is layout
    check(x.grad, 2 * DATA + np.exp(DATA) / 2)
    np.testing.assert_allclose(y.item(), (DATA ** 2 + np.exp(DATA) / 2)[MASK].sum(), rtol=1e-12)


def test_gradients_pass_through_constructors_and_data() -> None:
    leaf = torch.tensor(DATA, requires_grad=True)
    x = as_masked_tensor(leaf, torch.tensor(MASK))
    (x * 5).sum().backward()
    check(leaf.grad, np.full((2, 3), 5.0))
    y = made(requires_grad=True)
    (y.to_tensor(9.0) ** 2).sum().backward()
    check(y.grad, 2 * DATA)


def test_gradients_of_gradients() -> None:
    x = made(requires_grad=True)
    (grad,) = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    check(grad, 3 * DATA ** 2)
    grad.sum().backward()
    check(x.grad, 6 * DATA)


def test_gradients_of_writes() -> None:
    x = made(requires_grad=True)
    y = x * 1
    y.mul_(3)
    y.exp_()
    y.sum().backward()
    check(x.grad, 3 * np.exp(3 * DATA))
    with pytest.raises(RuntimeError, match="leaf"):
        x.mul_(2)


def test_gradients_add_up() -> None:
    x = made(requires_grad=True)
    (x + x[:, :3] * 2).sum().backward()
    x.sum().backward()
    check(x.grad, np.full((2, 3), 4.0))
