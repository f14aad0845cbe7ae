"""Layers, activations and losses against NumPy in float64."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ArgumentTypeError, IndexOutOfRange, ShapeError
from tensocket.nn import functional as F

X = np.random.default_rng(0).normal(size=(4, 3)) * 2
CLASSES = np.array([0, 2, 1, 2])


def t(values, **options):
    return torch.tensor(values, **options)


def log_softmax(x, axis=1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ERF = np.vectorize(math.erf)
ACTIVATIONS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)),
    (nn.Tanh(), np.tanh),
    (nn.Sigmoid(), sigmoid),
    (nn.SiLU(), lambda x: x * sigmoid(x)),
    (nn.GELU(), lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2),
    (nn.GELU("tanh"), lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
    (nn.Softmax(1), lambda x: np.exp(log_softmax(x))),
    (nn.Softmax(0), lambda x: np.exp(log_softmax(x, 0))),
    (nn.LogSoftmax(-1), log_softmax),
    (nn.Identity(1, unused=2), lambda x: x),
    (nn.Flatten(0), lambda x: x.reshape(-1)),
    (nn.LayerNorm(3), lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)),
    (nn.LayerNorm((4, 3), eps=0.5, elementwise_affine=False), lambda x: (x - x.mean()) / np.sqrt(x.var() + 0.5)),
]


@pytest.mark.parametrize(("module", "formula"), ACTIVATIONS, ids=[repr(module) for module, _ in ACTIVATIONS])
def test_values_of_layers(module, formula):
    np.testing.assert_allclose(module.double()(t(X)).detach().numpy(), formula(X), rtol=1e-10, atol=1e-10)


def test_activations_in_place():
    for module, formula in ((nn.ReLU(inplace=True), ACTIVATIONS[0][1]), (nn.SiLU(inplace=True), ACTIVATIONS[3][1])):
        x = t(X)
        assert module(x) is x
        np.testing.assert_allclose(x.numpy(), formula(X), rtol=1e-10)


def test_leaky_relu():
    x = t(X)
    np.testing.assert_allclose(F.leaky_relu(x, 0.1).numpy(), np.where(X > 0, X, 0.1 * X), rtol=1e-12)
    assert F.leaky_relu(x, inplace=True) is x
    np.testing.assert_allclose(x.numpy(), np.where(X > 0, X, 0.01 * X), rtol=1e-12)


def test_softmax_without_dim_warns_and_guesses():
    with pytest.warns(UserWarning, match="softmax without dim guesses one"):
        assert nn.Softmax()(t(X)).sum(1).tolist() == pytest.approx([1, 1, 1, 1])
    with pytest.warns(UserWarning, match="log_softmax without dim guesses one"):
        assert nn.LogSoftmax()(t(X[0])).exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_and_its_gradients(bias):
    layer = nn.Linear(3, 2, bias=bias, dtype=torch.float64)
    x = t(X, requires_grad=True)
    weight = layer.weight.detach().numpy()
    result = layer(x)
    np.testing.assert_allclose(result.detach().numpy(), X @ weight.T + (layer.bias.detach().numpy() if bias else 0))
    upstream = np.arange(8.0).reshape(4, 2)
    result.backward(t(upstream))
    np.testing.assert_allclose(x.grad.numpy(), upstream @ weight)
    np.testing.assert_allclose(layer.weight.grad.numpy(), upstream.T @ X)
    if bias:
        np.testing.assert_allclose(layer.bias.grad.numpy(), upstream.sum(0))
    assert layer(t(X.reshape(2, 2, 3))).shape == (2, 2, 2)


def test_embedding_looks_up_rows_and_adds_their_gradients():
    layer = nn.Embedding(5, 2, padding_idx=-2, dtype=torch.float64)
    table = layer.weight.detach().numpy()
    assert (table[3] == 0).all()
    index = t([[0, 3], [1, 1]])
    result = layer(index)
    np.testing.assert_array_equal(result.detach().numpy(), table[np.array([[0, 3], [1, 1]])])
    result.sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy(), [[1, 1], [2, 2], [0, 0], [0, 0], [0, 0]])


def test_embedding_from_a_table():
    table = t(X)
    layer = nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad
    assert layer(t([2])).tolist() == [X[2].tolist()]
    assert repr(layer) == "Embedding(4, 3)"
    with pytest.raises(ShapeError, match=r"\[Embedding.from_pretrained\] a table of shape \(3,\) — "
                                         "the table has two dimensions"):
        nn.Embedding.from_pretrained(table[0])


def test_dropout_keeps_the_mean_and_is_off_in_evaluation():
    torch.manual_seed(3)
    module = nn.Dropout(0.25)
    ones = torch.ones(20000)
    result = module(ones).numpy()
    assert set(np.unique(result)) == {0.0, np.float32(1 / 0.75)}
    assert abs((result == 0).mean() - 0.25) < 0.015
    assert module.eval()(ones) is ones
    inplace = torch.ones(100)
    assert nn.Dropout(1.0, inplace=True)(inplace) is inplace
    assert inplace.sum().item() == 0


# ---- losses


def nll(log_probabilities, classes, weight=None, reduction="mean"):
    weight = np.ones(3) if weight is None else weight
    picked = -log_probabilities[np.arange(len(classes)), classes] * weight[classes]
    return {"none": picked, "sum": picked.sum(), "mean": picked.sum() / weight[classes].sum()}[reduction]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_differences(reduction):
    reduce = {"mean": np.mean, "sum": np.sum, "none": lambda x: x}[reduction]
    target = X[::-1].copy()
    for module, formula in ((nn.MSELoss(reduction=reduction), np.square), (nn.L1Loss(reduction=reduction), np.abs)):
        np.testing.assert_allclose(module(t(X), t(target)).numpy(), reduce(formula(X - target)), rtol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weight", [None, np.array([0.5, 2.0, 1.0])])
def test_losses_of_classes(reduction, weight):
    given = None if weight is None else t(weight)
    expected = nll(log_softmax(X), CLASSES, weight, reduction)
    found = nn.CrossEntropyLoss(given, reduction=reduction)(t(X), t(CLASSES))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    found = nn.NLLLoss(given, reduction=reduction)(t(log_softmax(X)), t(CLASSES))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_ignored_classes_do_not_count():
    found = nn.CrossEntropyLoss(ignore_index=2)(t(X), t(CLASSES))
    kept = CLASSES != 2
    assert found.item() == pytest.approx(nll(log_softmax(X)[kept], CLASSES[kept]), rel=1e-12)


def test_label_smoothing_and_probabilities_as_target():
    smooth = 0.9 * np.eye(3)[CLASSES] + 0.1 / 3
    expected = -(smooth * log_softmax(X)).sum(1).mean()
    assert nn.CrossEntropyLoss(label_smoothing=0.1)(t(X), t(CLASSES)).item() == pytest.approx(expected, rel=1e-12)
    assert nn.CrossEntropyLoss()(t(X), t(smooth)).item() == pytest.approx(expected, rel=1e-12)


def test_gradient_of_cross_entropy():
    x = t(X, requires_grad=True)
    F.cross_entropy(x, t(CLASSES)).backward()
    np.testing.assert_allclose(x.grad.numpy(), (np.exp(log_softmax(X)) - np.eye(3)[CLASSES]) / 4, atol=1e-12)


def test_class_weights_are_part_of_the_state_and_move():
    module = nn.CrossEntropyLoss(torch.ones(3)).double()
    assert list(module.state_dict()) == ["weight"]
    assert module.weight.dtype is torch.float64


@pytest.mark.parametrize("kind", [nn.MSELoss, nn.L1Loss, nn.NLLLoss, nn.CrossEntropyLoss])
def test_reductions_of_losses(kind):
    target = t(CLASSES) if kind in (nn.NLLLoss, nn.CrossEntropyLoss) else t(X)
    with pytest.raises(ArgumentError, match="reduction='avg' — the reduction is 'none', 'mean' or 'sum'"):
        kind(reduction="avg")(t(X), target)
    older = [({"size_average": False}, "sum"), ({"reduce": False}, "none"), ({"reduce": True}, "mean")]
    for legacy, reduction in older:
        with pytest.warns(UserWarning, match=f"size_average and reduce are deprecated; pass reduction='{reduction}'"):
            assert kind(**legacy).reduction == reduction


# ---- functions


def test_one_hot_and_normalize():
    assert F.one_hot(t([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(t([1]), 4).tolist() == [[0, 1, 0, 0]]
    np.testing.assert_allclose(F.normalize(t(X)).numpy(), X / np.linalg.norm(X, axis=1, keepdims=True), rtol=1e-12)
    assert F.normalize(torch.zeros(1, 2)).tolist() == [[0, 0]]


def test_padding_must_be_a_row():
    with pytest.raises(ArgumentError, match=r"\[Embedding\] padding_idx=5 for 5 rows — padding_idx is one of the rows"):
        nn.Embedding(5, 2, padding_idx=5)
    with pytest.raises(ArgumentError, match=r"\[embedding\] padding_idx=-6 for 5 rows — .* — pass an index from"):
        F.embedding(t([0]), torch.zeros(5, 2), padding_idx=-6)


def test_dropout_is_a_probability():
    with pytest.raises(ArgumentError, match=r"\[Dropout\] p=1.5 — p is a probability"):
        nn.Dropout(1.5)


# ---- containers


def layers(count=3):
    return [nn.Linear(2, 2) for _ in range(count)]


def test_sequential():
    a, b, c = layers()
    model = nn.Sequential(a, b)
    assert [name for name, _ in model.named_children()] == ["0", "1"]
    x = torch.ones(1, 2)
    assert model(x).tolist() == b(a(x)).tolist()
    assert model[-1] is b
    assert list(model[:1]) == [a]
    assert isinstance(model[:1], nn.Sequential)
    model.append(c)
    model[0] = c
    assert list(model) == [c, b, c]
    assert a not in model
    assert b in model
    del model[0]
    assert list(model) == [b, c]
    assert [name for name, _ in model.named_children()] == ["0", "1"]
    named = nn.Sequential(OrderedDict(first=a, second=b))
    assert named.first is a
    assert list(named[1:].state_dict()) == ["second.weight", "second.bias"]


def test_module_list_is_a_list():
    a, b, c = layers()
    held = nn.ModuleList([a, b])
    assert held.append(c) is held
    held.insert(0, c)
    assert list(held) == [c, a, b, c]
    assert held.pop(-1) is c
    held += [b]
    assert len(held) == 4
    assert list(held[1:3]) == [a, b]
    held[0] = a
    del held[1:]
    assert list(held) == [a]
    assert list(held.state_dict()) == ["0.weight", "0.bias"]


def test_module_list_prints_runs_once():
    assert repr(nn.ModuleList([*layers(2), nn.ReLU(), nn.Sequential(nn.Tanh())])) == (
        "ModuleList(\n"
        "  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n"
        "  (2): ReLU()\n"
        "  (3): Sequential(\n"
        "    (0): Tanh()\n"
        "  )\n"
        ")")
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_dict_is_a_dict():
    a, b, c = layers()
    held = nn.ModuleDict({"x": a})
    held["y"] = b
    held.update([("z", c)])
    assert list(held) == list(held.keys()) == ["x", "y", "z"]
    assert list(held.values()) == [a, b, c]
    assert dict(held.items())["y"] is b
    assert held.pop("x") is a
    assert "x" not in held
    del held["y"]
    assert len(held) == 1
    held.clear()
    assert len(held) == 0


def test_parameter_list():
    held = nn.ParameterList([torch.zeros(2), nn.Parameter(torch.ones(1))])
    held.append(torch.ones(3))
    assert [p.shape for p in held] == [(2,), (1,), (3,)]
    assert all(isinstance(p, nn.Parameter) for p in held)
    assert len(list(held.parameters())) == len(held) == 3
    held[0] = torch.ones(5)
    assert held[-3].shape == (5,)
    assert len(held[1:]) == 2
    assert repr(held).splitlines()[1] == "    (0): Parameter containing: [tensocket.float32 of size 5]"
    with pytest.raises(ArgumentTypeError, match="members come from an iterable that is no tensor"):
        held.extend(torch.ones(2))
    held += [3]
    assert held[-1] == 3
    assert repr(held).splitlines()[-2] == "    (3): Object of type: int"
    assert list(held.state_dict()) == ["0", "1", "2"]
    with pytest.raises(NotImplementedError, match="a container of parameters is not called"):
        held(1)


@pytest.mark.parametrize("held", [
    nn.Sequential(*layers(2)), nn.ModuleList(layers(2)), nn.ParameterList([torch.ones(1)] * 2)])
def test_positions_out_of_range(held):
    name = type(held).__name__
    with pytest.raises(IndexOutOfRange, match=rf"\[{name}\] index 2 for 2 members — an index is one of the members — "
                                             "pass an index from -2 to 1"):
        held[2]
    with pytest.raises(IndexError):
        held[-3]


@pytest.mark.parametrize(("module", "text"), [
    (nn.Linear(3, 4, bias=False), "Linear(in_features=3, out_features=4, bias=False)"),
    (nn.ReLU(), "ReLU()"), (nn.ReLU(True), "ReLU(inplace=True)"), (nn.SiLU(True), "SiLU(inplace=True)"),
    (nn.GELU("tanh"), "GELU(approximate='tanh')"), (nn.Tanh(), "Tanh()"), (nn.Softmax(dim=1), "Softmax(dim=1)"),
    (nn.LogSoftmax(-1), "LogSoftmax(dim=-1)"), (nn.Dropout(), "Dropout(p=0.5, inplace=False)"),
    (nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"), (nn.Identity(), "Identity()"),
    (nn.Embedding(3, 4, padding_idx=-1), "Embedding(3, 4, padding_idx=2)"),
    (nn.LayerNorm((3, 4), bias=False), "LayerNorm((3, 4), eps=1e-05, elementwise_affine=True, bias=False)"),
    (nn.CrossEntropyLoss(), "CrossEntropyLoss()"), (nn.MSELoss(), "MSELoss()"),
])
def test_printing(module, text):
    assert repr(module) == text


def test_parameter_dict():
    held = nn.ParameterDict({"a": torch.ones(2), "b": 3})
    held["c"] = nn.Parameter(torch.zeros(1))
    assert list(held) == list(held.keys()) == ["a", "b", "c"]
    assert list(reversed(held)) == ["c", "b", "a"]
    assert [name for name, _ in held.named_parameters()] == ["a", "c"]
    assert held.setdefault("b", 5) == 3
    assert held.setdefault("d", 5) == 5
    assert held.get("x") is None
    assert held.get("d", 0) == 5
    assert held.pop("d") == 5
    assert held.popitem()[0] == "c"
    assert len(held) == 2
    joined = held | nn.ParameterDict([("b", 4), ("e", 1)])
    assert dict(joined.items())["b"] == 4
    assert held["b"] == 3
    held |= joined
    assert list(held.values())[1:] == [4, 1]
    assert dict(held.fromkeys(["x"], 2).items()) == {"x": 2}
    assert repr(nn.ParameterDict({"a": torch.ones(2, 3)})).strip() == (
        "ParameterDict(  (a): Parameter containing: [tensocket.FloatTensor of size 2x3])")
    unsorted = {"b": torch.ones(2), "a": torch.ones(3)}
    assert list(nn.ParameterDict(unsorted)) == ["a", "b"]
    assert list(nn.ParameterDict(OrderedDict(unsorted))) == ["b", "a"]
    assert list(nn.ParameterDict(unsorted.items()).copy()) == ["b", "a"]
    held.clear()
    assert "a" not in held
    assert not hasattr(held, "a")
    with pytest.raises(KeyError):
        held["a"]
    with pytest.raises(ArgumentTypeError, match="a key is a string"):
        held[3] = 1


@pytest.mark.parametrize("kind", [nn.ModuleDict, nn.ParameterDict])
def test_named_containers_take_pairs(kind):
    for wrong, error, rule in ((3, TypeError, "members come from a mapping or an iterable of key/value pairs"),
                               ([3], TypeError, "every element is a key/value pair"),
                               ([(1, 2, 3)], ValueError, "a pair has a key and a value")):
        with pytest.raises(error, match=rule):
            kind(wrong)
    assert list(kind([("a", nn.ReLU())]).keys()) == ["a"]


def test_sequences_are_joined_and_repeated():
    a, b = nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh())
    assert list(a + b) == [a[0], b[0]]
    assert list(a * 2) == list(2 * a) == [a[0]] * 2
    a += b
    assert len(a) == 2
    a *= 2
    assert list(a)[2:] == list(a)[:2]
    assert a.insert(-4, nn.Sigmoid()) is a
    assert isinstance(a[0], nn.Sigmoid)
    assert "0" not in dir(a)
    with pytest.raises(IndexError, match="a module is inserted before one of the members or at the end"):
        a.insert(9, nn.ReLU())
    with pytest.raises(AssertionError, match=r"a member is a nn\.Module"):
        a.insert(0, [nn.ReLU()])
    with pytest.raises(ValueError, match="a Sequential is added to another"):
        a + 1
    with pytest.raises(TypeError, match="the factor is an int"):
        a * "x"
    with pytest.raises(ValueError, match="the factor is positive"):
        a * 0
    joined = nn.ModuleList([nn.ReLU()]) + nn.ModuleList([nn.Tanh()])
    assert isinstance(joined[1], nn.Tanh)
    with pytest.raises(TypeError, match="modules come from an iterable"):
        nn.ModuleList(3)
