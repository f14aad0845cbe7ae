"""Decomposed programs: simpler operators, no writes, the same results, gradients and buffers."""

from __future__ import annotations

import io

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ExportError
from tensocket.export import CustomDecompTable, Dim, default_decompositions, export, load, save, unflatten
from tensocket.export.graph_signature import OutputKind


@torch.library.custom_op("export_tests::increase", mutates_args={"x"})
def increase(x: torch.Tensor) -> None:
    x.add_(1)



def mixed(x):
    x[torch.tensor([0]), :1] = 2.0
    return x


BATCH = Dim("batch", min=2, max=64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.b = nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("table", torch.zeros(4, 3))
        self.register_buffer("hidden", torch.ones(3), persistent=False)

    def forward(self, x):
        self.calls += 1
        self.table[1:3, 0] = self.calls
        self.table[-1] = 2.0
        self.hidden.copy_(self.table.sum(0))
        y = self.b(self.c(x)).relu_()
        z = torch.zeros_like(y).add_(y).mul_(2.0)
        z[:, 1:] = y[:, :1]
        return {"z": z.flatten(1), "n": x.shape[0], "m": y.mean(-1) + self.hidden}


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().train()


def exported(net):
    return export(net, (torch.randn(4, 2, 5),), dynamic_shapes=({0: BATCH},))


def writes(program):
    """The names of operators of a graph that write."""
    return [str(node.target.name) for node in program.graph.nodes if node.op == "call_function" and any(
        p.mutated for p in getattr(getattr(node.target, "schema", None), "parameters", ()))]


def trained(run, x):
    """Results, gradients and buffers of two calls."""
    torch.manual_seed(1)
    for _ in range(2):
        result = run(x)
    sum(v.square().sum() for v in result.values() if isinstance(v, torch.Tensor)).backward()
    return result, {name: p.grad for name, p in run.named_parameters()}, dict(run.named_buffers())


def close(one, other):
    return list(one) == list(other) and all(
        x == other[key] if not isinstance(x, torch.Tensor) else torch.allclose(x, other[key], atol=1e-6)
        for key, x in one.items())


@pytest.mark.parametrize("table", [None, {}])
def test_results_gradients_and_buffers(net, table):
    program = exported(net)
    made = program.run_decompositions(table)
    assert writes(program)
    assert writes(made) == []
    assert program.dialect == "TRAINING"
    assert made.dialect == "ATEN"
    assert made.graph_signature.buffers_to_mutate.keys() == {
        spec.arg.name for spec in made.graph_signature.output_specs if spec.kind is OutputKind.BUFFER_MUTATION}
    assert set(made.graph_signature.buffers_to_mutate.values()) == {
        "calls", "table", "hidden", "b.running_mean", "b.running_var", "b.num_batches_tracked"}
    assert [spec.kind for spec in made.graph_signature.output_specs][-3:] == [OutputKind.USER_OUTPUT] * 3
    assert made.range_constraints == program.range_constraints
    assert list(made.state_dict) == list(program.state_dict)
    x = torch.randn(7, 2, 5)
    state = {name: v.clone() for name, v in [*net.state_dict().items(), ("hidden", net.hidden)]}
    found = []
    for run in (made.module(), net):
        for name, value in state.items():
            with torch.no_grad():
                net.get_parameter(name).copy_(value) if name in dict(net.named_parameters()) else (
                    net.get_buffer(name).copy_(value))
        net.zero_grad()
        result = trained(run, x)
        found.append([{k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in part.items()} for part in result])
    for one, other in zip(*found, strict=True):
        assert close({k: one[k] for k in sorted(one)}, {k: other[k] for k in sorted(other)})
    with pytest.raises(torch.export.GuardError, match=r"Guard failed: x\.size\(\)\[0\] >= 2"):
        made.module()(torch.randn(1, 2, 5))


def test_files_and_submodules(net):
    made = exported(net).run_decompositions()
    stream = io.BytesIO()
    save(made, stream)
    stream.seek(0)
    other = load(stream)
    assert other.dialect == "ATEN"
    assert str(other.graph_signature) == str(made.graph_signature)
    x = torch.randn(3, 2, 5)
    parts = unflatten(other)
    assert parts.get_submodule("b").type_name() == "torch.nn.modules.batchnorm.BatchNorm1d"
    expected = other.module()(x)
    assert close(parts(x), expected)
    assert close(dict(sorted(parts.named_buffers())), dict(sorted(other.module().named_buffers())))


def test_tables():
    class Products(nn.Module):
        def forward(self, x):
            return torch.einsum("ij,jk->ik", x, x) + nn.functional.hardswish(x)

    program = export(Products(), (torch.randn(3, 3),))
    einsum, hardswish = torch.ops.aten.einsum.default, torch.ops.aten.hardswish.default
    table = default_decompositions()
    assert isinstance(table, CustomDecompTable)
    assert einsum in table
    targets = {node.target for node in program.run_decompositions(table).graph.nodes}
    assert einsum not in targets
    assert hardswish in targets
    del table[einsum]
    table[hardswish] = lambda x: x * (x + 3).clamp(0, 6) / 6
    copied = table.copy()
    made = program.run_decompositions(copied)
    targets = {node.target for node in made.graph.nodes}
    assert einsum in targets
    assert hardswish not in targets
    assert copied.materialize() == dict(table)
    x = torch.randn(3, 3)
    assert torch.allclose(made.module()(x), program.module()(x), atol=1e-6)


def test_written_arguments_and_preserved_signatures():
    class Inner(nn.Module):
        def forward(self, x, *, y):
            return x + y

    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            x.add_(1)
            return self.inner(x, y=x * 2)

    program = export(Writes(), (torch.zeros(2),), preserve_module_call_signature=("inner",))
    made = program.run_decompositions()
    assert made.graph_signature.user_inputs_to_mutate == {"add": "x"}
    for run in (made.module(), unflatten(made)):
        x = torch.zeros(2)
        assert run(x).tolist() == [3.0, 3.0]
        assert x.tolist() == [1.0, 1.0]
    entry = next(x for x in made.module_call_graph if x.fqn == "inner")
    assert [x.name for x in entry.signature.inputs] == ["add", "mul"]


@pytest.mark.parametrize(("function", "message"), [
    (mixed, "positions of assignments are slices and integers, or tensors"),
    (lambda x: x.view(4).add_(1) + x.flatten(), "a decomposed program has no memory that tensors share"),
    (lambda x: (increase(x), x)[1],
     "a decomposed program returns new tensors in place of writing, and the operator has no such form"),
])
def test_writes_without_a_form(function, message):
    class Writes(nn.Module):
        def forward(self, x):
            return function(x.clone())

    program = export(Writes(), (torch.ones(2, 2),))
    with pytest.raises(ExportError, match=message):
        program.run_decompositions()


def test_programs_without_examples():
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    program.example_inputs = None
    with pytest.raises(ExportError, match="a program without example inputs — the program runs again"):
        program.run_decompositions()
