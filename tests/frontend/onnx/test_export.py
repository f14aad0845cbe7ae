"""Exported models give the results of their modules in onnxruntime, and say what they cannot hold."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError
from tensocket.export import Dim

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

HERE = r"test_export\.py:\d+"


def module(function, count=1):
    """A module around a function of tensors."""
    class One(nn.Module):
        def forward(self, x):
            return function(x)

    class Two(nn.Module):
        def forward(self, x, y):
            return function(x, y)

    return (One() if count == 1 else Two()).eval()


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


class Rows(nn.Module):
    """Writes to parts of its argument, and reads it through views."""

    def forward(self, x):
        y = x.clone()
        y[:, 1] = 0
        y[0] += 1
        return y.transpose(0, 1)


MODELS = {
    "mlp": (mlp, [(3, 4)]),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(8, 8, 3, groups=2), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                  nn.Linear(8, 5)), [(2, 3, 12, 12)]),
    "upsampling": (lambda: nn.Sequential(nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), nn.ELU(),
                                         nn.Upsample(scale_factor=2, mode="bilinear"), nn.AvgPool2d(2)),
                   [(2, 2, 5, 5)]),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), [(2, 7, 16)]),
    "lstm": (lambda: nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True), [(2, 5, 4)]),
    "gru": (lambda: nn.GRU(4, 6, num_layers=2, bidirectional=True), [(5, 2, 4)]),
    "rnn": (lambda: nn.RNN(4, 6, nonlinearity="relu", batch_first=True), [(2, 5, 4)]),
    "norms": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm1d(4, affine=True), nn.LayerNorm([4, 6]),
                                    nn.Softmax(-1)), [(2, 4, 6)]),
    "writes": (Rows, [(3, 4)]),
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models(compare, name):
    make, shapes = MODELS[name]
    torch.manual_seed(0)
    model = make()
    inputs = [torch.randn(shape) for shape in shapes]
    program = compare(model, *inputs)
    onnx.checker.check_model(program.model_proto, full_check=True)


FUNCTIONS = {
    "arithmetic": lambda x, y: ((x + y) * 2 - x / 3) ** 2 + torch.sqrt(y.abs()) + 1,
    "comparisons": lambda x, y: torch.where(x > y, x, y).clamp(-1, 1) * (x <= 0),
    "integers": lambda x, y: (x * 10).to(torch.int64) // 3 + (y * 10).to(torch.int64) % 4,
    "rounded": lambda x, y: torch.div(x * 7, y + 3, rounding_mode="trunc") + torch.div(x * 7, y + 3,
                                                                                        rounding_mode="floor"),
    "reductions": lambda x, y: x.sum() + y.mean(1, keepdim=True) + x.var(0) + y.std(1, unbiased=False)[:, None]
    + x.amax(1, True) + x.max(1).values[:, None] + x.norm() + torch.logsumexp(y, 1)[:, None],
    "joins": lambda x, y: torch.cat([x, torch.stack([x, y], 1).flatten(1)], 1)[:, ::2].reshape(-1),
    "splits": lambda x, y: sum(torch.chunk(torch.cat([x, y], 1), 4, 1)) + torch.split(x, [1, 3], 1)[0],
    "indices": lambda x, y: x[:, 1:3].unsqueeze(-1) + y[..., None, 0, None] + x[[0, 2], 1].sum() + y[-1, 0],
    "shapes": lambda x, y: x.t().expand(2, 4, 3).permute(1, 0, 2).repeat(1, 2, 1) + y.t()[:, None],
    "products": lambda x, y: torch.einsum("ij,kj->ik", x, y) @ (x @ y.t()) + torch.bmm(x[None], y.t()[None])[0],
    "activations": lambda x, y: torch.tanh(x) + nn.functional.softplus(y) + nn.functional.hardswish(x)
    + nn.functional.leaky_relu(y, 0.2) + nn.functional.mish(x) + nn.functional.elu(y) + torch.sigmoid(x),
    "masks": lambda x, y: x.masked_fill(y > 0, -1.0).cumsum(1) + torch.tril(x) + torch.triu(y, 1),
    "factories": lambda x, y: x + torch.zeros_like(y) + torch.ones(4) + torch.arange(4) + torch.full((3, 1), 2.0),
    "attention": lambda x, y: nn.functional.scaled_dot_product_attention(x[None, None], y[None, None], x[None, None]),
    "search": lambda x, y: torch.bucketize(x, torch.tensor([-0.5, 0.0, 0.5]), right=True) + torch.searchsorted(
        torch.sort(y, 1).values, x),
    "parts": lambda x, y: torch.diff(x) + torch.cov(x).sum() + torch.hypot(x, y)[:, 1:] + torch.fmax(x, y)[:, :3],
    "places": lambda x, y: torch.topk(x, 2).values + torch.argsort(y, 1, descending=True)[:, :2]
    + torch.index_add(x, 0, torch.tensor([0, 2]), y[:2])[:, :2] + torch.take_along_dim(x, y.argmax(1, True), 1),
    "spectra": lambda x, y: torch.fft.rfft(x).abs() + torch.fft.fft2(y).real[:, :3],
    "losses": lambda x, y: nn.functional.mse_loss(x, y) + nn.functional.cosine_similarity(x, y).sum(),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(compare, name):
    torch.manual_seed(0)
    compare(module(FUNCTIONS[name], 2), torch.randn(3, 4), torch.randn(3, 4), tolerance=2e-5)


def test_reads_and_writes_at_places(compare):
    def function(x, i):
        y = x.clone()
        y[i, 1] = torch.arange(9.0).reshape(3, 3)
        y[0, :, i] = torch.arange(3.0)
        y[y > 2] = -1
        return (y, x[0, :, i], x[i, :, 0], x[0, None, i], x[:, 0, :, i], x[0, :, i[:, None]], x[i, i, :, 0],
                x[..., 0, i], x[:, i, -1], x[i - 3])

    compare(module(function, 2), torch.randn(3, 3, 3, 3), torch.tensor([2, 0, 1]))


@pytest.mark.parametrize("version", range(18, 24))
def test_opsets(compare, version):
    program = compare(MODELS["cnn"][0](), torch.randn(2, 3, 12, 12), opset_version=version)
    assert [x.version for x in program.model_proto.opset_import if x.domain == ""] == [version]
    compare(MODELS["encoder"][0](), torch.randn(2, 5, 16), opset_version=version)


def test_dynamic_batches(compare):
    others = [(torch.randn(n, 4),) for n in (1, 2, 9)]
    program = compare(mlp(), torch.randn(3, 4), others=others, dynamic_shapes=({0: Dim("batch")},))
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert program.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    program = compare(mlp(), torch.randn(3, 4), others=others, dynamic_shapes=({0: "rows"},))
    assert program.model_proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    program = compare(mlp(), torch.randn(3, 4), others=others, input_names=["features"], output_names=["scores"],
                      dynamic_axes={"features": {0: "n"}, "scores": {0: "n"}})
    assert program.model_proto.graph.input[0].name == "features"
    assert program.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "n"


def test_sizes_in_programs(compare):
    function = module(lambda x: x.reshape(x.shape[0] * 2, -1) / x.shape[0] + torch.arange(x.shape[0] * 2)[:, None])
    compare(function, torch.randn(3, 4), others=[(torch.randn(5, 4),)], dynamic_shapes=({0: "n"},))


def test_parts_of_operators_with_dynamic_sizes(compare):
    def function(x, y):
        return (torch.hstack([x, y]), torch.trace(x @ y.t()), torch.cov(x.t()), torch.diff(x, dim=0),
                torch.tensordot(x, y, dims=([0], [0])), torch.nn.functional.local_response_norm(x[None], 3))

    others = [(torch.randn(n, 4), torch.randn(n, 4)) for n in (3, 7)]
    dim = Dim("n", min=2)
    compare(module(function, 2), torch.randn(5, 4), torch.randn(5, 4), others=others, tolerance=1e-4,
            dynamic_shapes=({0: dim}, {0: dim}))


def test_sizes_that_translations_need_are_fixed():
    def function(x):
        return nn.functional.interpolate(x, scale_factor=2, mode="bilinear", recompute_scale_factor=True)

    with pytest.raises(torch.onnx.UnsupportedOnnxOperators, match="which changes from call to call"):
        torch.onnx.export(module(function), (torch.randn(1, 1, 4, 4),), dynamic_shapes=({2: "height"},))


def test_weights_have_their_names(tmp_path):
    model = mlp()
    path = tmp_path / "model.onnx"
    torch.onnx.export(model, (torch.randn(2, 4),), path, external_data=False)
    assert [x.name for x in tmp_path.iterdir()] == ["model.onnx"]
    proto = onnx.load(path)
    names = {x.name: onnx.numpy_helper.to_array(x) for x in proto.graph.initializer}
    assert set(model.state_dict()) <= set(names)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(names[name], value.numpy())


def test_external_data(tmp_path, compare):
    torch.manual_seed(0)
    model, x = nn.Linear(64, 32).eval(), torch.randn(2, 64)
    program = compare(model, x)
    program.save(tmp_path / "model.onnx", external_data=True)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    onnx.checker.check_model(str(tmp_path / "model.onnx"))
    runtime = pytest.importorskip("onnxruntime")
    found = runtime.InferenceSession(str(tmp_path / "model.onnx")).run(None, {"input": x.numpy()})
    np.testing.assert_allclose(found[0], model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    program.save(tmp_path / "empty.onnx", include_initializers=False)
    assert not onnx.load(str(tmp_path / "empty.onnx")).graph.initializer
    program.save(tmp_path / "inputs.onnx", keep_initializers_as_inputs=True)
    assert [x.name for x in onnx.load(str(tmp_path / "inputs.onnx")).graph.input] == ["input", "weight", "bias"]
    assert len(program.model.graph.inputs) == 1


def test_a_failed_export_writes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    with pytest.raises(torch.onnx.UnsupportedOnnxOperators):
        torch.onnx.export(module(lambda x: torch.linalg.qr(x)[0]), (torch.randn(3, 3),), path)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")
    program = torch.onnx.export(mlp(), (torch.randn(2, 4),))

    def fail(*args, **kwargs):
        raise OSError("the disk is full")

    monkeypatch.setattr("onnx_ir.save", fail)
    with pytest.raises(OSError, match="the disk is full"):
        program.save(path)
    assert [x.name for x in tmp_path.iterdir()] == ["model.onnx"]
    assert path.read_bytes() == b"old"


def test_all_unsupported_operators_are_listed():
    def function(x):
        y = torch.linalg.qr(x)[0]
        return torch.special.bessel_j0(y) + 1

    rule = r"ONNX, or the table of docs/onnx\.md, has no operators for these calls"
    with pytest.raises(torch.onnx.UnsupportedOnnxOperators, match=rule) as error:
        torch.onnx.export(module(function), (torch.randn(3, 3),))
    assert isinstance(error.value, torch.onnx.OnnxExporterError)
    assert "linalg_qr" in str(error.value)
    assert "special_bessel_j0" in str(error.value)
    assert "test_export.py" in str(error.value)
    assert set(error.value.operators) == {"linalg_qr", "special_bessel_j0"}


def test_writes_through_views(compare):
    def function(x):
        y = x.clone()
        rows = y.view(-1)
        rows.add_(1)
        column = y.t()[1]
        column.mul_(10)
        y.relu_()
        z = y.reshape(2, 2)[:, 0]
        y[0, 0] = 7
        first, second = y.chunk(2)
        second.fill_(3)
        return y, rows, z, first * 2, x

    compare(module(function), torch.randn(2, 2))


def test_layers_in_training():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(3)

        def forward(self, x):
            y = x * 2
            return self.norm(y) + y

    model, x = Residual().train(), torch.randn(4, 3, 2, 2)
    with pytest.warns(UserWarning, match="while it is in training mode"):
        program = torch.onnx.export(model, (x,))
    assert not model.norm.num_batches_tracked
    torch.testing.assert_close(program(x)[0], model(x).detach(), rtol=1e-5, atol=1e-5)


def test_functions_of_programs():
    onnxscript = pytest.importorskip("onnxscript")
    op = onnxscript.opset18

    def bessel(x):
        return op.Add(x, 1.0)

    table = {torch.ops.aten.special_bessel_j0.default: bessel}
    program = torch.onnx.export(module(torch.special.bessel_j0), (torch.zeros(2),), custom_translation_table=table)
    assert program(torch.zeros(2))[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("options", "text"), [
    ({"opset_version": 17}, "models have opset 18 to 23"),
    ({"input_names": ["a", "b"]}, "names are distinct, not those of weights, and at most as many as there are tensors"),
    ({"input_names": ["0.weight"]}, "names are distinct, not those of weights"),
    ({"output_names": [""]}, "names are distinct, not those of weights"),
    ({"dynamic_axes": {"y": {0: "n"}}}, "dynamic axes are those of inputs and outputs, by their names"),
    ({"dynamic_axes": {"input": {0: ""}}}, "a dynamic axis has a name, which is an identifier"),
    ({"dynamic_axes": {"input": {0: None}}}, "a dynamic axis has a name, which is an identifier"),
    ({"dynamic_axes": {"input": {5: "n"}}}, "a dynamic axis is a dimension of its input"),
])
def test_bad_options(options, text):
    with pytest.raises(ArgumentError, match=text):
        torch.onnx.export(mlp(), (torch.randn(2, 4),), **options)


def test_other_arguments():
    with pytest.raises(ArgumentError, match="a model is a module or an ExportedProgram"):
        torch.onnx.export(lambda x: x, (torch.ones(1),))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        torch.onnx.export(mlp(), (torch.ones(1, 4),), colour=1)
    with pytest.warns(DeprecationWarning, match="do_constant_folding is deprecated"):
        torch.onnx.export(mlp(), (torch.ones(1, 4),), do_constant_folding=True)
    with pytest.warns(UserWarning, match="while it is in training mode"):
        torch.onnx.export(mlp().train(), (torch.ones(1, 4),))
    assert not torch.onnx.is_in_onnx_export()


def test_programs_are_callable():
    x = torch.randn(2, 4)
    exported = torch.export.export(mlp(), (x,))
    program = torch.onnx.export(exported, verify=True)
    torch.testing.assert_close(program(x)[0], mlp()(x))
    torch.testing.assert_close(program.call_reference(x)[0], mlp()(x))
    assert "input" in repr(program)
    with pytest.raises(ArgumentError, match="a call has as many tensors as the model has inputs"):
        program(x, x)
    other = mlp()
    with torch.no_grad():
        other[0].weight.zero_()
    program.apply_weights(other.state_dict())
    torch.testing.assert_close(program(x)[0], other(x).detach())
    with pytest.raises(ArgumentError, match="weights are those of the model, with their shapes and dtypes"):
        program.apply_weights({"1.weight": x})


def test_verification_and_report(tmp_path, monkeypatch):
    torch.onnx.export(mlp(), (torch.randn(2, 4),), verify=True, report=True, artifacts_dir=tmp_path / "reports")
    text = next((tmp_path / "reports").glob("*.md")).read_text()
    assert "| Gemm | 2 |" in text
    assert "| result | absolute | relative |" in text
    monkeypatch.setattr("tensocket.onnx.exporting.entry.differences", lambda *args: [("y", 1.0, 1.0)])
    with pytest.raises(torch.onnx.OnnxModelError, match="verify=True accepts differences as of rounding"):
        torch.onnx.export(mlp(), (torch.randn(2, 4),), verify=True)


def test_weights_beyond_the_limit_of_files(compare, tmp_path, monkeypatch):
    monkeypatch.setattr("tensocket.onnx.exporting.program._LARGE", 10)
    torch.manual_seed(0)
    program = compare(nn.Linear(64, 32), torch.randn(2, 64))
    program.save(tmp_path / "model.onnx", external_data=False)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    program.release()


def test_weights_with_the_names_of_operators(compare):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return torch.relu(x) * self.relu

    for optimize in (False, True):
        program = compare(Named(), torch.randn(2, 4), optimize=optimize)
        assert [x.name for x in program.model_proto.graph.initializer] == ["relu"]


@pytest.mark.parametrize("name", ["cnn", "encoder", "lstm", "writes"])
def test_models_without_optimization(compare, name):
    make, shapes = MODELS[name]
    torch.manual_seed(0)
    compare(make(), *[torch.randn(shape) for shape in shapes], optimize=False)


def test_names_of_values_inside(compare):
    program = compare(mlp(), torch.randn(2, 4), input_names=["relu"], output_names=["x"])
    assert [x.name for x in program.model_proto.graph.input] == ["relu"]


def test_versions_that_do_not_fit(monkeypatch):
    monkeypatch.setattr("onnxscript.version_converter.convert_version", lambda *args, **kwargs: None)
    rule = "the model has an operator that cannot be converted to the version"
    with pytest.raises(torch.onnx.OnnxExporterError, match=rule):
        torch.onnx.export(mlp(), (torch.randn(2, 4),), opset_version=21)


def test_models_that_the_checker_refuses(monkeypatch):
    def refuse(*args, **kwargs):
        raise onnx.checker.ValidationError("no")

    monkeypatch.setattr("onnx.checker.check_model", refuse)
    with pytest.raises(torch.onnx.OnnxModelError, match=r"exported models keep the rules that onnx\.checker tests"):
        torch.onnx.export(mlp(), (torch.randn(2, 4),))


def test_open_files():
    file = io.BytesIO()
    torch.onnx.export(mlp(), (torch.randn(2, 4),), file)
    assert len(onnx.load_model_from_string(file.getvalue()).graph.initializer) == 4


def test_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.onnx.export(mlp(), (torch.randn(2, 4),))
