"""Imported models are modules; files that are damaged, or ask for too much, are refused."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentTypeError, MissingPackage
from tensocket.onnx import OnnxModelError, UnsupportedOnnxOperators, load_graph_module
from tensocket.onnx.operators import TABLE

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tensocket.onnx.importing.files import Tensors  # noqa: E402

FLOAT = TensorProto.FLOAT
FILES = Path(__file__).parent / "files"


def info(name, shape=None, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, weights=(), opsets=(("", 21),), functions=()):
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*x) for x in opsets], functions=functions,
                             ir_version=10)


def linear(**options):
    """A model with a product and a sum."""
    torch.manual_seed(0)
    weights = [numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "layer.weight"),
               numpy_helper.from_array(np.ones(2, dtype=np.float32), "layer.bias")]
    nodes = [helper.make_node("MatMul", ["x", "layer.weight"], ["h"]), helper.make_node("Add", ["h", "layer.bias"],
                                                                                       ["y"])]
    return model_of(nodes, [info("x", ["n", 3])], [info("y", ["n", 2])], weights, **options)


def test_models_are_modules(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(linear(), str(path))
    for given in (path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes()), linear()):
        module = load_graph_module(given)
        assert sorted(module.state_dict()) == ["layer.bias", "layer.weight"]
        assert module(torch.ones(1, 3)).tolist() == [[7.0, 10.0]]
    assert isinstance(module, torch.fx.GraphModule)
    assert module.meta["onnx"]["inputs"] == ["x"]
    assert "pointwise.Add(" in module.code


def test_gradients_reach_parameters():
    module = load_graph_module(linear())
    x = torch.ones(2, 3, requires_grad=True)
    module(x).sum().backward()
    assert module.layer.weight.grad.tolist() == [[2.0, 2.0]] * 3
    assert x.grad.tolist() == [[1.0, 5.0, 9.0]] * 2
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    optimizer.step()
    assert module(torch.ones(1, 3)).tolist() != [[7.0, 10.0]]


def test_a_round_trip():
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).eval()
    x = torch.randn(2, 3, 6, 6)
    module = load_graph_module(torch.onnx.export(model, (x,)).model_proto)
    assert set(module.state_dict()) >= set(dict(model.named_parameters()))
    torch.testing.assert_close(module(x), model(x), rtol=1e-5, atol=1e-6)
    again = torch.onnx.export(module, (x,))
    pytest.importorskip("onnxruntime")
    torch.testing.assert_close(again(x)[0], model(x).detach(), rtol=1e-5, atol=1e-6)
    compiled = torch.compile(module)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-6)


def test_copies_and_pickles():
    path = FILES / "lstm_traced.onnx"
    x = torch.from_numpy(np.load(FILES / "lstm.npz")["x"])
    module = load_graph_module(path)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(again(x)[0], module(x)[0])


def test_functions_of_operators_have_names():
    for entries in TABLE.values():
        for entry in entries:
            function = entry.function
            assert getattr(sys.modules[function.__module__], function.__name__) is function, function


def test_the_device_of_parameters():
    for device in ("cpu:0", "opencl:0", "ref:0"):
        if device not in torch.available_devices():
            continue
        module = load_graph_module(linear(), device=device)
        assert {x.device.type for x in module.parameters()} == {torch.device(device).type}
        assert module(torch.ones(1, 3, device=device)).tolist() == [[7.0, 10.0]]


def test_subgraphs_read_values_around_them():
    body = helper.make_graph([helper.make_node("Add", ["total", "x"], ["next"]),
                              helper.make_node("Identity", ["going"], ["still"]),
                              helper.make_node("Identity", ["next"], ["row"])], "body",
                             [info("step", [], TensorProto.INT64), info("going", [], TensorProto.BOOL),
                              info("total", [2])],
                             [info("still", [], TensorProto.BOOL), info("next", [2]), info("row", [2])])
    count = numpy_helper.from_array(np.array(3), "count")
    loop = helper.make_node("Loop", ["count", "", "x"], ["last", "rows"], body=body)
    module = load_graph_module(model_of([loop], [info("x", [2])], [info("last", [2]), info("rows", [3, 2])], [count]))
    last, rows = module(torch.tensor([1.0, 2.0]))
    assert last.tolist() == [4.0, 8.0]
    assert rows.tolist() == [[2.0, 4.0], [3.0, 6.0], [4.0, 8.0]]


def test_functions_of_models():
    inner = helper.make_function("own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])],
                                 [helper.make_opsetid("", 21)])
    model = model_of([helper.make_node("Twice", ["x"], ["y"], domain="own")], [info("x", [1])], [info("y", [1])],
                     opsets=(("", 21), ("own", 1)), functions=[inner])
    assert load_graph_module(model)(torch.tensor([2.0])).tolist() == [4.0]


def test_older_versions():
    old = model_of([helper.make_node("Squeeze", ["x"], ["y"], axes=[0])], [info("x", [1, 2])], [info("y", [2])],
                   opsets=(("", 9),))
    assert load_graph_module(old)(torch.ones(1, 2)).shape == (2,)
    softmax = model_of([helper.make_node("Softmax", ["x"], ["y"])], [info("x", [1, 2, 2])], [info("y", [1, 2, 2])],
                       opsets=(("", 9),))
    assert load_graph_module(softmax)(torch.zeros(1, 2, 2)).tolist() == [[[0.25, 0.25], [0.25, 0.25]]]


def test_all_unknown_operators_are_listed():
    nodes = [helper.make_node("Rare", ["x"], ["a"], name="first", domain="own"),
             helper.make_node("Rarer", ["a"], ["y"], domain="own")]
    with pytest.raises(UnsupportedOnnxOperators, match=r"operators are those of docs/onnx\.md") as error:
        load_graph_module(model_of(nodes, [info("x", [1])], [info("y", [1])], opsets=(("", 21), ("own", 1))))
    assert error.value.operators == ("own::Rare of version 1", "own::Rarer of version 1")
    assert "first" in str(error.value)


@pytest.mark.parametrize("path", sorted(FILES.glob("*.onnx")), ids=lambda path: path.stem)
def test_models_of_pytorch(path):
    data = np.load(FILES / f"{path.stem.partition('_')[0]}.npz")
    found = load_graph_module(path)(torch.from_numpy(data["x"]))
    found = found[0] if isinstance(found, tuple) else found
    np.testing.assert_allclose(found.detach().numpy(), data["y"], rtol=1e-5, atol=1e-6)


# ---- hostile files


def refused(model, text, **options):
    with pytest.raises(OnnxModelError, match=text):
        load_graph_module(model, **options)


def test_other_data_are_refused(tmp_path, monkeypatch):
    refused(b"\x00\x01garbage", "the data is not a model in ONNX's protobuf format, or is truncated")
    refused(b"", "a model has a graph")
    data = linear().SerializeToString()
    refused(data[:len(data) // 2], "is truncated")
    with pytest.raises(ArgumentTypeError, match="a model is a path, bytes, a file or a ModelProto"):
        load_graph_module(3)
    monkeypatch.setattr("tensocket.onnx.importing.files._LARGEST_FILE", 10)
    (tmp_path / "model.onnx").write_bytes(data)
    refused(tmp_path / "model.onnx", "a model has at most 10 bytes beside its external data")


def test_sizes_that_do_not_fit_are_refused():
    model = linear()
    model.graph.initializer[0].dims[:] = [1 << 40, 1 << 20]
    refused(model, "a tensor of this shape and data type has|is too small for the declared shape")
    model.graph.initializer[0].dims[:] = [-3, -2]
    refused(model, "sizes are not negative|dimension")
    model = linear()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.float_data.extend([1.0])
    refused(model, "is too small for the declared shape")
    tensors = Tensors(None)
    for proto, text in ((TensorProto(dims=[1 << 40], data_type=1, raw_data=bytes(4)), "4398046511104 bytes"),
                        (TensorProto(dims=[2], data_type=1, float_data=[1.0]), "has 2 elements"),
                        (TensorProto(dims=[-1], data_type=1), "sizes are not negative"),
                        (TensorProto(dims=[1], data_type=99), "data types are those of ONNX")):
        with pytest.raises(OnnxModelError, match=text):
            tensors.value(proto)
    model = model_of([helper.make_node("ConstantOfShape", ["s"], ["y"])], [info("s", [2], TensorProto.INT64)],
                     [info("y")])
    rule = r"sizes are not negative, and a tensor has at most 2 \*\* 40 elements"
    with pytest.raises(torch.errors.ArgumentError, match=rule):
        load_graph_module(model)(torch.tensor([1 << 40, 1 << 20]))


def sparse(dims, index):
    return onnx.SparseTensorProto(dims=dims, values=numpy_helper.from_array(np.array([5.0, 7.0], np.float32), "w"),
                                  indices=numpy_helper.from_array(np.array(index, np.int64), "i"))


def test_sparse_tensors():
    tensors = Tensors(None)
    assert tensors.sparse(sparse([2, 3], [1, 5])).tolist() == [[0.0, 5.0, 0.0], [0.0, 0.0, 7.0]]
    assert tensors.sparse(sparse([2, 3], [[0, 1], [1, 2]])).tolist() == [[0.0, 5.0, 0.0], [0.0, 0.0, 7.0]]
    with pytest.raises(OnnxModelError, match="indices of sparse tensors are in their shape"):
        tensors.sparse(sparse([2, 3], [1, 6]))
    with pytest.raises(OnnxModelError, match="indices of sparse tensors are in their shape"):
        tensors.sparse(sparse([2, 3], [[0, 1], [2, 2]]))
    with pytest.raises(OnnxModelError, match=r"a sparse tensor has up to 2 \*\* 31 places"):
        tensors.sparse(sparse([1 << 20, 1 << 20], [1, 5]))
    model = linear()
    model.graph.sparse_initializer.append(sparse([2], [0, 1]))
    del model.graph.initializer[1]
    model.graph.node[1].input[1] = "w"
    assert load_graph_module(model)(torch.ones(1, 3)).tolist() == [[11.0, 16.0]]


def external(tmp_path, **entries):
    """A model whose first weight is in another file."""
    model = linear()
    tensor = model.graph.initializer[0]
    (tmp_path / "weights.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "weights.bin", **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data(tmp_path):
    module = load_graph_module(external(tmp_path, offset=0, length=24))
    assert module(torch.ones(1, 3)).tolist() == [[7.0, 10.0]]


@pytest.mark.parametrize(("entries", "text"), [
    ({"location": "../secret.bin"}, "external data are in the folder of the model, or below it"),
    ({"location": "/etc/passwd"}, "external data are in the folder of the model, or below it"),
    ({"location": "link.bin"}, "external data are in the folder of the model, or below it"),
    ({"location": "absent.bin"}, "this file does not exist"),
    ({"offset": 8}, "this file has 24 bytes"),
    ({"offset": -8}, "this file has 24 bytes"),
    ({"length": 1 << 40}, "a tensor of this shape and data type has 24 bytes"),
    ({"offset": "many"}, "offset and length are numbers"),
])
def test_external_data_outside_are_refused(tmp_path, entries, text):
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    refused(external(folder, **entries), text)


def test_external_data_need_a_folder(tmp_path):
    data = external(tmp_path).read_bytes()
    refused(data, "only models that are read from a path have external data")


def test_cycles_are_refused():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    refused(model_of(nodes, [info("x", [1])], [info("b", [1])]), r"models keep the rules that onnx\.checker tests")
    from tensocket.onnx.importing.building import GraphBuilder, Model

    proto = model_of(nodes, [info("x", [1])], [info("b", [1])]).graph
    rule = "values are defined before they are read; the graph has a cycle, or lacks a node"
    with pytest.raises(OnnxModelError, match=rule):
        GraphBuilder(Model({"": 21}, Tensors(None)), proto, []).build(name="M", single=True)
    proto.node[1].output[0] = "a"
    proto.node[0].input[1] = "x"
    with pytest.raises(OnnxModelError, match="a value is defined once"):
        GraphBuilder(Model({"": 21}, Tensors(None)), proto, []).build(name="M", single=True)


def calling(name, *calls):
    nodes = [helper.make_node(call, ["a" if k == 0 else f"t{k}"], [f"t{k + 1}" if k + 1 < len(calls) else "b"],
                              domain="own") for k, call in enumerate(calls)]
    return helper.make_function("own", name, ["a"], ["b"], nodes, [helper.make_opsetid("own", 1)])


def test_functions_without_an_end_are_refused(monkeypatch):
    node = helper.make_node("F0", ["x"], ["y"], domain="own")
    opsets = (("", 21), ("own", 1))
    monkeypatch.setattr("tensocket.onnx.importing.loading._check", lambda proto: None)
    loops = model_of([node], [info("x", [1])], [info("y", [1])], opsets=opsets,
                     functions=[calling("F0", "F1"), calling("F1", "F0")])
    refused(loops, "a function does not call itself")
    grows = [calling(f"F{k}", f"F{k + 1}", f"F{k + 1}") for k in range(60)]
    grows.append(helper.make_function("own", "F60", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
                                      [helper.make_opsetid("", 21)]))
    laughs = model_of([node], [info("x", [1])], [info("y", [1])], opsets=opsets, functions=grows)
    refused(laughs, "their calls are replaced by up to 1000000 nodes")


def test_wrong_attributes_are_refused(monkeypatch):
    node = helper.make_node("Relu", ["x"], ["y"], slope=1.0)
    model = model_of([node], [info("x", [1])], [info("y", [1])])
    refused(model, "Unrecognized attribute")
    monkeypatch.setattr("tensocket.onnx.importing.loading._check", lambda proto: None)
    refused(model, "inputs and attributes are those of the operator in its version")
    refused(model_of([helper.make_node("Constant", [], ["y"], wrong=1)], [], [info("y", [1])]),
            "inputs and attributes are those of the operator in its version")


def test_other_encodings_are_refused(monkeypatch):
    monkeypatch.setattr("tensocket.onnx.importing.loading._check", lambda proto: None)
    node = helper.make_node("Gelu", ["x"], ["y"], approximate=b"\xff\xfe")
    refused(model_of([node], [info("x", [1])], [info("y", [1])]), "names and strings are UTF-8")
    from tensocket.onnx.importing.building import _word

    with pytest.raises(OnnxModelError, match="names and strings are UTF-8"):
        _word(b"\xff")


def test_damaged_files_are_refused_or_read():
    """Bytes of files are changed at random: the importer raises errors of its own alone."""
    rng = np.random.default_rng(0)
    files = [path.read_bytes() for path in sorted(FILES.glob("*_traced.onnx"))]
    outcomes = {"read": 0, "refused": 0}
    for _ in range(400):
        data = bytearray(files[rng.integers(len(files))])
        if rng.random() < 0.2:
            data = data[:rng.integers(len(data))]
        for place in rng.integers(len(data), size=rng.integers(1, 5)) if data else []:
            data[place] = rng.integers(256)
        try:
            load_graph_module(bytes(data))
            outcomes["read"] += 1
        except (OnnxModelError, UnsupportedOnnxOperators):
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20


def test_attributes_of_other_kinds_are_refused(monkeypatch):
    monkeypatch.setattr("tensocket.onnx.importing.loading._check", lambda proto: None)
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.append(helper.make_attribute("graphs", [helper.make_graph([], "g", [], [])]))
    refused(model_of([node], [info("x", [1])], [info("y", [1])]),
            "attributes are numbers, strings, lists of these, tensors and graphs")


def test_missing_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackage, match="models in ONNX need the package onnx"):
        load_graph_module(b"")
