"""Standard architectures as graphs: recorded, pickled, copied and edited, they compute the models' results."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import tensocket as torch
from tensocket import fx
from tensocket.nn import functional as F

#: Programs whose control flow depends on their input, with the error that PyTorch raises, too.
DYNAMIC = {"bert": TypeError, "gpt": fx.proxy.TraceError, "seq2seq": TypeError, "transformer": TypeError}
#: Number of nodes of the graphs that PyTorch 2.13 records.
NODES = {"alexnet": 24, "autoencoder": 15, "convnext": 57, "dcgan": 19, "densenet": 51, "efficientnet": 56, "gcn": 16,
         "lenet": 15, "lstm": 18, "mlp": 10, "mobilenet": 51, "resnet18": 71, "resnet50": 177, "unet": 65, "vae": 28,
         "vgg": 30, "vit": 99, "wavenet": 52}


def make(program, name):
    model, inputs = program.make(name)
    program.fill(model)
    return model.eval(), inputs


def check(program, first, second, inputs, exact=True):
    for mine, theirs in zip(program.results(first(*inputs)), program.results(second(*inputs)), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=0 if exact else 1e-4,
                                   atol=0 if exact else 1e-5)


def test_every_program_is_listed(program):
    assert sorted(NODES.keys() | DYNAMIC) == program.NAMES


@pytest.mark.parametrize("name", sorted(DYNAMIC))
def test_programs_that_depend_on_their_input(program, name):
    model, _ = make(program, name)
    with pytest.raises(DYNAMIC[name]):
        fx.symbolic_trace(model)
    assert not fx._symbolic_trace.is_fx_tracing()
    torch.ones(2).view(2, 1)  # nothing stays replaced


@pytest.mark.parametrize("name", sorted(NODES))
def test_recording_and_copies(program, name):
    model, inputs = make(program, name)
    traced = fx.symbolic_trace(model)
    traced.graph.lint()
    assert len(traced.graph.nodes) == NODES[name]
    check(program, traced, model, inputs)
    check(program, fx.Interpreter(traced).run, model, inputs)
    check(program, fx.Transformer(traced).transform(), model, inputs)
    check(program, copy.deepcopy(traced), model, inputs)
    if name != "wavenet":  # parametrized modules cannot be pickled
        loaded = pickle.loads(pickle.dumps(traced))
        check(program, loaded, model, inputs)
        # The loaded graph reads a parameter once that the program reads twice.
        assert loaded.code == traced.code or name == "lstm"
    if name in ("resnet18", "mlp", "vit"):
        buffer = io.BytesIO()
        torch.save(traced, buffer)
        buffer.seek(0)
        check(program, torch.load(buffer, weights_only=False), model, inputs)
    assert set(traced.state_dict()) == set(model.state_dict()) or name in ("dcgan", "vae")
    again = fx.symbolic_trace(traced)
    check(program, again, model, inputs)


@pytest.mark.parametrize("name", ["alexnet", "resnet18", "unet", "vae", "lenet", "gcn", "densenet"])
def test_relu_becomes_gelu(program, name, monkeypatch):
    model, inputs = make(program, name)
    traced = fx.symbolic_trace(model)
    modules = dict(traced.named_modules())
    count = 0
    for node in traced.graph.nodes:
        is_module = node.op == "call_module" and type(modules[node.target]) is torch.nn.ReLU
        if is_module or node.target in (F.relu, torch.relu, "relu", "relu_"):
            with traced.graph.inserting_before(node):
                new = traced.graph.call_function(F.gelu, node.args[:1])
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
            count += 1
    assert count
    traced.recompile()
    traced.graph.lint()
    # The same change of the model itself.
    monkeypatch.setattr(F, "relu", lambda x, inplace=False: F.gelu(x))
    monkeypatch.setattr(torch, "relu", F.gelu)
    monkeypatch.setattr(torch.nn.ReLU, "forward", lambda self, x: F.gelu(x))
    check(program, traced, model, inputs)


@pytest.mark.parametrize("name", sorted(NODES))
def test_dead_code_is_erased_and_inserted_nodes_run(program, name):
    model, inputs = make(program, name)
    traced = fx.symbolic_trace(model)
    graph = traced.graph
    calls = [node for node in graph.nodes if node.op in ("call_module", "call_function")]
    with graph.inserting_after(calls[0]):
        dead = graph.call_function(torch.sin, (calls[0],))
    with graph.inserting_after(dead):
        graph.call_function(torch.cos, (dead,))
    assert graph.eliminate_dead_code()
    assert torch.sin not in {node.target for node in graph.nodes}
    output = graph.output_node()
    with graph.inserting_before(output):
        output.args = (fx.map_arg(output.args[0], lambda node: graph.call_function(torch.mul, (node, 2.0))),)
    traced.recompile()

    def doubled(*args):
        return tuple(x * 2.0 for x in program.results(model(*args)))

    check(program, traced, doubled, inputs)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet", "vgg", "densenet", "efficientnet", "unet"])
def test_normalisations_are_fused(program, name):
    from tensocket.fx.experimental import optimization

    model, inputs = make(program, name)
    fused = optimization.optimize_for_inference(model)
    kinds = {type(module) for module in fused.modules()}
    assert torch.nn.Dropout not in kinds
    calls = [node for node in fused.graph.nodes if node.op == "call_module"]
    assert len(calls) < len([node for node in fx.symbolic_trace(model).graph.nodes if node.op == "call_module"]) or (
        name == "vgg")
    check(program, fused, model, inputs, exact=False)


@pytest.mark.parametrize("name", sorted(NODES))
def test_splits_and_shapes(program, name):
    from tensocket.fx.passes.shape_prop import ShapeProp
    from tensocket.fx.passes.split_module import split_module

    model, inputs = make(program, name)
    traced = fx.symbolic_trace(model)
    ShapeProp(traced).propagate(*inputs)
    values = {}

    class Values(fx.Interpreter):
        def run_node(self, n):
            values[n.name] = super().run_node(n)
            return values[n.name]

    Values(traced).run(*inputs)
    for node in traced.graph.nodes:
        if isinstance(values[node.name], torch.Tensor):
            assert tuple(node.meta["tensor_meta"].shape) == tuple(values[node.name].shape)
    count = len(traced.graph.nodes)
    numbers = {node.name: at * 3 // count for at, node in enumerate(traced.graph.nodes)}
    split = split_module(traced, traced, lambda node: numbers[node.name])
    check(program, split, model, inputs)
    assert sum(node.op == "call_module" for node in split.graph.nodes) in (1, 2, 3)


#: Classes whose forward depends on its input, so that graphs of these programs call their modules.
DEPENDENT = {"bert": {"Embeddings", "Layer"}, "gpt": {"CausalSelfAttention"}}


class Whole(torch.nn.Module):
    """A module that calls another one of two inputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, source, target):
        return self.model(source, target)


class WholeOfThree(Whole):
    """A module that calls another one of three inputs."""

    def forward(self, source, lengths, target):
        return self.model(source, lengths, target)


def record(name, model):
    """A graph of a program; modules that depend on their input are called by it."""
    if name not in DYNAMIC:
        return fx.symbolic_trace(model)

    class Tracer(fx.Tracer):
        def is_leaf_module(self, m, qualified):
            dependent = m is model or type(m).__name__ in DEPENDENT.get(name, ())
            return dependent or super().is_leaf_module(m, qualified)

    root = model if name in DEPENDENT else (WholeOfThree if name == "seq2seq" else Whole)(model)
    return fx.GraphModule(root, Tracer().trace(root))


def tensors_of(traced, inputs):
    """The nodes of calls whose values are tensors of floats."""
    found = []

    class Values(fx.Interpreter):
        def run_node(self, n):
            value = super().run_node(n)
            if n.op.startswith("call") and isinstance(value, torch.Tensor) and value.is_floating_point():
                found.append(n.name)
            return value

    Values(traced).run(*inputs)
    return [node for node in traced.graph.nodes if node.name in found]


@pytest.mark.parametrize("name", sorted(NODES.keys() | DYNAMIC))
def test_every_program_can_be_recorded_edited_and_rewritten(program, name):
    model, inputs = make(program, name)
    traced = record(name, model)
    check(program, traced, model, inputs)
    nodes = tensors_of(traced, inputs)
    assert nodes
    for node in nodes:
        with traced.graph.inserting_after(node):
            doubled = traced.graph.call_function(torch.mul, (node, 2.0))
        with traced.graph.inserting_after(doubled):
            halved = traced.graph.call_function(torch.mul, (doubled, 0.5))
        node.replace_all_uses_with(halved, lambda user, doubled=doubled: user is not doubled)
    traced.graph.lint()
    traced.recompile()
    check(program, traced, model, inputs)

    matches = fx.replace_pattern(traced, lambda x: torch.mul(torch.mul(x, 2.0), 0.5), lambda x: torch.neg(torch.neg(x)))
    assert len(matches) == len(nodes)
    assert torch.mul not in {node.target for node in traced.graph.nodes if 2.0 in node.args}
    traced.graph.lint()
    traced.recompile()
    check(program, traced, model, inputs)
