"""Programs without a graph that is right for all inputs are refused, with the place; so are inputs without a graph."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ExportError
from tensocket.export import ConstraintViolation, Dim, GuardError, export, register_dataclass
from tensocket.export.graph_signature import TensorArgument
from tensocket.export.recorder import ExportRecorder
from tensocket.export.verifier import SpecViolationError

HERE = r"test_refusals\.py:\d+"


def module(function):
    """A module around a function of one or two tensors."""
    class One(nn.Module):
        def forward(self, x):
            return function(x)

    class Two(nn.Module):
        def forward(self, x, y):
            return function(x, y)

    return One() if function.__code__.co_argcount == 1 else Two()


class Doubled(torch.autograd.Function):
    """A function whose backward a program writes."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def backward(x):
    w = torch.ones(2, requires_grad=True)
    (w * x).sum().backward()
    return w.grad


@pytest.mark.parametrize(("function", "text"), [
    (lambda x: x * x.sum().item(), rf"a read of elements of a tensor at .*{HERE} — "
     r"the graph must be the same for all elements, so that item\(\), bool\(tensor\), float\(tensor\), tolist\(\) and "
     r"the like have no place in it"),
    (lambda x: x if x.sum() > 0 else -x, f"a read of elements of a tensor at .*{HERE}"),
    (lambda x: x * x.tolist()[0][0], f"a read of elements of a tensor at .*{HERE}"),
    (lambda x: x.nonzero(), f"a call of nonzero at .*{HERE} — sizes of results "
     "follow from sizes of arguments, but the shape"),
    (lambda x: x[x > 0], f"a call of getitem at .*{HERE} — sizes of results follow from sizes"),
    (backward, f"a backward pass at .*{HERE} — a graph of an exported program contains no backward pass"),
    (Doubled.apply, "a call of Doubled.apply at .* — the graph has no place for the backward pass of an "
     "autograd.Function"),
    (lambda x: object(), "a program that returns a object — results are tensors, numbers, str, None, and containers of "
     "these")])
def test_refused_programs(function, text):
    model = nn.Module()
    model.forward = function
    with pytest.raises(ExportError, match=text):
        export(model, (torch.randn(3, 2),))


@pytest.mark.parametrize(("function", "text"), [
    (lambda x: x + 1 if x.shape[0] > 4 else x,
     rf"compares sizes at .*{HERE} — Constraints violated \(b\)! Not all values of b = L\['x'\]\.size\(\)\[0\] in the "
     r"specified range b <= 32 satisfy the generated guard 5 <= L\['x'\]\.size\(\)\[0\] and L\['x'\]\.size\(\)\[0\] "
     r"<= 32 — Suggested fixes: b = Dim\('b', min=5, max=32\)"),
    (lambda x: x + torch.ones(6, 1), r"a program that fails for b=7 \(\[add\] shapes \[7, 2\] and \[6, 1\].*You marked "
     r"b as dynamic but your code specialized it to be a constant \(6\).*Suggested fixes: b = 6"),
    (lambda x: x * len(x), rf"compares sizes at .*{HERE} — Constraints violated \(b\)! You marked b as dynamic but"),
    (lambda x: x.view(2, 3, 2), r"You marked b as dynamic but your code specialized it to be a constant \(6\)"),
    (lambda x: x[: int(x.shape[0] * 0.5)], r"6 <= L\['x'\].size\(\)\[0\] and L\['x'\].size\(\)\[0\] <= 7"),
    (lambda x: torch.cat([x[i:i + 1] for i in range(x.shape[0])]),
     rf"depends on sizes at .*{HERE} — with other dynamic sizes, \w+ is called for some sizes, \w+ for others"),
    (lambda x: x * sum(range(x.shape[0])), f"at .*{HERE} — with other dynamic sizes, mul gets arguments that do not "
     "follow from sizes, but the graph must be the same for all sizes in their ranges"),
    (lambda x: x.unbind(0)[0], f"at .*{HERE} — with other dynamic sizes, unbind gets arguments that do not"),
    (lambda x: x * torch.tensor(float(sum(range(x.shape[0])))), "a tensor of numbers has other elements"),
    (lambda x: [x] * (1 + sum(range(x.shape[0]))), "whose result has another structure for other sizes — "
     "the structure of the result is the same in all calls"),
    (lambda x: (x, sum(range(x.shape[0]))), "its result has a number that does not follow from sizes")])
def test_refused_sizes(function, text):
    with pytest.raises(ExportError, match=text):
        export(module(function), (torch.randn(6, 2),), dynamic_shapes={"x": {0: Dim("b", max=32)}})


def test_sizes_that_must_be_equal():
    inputs, shapes = (torch.randn(6, 2), torch.randn(6, 2)), {"x": {0: Dim("b", max=32)}, "y": {0: Dim("c")}}
    with pytest.raises(ConstraintViolation, match=r"Constraints violated \(b, c\)! The values of c = L\['y'\].size\(\)"
                       r"\[0\] and b = L\['x'\].size\(\)\[0\] must always be equal — Suggested fixes: c = b"):
        export(module(lambda x, y: x + y), inputs, dynamic_shapes=shapes)
    with pytest.raises(ConstraintViolation, match="must always be equal"):
        export(module(lambda x, y: x if x.shape[0] == y.shape[0] else y), inputs, dynamic_shapes=shapes)


def test_a_dynamic_dim_must_change():
    with pytest.raises(ConstraintViolation, match=r"Constraints violated \(L\['x'\]\.size\(\)\[0\]\)! You marked "
                       r"L\['x'\]\.size\(\)\[0\] as dynamic but your code specialized it to be a constant \(6\)\. If "
                       "you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO"):
        export(module(lambda x: x + torch.ones(6, 1)), (torch.randn(6, 2),), dynamic_shapes={"x": {0: Dim.DYNAMIC}})


@pytest.mark.parametrize(("shapes", "text"), [
    ({"z": {0: Dim("b")}}, r"When `dynamic_shapes` is specified as a dict, "
     r"its top-level keys must be the arg names \['x'\] of `inputs`, but here they are \['z'\]"),
    ({"x": {0: 3}}, r"Static shape constraint of 3 does not match input size of 6, for L\['x'\].size\(\)\[0\]"),
    ({"x": {2: Dim("b")}}, "name dimensions that the tensor has"),
    ({"x": {0: "b"}}, "a size is a Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, None or the size itself"),
    ({"x": 5}, "a shape is a dict from dimensions, or a tuple with one entry for each"),
    ((None, None), r"dynamic_shapes is a dict by argument, or a tuple or list with one entry for each of \['x'\]"),
    ({"x": {0: Dim("b", min=7)}}, r"a size of 6 for b — Constraints violated \(b\)! the range is 7 <= b"),
    ({"x": {0: 4 * Dim("b")}}, r"a size of 6 for x.size\(\)\[0\] = 4\*b — no integer b gives it"),
    ({"x": {0: (b := Dim("b")), 1: b}}, r"Constraints violated \(b\)! The values of b = L\['x'\]\.size\(\)\[0\] and of "
     r"L\['x'\]\.size\(\)\[1\] must fit together"),
    ({"x": {0: Dim("b"), 1: Dim("b", max=9)}}, r"Found different definitions Dim\('b', min=0, max=inf\) and "
     r"Dim\('b', min=0, max=9\) for the same symbolic dimension")])
def test_refused_dynamic_shapes(shapes, text):
    with pytest.raises(ExportError, match=text):
        export(module(lambda x: x * 2), (torch.randn(6, 2),), dynamic_shapes=shapes)


def test_dynamic_shapes_have_the_structure_of_the_arguments():
    class Dicts(nn.Module):
        def forward(self, x, n):
            return x["a"] * n

    with pytest.raises(ExportError, match=r"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
                       r"`inputs\['x'\]` is a <class 'dict'>, but `dynamic_shapes\['x'\]` is not"):
        export(Dicts(), ({"a": torch.ones(2)}, 3), dynamic_shapes={"x": {0: Dim("b")}, "n": None})
    with pytest.raises(ExportError, match="only sizes of tensors are dynamic; other arguments are constants "
                       "of the graph"):
        export(Dicts(), ({"a": torch.ones(2)}, 3), dynamic_shapes={"x": {"a": None}, "n": Dim("n")})


@pytest.mark.parametrize(("make", "text"), [
    (lambda: Dim("a b"), "Dim name must be a valid identifier, got a b"),
    (lambda: Dim("b", min=5, max=2), "Cannot create Dim with inconsistent min and max"),
    (lambda: Dim("b") * 0, r"Attempted to multiply a dim with a number that is not positive "
     r"\(sizes would not grow with the dim\)"),
    (lambda: Dim("b") + 0.5, r"Attempted to combine a Dim with 0\.5, where an integer was expected\. "
     r"\(Only increasing linear operations with integer coefficients are supported\.\)"),
    (lambda: export(lambda x: x, (1,)), "Expected `mod` to be an instance of `torch.nn.Module`, got "
     "<class 'function'>"),
    (lambda: export(nn.ReLU(), [torch.ones(2)]), "Expecting `args` to be a tuple of example "
     "positional inputs, got <class 'list'>"),
    (lambda: register_dataclass(int), "Only dataclasses can be registered with this function: <class 'int'>")])
def test_refused_arguments(make, text):
    with pytest.raises(ExportError, match=text):
        make()


def test_derived_dims_have_names_and_ranges():
    dim = 2 * Dim("b", min=1, max=8) + 1
    assert (repr(dim), dim.min, dim.max) == ("2*b + 1", 3, 17)
    assert repr(dim - 3) == "2*b - 2"


@pytest.mark.parametrize(("inputs", "text"), [
    ((torch.ones(33, 2), 3.0), r"\[export\] x = a tensor of shape \(33, 2\) — Guard failed: x.size\(\)\[0\] <= 32"),
    ((torch.ones(1, 2), 3.0), r"Guard failed: x.size\(\)\[0\] >= 2"),
    ((torch.ones(4, 3), 3.0), r"Guard failed: x.size\(\)\[1\] == 2"),
    ((torch.ones(4), 3.0), r"Guard failed: len\(x.size\(\)\) == 2"),
    ((torch.ones(4, 2).double(), 3.0), r"Guard failed: x.dtype == .*float32"),
    ((None, 3.0), r"Guard failed: isinstance\(x, torch.Tensor\)"),
    ((torch.ones(4, 2), 4.0), r"Guard failed: scale == 3.0"),
    ((torch.ones(4, 2), 3), r"Guard failed: scale == 3.0")])
def test_inputs_are_checked(inputs, text):
    class Scaled(nn.Module):
        def forward(self, x, scale):
            return x * scale

    program = export(Scaled(), (torch.ones(4, 2), 3.0), dynamic_shapes=({0: Dim("b", min=2, max=32)}, None))
    with pytest.raises(GuardError, match=text) as caught:
        program.module()(*inputs)
    assert isinstance(caught.value, AssertionError)
    if inputs[0] is not None and inputs[0].dtype is torch.float32:
        program.module(check_guards=False)(*inputs)


def test_relations_of_sizes_are_checked():
    batch = Dim("b", max=32)
    program = export(module(lambda x, y: x + y[::2]), (torch.ones(6, 2), torch.ones(12, 2)),
                     dynamic_shapes={"x": {0: batch}, "y": {0: 2 * batch}})
    with pytest.raises(GuardError, match=r"Guard failed: y.size\(\)\[0\] == 2\*x.size\(\)\[0\]"):
        program.module()(torch.ones(7, 2), torch.ones(13, 2))
    program = export(module(lambda x, y: x * 2 if x.shape[0] < y.shape[0] else y), (torch.ones(6), torch.ones(12)),
                     dynamic_shapes={"x": {0: batch}, "y": {0: Dim("c")}})
    assert program.module()(torch.ones(3), torch.ones(4)).tolist() == [2, 2, 2]
    with pytest.raises(GuardError, match=r"Guard failed: x.size\(\)\[0\] < y.size\(\)\[0\]"):
        program.module()(torch.ones(7), torch.ones(3))
    program = export(module(lambda x: x * 2 if x.shape[0] != 1 else x), (torch.ones(6),),
                     dynamic_shapes={"x": {0: batch}})
    with pytest.raises(GuardError, match=r"Guard failed: x.size\(\)\[0\] != 1"):
        program.module()(torch.ones(1))


def test_sizes_that_are_equal_only_in_small_arguments():
    def cut(x):
        y = x[:10]
        return (y * 2 if y.shape[0] == x.shape[0] else y), torch.zeros(y.shape[0])

    run = export(module(cut), (torch.ones(4),), dynamic_shapes={"x": {0: Dim("n", min=2, max=99)}}).module()
    first, second = run(torch.ones(7))
    assert first.sum() == 14
    assert second.shape == (7,)
    with pytest.raises(AssertionError, match="Runtime assertion failed for expression"):
        run(torch.ones(20))


def test_sizes_inside_are_asserted():
    def pooled(x):
        y = nn.functional.max_pool1d(x, 2)
        return y.flatten(1) if y.shape[2] > 2 else x

    run = export(module(pooled), (torch.ones(1, 2, 9),), dynamic_shapes={"x": {2: Dim("t", min=3, max=99)}}).module()
    assert run(torch.ones(1, 2, 30)).shape == (1, 30)
    with pytest.raises(AssertionError, match=r"Runtime assertion failed for expression .*size\(2\) > 2"):
        run(torch.ones(1, 2, 4))


def test_attributes_that_are_read_and_assigned_are_refused():
    class Adding(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.zeros(2)

        def forward(self, x):
            self.last = self.last + x
            return self.last

    model = Adding()
    last = model.last
    with pytest.raises(ExportError, match=r"a module that reads and assigns self\.last — The tensor attribute "
                       r"self\.last was assigned during export\. Such attributes must be registered as buffers — use"):
        export(model, (torch.ones(2),))
    assert model.last is last


def test_attributes_that_each_call_computes_anew():
    class Assigning(nn.Module):
        def forward(self, x):
            self.last = x * 2
            return self.last + x

    model = Assigning()
    with pytest.warns(UserWarning, match=r"The tensor attribute self\.last was assigned during export\. Such "
                      "attributes must be registered as buffers using the `register_buffer` API, or calls of the"):
        program = export(model, (torch.ones(2),))
    assert not hasattr(model, "last")
    assert program.module()(torch.ones(2)).tolist() == [3, 3]


def test_normalized_weights():
    model = nn.Sequential(torch.nn.utils.weight_norm(nn.Conv1d(2, 3, 2)), nn.ReLU())
    with pytest.warns(UserWarning, match=r"self\.0\.weight was assigned"):
        program = export(model, (torch.randn(1, 2, 5),), dynamic_shapes=({0: Dim("batch", min=1)},))
    x = torch.randn(3, 2, 5)
    assert torch.equal(program.module()(x), model(x))
    with torch.no_grad():
        model[0].weight_g.mul_(2)
    assert torch.equal(program.module()(x), model(x))


def test_programs_are_not_called_and_modules_do_not_train():
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    with pytest.raises(ExportError, match="Unable to call ExportedProgram directly"):
        program(torch.ones(1, 2))
    with pytest.raises(ExportError, match=r"Calling train\(\) is not supported yet\."):
        program.module().train()
    with pytest.raises(ExportError, match=r"Calling eval\(\) is not supported yet\."):
        program.module().eval()


def test_the_verifier_sees_what_does_not_fit():
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    program.validate()
    bias = program.state_dict.pop("bias")
    with pytest.raises(SpecViolationError, match="parameters are in the state dict"):
        program.validate()
    program.state_dict["bias"] = bias
    program.graph_signature.output_specs[0].arg = TensorArgument("other")
    with pytest.raises(SpecViolationError, match="the signature has other in its place"):
        program.validate()
    program.graph_signature.input_specs.pop()
    with pytest.raises(SpecViolationError, match=r"the inputs of the signature are \['p_weight', 'p_bias'\]"):
        program.validate()


def test_the_verifier_looks_for_buffers_constants_and_other_nodes():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.ones(2))
            self.plain = torch.ones(2)

        def forward(self, x):
            return x + self.kept + self.plain

    program = export(Layer(), (torch.ones(2),))
    kept = program.state_dict.pop("kept")
    with pytest.raises(SpecViolationError, match="buffers are in the state dict, or among the constants"):
        program.validate()
    program.state_dict["kept"] = kept
    plain = program.constants.pop("plain")
    with pytest.raises(SpecViolationError, match="constants are among the constants"):
        program.validate()
    program.constants["plain"] = plain
    call = next(node for node in program.graph.nodes if node.op == "call_function")
    call.op, call.target = "call_method", "add"
    with pytest.raises(SpecViolationError, match="nodes are inputs, calls of functions and the output"):
        program.validate()


def test_errors_of_programs_come_through():
    def broken(x):
        raise ZeroDivisionError("of the program")

    with pytest.raises(ZeroDivisionError, match="of the program"):
        export(module(broken), (torch.ones(2),))


def test_views_that_no_operator_made_are_refused():
    x = torch.ones(2)
    view = x.view(1, 2)
    recorder = ExportRecorder([x], 0, lambda tensor: None)
    with pytest.raises(ExportError, match=r"a view that no operator made at .* — the graph has no place for it"), \
            recorder.recording():
        view * 2
