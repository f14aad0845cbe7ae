"""Functions of ONNX's operators refuse what has no meaning, and follow closed forms where no backend test looks."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, DtypeError, MissingPackage
from tensocket.onnx.operators import control, find, generation, recurrent, resizing, shapes, strings, vision
from tensocket.onnx.operators.values import to_array, to_value


def test_refusals():
    x = torch.zeros(1, 1, 2, 2)
    with pytest.raises(ArgumentError, match="scales or sizes are given, one for each axis"):
        resizing.resize(x, None, [2.0])
    with pytest.raises(ArgumentError, match="the step is not 0"):
        shapes.arange(torch.tensor(0), torch.tensor(3), torch.tensor(0))
    with pytest.raises(ArgumentError, match="a tensor has at most"):
        shapes.arange(torch.tensor(0), torch.tensor(1 << 50), torch.tensor(1))
    with pytest.raises(ArgumentError, match="activations are those of ONNX's recurrent layers"):
        recurrent.rnn(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1), torch.zeros(1, 1, 1), activations=["Other"])
    with pytest.raises(DtypeError, match="the results of this operator are tensors, which do not have this dtype"):
        generation.bernoulli(torch.zeros(1), dtype=22)


def test_trees_are_checked():
    tree = {"leaf_targetids": [0], "leaf_weights": np.ones(1, np.float32), "n_targets": 1, "nodes_falseleafs": [0],
            "nodes_falsenodeids": [0], "nodes_featureids": [0], "nodes_modes": np.zeros(1, np.uint8),
            "nodes_splits": np.ones(1, np.float32), "nodes_trueleafs": [0], "nodes_truenodeids": [0], "tree_roots": [0]}
    with pytest.raises(ArgumentError, match="a tree has no cycles"):
        strings.tree_ensemble(torch.zeros(1, 1), **tree)
    rule = "results are sums, means or extremes of leaves, without a function of them"
    with pytest.raises(ArgumentError, match=rule):
        strings.tree_ensemble(torch.zeros(1, 1), **tree, post_transform=1)


def test_pictures_need_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingPackage, match="Pillow decodes them, which is not installed"):
        vision.decode_image(torch.zeros(4, dtype=torch.uint8))


def test_values_of_every_dtype_come_back():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (np.float32, np.uint64, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2,
                  ml_dtypes.int4, ml_dtypes.float8_e4m3b11fnuz):
        array = np.array([[0, 1]]).astype(dtype)
        found = to_array(to_value(array))
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found.astype(np.float64) if found.dtype.kind != "c" else found,
                                      array.astype(np.float64) if found.dtype.kind != "c" else array)
    assert to_value(np.array(["a", "b"])).dtype == object
    assert to_value(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]


def test_versions():
    assert find("", "Softmax", 12).function is not find("ai.onnx", "Softmax", 13).function
    assert find("", "DFT", 16) is None
    assert find("", "Unheard", 20) is None


def test_gradients_pass():
    for name, inputs, options in (
            ("Gelu", [torch.randn(3)], {}), ("Gather", [torch.randn(3, 2), torch.tensor([-1, 0])], {"axis": 0}),
            ("LayerNormalization", [torch.randn(2, 3), torch.ones(3)], {"outputs": 1}),
            ("AveragePool", [torch.randn(1, 1, 4, 4)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
            ("MaxPool", [torch.randn(1, 1, 4, 4)], {"kernel_shape": [2, 2], "outputs": 1}),
            ("Resize", [torch.randn(1, 1, 2, 2), None, [1, 1, 2, 2]], {"mode": "linear"}),
            ("ScatterND", [torch.randn(3, 2), torch.tensor([[1]]), torch.randn(1, 2)], {"reduction": "add"}),
            ("LSTM", [torch.randn(2, 1, 3), torch.randn(1, 8, 3), torch.randn(1, 8, 2)], {"hidden_size": 2,
                                                                                        "outputs": 1})):
        function = find("", name, 23).function
        tensors = [x.to(torch.float64) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
        tensors[0].requires_grad_()
        call = partial(lambda f, t, o, x: f(x, *t, **o), function, tensors[1:], options)
        assert torch.autograd.gradcheck(call, (tensors[0],)), name


def test_loops_without_steps():
    states, rows = control.loop(torch.tensor(0), None, torch.ones(2), body=None, outputs=2)
    assert states.tolist() == [1.0, 1.0]
    assert rows.shape == (0,)


def test_random_numbers_have_their_distributions():
    x = generation.random_normal([20000], mean=2.0, scale=3.0, seed=1.0)
    assert torch.equal(x, generation.random_normal([20000], mean=2.0, scale=3.0, seed=1.0))
    assert abs(float(x.mean()) - 2) < 0.1
    assert abs(float(x.std()) - 3) < 0.1
    y = generation.random_uniform_like(x, low=-1.0, high=5.0)
    assert -1 <= float(y.min()) < -0.9
    assert 4.9 < float(y.max()) <= 5
    drawn = generation.bernoulli(torch.full((20000,), 0.3), seed=3.0)
    assert abs(float(drawn.mean()) - 0.3) < 0.02
    kept, mask = find("", "Dropout", 13).function(torch.ones(20000), torch.tensor(0.25), torch.tensor(True), outputs=2)
    assert abs(float(mask.float().mean()) - 0.75) < 0.02
    assert set(kept.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.75))}
