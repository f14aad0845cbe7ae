"""The device ``meta``: shapes, strides and dtypes of results, and the errors of what needs values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core.device import open_device
from tensocket_plugins.contract.errors import DeviceMismatch, MissingDataError

NO_DATA = r"Cannot copy out of meta tensor; no data! — compute it on a device that holds data"


def meta(*shape: int, **options: Any) -> Any:
    return tc.empty(shape, device="meta", **options)


@pytest.mark.parametrize("spelling", ["meta", "meta:0", tc.device("meta")])
def test_factories_make_tensors_without_data(spelling: Any) -> None:
    x = tc.empty(2, 3, device=spelling)
    assert (str(x.device), x.device.index) == ("meta", None)
    assert (tuple(x.shape), x.stride(), x.dtype) == ((2, 3), (3, 1), tc.float32)
    assert x.data_ptr() == 0
    assert tc.zeros(4, dtype=tc.float8_e5m2, device=spelling).dtype is tc.float8_e5m2


def test_nothing_is_allocated() -> None:
    huge = meta(1 << 20, 1 << 20, 1 << 10)
    assert (huge @ huge.transpose(1, 2)).shape == (1 << 20, 1 << 20, 1 << 20)


@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (lambda: tc.tensor([1, 2], device="meta"), (2,), tc.int64),
        (lambda: tc.tensor(float("nan"), device="meta"), (), tc.float32),
        (lambda: tc.full((2, 1), True, device="meta"), (2, 1), tc.bool_),
        (lambda: tc.arange(2, 10, 3, device="meta"), (3,), tc.int64),
        (lambda: tc.linspace(0, 1, 5, device="meta"), (5,), tc.float32),
        (lambda: tc.eye(3, device="meta"), (3, 3), tc.float32),
        (lambda: tc.rand(3, 2, device="meta"), (3, 2), tc.float32),
        (lambda: tc.randn(3, device="meta", dtype=tc.float16), (3,), tc.float16),
        (lambda: tc.randint(0, 9, (4,), device="meta"), (4,), tc.int64),
        (lambda: tc.randperm(6, device="meta"), (6,), tc.int64),
        (lambda: tc.bernoulli(meta(3)), (3,), tc.float32),
        (lambda: tc.ones(2, 3).to("meta"), (2, 3), tc.float32),
        (lambda: tc.zeros_like(tc.ones(2, 3), device="meta"), (2, 3), tc.float32),
    ],
)
def test_factories(make: Any, shape: tuple[int, ...], dtype: Any) -> None:
    made = make()
    assert (str(made.device), tuple(made.shape), made.dtype) == ("meta", shape, dtype)


def test_operators_infer_and_compile_nothing() -> None:
    x, y = meta(4, 1, 3), meta(5, 3, dtype=tc.float64)
    total = (x + y).softmax(-1).sum((0, 1), keepdim=True)
    assert (total.dtype, tuple(total.shape), total.stride()) == (tc.float64, (1, 1, 3), (3, 3, 1))
    assert len(open_device("meta").programs) == 0


def test_views_share_a_storage_and_keep_geometry() -> None:
    x = meta(4, 6)
    part = x.t()[1:, ::2]
    assert (tuple(part.shape), part.stride(), part.storage_offset()) == ((5, 2), (1, 12), 1)
    part.add_(1)
    assert x._version == 1
    with pytest.raises(tc.errors.ShapeError):
        x.expand(3, 4, 6).add_(1)


def test_gradients_have_shapes() -> None:
    x = meta(2, 3, requires_grad=True)
    w = meta(3, 4, requires_grad=True)
    (x.tanh() @ w).relu().sum().backward()
    assert str(x.grad.device) == "meta"
    assert tuple(x.grad.shape) == (2, 3)
    assert tuple(w.grad.shape) == (3, 4)


def test_indices_are_not_looked_at() -> None:
    index = meta(2, dtype=tc.int64)
    assert tuple(meta(5, 3)[index].shape) == (2, 3)
    assert tuple(meta(5, 3).gather(0, meta(1, 3, dtype=tc.int64)).shape) == (1, 3)
    assert tuple(meta(5, 3).index_select(1, index).shape) == (5, 2)
    assert tuple(tc.functions.one_hot(index, 7).shape) == (2, 7)
    x = meta(5, 3)
    x[index] = 1.0
    assert x._version == 1


@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("copy", lambda: meta(1).item()),
        ("copy", lambda: meta(1, dtype=tc.bfloat16).item()),
        ("copy", lambda: bool(meta())),
        ("copy", lambda: float(meta())),
        ("copy", lambda: meta(2).tolist()),
        ("copy", lambda: meta(2).to("ref")),
        ("copy", lambda: tc.ones(2).copy_(meta(2))),
        ("copy", lambda: meta(2)[meta(dtype=tc.int64)]),
        ("copy", lambda: tc.functions.one_hot(meta(2, dtype=tc.int64))),
        ("nonzero", lambda: meta(2).nonzero()),
        ("nonzero", lambda: meta(2)[meta(2) > 0]),
    ],
)
def test_what_needs_values_raises(operator: str, function: Any) -> None:
    with pytest.raises(MissingDataError, match=re.escape(f"[{operator}] ") + "a meta tensor of shape .* — " + NO_DATA):
        function()
    with pytest.raises(NotImplementedError):  # PyTorch's class
        function()


@pytest.mark.parametrize("function", [
    lambda x: x.prod(0), lambda x: tc.functions.linalg_det(x), lambda x: x.masked_scatter(x > 0, x * 2),
    lambda x: x.scatter_reduce(0, meta(4, 4, dtype=tc.int64), x, "amax"),
    lambda x: x.scatter_reduce(0, meta(4, 4, dtype=tc.int64), x, "prod", include_self=False)])
def test_ways_that_depend_on_values_have_gradients(function: Any) -> None:
    x = meta(4, 4, requires_grad=True)
    function(x).sum().backward()
    assert (tuple(x.grad.shape), x.grad.device.type) == ((4, 4), "meta")


@pytest.mark.skipif(not tc.is_available("cpu"), reason="operators fall back to the host")
def test_no_fallback_makes_up_values() -> None:
    tc.set_fallback("cpu")
    with pytest.raises(MissingDataError):
        meta(2).nonzero()


def test_copies_into_meta() -> None:
    x = meta(2, 3)
    assert x.copy_(tc.ones(3)) is x
    assert x.copy_(meta(2, 3, dtype=tc.int64)) is x
    x[0] = 5
    assert x._version == 3


def test_devices_do_not_mix_but_for_zero_dimensional_tensors() -> None:
    with pytest.raises(DeviceMismatch, match=r"tensors on (meta and ref:0|ref:0 and meta)"):
        meta(3) + tc.ones(3)
    assert str((meta(3) + tc.tensor(1.0)).device) == "meta"


def test_conversion_to_arrays_is_refused() -> None:
    with pytest.raises(tc.errors.ArgumentTypeError, match=r"\[numpy\] a tensor on meta"):
        meta(2).numpy()
    with pytest.raises(TypeError):
        np.asarray(meta(2))


def test_random_numbers_of_other_devices_are_not_used_up() -> None:
    tc.manual_seed(3)
    before = tc.rand(4)
    tc.manual_seed(3)
    tc.rand(4, device="meta")
    assert tc.rand(4).tolist() == before.tolist()
