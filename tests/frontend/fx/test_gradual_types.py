"""Gradual type checking of graphs: types beside the shapes of modules that run, and sizes beside closed forms."""

from __future__ import annotations

import itertools
import operator
import sys
from functools import partial

import pytest

import tensocket as torch
from tensocket import fx, nn
from tensocket.fx import symbolic_trace
from tensocket.fx.experimental import graph_gradual_typechecker as typechecker
from tensocket.fx.experimental.graph_gradual_typechecker import (
    GraphTypeChecker,
    Refine,
    broadcast_types,
    calculate_out_dimension,
    expand_to_tensor_dim,
    get_greatest_upper_bound,
)
from tensocket.fx.experimental.refinement_types import Equality
from tensocket.fx.experimental.rewriter import RewritingTracer
from tensocket.fx.experimental.unification import Var, isvar, reify, unify
from tensocket.fx.experimental.unify_refinements import (
    check_for_type_equality,
    infer_symbolic_types,
    infer_symbolic_types_single_pass,
)
from tensocket.fx.tensor_type import Dyn, TensorType, is_consistent


def graph_of(program, *types):
    """Record a module or function, annotate its arguments, and return the graph module."""
    traced = symbolic_trace(program)
    for node, annotation in zip(traced.graph.nodes, types, strict=False):
        node.type = annotation
    return traced


def checked(program, *types):
    traced = graph_of(program, *types)
    assert GraphTypeChecker({}, traced).type_check()
    return traced


def result(traced):
    return list(traced.graph.nodes)[-1].type


def fails(kind, rule, call):
    with pytest.raises(kind) as caught:
        call()
    assert rule in str(caught.value)
    assert str(caught.value).startswith("[")
    assert str(caught.value).count(" — ") >= 2


MODULES = [
    (nn.Conv2d(3, 6, (5, 3), stride=(2, 3), padding=(1, 2), dilation=(2, 1)), (4, 3, 17, 19)),
    (nn.Conv2d(4, 6, 4, padding="same", dilation=2, groups=2), (2, 4, 9, 8)),
    (nn.Conv2d(4, 6, 4, padding="valid"), (2, 4, 9, 8)),
    (nn.BatchNorm2d(3), (2, 3, 4, 5)), (nn.ReLU(), (2,)), (nn.ReLU(), (2, 3, 4, 5, 6)),
    (nn.MaxPool2d(3, 2, 1), (2, 3, 8, 9)), (nn.MaxPool2d((2, 3), ceil_mode=True), (3, 8, 10)),
    (nn.AdaptiveAvgPool2d((6, 7)), (4, 16, 5, 9)), (nn.AdaptiveAvgPool2d((None, 3)), (16, 5, 9)),
    (nn.AdaptiveAvgPool2d(2), (1, 2, 3, 4)), (nn.Linear(5, 7), (2, 5)), (nn.Linear(5, 7), (2, 3, 4, 5)),
]
FUNCTIONS = [
    (lambda x: torch.add(x, 2), (2, 3)), (lambda x: 1.5 + x, (2, 3)), (lambda x: x + x, (1, 3)),
    (lambda x: torch.transpose(x, 0, 2), (2, 3, 4)), (lambda x: torch.transpose(x, dim0=-1, dim1=1), (2, 3, 4, 5)),
    (lambda x: torch.reshape(x, (2, -1)), (4, 6)), (lambda x: torch.reshape(x, [3, 2, 2]), (2, 6)),
    (lambda x: torch.reshape(input=x, shape=(0, 3)), (2, 0)),
    (lambda x: torch.flatten(x), (2, 3, 4)), (lambda x: torch.flatten(x, 1), (2, 3, 4)),
    (lambda x: torch.flatten(x, -3, -2), (2, 3, 4, 5)), (lambda x: torch.flatten(x, start_dim=1, end_dim=1), (2, 3, 4)),
    (lambda x: torch.cat([x, x, x], -1), (2, 3)), (lambda x: torch.cat((x, x)), (4,)),
]
PROGRAMS = [*MODULES, *FUNCTIONS]


def masks(shape):
    """Every way to leave sizes out."""
    for known in itertools.product([True, False], repeat=len(shape)):
        yield TensorType(tuple(size if keep else Dyn for size, keep in zip(shape, known, strict=True)))


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_types_are_consistent_with_real_shapes(number):
    program, shape = PROGRAMS[number]
    real = TensorType(tuple(program(torch.ones(shape)).shape))
    whole = nn.Sequential(program) if isinstance(program, nn.Module) else program
    assert is_consistent(result(checked(whole, TensorType(shape))), real)
    for mask in masks(shape):
        assert is_consistent(result(checked(whole, mask)), real), mask
    assert is_consistent(result(checked(whole, Dyn)), real)


@pytest.mark.parametrize("number", [n for n in range(len(PROGRAMS)) if n != len(MODULES) + 5])
def test_known_sizes_give_known_types(number):
    """All but a reshape to -1, whose result PyTorch leaves unknown, are exact."""
    program, shape = PROGRAMS[number]
    whole = nn.Sequential(program) if isinstance(program, nn.Module) else program
    assert result(checked(whole, TensorType(shape))) == TensorType(program(torch.ones(shape)).shape)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_windows(ceil_mode):
    for size, kernel, stride, padding, dilation in itertools.product(range(5, 9), (1, 2, 3), (1, 2, 3), (0, 1), (1, 2)):
        if 2 * padding > kernel:
            continue
        pool = nn.MaxPool2d((kernel, 1), (stride, 1), (padding, 0), (dilation, 1), ceil_mode=ceil_mode)
        assert calculate_out_dimension(size, pool, 0) == pool(torch.ones(1, size, 2)).shape[1]
    assert calculate_out_dimension(Dyn, pool, 0) == Dyn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5, stride=2)
        self.norm, self.relu, self.pool = nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)
        self.last = nn.AdaptiveAvgPool2d((2, 3))
        self.head = nn.Linear(96, 10)
        self.scale = nn.Parameter(torch.ones(10))

    def forward(self, x):
        out = self.relu(self.norm(self.conv1(x)))
        out = self.last(self.conv2(self.pool(out)))
        return self.head(torch.flatten(out, 1)) + self.scale


def test_a_network():
    shapes = [(4, 3, 32, 30), (4, 6, 28, 26), (4, 6, 28, 26), (4, 6, 28, 26), (4, 6, 14, 13), (4, 16, 5, 5),
              (4, 16, 2, 3), (4, 96), (4, 10), (10,), (4, 10), (4, 10)]
    traced = checked(Small(), TensorType(shapes[0]))
    assert [tuple(node.type.dims) for node in traced.graph.nodes] == shapes
    unknown = checked(Small(), Dyn)
    assert result(unknown) == TensorType((Dyn, 10))
    assert next(iter(unknown.graph.nodes)).type == TensorType((Dyn,) * 4)
    assert not check_for_type_equality(traced.graph, unknown.graph)
    assert check_for_type_equality(traced.graph, checked(Small(), TensorType(shapes[0])).graph)


def test_annotations_inside():
    class Annotated(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x):
            y: TensorType((2, Dyn, 4)) = self.relu(x)
            return y

    Annotated.forward.__annotations__.clear()
    tracer = RewritingTracer()
    graph = tracer.trace(Annotated())
    traced = fx.GraphModule(tracer.root, graph)
    assert GraphTypeChecker({}, traced).type_check()
    types = [node.type for node in graph.nodes]
    assert types == [TensorType((Dyn,) * 3), TensorType((2, Dyn, 4)), TensorType((2, Dyn, 4))]
    next(iter(graph.nodes)).type = TensorType((Dyn, 3, Dyn))
    GraphTypeChecker({}, traced).type_check()
    assert result(traced) == TensorType((2, 3, 4))


def test_sums():
    traced = checked(lambda x, y: x + y, TensorType((2, Dyn)), TensorType((5, 1, 3)))
    add = list(traced.graph.nodes)[-2]
    assert add.meta == {"broadcast": True, "x": TensorType((5, 2, Dyn)), "y": TensorType((5, 2, 3))}
    assert add.type == TensorType((5, 2, Dyn))
    same = checked(lambda x, y: torch.add(x, y), TensorType((2, 3)), TensorType((2, 3)))
    assert list(same.graph.nodes)[-2].meta["broadcast"] is False
    assert result(checked(lambda x, y: x + y, Dyn, TensorType((2, 3)))) == Dyn
    assert result(checked(lambda x, y: x + y, TensorType((2, 3)), int)) == TensorType((2, 3))
    assert result(checked(lambda x, y: x + y, float, TensorType((2, 3)))) == TensorType((2, 3))
    assert result(checked(lambda x, y: x + y, float, int)) is int


def test_several_results_and_attributes():
    traced = checked(lambda x, y: (x.shape, [torch.cat([x, y], 1), x]), TensorType((Dyn, 2)), TensorType((3, 5)))
    shape, (joined, x) = result(traced)
    assert (shape, joined, x) == (Dyn, TensorType((3, 7)), TensorType((Dyn, 2)))
    assert result(checked(lambda x, y: torch.cat([x, y]), TensorType((Dyn, 2)), Dyn)) == TensorType((Dyn, 2))
    assert result(checked(lambda x, y: torch.cat([x, y]), Dyn, Dyn)) == Dyn
    assert result(checked(lambda x, n: torch.reshape(x, (n, 2)), TensorType((3, 4)), Dyn)) == TensorType((Dyn, 2))
    assert result(checked(lambda x: torch.reshape(x, (2, 6)), TensorType((Dyn, 4)))) == TensorType((2, 6))

    traced = fx.GraphModule(nn.Module(), fx.Graph())
    traced.number = 3
    node = traced.graph.get_attr("number")
    assert GraphTypeChecker({}, traced).type_check_node(node) == Dyn


def test_operations_on_types():
    assert expand_to_tensor_dim(Dyn, 2) == TensorType((Dyn, Dyn))
    assert get_greatest_upper_bound(TensorType((1, Dyn, 3)), TensorType((Dyn, 2, 3))) == TensorType((1, 2, 3))
    assert get_greatest_upper_bound(Dyn, int) is int
    assert get_greatest_upper_bound(int, Dyn) is int
    assert get_greatest_upper_bound(int, int) is int
    for a, b in itertools.product([(), (3,), (1, 3), (2, 1), (4, 1, 3)], repeat=2):
        shape = torch.broadcast_shapes(a, b)
        assert broadcast_types(TensorType(a), TensorType(b)) == (TensorType(shape), TensorType(shape))
    variable = Var("a")
    assert broadcast_types(variable, TensorType((2,))) == (variable, TensorType((2,)))


def constraints(program, *types):
    refined = Refine(checked(program, *types))
    assert refined.refine()
    return refined.constraints


def test_constraints():
    four = TensorType((Dyn, 3, 8, Dyn))
    one = nn.Sequential
    assert str(constraints(one(nn.Conv2d(3, 4, 1)), four)) == "[~0 = ~2]"
    assert str(constraints(one(nn.MaxPool2d(2)), four)) == "[~0 = ~2, 3 = 3]"
    assert str(constraints(one(nn.MaxPool2d(2)), TensorType((3, 8, Dyn)))) == "[3 = 3]"
    assert str(constraints(one(nn.ReLU()), TensorType((Dyn, 2)))) == "[~0 = ~1, 2 = 2]"
    assert str(constraints(one(nn.Linear(5, 2)), TensorType((Dyn, 3, 5)))) == "[~0 = ~1, 3 = 3]"
    assert str(constraints(lambda x: torch.flatten(x, 1, -2), four)) == "[~2 = ~0, ~3 = ~1]"
    assert str(constraints(lambda x: x + x, TensorType((Dyn, 2)))) == "[~0 = ~1, 2 = 2]"
    assert constraints(lambda x, y: x + y, TensorType((Dyn, 2)), TensorType((Dyn, 2))) == [Equality(2, 2)]
    assert constraints(lambda x: torch.flatten(x + 1), Dyn) == []
    assert constraints(one(nn.ReLU()), Dyn) == []
    assert Equality(Var(1), 2) != Equality(Var(1), 3)


def test_sizes_are_found():
    """Sizes behind operations agree with those before, in both directions."""
    traced = checked(nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3)), TensorType((Dyn,) * 4))
    list(traced.graph.nodes)[1].type = TensorType((7, Dyn, Dyn, 5))
    infer_symbolic_types_single_pass(traced)
    sizes = [node.type.dims for node in traced.graph.nodes]
    assert len({tuple(each) for each in sizes}) == 1
    assert sizes[0][0] == 7
    assert sizes[0][1] == 3
    assert isvar(sizes[0][2])
    assert sizes[0][3] == 5


def test_batch_sizes_are_one_symbol():
    pytest.importorskip("sympy")
    traced = checked(Small(), Dyn)
    infer_symbolic_types(traced)
    named = {node.name: node.type for node in traced.graph.nodes}
    assert len({t.dims[0] for name, t in named.items() if name not in ("scale", "add", "output")}) == 1
    assert result(traced).dims[1] == 10


def test_formulas():
    sympy = pytest.importorskip("sympy")
    net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=(2, 3), padding=1), nn.Conv2d(4, 5, (3, 2), dilation=(1, 2)))
    traced = checked(net, TensorType((Dyn, 3, Dyn, Dyn)))
    infer_symbolic_types(traced)
    batch, _, height, width = next(iter(traced.graph.nodes)).type.dims
    assert result(traced).dims[0] == sympy.Symbol(str(result(traced).dims[0]))
    for shape in ((1, 3, 8, 16), (2, 3, 11, 13), (3, 3, 30, 21)):
        values = {result(traced).dims[0]: shape[0], batch: shape[0], height: shape[2], width: shape[3]}
        found = [sympy.sympify(size).subs(values) for size in result(traced).dims]
        assert found == list(net(torch.ones(shape)).shape)
    whole = checked(lambda x: (x, [x]), Dyn)
    infer_symbolic_types(whole)
    assert result(whole) == (sympy.Symbol("~0"), [sympy.Symbol("~0")])


def test_sympy_is_for_unknown_sizes_only(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    traced = checked(Small(), TensorType((4, 3, 32, 30)))
    infer_symbolic_types(traced)
    assert result(traced) == TensorType((4, 10))
    fails(ModuleNotFoundError, "unknown sizes are written as symbols of sympy",
          lambda: infer_symbolic_types(checked(Small(), Dyn)))


def test_unification():
    a, b, c = Var("a"), Var("b"), Var("c")
    assert str((a, Var(), Var(1, 2)))[:5] == "(~a, "
    assert Var("a") == a
    assert len({Var(), Var(), a, Var("a")}) == 3
    assert isvar(a)
    assert not isvar("a")
    solution = unify((a, b, [c, 4]), (b, 3, [a, 4]))
    assert reify({"all": (a, [b, c], 5, Var("d"))}, solution) == {"all": (3, [3, 3], 5, Var("d"))}
    assert unify((a, a), (1, 2)) is False
    assert unify((1, 2), (1, 2, 3)) is False
    assert unify(1, 2) is False
    assert unify(b, 2, {b: a}) == {b: a, a: 2}


def test_own_rules(monkeypatch):
    for name in ("INFERENCE", "REFINEMENT", "EXPRESSIONS"):
        monkeypatch.setattr(typechecker, name, dict(getattr(typechecker, name)))

    @typechecker.register_inference_rule(operator.mul)
    def double(n):
        n.type = TensorType((*n.args[0].type.dims, 2))
        return n.type

    @typechecker.register_inference_rule(nn.Tanh)
    def same(n, module_instance):
        assert isinstance(module_instance, nn.Tanh)
        n.type = n.args[0].type
        return n.type

    @typechecker.register_refinement_rule(nn.Tanh)
    def agree(n):
        return [Equality(n.args[0].type.dims[0], n.type.dims[0])]

    @typechecker.register_algebraic_expressions_inference_rule(operator.mul)
    def formula(n):
        n.type = TensorType((*n.args[0].type.dims, 3))
        return n.type

    traced = checked(nn.Sequential(nn.Tanh()), TensorType((5,)))
    assert result(traced) == TensorType((5,))
    infer_symbolic_types(traced)
    assert Refine(traced).refine()
    product = checked(lambda x: x * x, TensorType((4,)))
    assert result(product) == TensorType((4, 2))
    infer_symbolic_types(product)
    assert result(product) == TensorType((4, 3))
    for kind, register in (("Inference rule", typechecker.register_inference_rule),
                           ("Refinement rule", typechecker.register_refinement_rule),
                           ("Rule", typechecker.register_algebraic_expressions_inference_rule)):
        fails(RuntimeError, f"{kind} already registered for {nn.Conv2d}!", partial(register(nn.Conv2d), same))


POOL, CONV, NORM, LINEAR = nn.MaxPool2d(5), nn.Conv2d(3, 4, 2), nn.BatchNorm2d(3), nn.Linear(5, 2)
MISTAKES = [
    (nn.Sequential(NORM), (2, 3, 4), "Cannot extend tensor. Tensor TensorType[(2, 3, 4)] has rank 3. It should have "
                                     "rank 4"),
    (nn.Sequential(CONV), (2, 3, 4), "It should have rank 4"),
    (nn.Sequential(NORM), (2, 2, 4, 4), f"Cannot apply {NORM} with input type TensorType[(2, 2, 4, 4)] and existing "
                                        "type TensorType[(Dyn, Dyn, Dyn, Dyn)] on _0"),
    (nn.Sequential(CONV), (2, 2, 4, 4), f"Cannot apply {CONV} with input type"),
    (nn.Sequential(POOL), (2, 4, 9), "Kernel size can't be greater than actual input size"),
    (nn.Sequential(POOL), (9, 9), f"Wrong size TensorType[(9, 9)] for {POOL}"),
    (nn.Sequential(nn.AdaptiveAvgPool2d(2)), (9, 9), "Tensor ranks must be 3 or 4. Got TensorType[(9, 9)]"),
    (nn.Sequential(LINEAR), (5,), "Type TensorType[(5,)] must have rank 2 or more."),
    (nn.Sequential(LINEAR), (2, 4), f"Inconsistent 5 and 4 in {LINEAR}"),
    (lambda x: torch.add(x, torch.reshape(x, (3, 2))), (2, 3),
     "Cannot add arguments x (TensorType[(2, 3)]) and reshape (TensorType[[3, 2]]) in node add. Types should match"),
    (lambda x: torch.transpose(x, 0, 2), (2, 3), "Cannot transpose 0 and 2 in type TensorType[(2, 3)] for node "
                                                  "transpose"),
    (lambda x: torch.transpose(x, -3, 0), (2, 3), "Cannot transpose -3 and 0"),
    (lambda x: torch.reshape(x, (4, 2)), (2, 3), "Cannot reshape in node reshape from TensorType[(2, 3)] to "
                                                 "TensorType[[4, 2]]"),
    (lambda x: torch.reshape(x, (4, -1)), (2, 3), "Cannot reshape in node reshape"),
    (lambda x: torch.reshape(x, (5, 1)), (2, Dyn), "Cannot reshape in node reshape"),
    (lambda x: torch.reshape(x, (4, 3)), (2, 3), "Cannot reshape in node reshape"),
    (lambda x: torch.reshape(x, (4, -1)), (Dyn, 6), "Cannot reshape in node reshape"),  # PyTorch refuses it, too
    (lambda x: torch.flatten(x, 2), (2, 3), "Incompatible dimensions 2, -1 in type TensorType[(2, 3)]"),
    (lambda x: torch.flatten(x, 1, 0), (2, 3), "Incompatible dimensions 1, 0"),
    (lambda x: torch.cat([x, x], 2), (2, 3), "Cannot join dimension 2 of type TensorType[(2, 3)]"),
    (lambda x: torch.cat([x, torch.transpose(x, 0, 1)]), (2, 3), "Inconsistent types"),
    (lambda x: x.dtype, (2, 3), "Not yet implemented: only the attribute shape has a type"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes(number):
    program, shape, rule = MISTAKES[number]
    fails(TypeError, rule, lambda: checked(program, TensorType(shape)))


@pytest.mark.parametrize(("rule", "call"), [
    ("Cannot match the type <class 'int'>", partial(checked, nn.Sequential(NORM), int)),
    ("Cannot broadcast types <class 'str'> and TensorType[(2,)]", partial(broadcast_types, str, TensorType((2,)))),
    ("Cannot transpose 0 and 1 in type <class 'int'>", partial(checked, lambda x: torch.transpose(x, 0, 1), int)),
    ("Incompatible dimensions 0, -1 in type <class 'int'>", partial(checked, lambda x: torch.flatten(x), int)),
    ("Cannot reshape in node reshape from <class 'int'>", partial(checked, lambda x: torch.reshape(x, (2,)), int)),
    ("Inconsistent types TensorType[(1,)], TensorType[(2,)]",
     partial(get_greatest_upper_bound, TensorType((1,)), TensorType((2,)))),
    (f"3 in {POOL} must be a number or Dyn. Received <class 'str'>", partial(calculate_out_dimension, "3", POOL, 0))])
def test_types_of_other_values(rule, call):
    fails(TypeError, rule, call)


def test_contradictions():
    traced = graph_of(nn.Sequential(nn.ReLU()), TensorType((2, Dyn)))
    list(traced.graph.nodes)[1].type = TensorType((3, 4))
    fails(TypeError, "Inconsistent types TensorType[(2, Dyn)], TensorType[(3, 4)]",
          GraphTypeChecker({}, traced).type_check)
    two = checked(nn.Sequential(nn.ReLU(), nn.ReLU()), TensorType((Dyn,)))
    first, second = list(two.graph.nodes)[1:3]
    first.type, second.type = TensorType((2,)), TensorType((3,))
    fails(TypeError, "2 = 3 must hold, where the operations before it fixed both", lambda: infer_symbolic_types(two))


def test_missing_rules():
    fails(RuntimeError, "No inference rule registered for target", partial(checked, torch.sin, Dyn))
    fails(RuntimeError, "No inference rule registered for class <class 'tensocket.nn.modules.activation.Tanh'>!",
          partial(checked, nn.Sequential(nn.Tanh()), Dyn))
    fails(NotImplementedError, "Method call_method not yet implemented", partial(checked, lambda x: x.sum(), Dyn))
