"""Scripted and traced modules."""

from __future__ import annotations

import copy
import warnings
from typing import Dict, List, Optional

import numpy as np
import pytest

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.nn import functional as F
from tensocket.testing import FileCheck


class Net(nn.Module):
    __constants__ = ["factor"]
    scale: float
    limit: torch.jit.Final[int]

    def __init__(self):
        super().__init__()
        self.factor, self.scale, self.limit = 3, 0.5, 7
        self.first = nn.Linear(4, 4)
        self.parts = nn.ModuleList([nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.5)])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(4, 2)})
        self.names = torch.jit.Attribute([], List[str])
        self.register_buffer("calls", torch.zeros(()))
        self.extra: Optional[int] = None

    def forward(self, x: Tensor, flag: bool = True) -> Tensor:
        self.calls += 1
        x = self.first(x)
        for part in self.parts:
            x = part(x)
        for name, part in self.named.items():
            x = part(x) if name == "a" or flag else x
        return self.scaled(x) + self.limit

    def scaled(self, x: Tensor) -> Tensor:
        return x * self.scale * self.factor

    @torch.jit.export
    def shape(self, x: Tensor) -> List[int]:
        return x.shape

    @torch.jit.unused
    def python_only(self, x):
        return [each for each in x if each]


@pytest.fixture
def net():
    torch.manual_seed(1)
    return Net().eval()


def test_script_computes_the_same_and_shares_parameters(net):
    script = torch.jit.script(net)
    x = torch.randn(3, 4)
    assert torch.equal(script(x), net(x))
    assert torch.equal(script(x, False), net(x, False))
    assert script.shape(x) == [3, 4]
    with torch.no_grad():
        net.first.weight.zero_()
    assert torch.equal(script(x), net(x))
    assert list(script.state_dict()) == list(net.state_dict())
    assert script.training is False
    assert script.train().training
    assert "RecursiveScriptModule" in repr(script)
    assert script.original_name == "Net"


def test_save_and_load(net, tmp_path):
    script = torch.jit.script(net)
    torch.jit.save(script, tmp_path / "net.pt", _extra_files={"note": "hello"})
    extra = {"note": ""}
    again = torch.jit.load(tmp_path / "net.pt", _extra_files=extra)
    x = torch.randn(3, 4)
    assert torch.equal(again(x), net(x))
    assert again.shape(x) == [3, 4]
    assert extra["note"] == b"hello"
    assert list(again.state_dict()) == list(net.state_dict())
    again.save(tmp_path / "again.pt")
    assert torch.equal(torch.jit.load(tmp_path / "again.pt", map_location="cpu")(x), net(x))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.pt", "net.pt"]


LAYERS = [
    (nn.Conv2d(2, 3, 3, padding=1), (1, 2, 5, 5)), (nn.BatchNorm1d(4), (3, 4)), (nn.LSTM(4, 3, 2), (5, 2, 4)),
    (nn.GRU(4, 3), (5, 2, 4)), (nn.LayerNorm(4), (2, 4)), (nn.MaxPool2d(2), (1, 2, 4, 4)), (nn.PReLU(), (2, 4)),
    (nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)), (2, 4)), (nn.TransformerEncoderLayer(4, 2, 8), (3, 2, 4)),
    (nn.ConvTranspose1d(2, 3, 2), (1, 2, 4)), (nn.Flatten(), (2, 3, 2)), (nn.Upsample(scale_factor=2.0), (1, 1, 2, 2)),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda x: type(x).__name__)
def test_layers_script_save_and_load(layer, shape, tmp_path):
    layer = layer.eval()
    x = torch.randn(*shape)
    script = torch.jit.script(layer)
    script.save(tmp_path / "layer.pt")
    again = torch.jit.load(tmp_path / "layer.pt")
    for wanted, found, loaded in zip(*[r if isinstance(r, tuple) else (r,) for r in (layer(x), script(x), again(x))],
                                     strict=True):
        if isinstance(wanted, Tensor):
            assert torch.equal(wanted, found)
            assert torch.equal(wanted, loaded)


def test_a_layer_is_one_node_and_shares_its_parameters():
    layer = nn.Linear(2, 1)
    script = torch.jit.script(layer)
    assert script.weight is layer.weight
    assert [node.kind() for node in script.graph.nodes()] == ["nn::Linear"]
    assert torch.jit.script(script) is script
    assert torch.equal(copy.deepcopy(script)(torch.ones(1, 2)), layer(torch.ones(1, 2)))


def test_attributes_change_in_scripts():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen: Dict[str, int] = {"all": 0}
            self.count = 0

        def forward(self, x: Tensor) -> int:
            self.count += x.numel()
            self.seen["all"] += 1
            return self.count

    script = torch.jit.script(Counts())
    assert [script(torch.ones(2)), script(torch.ones(3))] == [2, 5]
    assert script.count == 5
    assert script.seen == {"all": 2}


def test_hooks_are_compiled(tmp_path):
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

            def double(self, input: "tuple[Tensor]", output: Tensor):
                return output * 2

            self.inner.register_forward_hook(double)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    script = torch.jit.script(Outer())
    assert script(torch.ones(1)).tolist() == [4.0]
    script.save(tmp_path / "outer.pt")
    assert torch.jit.load(tmp_path / "outer.pt")(torch.ones(1)).tolist() == [4.0]
    inner = torch.jit.script(Outer().inner)
    inner.save(tmp_path / "inner.pt")
    assert torch.jit.load(tmp_path / "inner.pt")(torch.ones(1)).tolist() == [4.0]


def test_script_module_classes():
    class Old(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.full((2,), 3.0))

        @torch.jit.script_method
        def forward(self, x):
            return x * self.weight

    assert Old()(torch.ones(2)).tolist() == [3.0, 3.0]


# ---- traces

def test_trace_follows_sizes_and_views():
    def function(x, y):
        z = x.view(x.size(0), -1) @ y
        z[0, 1:] = 5
        values, places = z.max(1)
        return z[:, None].relu() + values[:, None, None], places

    traced = torch.jit.trace(function, (torch.randn(2, 3, 2), torch.randn(6, 4)))
    for batch in (1, 2, 5):
        args = torch.randn(batch, 3, 2), torch.randn(6, 4)
        for found, wanted in zip(traced(*args), function(*args), strict=True):
            assert torch.equal(found, wanted)
    FileCheck().check("aten::size").check("aten::view").check_not("prim::If").run(traced.graph)


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda x: type(x).__name__)
def test_layers_trace_save_and_load(layer, shape, tmp_path):
    layer = layer.eval()
    x = torch.randn(*shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        traced = torch.jit.trace(layer, x)
    traced.save(tmp_path / "layer.pt")
    again = torch.jit.load(tmp_path / "layer.pt")
    wanted, found, loaded = (r[0] if isinstance(r, tuple) else r for r in (layer(x), traced(x), again(x)))
    assert torch.allclose(wanted, found)
    assert torch.allclose(wanted, loaded)


def test_trace_follows_sizes_in_shapes():
    traced = torch.jit.trace(lambda x: torch.full(x.shape, 2.0) + torch.zeros(x.shape[0] * 1, 1), torch.ones(2, 3))
    assert traced(torch.ones(4, 5)).shape == (4, 5)


def test_trace_warns_of_values_that_python_reads():
    def branch(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.warns(torch.jit.TracerWarning, match="might not generalize to other inputs"):
        traced = torch.jit.trace(branch, torch.ones(2))
    assert traced(-torch.ones(2)).tolist() == [-2.0, -2.0]


def test_trace_warns_of_results_that_differ():
    def noisy(x):
        return x + np.random.default_rng().random()

    with pytest.warns(torch.jit.TracerWarning, match="does not match the corresponding output of the Python function"):
        torch.jit.trace(noisy, torch.ones(2))


def test_trace_refuses_graphs_that_differ():
    calls = []

    def changing(x):
        calls.append(1)
        return x + 1 if len(calls) > 1 else x.relu()

    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed"):
        torch.jit.trace(changing, torch.ones(2))


def test_scripts_stay_calls_in_traces():
    @torch.jit.script
    def positive(x: Tensor):
        if bool(x.sum() > 0):
            return x * 2
        return x

    traced = torch.jit.trace(lambda x: positive(x) + 1, torch.ones(2))
    assert traced(-torch.ones(2)).tolist() == [0.0, 0.0]
    assert traced(torch.ones(2)).tolist() == [3.0, 3.0]


def test_trace_module(net):
    traced = torch.jit.trace_module(nn.Linear(2, 3), {"forward": torch.ones(1, 2)})
    assert traced(torch.ones(4, 2)).shape == (4, 3)
    assert [name for name, _ in traced.named_parameters()] == ["weight", "bias"]


def test_script_if_tracing():
    @torch.jit.script_if_tracing
    def repeat(x: Tensor, n: Tensor):
        for _ in range(int(n)):
            x = x + 1
        return x

    traced = torch.jit.trace(lambda x, n: repeat(x, n), (torch.zeros(1), torch.tensor(2)))
    assert traced(torch.zeros(1), torch.tensor(5)).item() == 5


# ---- freezing

class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), 3.0))
        self.use = True
        self.label = "a"

    def forward(self, x: Tensor) -> Tensor:
        if self.use:
            return x * self.weight
        return x

    @torch.jit.export
    def twice(self, x: Tensor) -> Tensor:
        return self.forward(x) * 2


def test_freeze_makes_constants_and_settles_branches():
    script = torch.jit.script(Frozen().eval())
    frozen = torch.jit.freeze(script)
    assert frozen(torch.ones(2)).tolist() == [3.0, 3.0]
    assert not list(frozen.parameters())
    assert not frozen.graph.findAllNodes("prim::GetAttr")
    kept = torch.jit.freeze(script, preserved_attrs=["label", "twice"])
    assert kept.label == "a"
    assert kept.twice(torch.ones(2)).tolist() == [6.0, 6.0]
    assert torch.jit.optimize_for_inference(script)(torch.ones(2)).tolist() == [3.0, 3.0]


def test_frozen_modules_are_saved(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    frozen = torch.jit.freeze(torch.jit.script(model))
    frozen.save(tmp_path / "frozen.pt")
    x = torch.randn(2, 3)
    assert torch.equal(torch.jit.load(tmp_path / "frozen.pt")(x), model(x))


def test_functional_calls_keep_their_arguments(tmp_path):
    class Loss(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(x, y, label_smoothing=0.1) + F.interpolate(x[None], scale_factor=2.0).mean()

    script = torch.jit.script(Loss())
    script.save(tmp_path / "loss.pt")
    x, y = torch.randn(3, 4), torch.tensor([0, 1, 3])
    assert torch.equal(torch.jit.load(tmp_path / "loss.pt")(x, y), Loss()(x, y))


def test_traced_losses_keep_their_arguments_in_files(tmp_path):
    traced = torch.jit.trace(lambda x, y: F.binary_cross_entropy(x, y, reduction="sum"), (torch.rand(3), torch.rand(3)))
    traced.save(tmp_path / "loss.pt")
    x, y = torch.rand(4), torch.rand(4)
    assert torch.equal(torch.jit.load(tmp_path / "loss.pt")(x, y), F.binary_cross_entropy(x, y, reduction="sum"))


class Factors:
    def __init__(self, sizes: list[int], names: dict[str, int]):
        self.sizes = sizes
        self.names = names


class Untyped:
    def __init__(self, *sizes):
        self.sizes = sizes


class WithInstances(nn.Module):
    def __init__(self):
        super().__init__()
        self.by_rank = {1: Factors([2], {"a": 3}), 2: Factors([5], {"a": 7})}
        self.other = Factors([11], {"a": 13})
        self.settings = Untyped(1)

    def forward(self, x: torch.Tensor):
        found = self.by_rank[x.ndim]
        return x * found.sizes[0] * found.names["a"] + self.other.names["a"]


def test_classes_of_attributes_are_scripted_where_they_can():
    scripted = torch.jit.script(WithInstances())
    assert scripted(torch.ones(1)).tolist() == [2.0 * 3 + 13]
    assert scripted(torch.ones(1, 1)).tolist() == [[5.0 * 7 + 13]]


def test_attributes_of_other_classes_stay_in_python():
    class Uses(WithInstances):
        def forward(self, x: torch.Tensor):
            return x * self.settings.sizes[0]

    with pytest.raises(RuntimeError, match="Module 'Uses' has no attribute 'settings'"):
        torch.jit.script(Uses())
