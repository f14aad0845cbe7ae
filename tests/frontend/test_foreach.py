"""Operators over lists of tensors."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError


def lists():
    return [torch.tensor([1.0, -2.0]), torch.tensor([[3.0]])], [torch.tensor([0.5, 4.0]), torch.tensor([[2.0]])]


def values(tensors):
    return [x.tolist() for x in tensors]


@pytest.mark.parametrize(("call", "expected"), [
    (lambda x, y: torch._foreach_add(x, y, alpha=2), [[2.0, 6.0], [[7.0]]]),
    (lambda x, y: torch._foreach_add(x, 1.0), [[2.0, -1.0], [[4.0]]]),
    (lambda x, y: torch._foreach_sub(x, [1.0, 2.0]), [[0.0, -3.0], [[1.0]]]),
    (lambda x, y: torch._foreach_mul(x, torch.tensor(2.0)), [[2.0, -4.0], [[6.0]]]),
    (lambda x, y: torch._foreach_div(x, y), [[2.0, -0.5], [[1.5]]]),
    (lambda x, y: torch._foreach_lerp(x, y, 0.5), [[0.75, 1.0], [[2.5]]]),
    (lambda x, y: torch._foreach_addcmul(x, y, y, 2.0), [[1.5, 30.0], [[11.0]]]),
    (lambda x, y: torch._foreach_addcdiv(x, x, y, torch.tensor([1.0, 2.0])), [[3.0, -2.5], [[6.0]]]),
    (lambda x, y: torch._foreach_maximum(x, y), [[1.0, 4.0], [[3.0]]]),
    (lambda x, y: torch._foreach_minimum(x, 0.0), [[0.0, -2.0], [[0.0]]]),
    (lambda x, y: torch._foreach_clamp_max(x, 0.5), [[0.5, -2.0], [[0.5]]]),
    (lambda x, y: torch._foreach_clamp_min(x, [0.5, 9.0]), [[1.0, 0.5], [[9.0]]]),
    (lambda x, y: torch._foreach_pow(x, 2), [[1.0, 4.0], [[9.0]]]),
    (lambda x, y: torch._foreach_abs(x), [[1.0, 2.0], [[3.0]]]),
    (lambda x, y: torch._foreach_neg(x), [[-1.0, 2.0], [[-3.0]]]),
    (lambda x, y: torch._foreach_max(x), [1.0, 3.0]),
    (lambda x, y: torch._foreach_norm(x, 1), [3.0, 3.0]),
    (lambda x, y: torch._foreach_norm(x, float("inf")), [2.0, 3.0]),
    (lambda x, y: torch._foreach_powsum(x, 2), [5.0, 9.0]),
    (lambda x, y: torch._foreach_mm([x[1]], [y[1]]), [[[6.0]]]),
])
def test_results_leave_the_operands_alone(call, expected):
    x, y = lists()
    np.testing.assert_equal(values(call(x, y)), expected)
    assert values(x) == values(lists()[0])


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "div_", "maximum_", "minimum_", "copy_", "pow_",
                                  "clamp_min_", "clamp_max_"])
def test_changes_in_place(name):
    x, y = lists()
    x[0].abs_()
    wanted = {"add_": np.add, "sub_": np.subtract, "mul_": np.multiply, "div_": np.divide, "maximum_": np.maximum,
              "minimum_": np.minimum, "copy_": lambda a, b: b, "pow_": np.power, "clamp_min_": np.maximum,
              "clamp_max_": np.minimum}[name]
    expected = [wanted(a.numpy(), b.numpy()) for a, b in zip(x, y, strict=True)]
    getattr(torch, f"_foreach_{name}")(x, y)
    for a, b in zip(x, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-6)


def test_zeros_and_moments_in_place():
    x, y = lists()
    torch._foreach_lerp_(x, y, 0.5)
    torch._foreach_addcmul_(x, y, y, value=2.0)
    assert values(x) == [[1.25, 33.0], [[10.5]]]
    torch._foreach_zero_(x)
    assert values(x) == [[0.0, 0.0], [[0.0]]]


def test_one_base_for_all_exponents():
    assert values(torch._foreach_pow(2.0, lists()[1][1:])) == [[[4.0]]]


def test_lists_are_equally_long():
    with pytest.raises(ArgumentError, match=r"\[_foreach_add\] 2 tensors and 1 operands — the lists are equally long"):
        torch._foreach_add(lists()[0], [1.0])


def test_unknown_names_are_absent():
    assert not hasattr(torch, "_foreach_unknown")


def test_weights_of_interpolations_by_name():
    starts, ends = [torch.tensor([0.0, 2.0])], [torch.tensor([4.0, 4.0])]
    assert torch._foreach_lerp(starts, ends, weight=0.25)[0].tolist() == [1, 2.5]
    assert torch._foreach_lerp(starts, tensors1=ends, weights=[torch.tensor(0.5)])[0].tolist() == [2, 3]
    torch._foreach_lerp_(starts, ends, weight=0.25)
    assert starts[0].tolist() == [1, 2.5]


@pytest.mark.parametrize("name", ["clamp_min", "clamp_max", "maximum", "minimum", "pow"])
@pytest.mark.parametrize("form", ["", "_"])
def test_numbers_that_halves_do_not_hold_are_refused(name, form):
    function = getattr(torch, f"_foreach_{name}{form}")
    for dtype, number in ((torch.float16, 65520), (torch.float16, -70000.0), (torch.bfloat16, 1e40)):
        with pytest.raises(ArgumentError, match=rf"\[_foreach_{name}{form}\] .+ — the dtype holds numbers up to"):
            function([torch.ones(2, dtype=dtype)], number)
        with pytest.raises(ArgumentError, match="the dtype holds numbers up to"):
            function([torch.ones(2), torch.ones(2, dtype=dtype)], [1, number])
    assert len(function([torch.ones(2, dtype=torch.float16)], float("inf"))) == 1


def test_factors_that_sums_do_not_hold_are_refused():
    half, single = torch.ones(2, dtype=torch.float16), torch.ones(2)
    for name in ("add", "sub", "add_", "sub_"):
        for x, alpha in ((half, 70000), (single, 1e40)):
            with pytest.raises(ArgumentError, match=rf"\[_foreach_{name}\] .+ — the dtype holds numbers up to"):
                getattr(torch, f"_foreach_{name}")([x], [x], alpha=alpha)
    assert values(torch._foreach_add([single], [half], alpha=70000)) == [[70001.0, 70001.0]]
    for name in ("addcmul", "addcdiv"):
        with pytest.raises(ArgumentError, match=rf"\[_foreach_{name}\] .+ — the dtype holds numbers up to"):
            getattr(torch, f"_foreach_{name}")([single], [single], [single], 1e40)
    assert values(torch._foreach_addcmul([half], [half * 0.5], [half], 70000)) == [[35008.0, 35008.0]]
