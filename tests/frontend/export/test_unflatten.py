"""Modules of exported programs in the hierarchy of the original ones."""

from __future__ import annotations

import dataclasses
import io

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ExportError
from tensocket.export import Dim, FlatArgsAdapter, export, register_dataclass, unflatten
from tensocket.export.unflatten import InterpreterModule, InterpreterModuleDispatcher

BATCH = Dim("batch", max=64)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x, other=None):
        y = self.n(self.a(x)).relu()
        return y if other is None else (y + other.view(x.shape[0], -1), y * 2)


class Net(nn.Module):
    """Nested modules, one of which is called twice, with a tensor that a module holds for another one."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.head = Block(), nn.ModuleDict({"inner": Block()}), nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.scale = torch.arange(4.0)

    def forward(self, x):
        self.calls.add_(1)
        y = self.one(x)
        z, w = self.two["inner"](y, other=self.one.a.weight.sum() * x)
        return {"result": self.head(self.head.weight.mean() * z * self.scale), "rest": [w, x.shape[0]]}


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().train()


def equal(one, other):
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(x, other[key]) for key, x in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(equal, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_nodes_name_the_calls_that_make_them(net):
    program = export(net, (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},))
    stacks = {node.name: [path for path, _ in node.meta["nn_module_stack"].values()] for node in program.graph.nodes
              if node.op == "call_function"}
    assert stacks["add_"] == [""]
    assert stacks["linear"] == ["", "one", "one.a"]
    assert stacks["relu_1"] == ["", "two.inner"]
    linear = next(node for node in program.graph.nodes if node.name == "linear")
    assert list(linear.meta["nn_module_stack"].values())[2][1] == "torch.nn.modules.linear.Linear"
    assert [x.fqn for x in program.module_call_graph] == [
        "", "one", "one.a", "one.n", "two.inner", "two.inner.a", "two.inner.n", "head"]


def test_hierarchy_results_gradients_and_buffers(net):
    program = export(net, (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},))
    made = unflatten(program)
    assert sorted(made.state_dict()) == sorted(net.state_dict())
    assert [name for name, _ in made.named_children()] == ["one", "two", "head"]
    assert isinstance(made.get_submodule("two.inner.a"), InterpreterModule)
    assert made.get_submodule("two.inner.a").type_name() == "torch.nn.modules.linear.Linear"
    assert made.one.a.weight is not net.one.a.weight
    x = torch.randn(5, 4)
    mine, theirs = made(x), net(x)
    assert equal(mine, theirs)
    mine["result"].sum().backward()
    theirs["result"].sum().backward()
    for name, p in net.named_parameters():
        assert torch.equal(made.get_parameter(name).grad, p.grad)
    assert equal(dict(made.named_buffers()), dict(net.named_buffers()))


def test_submodules_are_replaced(net):
    made = unflatten(export(net, (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},)))

    class Zero(nn.Module):
        def forward(self, x):
            return x.new_zeros(x.shape)

    made.two.inner.n = Zero()
    assert made(torch.randn(4, 4))["rest"][0].tolist() == [[0.0] * 4] * 4


class Twice(nn.Module):
    def __init__(self, same):
        super().__init__()
        self.shared, self.same = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), same

    def forward(self, x):
        y = self.shared(x)
        return self.shared(y) if self.same else self.shared(y[0])


def test_modules_that_are_called_twice():
    for same in (True, False):
        model = Twice(same)
        made = unflatten(export(model, (torch.ones(2, 3),)))
        x = torch.randn(2, 3)
        for _ in range(2):
            assert torch.equal(made(x), model(x))
        assert sorted(made.state_dict()) == sorted(model.state_dict())
    class Modes(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = Scaled()

        def forward(self, x):
            return self.drop(x, 2.0) + self.drop(x, 3.0)

    class Scaled(nn.Module):
        def forward(self, x, factor):
            return x * factor

    made = unflatten(export(Modes(), (torch.ones(2),)))
    assert isinstance(made.drop, InterpreterModuleDispatcher)
    assert len(made.drop.call_modules()) == 2
    for _ in range(2):
        assert made(torch.ones(2)).tolist() == [5.0, 5.0]


def test_signatures_of_modules(net):
    program = export(net, (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},),
                     preserve_module_call_signature=("two.inner", "one"))
    entry = next(x for x in program.module_call_graph if x.fqn == "two.inner")
    assert entry.signature.in_spec.brief() == "tuple(tuple(*), dict(*))"
    assert [x.name for x in entry.signature.inputs] == ["relu", "mul"]
    made = unflatten(program)
    x = torch.randn(6, 4)
    assert equal(made(x), net(x))

    class Same(nn.Module):
        def forward(self, x, other=None):
            assert other is not None
            return x, other

    made.two.inner = Same()
    assert made(x)["rest"][0].shape == (6, 4)
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    assert equal(unflatten(torch.export.load(stream))(x), unflatten(program)(x))


def test_programs_in_files(net):
    program = export(net, (torch.randn(3, 4),), dynamic_shapes=({0: BATCH},))
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    x = torch.randn(5, 4)
    assert equal(unflatten(torch.export.load(stream))(x), unflatten(program)(x))


def test_arguments_of_another_structure():
    class Sum(nn.Module):
        def forward(self, pair, *, k):
            return pair[0] + pair[1] * k

    class Adapter(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return [input_args[1], input_args[0], input_args[2]]

    program = export(Sum(), ([torch.ones(1), torch.ones(1)],), {"k": torch.ones(1)})
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    assert unflatten(program)([one, two], k=two).item() == 5
    assert unflatten(program, Adapter())(one, two, k=two).item() == 4
    with pytest.raises(ExportError, match="There is no flat args adapter specified, and the program's arguments have "
                                          "the structure tuple"):
        unflatten(program)(one, two, k=two)
    with pytest.raises(torch.export.GuardError, match="Guard failed"):
        unflatten(program)([torch.ones(2), two], k=two)


def test_refusals(net):
    with pytest.raises(ExportError, match="preserve_module_call_signature with 'gone' — it lists paths of submodules, "
                                          "which are one, "):
        export(net, (torch.randn(3, 4),), preserve_module_call_signature=("gone",))
    made = unflatten(export(net, (torch.randn(3, 4),), preserve_module_call_signature=("one",)))
    with pytest.raises(ExportError, match=r"the signature of the module is tuple\(tuple\(\*\), dict\(\)\)"):
        made.one([torch.ones(3, 4)])


class Scaled(nn.Module):
    def forward(self, x, factor, *, box=None):
        return x * factor if box is None else x * factor + box.value


@dataclasses.dataclass
class Box:
    value: torch.Tensor


class Around(nn.Module):
    """A module whose submodule gets other arguments in each case."""

    def __init__(self, case):
        super().__init__()
        self.inner, self.case = Scaled(), case

    def forward(self, x):
        if self.case == "constant":
            return self.inner(x, 2.0)
        if self.case == "class":
            return self.inner(x, x, box=Box(x))
        return x


class Unused(nn.Module):
    def forward(self, x):
        return 1


@pytest.mark.parametrize(("case", "message"), [
    ("constant", "arguments of modules whose signatures are preserved are tensors"),
    ("class", "arguments of modules whose signatures are preserved are tuples, lists and dicts of tensors"),
])
def test_signatures_that_calls_cannot_write(case, message):
    if case == "class":
        register_dataclass(Box, serialized_type_name="tests.Box")
    program = export(Around(case), (torch.ones(2),), preserve_module_call_signature=("inner",))
    with pytest.raises(ExportError, match=message):
        unflatten(program)


def test_signatures_of_tensors_without_nodes():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Unused()
            self.one = torch.ones(2)

        def forward(self, x):
            return x + self.inner(self.one)

    with pytest.raises(ExportError, match="the signature of a call names nodes"):
        export(Outer(), (torch.ones(2),), preserve_module_call_signature=("inner",))


def test_values_from_outside_of_a_preserved_module():
    holder = []

    class Other(nn.Module):
        def forward(self, x):
            return x + holder[0]

    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Other()

        def forward(self, x):
            holder[:] = [x * 2]
            return self.inner(x)

    program = export(Around(), (torch.ones(2),), preserve_module_call_signature=("inner",))
    with pytest.raises(ExportError, match="modules use values that they get, make or hold"):
        unflatten(program)
