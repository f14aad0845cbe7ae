"""Keywords of factories beside dtype, device and requires_grad: sizes by name, layout, pinned memory, ``out``."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.formats import layout
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DeviceMismatch,
    DtypeError,
    UndefinedDtype,
)

X = torch.zeros(2, device="ref")
#: Calls whose result has no elements that matter, as ``call(**keywords)``.
CALLS = {
    "zeros": lambda **k: torch.zeros(2, 3, **k), "ones": lambda **k: torch.ones(2, 3, **k),
    "empty": lambda **k: torch.empty(2, 3, **k), "full": lambda **k: torch.full((2, 3), 1.5, **k),
    "rand": lambda **k: torch.rand(2, 3, **k), "randn": lambda **k: torch.randn(2, 3, **k),
    "randint": lambda **k: torch.randint(9, (2, 3), **k), "randperm": lambda **k: torch.randperm(5, **k),
    "arange": lambda **k: torch.arange(5, **k), "linspace": lambda **k: torch.linspace(0, 1, 5, **k),
    "eye": lambda **k: torch.eye(3, 4, **k),
    "empty_strided": lambda **k: torch.empty_strided((2, 3), (3, 1), **k),
    "empty_permuted": lambda **k: torch.empty_permuted((2, 3), (0, 1), **k),
    "zeros_like": lambda **k: torch.zeros_like(X, **k), "ones_like": lambda **k: torch.ones_like(X, **k),
    "empty_like": lambda **k: torch.empty_like(X, **k), "full_like": lambda **k: torch.full_like(X, 2, **k),
    "rand_like": lambda **k: torch.rand_like(X, **k), "randn_like": lambda **k: torch.randn_like(X, **k),
    "new_zeros": lambda **k: X.new_zeros(2, 3, **k), "new_ones": lambda **k: X.new_ones(2, 3, **k),
    "new_empty": lambda **k: X.new_empty(2, 3, **k), "new_full": lambda **k: X.new_full((2, 3), 1, **k),
}
SIZED = {
    "zeros": torch.zeros, "ones": torch.ones, "empty": torch.empty, "rand": torch.rand, "randn": torch.randn,
    "new_zeros": X.new_zeros, "new_ones": X.new_ones, "new_empty": X.new_empty,
}
WITHOUT_OUT = [name for name in CALLS if name.startswith("new_") or name.endswith(("_like", "strided", "permuted"))]


@pytest.mark.parametrize("name", SIZED)
def test_sizes_by_name(name):
    make = SIZED[name]
    for size in ((2, 3), [2, 3], torch.Size((2, 3)), ()):
        assert tuple(make(size=size).shape) == tuple(size)
    with pytest.raises(ArgumentTypeError, match=rf"^\[{name}\] sizes \(2,\) and size=\(3,\) — sizes are given once — "):
        make(2, size=(3,))
    with pytest.raises(ArgumentTypeError, match=rf"^\[{name}\] size=2 — size is a tuple of integers — "):
        make(size=2)


def test_sizes_by_name_of_other_factories():
    assert torch.full(size=(2,), fill_value=3).tolist() == [3, 3]
    for x in (torch.randint(4, size=(5,)), torch.randint(high=4, size=[5]), torch.randint(low=0, high=4, size=(5,))):
        assert tuple(x.shape) == (5,)
        assert 0 <= x.min().item() <= x.max().item() < 4


@pytest.mark.parametrize("name", CALLS)
def test_layout_and_pinned_memory_change_nothing(name):
    call = CALLS[name]
    expected = call()
    for keywords in ({"layout": torch.strided}, {"pin_memory": True}, {"layout": None, "pin_memory": False},
                     {"pin_memory": None, "layout": torch.strided}):
        x = call(**keywords)
        assert (x.shape, x.dtype, x.device, x.stride()) == (
            expected.shape, expected.dtype, expected.device, expected.stride())


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("keywords", "kind", "text"), [
    ({"layout": 3}, ArgumentTypeError, r"layout of type int — a layout is tensocket\.strided — "),
    ({"layout": layout("sparse_coo")}, ArgumentError, r"layout tensocket\.sparse_coo — tensors are strided — "),
    ({"pin_memory": 3}, ArgumentTypeError, "pin_memory=3 — pin_memory is True or False — "),
    ({"names": None}, ArgumentTypeError, "a keyword 'names' — keywords are those that the function documents — "),
    ({"colour": "red"}, ArgumentTypeError, "a keyword 'colour' — keywords are those that the function documents — "),
])
def test_keywords_are_checked(name, keywords, kind, text):
    operator = "empty_strided" if name == "empty_permuted" else name
    with pytest.raises(kind, match=rf"^\[{operator}\] {text}"):
        CALLS[name](**keywords)


def test_values_have_other_keywords():
    assert torch.tensor([1], pin_memory=True).tolist() == [1]
    for call in (lambda: torch.tensor([1], layout=torch.strided), lambda: X.new_tensor([1], layout=torch.strided)):
        with pytest.raises(ArgumentTypeError, match="keyword 'layout'"):
            call()


@pytest.mark.parametrize("name", [name for name in CALLS if name not in WITHOUT_OUT])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_out(device, name, dtype):
    out = torch.full((7,), -5.0, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of arange
        result = CALLS[name](out=out)
    assert result is out
    assert (result.dtype, result.shape) == (dtype, CALLS[name]().shape)
    if name in ("zeros", "ones", "full", "arange", "linspace", "eye"):
        np.testing.assert_allclose(out.numpy(force=True), CALLS[name]().numpy(force=True), rtol=1e-6)


@pytest.mark.parametrize("name", WITHOUT_OUT)
def test_no_out(name):
    if not name.startswith("empty_strided") and name != "empty_permuted":
        with pytest.raises(ArgumentTypeError, match="keyword 'out'"):
            CALLS[name](out=torch.zeros(2))


def test_out_keeps_its_memory_and_says_the_dtype():
    out = torch.zeros(4, 2)
    column = out[:, 0]
    assert torch.arange(4, out=column) is column
    assert out.tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]
    whole = torch.zeros(3, dtype=torch.int32)
    assert torch.full((3,), 1.75, out=whole).tolist() == [1, 1, 1]
    assert torch.linspace(0, 1, 3, out=whole).tolist() == [0, 0, 1]
    assert torch.zeros(3, out=whole, dtype=torch.int32).tolist() == [0, 0, 0]
    version = whole._version
    torch.ones(3, out=whole)
    assert whole._version > version
    assert torch.zeros(2, out=torch.ones(2), requires_grad=True).requires_grad
    assert torch.zeros(2, out=None).tolist() == [0, 0]


def test_out_that_is_resized():
    with pytest.warns(UserWarning, match=r"^\[arange\] An output with .+ was resized: \[1\] became \[3\] — .+ — .+"):
        assert torch.arange(3, out=torch.empty(1)).tolist() == [0, 1, 2]
    assert torch.arange(3, out=torch.empty(0)).tolist() == [0, 1, 2]
    assert torch.zeros(3, out=torch.ones(7)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("call", "kind", "text"), [
    (lambda: torch.zeros(2, out=3), ArgumentTypeError, "out of type int — out is a tensor"),
    (lambda: torch.zeros(2, out=X, dtype=torch.int32), DtypeError,
     "for out of dtype float32 — out says the result's dtype"),
    (lambda: torch.zeros(2, out=X, device="meta"), DeviceMismatch,
     r"device meta for out on .+ — out says the result's device"),
    (lambda: torch.zeros(2, out=torch.ones(2, requires_grad=True)), AutogradError, "an out that requires grad — "),
    (lambda: torch.empty(1, 2, 3, 4, memory_format=torch.channels_last, out=torch.empty(0)), ArgumentError,
     "memory_format and out — out lies in memory as it does"),
    (lambda: torch.rand(2, out=torch.zeros(2, dtype=torch.int32)), UndefinedDtype, "dtype int32 — random floats"),
])
def test_out_is_checked(call, kind, text):
    with pytest.raises(kind, match=rf"^\[\w+\] .*{text}"):
        call()


def test_out_that_requires_grad_outside_of_recording():
    leaf = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert torch.zeros(2, out=leaf).tolist() == [0, 0]


@pytest.mark.parametrize(("args", "keywords"), [
    ((3,), {}), ((3, 4), {}), ((0, 3, 2), {}), ((), {"size": (2,)}), ((1.5, (2,)), {})])
def test_arguments_of_randint(args, keywords):
    rules = "size is a tuple of ints|bounds are integers"
    with pytest.raises(ArgumentTypeError, match=rf"^\[randint\] .+ — ({rules}) — .+"):
        torch.randint(*args, **keywords)


def test_randint_and_randperm_of_floats_require_grad():
    assert torch.randint(0, 3, (2,), dtype=torch.float32, requires_grad=True).requires_grad
    assert torch.randperm(3, dtype=torch.float32, requires_grad=True).is_leaf
    with pytest.raises(AutogradError, match="True for a tensor of dtype int64"):
        torch.randint(3, (2,), requires_grad=True)


@pytest.mark.parametrize("draw", [torch.rand_like, torch.randn_like])
def test_draws_lie_in_memory_as_their_tensor(device, draw):
    x = torch.zeros(2, 3, 4, 5).permute(0, 2, 3, 1)
    assert draw(x).stride() == torch.empty_like(x).stride()
    assert draw(x, memory_format=torch.contiguous_format).stride() == torch.zeros(2, 4, 5, 3).stride()
    assert draw(torch.zeros(2, 3, 4, 5), memory_format=torch.channels_last).is_contiguous(
        memory_format=torch.channels_last)
    torch.manual_seed(4)
    expected = draw(torch.zeros(2, 4, 5, 3))
    torch.manual_seed(4)
    assert draw(x).tolist() == expected.tolist()


def test_booleans_are_no_sizes():
    for call in (lambda: torch.zeros(True), lambda: torch.ones((False,), device="meta"), lambda: torch.full(2, 1)):
        with pytest.raises(ArgumentTypeError, match="size"):
            call()


def test_bounds_of_linspace_may_be_tensors():
    assert torch.linspace(torch.tensor(0.0), torch.tensor(1.0), 3).tolist() == [0, 0.5, 1]
