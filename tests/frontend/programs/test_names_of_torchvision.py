"""Names that torchvision imports: borders of quantized models, ONNX exports of operators, bars, annotations."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket.utils import model_zoo
from tensocket.utils.progress import tqdm


def test_borders_of_quantized_models_return_their_argument():
    x = torch.ones(2)
    assert torch.ao.quantization.QuantStub()(x) is x
    assert torch.ao.quantization.DeQuantStub("config").qconfig == "config"
    assert torch.ao.quantization.DeQuantStub()(x) is x
    assert not hasattr(torch.ao.quantization.QuantStub(), "qconfig")


def test_operators_as_modules_pass_their_results_on():
    layer, x, y = torch.nn.quantized.FloatFunctional(), torch.tensor([[1.0, -3.0]]), torch.tensor([[2.0, 1.0]])
    assert layer.add(x, y).tolist() == [[3.0, -2.0]]
    assert layer.add_relu(x, y).tolist() == [[3.0, 0.0]]
    assert layer.mul(x, y).tolist() == [[2.0, -3.0]]
    assert layer.cat([x, y], dim=1).tolist() == [[1.0, -3.0, 2.0, 1.0]]
    assert layer.matmul(x, y.T).tolist() == [[-1.0]]
    layer.activation_post_process = torch.nn.Softplus()
    assert layer.add_scalar(x, 1).tolist() == [[2.0, -2.0]]
    assert layer.mul_scalar(x, 2).tolist() == [[2.0, -6.0]]
    assert layer.add(x, y).min() > 0
    rule = "FloatFunctional is not intended to use the 'forward'. Please use the underlying operation"
    with pytest.raises(ArgumentTypeError, match=rule):
        layer(x)


def test_exports_of_operators_are_recorded():
    @torch.onnx.symbolic_helper.parse_args("v", "f")
    def export(graph, x, factor):
        return x

    assert export._arg_descriptors == ("v", "f")
    torch.onnx.register_custom_op_symbolic("shop::scale", export, 11)
    assert torch.onnx.symbolic.SYMBOLIC["shop::scale", 11] is export
    for _ in range(2):
        torch.onnx.unregister_custom_op_symbolic("shop::scale", 11)
    assert ("shop::scale", 11) not in torch.onnx.symbolic.SYMBOLIC
    with pytest.raises(ArgumentError, match="'scale' — Failed to register operator: the symbolic name is domain::name"):
        torch.onnx.register_custom_op_symbolic("scale", export, 11)


def test_bars_have_the_interface_of_tqdm():
    assert list(tqdm([1, 2], desc="twice", unit="B", unit_scale=True)) == [1, 2]
    with tqdm(total=3, disable=True) as bar:
        bar.update()
        bar.update(2)
        bar.set_description("three")
    bar.close()
    assert torch.hub.tqdm is model_zoo.tqdm is tqdm


def test_annotations_and_decorators_of_scripts():
    from tensocket.jit.annotations import BroadcastingList2, List

    assert List[int] is not None
    assert BroadcastingList2[int].count == 2
    assert torch.jit._overload_method(len) is torch.jit._overload(len) is len
    assert torch.jit._script_if_tracing(torch.relu)(torch.tensor(-1.0)) == 0
    assert torch.types._dtype is torch.dtype
