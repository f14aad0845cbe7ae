"""``repr`` of tensors: the strings that PyTorch prints, with this project's names of dtypes and devices."""

from __future__ import annotations

import math

import pytest

import tensocket_operators as torch

NEXT = ",\n        "

WHOLE_LISTS = [
    (3, "tensor(3, device='ref:0')"),
    (2.5, "tensor(2.5000, device='ref:0')"),
    (1e-7, "tensor(1.0000e-07, device='ref:0')"),
    (True, "tensor(True, device='ref:0')"),
    ([1, 2, 300], "tensor([  1,   2, 300], device='ref:0')"),
    ([-1, 20], "tensor([-1, 20], device='ref:0')"),
    ([True, False], "tensor([ True, False], device='ref:0')"),
    ([1.0, 2.0], "tensor([1., 2.], device='ref:0')"),
    ([0.0, 0.0], "tensor([0., 0.], device='ref:0')"),
    ([123456789.0], "tensor([1.2346e+08], device='ref:0')"),
    ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00], device='ref:0')"),
    ([1e9, 1.0], "tensor([1.0000e+09, 1.0000e+00], device='ref:0')"),
    ([0.0001, 1000.0], "tensor([1.0000e-04, 1.0000e+03], device='ref:0')"),
    ([0.1, -123.456], "tensor([ 1.0000e-01, -1.2346e+02], device='ref:0')"),
    ([0.5, 100.25], "tensor([  0.5000, 100.2500], device='ref:0')"),
    ([0.001, 1.0], "tensor([0.0010, 1.0000], device='ref:0')"),
    ([0.5, -12.25], "tensor([  0.5000, -12.2500], device='ref:0')"),
    ([math.nan, 1.0, math.inf, -2.0], "tensor([nan,  1., inf, -2.], device='ref:0')"),
    ([[1.0, 2.0], [3.0, 4.5]], "tensor([[1.0000, 2.0000],\n        [3.0000, 4.5000]], device='ref:0')"),
]


@pytest.mark.parametrize(("values", "text"), WHOLE_LISTS, ids=[text[7:30] for _, text in WHOLE_LISTS])
def test_values(values, text):
    assert repr(torch.tensor(values)) == text
    assert str(torch.tensor(values)) == text


def test_dimensions_are_separated_by_lines():
    assert repr(torch.arange(24).reshape(2, 3, 4)) == (
        "tensor([[[ 0,  1,  2,  3],\n         [ 4,  5,  6,  7],\n         [ 8,  9, 10, 11]],\n\n"
        "        [[12, 13, 14, 15],\n         [16, 17, 18, 19],\n         [20, 21, 22, 23]]], device='ref:0')")


def test_long_vectors_are_broken_into_lines():
    assert repr(torch.arange(30.0)) == (
        "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
        "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
        "        28., 29.], device='ref:0')")


def test_large_tensors_are_summarised():
    assert repr(torch.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000], device='ref:0')"
    row = "[0., 0., 0.,  ..., 0., 0., 0.]"
    assert repr(torch.zeros(40, 40)) == "tensor([" + NEXT.join([row] * 3 + ["..."] + [row] * 3) + "], device='ref:0')"
    assert "..." not in repr(torch.zeros(1000))


@pytest.mark.parametrize(("size", "dtype", "text"), [
    ((0,), "float32", "tensor([], device='ref:0')"),
    ((2, 0), "float32", "tensor([], device='ref:0', size=(2, 0))"),
    ((0,), "int64", "tensor([], device='ref:0', dtype=tensocket.int64)"),
    ((0, 3), "bool", "tensor([], device='ref:0', size=(0, 3), dtype=tensocket.bool)"),
    ((1,), "float64", "tensor([0.], device='ref:0', dtype=tensocket.float64)"),
    ((1,), "bfloat16", "tensor([0.], device='ref:0', dtype=tensocket.bfloat16)"),
    ((2,), "int8", "tensor([0, 0], device='ref:0', dtype=tensocket.int8)"),
    ((), "float16", "tensor(0., device='ref:0', dtype=tensocket.float16)")])
def test_what_is_not_the_default_is_named(size, dtype, text, dtypes):
    assert repr(torch.zeros(size, dtype=dtypes[dtype])) == text


def test_gradients_are_named():
    x = torch.ones(1, requires_grad=True)
    assert repr(x) == "tensor([1.], device='ref:0', requires_grad=True)"
    assert repr(x.detach()) == "tensor([1.], device='ref:0')"
    assert repr(x * 2).startswith("tensor([2.], device='ref:0', grad_fn=<Mul")


def test_what_does_not_fit_the_line_goes_to_the_next_one():
    # As PyTorch counts: the text, the suffix and 4 characters more are to fit 80.
    text = "tensor([{}]".format(", ".join(["123456."] * 6))
    assert len(text) + len("device='ref:0'") + 4 == 79
    assert repr(torch.tensor([123456.0] * 6)) == f"{text}, device='ref:0')"
    text = "tensor([{}]".format(", ".join(["1234567."] + ["123456.".rjust(8)] * 5))
    assert repr(torch.tensor([1234567.0] + [123456.0] * 5)) == f"{text},\n       device='ref:0')"


def test_a_view_prints_its_own_elements():
    text = "tensor([[0, 3],\n        [1, 4],\n        [2, 5]], device='ref:0')"
    assert repr(torch.arange(6).reshape(2, 3).t()) == text


@pytest.mark.skipif(not torch.is_available("cpu"), reason="no backend on the host is installed")
def test_the_host_is_not_named():
    assert repr(torch.tensor([1.5], device="cpu")) == "tensor([1.5000])"


@pytest.fixture
def options():
    before = torch.get_printoptions()
    yield torch.set_printoptions
    torch.set_printoptions(**before)


@pytest.mark.parametrize(
    ("given", "values", "text"),
    [
        ({"precision": 2}, [1.12345, 2.0], "[1.12, 2.00]"),
        ({"threshold": 5}, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "[0, 1, 2,  ..., 7, 8, 9]"),
        ({"threshold": 5, "edgeitems": 1}, [0, 1, 2, 3, 4, 5, 60], "[ 0,  ..., 60]"),
        ({"linewidth": 20}, [1, 2, 3, 4, 5], "[1, 2, 3, 4,\n        5]"),
        ({"sci_mode": True}, [1.0, 20.0], "[1.0000e+00, 2.0000e+01]"),
        ({"sci_mode": False}, [1e-7, 1.0], "[0.0000, 1.0000]"),
        ({"profile": "short"}, [1.126, 2.0], "[1.13, 2.00]"),
    ],
    ids=repr,
)
def test_options(options, given, values, text):
    options(**given)
    assert repr(torch.tensor(values)).startswith(f"tensor({text},")


def test_options_of_a_block():
    before = torch.get_printoptions()
    with torch.printoptions(precision=1, profile="full"):
        assert torch.get_printoptions() == {**before, "precision": 1, "threshold": math.inf}
        assert "..." not in repr(torch.zeros(1001))
    assert torch.get_printoptions() == before


def test_unknown_profiles_are_refused():
    with pytest.raises(ValueError, match=r"\[set_printoptions\] profile='long' — the profile is 'default'"):
        torch.set_printoptions(profile="long")


def test_a_subclass_is_named():
    class Marked(torch.Tensor):
        pass

    marked = Marked._make_subclass(torch.tensor([1, 2]))
    assert repr(marked) == "Marked([1, 2], device='ref:0')"
