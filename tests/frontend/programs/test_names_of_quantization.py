"""Rounding to integers in floats, and names of quantized tensors, which do not exist."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tensocket as torch
from tensocket.ao import quantization
from tensocket.ao.quantization import (
    backend_config,
    fake_quantize,
    observer,
    qconfig,
    qconfig_mapping,
    quantize_fx,
    stubs,
    utils,
)
from tensocket.ao.quantization.fx import _decomposed
from tensocket.errors import ArgumentError, UnsupportedOperator

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32) * 2


def rounded(x, scale, zero, low, high):
    return (np.clip(np.round(x / scale) + zero, low, high) - zero) * scale


def test_fake_quantization_rounds_and_clips():
    x = torch.tensor(X, requires_grad=True)
    found = torch.fake_quantize_per_tensor_affine(x, 0.25, 3, 0, 9)
    np.testing.assert_allclose(found.detach().numpy(), rounded(X, 0.25, 3, 0, 9), rtol=1e-6)
    found.sum().backward()
    place = np.round(X / 0.25) + 3
    assert x.grad.tolist() == ((place >= 0) & (place <= 9)).astype(float).tolist()


def test_fake_quantization_of_channels():
    scale, zero = np.array([0.1, 0.5, 1.0], np.float32), np.array([0, 2, 5], np.int32)
    found = torch.fake_quantize_per_channel_affine(torch.tensor(X), torch.tensor(scale), torch.tensor(zero), 0, -8, 7)
    np.testing.assert_allclose(found.numpy(), rounded(X, scale[:, None], zero[:, None], -8, 7), rtol=1e-6)


@pytest.mark.parametrize("name", ["fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"])
def test_the_smallest_integer_is_the_smaller_one(name):
    more = (0,) if "channel" in name else ()
    with pytest.raises(ArgumentError, match=rf"\[{name}\] quant_min=5 and quant_max=2 — `quant_min` should be less "
                       "than or equal to `quant_max` — exchange them"):
        getattr(torch, name)(torch.ones(2), torch.ones(1), torch.zeros(1), *more, 5, 2)


def test_operators_of_rounding():
    op = torch.ops.quantized_decomposed
    x = torch.tensor(X)
    whole = op.quantize_per_tensor(x, 0.25, 3, 0, 9, torch.uint8)
    assert whole.dtype == torch.uint8
    np.testing.assert_array_equal(whole.numpy(), np.clip(np.round(X / 0.25) + 3, 0, 9))
    back = op.dequantize_per_tensor(whole, 0.25, 3, 0, 9, torch.uint8)
    np.testing.assert_allclose(back.numpy(), rounded(X, 0.25, 3, 0, 9), rtol=1e-6)
    scale, zero = op.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
    width = (X.max() - X.min()) / 255
    np.testing.assert_allclose(scale.item(), width, rtol=1e-6)
    assert zero.item() == -128 - np.round(X.min() / width)
    of_tensors = op.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
    assert np.abs(op.dequantize_per_tensor.tensor(of_tensors, scale, zero, -128, 127, torch.int8).numpy() - X).max() \
        <= width


def test_operators_of_channels():
    scale, zero = np.array([0.1, 0.5, 1.0], np.float32), np.array([0, 2, 5])
    given = torch.tensor(scale), torch.tensor(zero), 0, -8, 7, torch.int8
    whole = torch.ops.quantized_decomposed.quantize_per_channel(torch.tensor(X), *given)
    back = torch.ops.quantized_decomposed.dequantize_per_channel(whole, *given)
    np.testing.assert_allclose(back.numpy(), rounded(X, scale[:, None], zero[:, None], -8, 7), rtol=1e-6)
    plain = _decomposed.dequantize_per_channel(whole, given[0], None, *given[2:], out_dtype=torch.float64)
    np.testing.assert_allclose(plain.numpy(), whole.numpy() * scale[:, None].astype(float), rtol=1e-6)


def test_schemes_have_names():
    assert isinstance(torch.per_channel_symmetric, torch.qscheme)
    assert str(torch.per_tensor_affine) == "torch.per_tensor_affine"
    assert torch.per_tensor_affine is not torch.per_tensor_symmetric
    scheme = torch.per_tensor_affine
    assert pickle.loads(pickle.dumps(scheme)) is scheme


@pytest.mark.parametrize(("call", "message"), [
    (lambda: torch.quantize_per_tensor(torch.ones(1), 1.0, 0, None), r"^\[quantize_per_tensor\] a call — there are no "
     "quantized tensors — round floats with fake_quantize_per_tensor_affine, or use torchao's quantize_"),
    (lambda: torch.dequantize(torch.ones(1)), r"^\[dequantize\] a call — there are no quantized tensors"),
    (lambda: torch.int_repr(torch.ones(1)), r"^\[int_repr\] a call — there are no quantized tensors"),
    *[(lambda each=each: each(), "a call — there are no quantized tensors, which a converted model has — keep the "
       "model in floats, or round its weights with torchao's quantize_")
      for each in (quantization.prepare, observer.MinMaxObserver, fake_quantize.FakeQuantize, qconfig.QConfig,
                   qconfig_mapping.QConfigMapping, quantize_fx.prepare_fx, backend_config.BackendConfig,
                   utils.get_qparam_dict)],
])
def test_quantized_tensors_are_refused(call, message):
    with pytest.raises(UnsupportedOperator, match=message):
        call()


def test_graphs_of_quantized_programs_can_be_recorded():
    traced = torch.fx.symbolic_trace(lambda x: torch.dequantize(torch.quantize_per_tensor(x, 0.5, 3, torch.quint8)))
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert targets == [torch.quantize_per_tensor, torch.dequantize]
    with pytest.raises(UnsupportedOperator, match="there are no quantized tensors"):
        traced(torch.ones(1))


def test_stubs_of_models():
    assert stubs.QuantStub()(3) == 3
