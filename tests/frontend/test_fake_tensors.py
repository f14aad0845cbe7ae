"""Fake tensors: geometry, dtype and device of results without memory, constants, gradients, and what is refused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket._subclasses import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from tensocket.nn import functional as F
from tensocket_plugins.contract.errors import ArgumentError, DeviceMismatch, UnsupportedOperator

#: Takes two numbers as well.
DIV: Any = torch.div


def facts(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape), x.stride(), x.dtype, x.device.type


@pytest.mark.parametrize(("make", "shape", "strides", "dtype"), [
    (lambda: torch.rand([4, 2]), (4, 2), (2, 1), torch.float32),
    (lambda: torch.rand(2, 3) + torch.ones(3, dtype=torch.int64), (2, 3), (3, 1), torch.float32),
    (lambda: torch.empty(2, dtype=torch.int64) / 2, (2,), (1,), torch.float32),
    (lambda: torch.ones(2, 3).t(), (3, 2), (1, 3), torch.float32),
    (lambda: torch.ones(4, 5)[1:3, ::2], (2, 3), (5, 2), torch.float32),
    (lambda: torch.randn(2, 3) @ torch.randn(3, 5), (2, 5), (5, 1), torch.float32),
    (lambda: torch.randperm(5), (5,), (1,), torch.int64),
    (lambda: torch.tensor(np.zeros([4, 4])), (4, 4), (4, 1), torch.float64),
    (lambda: torch.from_numpy(np.zeros(3, np.int32)), (3,), (1,), torch.int32),
    (lambda: torch.empty_strided([1, 3, 4, 5], (0, 1, 15, 3)).half(), (1, 3, 4, 5), (3, 1, 15, 3), torch.float16),
    (lambda: torch.ones(2, 3).sort().indices, (2, 3), (3, 1), torch.int64),
    (lambda: DIV(3, 2), (), (), torch.float32),
    (lambda: torch.zeros(3)[torch.tensor([0, 1])], (2,), (1,), torch.float32),
    (lambda: F.cross_entropy(torch.randn(3, 5), torch.randint(5, (3,))), (), (), torch.float32),
    (lambda: torch.nn.LSTM(4, 6)(torch.randn(3, 2, 4))[0], (3, 2, 6), (12, 6, 1), torch.float32),
    (lambda: torch.nn.TransformerEncoderLayer(16, 4, batch_first=True)(torch.randn(2, 5, 16)), (2, 5, 16), (80, 16, 1),
     torch.float32),
    (lambda: torch.nn.Embedding(10, 3)(torch.tensor([1, 2])), (2, 3), (3, 1), torch.float32),
])
def test_results_have_geometry_dtype_and_device(make: Callable[[], Any], shape: Any, strides: Any, dtype: Any) -> None:
    with FakeTensorMode():
        made = make()
    assert type(made) is FakeTensor
    assert facts(made) == (shape, strides, dtype, "cpu")


def test_huge_tensors_take_no_memory() -> None:
    with FakeTensorMode():
        layer = torch.nn.Linear(1 << 20, 1 << 20)
        y = layer(torch.ones(8, 1 << 20))
        y.sum().backward()
    assert facts(layer.weight.grad) == ((1 << 20, 1 << 20), (1 << 20, 1), torch.float32, "cpu")
    assert isinstance(layer.weight, torch.nn.Parameter)
    assert isinstance(layer.weight, FakeTensor)
    assert repr(y).startswith("FakeTensor(..., size=(8, 1048576), grad_fn=<")
    assert repr(layer.weight.detach().double()) == "FakeTensor(..., size=(1048576, 1048576), dtype=torch.float64)"
    assert repr(layer.weight).endswith("requires_grad=True)")


def test_views_share_memory_versions_and_bases() -> None:
    with FakeTensorMode():
        x = torch.rand(2, 3)
        y = x.t()
        before = y._version
        x.add_(1)
        assert y._version == before + 1
        assert y._base is x
        assert x.untyped_storage()._cdata == y.untyped_storage()._cdata
        z = torch.rand(4)
        assert z.resize_(2, 2) is z
        assert tuple(z.shape) == (2, 2)
        z.unsqueeze_(0)
        assert tuple(z.shape) == (1, 2, 2)
    w = x @ y  # outside of the block
    assert facts(w) == ((2, 2), (2, 1), torch.float32, "cpu")


def test_devices_are_those_that_were_asked_for() -> None:
    with FakeTensorMode():
        x = torch.rand(2, device="ref")
        number = torch.tensor(2.0)
        assert (x * number).device.type == (number * x).device.type == "ref"
        assert x.to("cpu").device.type == "cpu"
        assert x.double().device.type == "ref"
        assert torch.ones(2).to("meta").device.type == "meta"
        assert repr(torch.empty(2, device="meta")) == "FakeTensor(..., device='meta', size=(2,))"
        assert torch.ones_like(x).device.type == "ref"
        assert torch.ones(2).copy_(x).device.type == "cpu"
        assert torch.ones(2).fake_device == torch.device("cpu")
        with pytest.raises(DeviceMismatch, match="Unhandled FakeTensor Device Propagation: found two "
                                                 "different devices"):
            x + torch.rand(2)


def test_constants_are_known_until_others_meet_them() -> None:
    with FakeTensorMode():
        x = torch.tensor(4.0)
        y = x.add_(1)
        assert y is x
        assert x.item() == 5.0
        assert (x * 2).item() == 10.0
        assert bool(x > 4)
        a = torch.tensor([1.0])
        b = a[:]
        assert b.constant is not None
        b.add_(1)
        assert a.item() == 2.0
        b.add_(torch.rand([1]))
        assert a.constant is None
        assert b.constant is None
        with pytest.raises(DataDependentOutputException, match="fake tensors have no values"):
            a.item()
        c = torch.tensor([1])
        assert c.expand([4]).constant is None
        assert DIV(4, 4, rounding_mode="trunc").constant is not None
        assert torch.tensor([1.0]).tolist() == [1.0]


def test_tensors_are_converted_once() -> None:
    mode = FakeTensorMode()
    x = torch.rand(6, requires_grad=True)
    x.grad = torch.ones(6)
    fake = mode.from_tensor(x)
    assert mode.from_tensor(x) is fake
    assert mode.from_tensor(fake) is fake
    assert fake.requires_grad
    assert facts(fake.grad) == facts(x.grad)
    view = torch.arange(12.0).reshape(3, 4)[1:, ::2]
    assert facts(mode.from_tensor(view)) == facts(view)
    assert mode.from_tensor(view).storage_offset() == 4
    assert isinstance(mode.from_tensor(torch.nn.Parameter(torch.ones(2))), torch.nn.Parameter)
    meta = torch.ones(2, device="meta")
    converter = mode.fake_tensor_converter
    assert converter.from_meta_and_device(mode, meta, "cpu") is converter.from_meta_and_device(mode, meta, "cpu")
    count = len(converter.tensor_memo)
    del meta
    gc.collect()
    assert len(converter.tensor_memo) < count  # real tensors are not kept alive


def test_real_tensors_are_allowed_where_it_says_so() -> None:
    real = torch.nn.Conv2d(1, 2, 3)
    with FakeTensorMode(allow_non_fake_inputs=True):
        y = real(torch.randn(1, 1, 5, 5))
    assert facts(y) == ((1, 2, 3, 3), (18, 9, 3, 1), torch.float32, "cpu")
    with FakeTensorMode():
        with pytest.raises(ArgumentError, match="Please convert all Tensors to FakeTensors first or instantiate "
                                                "FakeTensorMode with 'allow_non_fake_inputs'"):
            real.weight + 1
        assert "FakeTensor" not in str(torch.nn.Parameter(torch.zeros(1)).shape)


def test_values_are_refused() -> None:
    with FakeTensorMode():
        x = torch.rand(2, 3)
        for ask in (lambda: bool(x.sum() > 0), x.tolist, lambda: int(x[0, 0])):
            with pytest.raises(DataDependentOutputException, match="fake tensors have no values"):
                ask()
        with pytest.raises(DataDependentOutputException, match="the result depends on values, which fake tensors do not"
                                                               " have"):
            x.new_full([2, *torch.tensor([2, 3])], 0.0)
    with pytest.raises(ArgumentError, match="Mixing fake modes NYI: tensors of one operator are of one mode"):
        x + FakeTensorMode().from_tensor(torch.ones(3))
    with pytest.raises(UnsupportedOperator, match="sizes of fake tensors are numbers"):
        FakeTensorMode(shape_env=object())

    class Logging(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with pytest.raises(UnsupportedFakeTensorException, match="plain tensors and parameters are faked"):
        FakeTensorMode().from_tensor(torch.ones(2).as_subclass(Logging))
