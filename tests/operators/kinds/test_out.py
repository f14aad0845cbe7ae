"""Arguments for ``out=``: dtypes, memory of its own, memory of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tensocket_operators as torch
from tensocket_core.geometry import dense_overlaps
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import DtypeError, ShapeError

WIDE = torch.empty(2, dtype=torch.float64, device="ref")


def x() -> Any:
    return torch.tensor([3.0, 1.0])


@pytest.mark.parametrize("call", [
    lambda out: F.gather(x(), 0, torch.tensor([0, 1]), out=out), lambda out: F.floor(x(), out=out),
    lambda out: F.softmax(x(), 0, out=out), lambda out: F.matmul(torch.ones(2, 2), x(), out=out),
    lambda out: F.amax(torch.ones(2, 2), 0, out=out), lambda out: F.sort(x(), out=(out, torch.tensor([0, 0]))),
    lambda out: F.isin(x(), x(), out=out), lambda out: F.tensordot(x(), torch.ones(1, 2), 0, out=out),
])
def test_out_of_another_dtype_is_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises(DtypeError, match="out has the result's dtype — pass an out of that dtype"):
        call(WIDE)


def test_arithmetic_converts_to_out() -> None:
    out = torch.empty(2, dtype=torch.float64)
    assert F.add(x(), x(), out=out) is out
    assert out.tolist() == [6.0, 2.0]
    assert F.diff(torch.tensor([1.0, 4.0, 9.0]), out=torch.empty(2)).tolist() == [3.0, 5.0]


def test_out_within_an_operand() -> None:
    a, index = torch.tensor([5.0, 6.0, 7.0]), torch.tensor([2, 1, 0])
    for call in (lambda: F.take(a, index, out=a), lambda: F.gather(a, 0, index, out=a),
                 lambda: F.masked_select(a, a > 5, out=a[:2]),
                 lambda: F.topk(a, 2, out=(a[1:], index)),
                 lambda: F.index_select(a, 0, index, out=a)):
        with pytest.raises(ShapeError, match="out has memory of its own here — clone"):
            call()
    assert a.tolist() == [5.0, 6.0, 7.0]
    assert F.add(a, a, out=a).tolist() == [10.0, 12.0, 14.0]
    assert F.take(a, index, out=torch.empty(3)).tolist() == [14.0, 12.0, 10.0]


@pytest.mark.parametrize(("name", "expected"), [("max", [2.0, 5.0]), ("min", [1.0, 3.0])])
def test_out_of_two_tensors_may_be_one_of_them(name: str, expected: list[float]) -> None:
    function = getattr(F, name)
    for place in (0, 1):
        pair = torch.tensor([1.0, 5.0]), torch.tensor([2.0, 3.0])
        assert function(*pair, out=pair[place]) is pair[place]
        assert pair[place].tolist() == expected
    assert function(pair[0], other=torch.tensor([2.0, 3.0])).tolist() == expected
    with pytest.raises(ShapeError, match="out has memory of its own here"):
        function(pair[0], 0, out=(pair[0][0], torch.tensor(0)))


def test_out_with_shared_elements_is_refused_before_it_is_resized() -> None:
    out = torch.zeros(1).expand(2)
    with pytest.raises(ShapeError, match="elements that are written have memory of their own"):
        F.index_select(torch.ones(3), 0, torch.tensor([0, 1, 2]), out=out)


def test_overlap(device: str) -> None:
    whole = torch.zeros(6, device=device)
    a, b, c = (whole[s]._array for s in (slice(0, 3), slice(3, 6), slice(2, 5)))
    assert not dense_overlaps(a, b)
    assert dense_overlaps(a, c)
    assert not dense_overlaps(whole[::2]._array, a)  # gaps: as far as anybody knows
    assert not dense_overlaps(torch.zeros(6, device=device)._array, a)
    assert not dense_overlaps(whole[:0]._array, a)


def test_an_out_without_elements_lies_in_memory_as_the_result(device):
    x = torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)
    for operator in (torch.exp, lambda x, out: torch.eq(x, x, out=out), lambda x, out: torch.add(x, x, out=out)):
        out = torch.empty(0, dtype=torch.float32)
        assert operator(x, out=out).stride() == (1, 12, 4)
        assert out.tolist() == operator(x, out=torch.empty(4, 2, 3)).tolist()


def test_several_copies_go_to_tensors(device):
    x = torch.arange(6.0).reshape(3, 2)
    outs = [torch.zeros(1, 2), torch.zeros(2, 2)]
    assert torch.split_with_sizes_copy(x, [1, 2], out=outs) is None
    assert [out.tolist() for out in outs] == [[[0, 1]], [[2, 3], [4, 5]]]
    parts = (torch.zeros(2), torch.zeros(2), torch.zeros(2))
    torch.unbind_copy(x, out=parts)
    assert [part.tolist() for part in parts] == x.tolist()
    torch.split_copy(x, 2, 1, out=(whole := torch.empty(3, 2),))
    assert whole.tolist() == x.tolist()


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float64", "bool_"])
def test_draws_of_zeros_and_ones_go_to_any_dtype(device, dtype, dtypes):
    out = torch.full((40,), 1, dtype=torch.bool_ if dtype == "bool_" else dtypes[dtype])
    torch.bernoulli(torch.full((40,), 0.5), out=out)
    assert set(out.tolist()) == {0, 1}


@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_is_written_to_bools_and_bytes(name):
    function, x = getattr(torch, name), torch.tensor([1.0, 2.0])
    for dtype in (x.gt(0).dtype, torch.uint8):
        out = torch.empty((), dtype=dtype)
        assert function(x, 0, out=out) is out
        assert out.dtype is dtype
        assert out.item() == 1
        assert function(x.to(torch.uint8), 0, out=out).item() == 1
    with pytest.raises(RuntimeError, match="out is of bools or uint8"):
        function(x, out=torch.empty(()))


@pytest.mark.parametrize("call", [
    lambda x, out: torch.sum(x, 0, dtype=torch.int32, out=out),
    lambda x, out: torch.prod(x, 0, dtype=torch.int32, out=out),
    lambda x, out: torch.cumsum(x, 0, dtype=torch.float64, out=out),
    lambda x, out: torch.cumprod(x, 0, dtype=torch.float64, out=out),
    lambda x, out: torch.mean(x, 0, dtype=torch.float64, out=out),
    lambda x, out: torch.nansum(x, 0, dtype=torch.float64, out=out),
    lambda x, out: torch.max(x, 0, out=(out, torch.empty(0, dtype=torch.int32))),
    lambda x, out: torch.min(x, 0, out=(out.double(), torch.empty(0, dtype=torch.int64))),
    lambda x, out: torch.median(x, 0, out=(out.double(), torch.empty(0, dtype=torch.int64))),
    lambda x, out: torch.nanmedian(x, 0, out=(out.double(), torch.empty(0, dtype=torch.int64))),
])
def test_a_dtype_that_is_asked_for_is_that_of_out(call):
    with pytest.raises(RuntimeError, match="out has the result's dtype"):
        call(torch.ones(3, 3), torch.empty(0))


def test_extremes_of_all_elements_convert_to_out():
    assert torch.max(torch.tensor([1.0, 2.0]), out=torch.empty((), dtype=torch.float64)).item() == 2


def test_sums_are_computed_in_the_dtype_of_out():
    given = torch.tensor([1.5, 1.5])
    assert F.sum(given, 0, out=torch.zeros((), dtype=torch.int64)).item() == 2
    assert F.prod(given, 0, out=torch.zeros((), dtype=torch.int32)).item() == 1
    assert F.cumsum(given, 0, out=torch.zeros(2, dtype=torch.int64)).tolist() == [1, 2]
    assert F.cumprod(given, 0, out=torch.zeros(2, dtype=torch.int64)).tolist() == [1, 1]
    assert F.sum(torch.tensor([1, 2]), 0, out=torch.zeros(())).item() == 3.0
    with pytest.raises(DtypeError, match=r"\[sum\].*out has the result's dtype"):
        F.sum(given, 0, dtype=torch.float32, out=torch.zeros((), dtype=torch.int64))


def test_out_of_where_and_stack_lies_apart_from_operands():
    given = torch.ones(5)
    with pytest.raises(ShapeError, match=r"\[where\].*share no elements, or all of them one by one"):
        F.where(given[:4] > 0, given[:4], given[1:], out=given[1:])
    assert F.where(given > 0, given, 2 * given, out=given) is given
    with pytest.raises(ShapeError, match=r"\[stack\].*out has memory of its own here"):
        F.stack([given[:2], given[2:4]], out=given[:4].view(2, 2))


def test_results_written_to_out_have_a_class_of_their_own() -> None:
    x = torch.tensor([[1.0, 3.0], [4.0, 2.0]])
    out = (torch.empty(2), torch.empty(2, dtype=torch.int64))
    result = torch.max(x, 1, out=out)
    assert type(result).__name__ == "max_out"
    assert result.values is out[0]
    assert result.indices.tolist() == [1, 0]
