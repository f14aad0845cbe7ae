"""Generated code: it runs, reads as Python, and frees values behind their last use."""

from __future__ import annotations

import enum
import math
import operator
from collections import namedtuple

import pytest

from tensocket_compiler.graph import CodeGen, Graph, PyTreeCodeGen, PyTreeInfo
from tensocket_compiler.graph.codegen import BINARY, COMPARISONS, INPLACE, UNARY
from tensocket_core.pytree import tree_flatten, tree_structure

Pair = namedtuple("Pair", ["left", "right"])


class Color(enum.Enum):
    RED = 1


def run(graph, *args, root=None, **kwargs):
    code = graph.python_code("self")
    space = dict(code.globals)
    exec(code.src, space)
    return space["forward"](root, *args, **kwargs)


@pytest.mark.parametrize("name", sorted((BINARY | COMPARISONS).keys() - {"matmul"}))
def test_binary_operators(name):
    function = getattr(operator, name)
    left = [5, 6, 7, 8] if name == "getitem" else 13
    graph = Graph()
    graph.output(graph.call_function(function, (graph.placeholder("a"), graph.placeholder("b"))))
    assert run(graph, left, 3) == function(left, 3)
    sign = {**BINARY, **COMPARISONS}[name]
    assert ("a[b]" if sign == "[]" else f"a {sign} b") in graph.python_code("self").src


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary_operators(name):
    graph = Graph()
    graph.output(graph.call_function(getattr(operator, name), (graph.placeholder("a"),)))
    assert run(graph, 5) == getattr(operator, name)(5)


@pytest.mark.parametrize("name", sorted(INPLACE.keys() - {"imatmul"}))
def test_in_place_operators(name):
    graph = Graph()
    a = graph.placeholder("a")
    graph.output((graph.call_function(getattr(operator, name), (a, 2)), a))
    expected = getattr(operator, name)(7, 2)
    assert run(graph, 7) == (expected, expected)


@pytest.mark.parametrize("value", [
    1, 1.5, -2j, "text", None, True, ..., (1,), (), [1, [2]], {"a": (1, 2), 3: None}, slice(1, None, 2), math.inf,
    -math.inf, Pair(1, [2]), Color.RED, int, range(3), b"x", len, math.sqrt, type(None)])
def test_constants(value):
    graph = Graph()
    graph.output((value, graph.placeholder("x")))
    result, _ = run(graph, 0)
    assert result == value
    assert type(result) is type(value)


def test_nan():
    graph = Graph()
    graph.output(math.nan)
    assert math.isnan(run(graph))


def test_text():
    class Owner:
        weight = 3
        layers = {"0": abs}  # noqa: RUF012

        def __getattr__(self, name):
            return self.layers[name]

    owner = Owner()
    owner.block = owner
    graph = Graph()
    x = graph.placeholder("x", type_expr=int, default_value=4)
    weight = graph.get_attr("weight")
    called = graph.call_module("block.0", (x,))
    bits = graph.call_method("bit_length", (called,), {})
    graph.call_function(print, (bits,), {"end": ""})
    part = graph.call_function(getattr, (weight, "real"))
    graph.output({"a": [called, part]}, type_expr=dict[str, list[int]])
    assert graph.python_code("self").src == """


def forward(self, x : int = 4) -> dict[str,list[int]]:
    weight = self.weight
    block_0 = getattr(self.block, "0")(x);  x = None
    bit_length = block_0.bit_length()
    print_1 = print(bit_length, end = '');  bit_length = print_1 = None
    getattr_1 = weight.real;  weight = None
    return {'a': [block_0, getattr_1]}
    """
    assert run(graph, -5, root=owner) == {"a": [5, 3]}
    assert run(graph, root=owner) == {"a": [4, 3]}


def test_collecting_parameters():
    graph = Graph()
    x, rest, named = (graph.placeholder(name) for name in ("x", "*args", "**kwargs"))
    graph.output((x, rest, named))
    assert run(graph, 1, 2, 3, k=4) == (1, (2, 3), {"k": 4})


def test_names_do_not_collide_with_globals():
    def helper(x):
        return x + 1

    graph = Graph()
    first = graph.placeholder("torch")
    second = graph.call_function(helper, (first,), name="helper")
    third = graph.call_function(helper, (second,))
    graph.output(third)
    assert run(graph, 1) == 3


def test_a_transformer_of_statements():
    graph = Graph()
    graph.output(graph.call_function(operator.add, (graph.placeholder("x"), 1)))
    graph.on_generate_code(lambda earlier: lambda body: ["x = x * 10\n", *body])
    assert run(graph, 2) == 21
    with graph.on_generate_code(lambda earlier: lambda body: ["x = x + 1\n", *earlier(body)]):
        assert run(graph, 2) == 31
    assert run(graph, 2) == 21


def test_a_code_generator_of_a_program():
    class ListCode(CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return f"def forward(self, values){maybe_return_annotation}:\n    {', '.join(free_vars)} = values"

        def generate_output(self, output_args):
            return f"return [{output_args!r}]"

        def process_inputs(self, *inputs):
            return inputs[0]

    graph = Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    graph.output(graph.call_function(operator.sub, (a, b)))
    graph.set_codegen(ListCode())
    assert run(graph, [7, 2]) == [5]
    assert graph.process_inputs([7, 2]) == [7, 2]


def test_trees():
    example = (None, [0, {"k": 0}], 0)  # the first argument is self
    _, spec = tree_flatten(example)
    graph = Graph()
    leaves = [graph.placeholder(f"x_{at}") for at in range(3)]
    graph.output([leaves[2], leaves[0]])
    graph.set_codegen(PyTreeCodeGen(PyTreeInfo(["self", "a", "b"], spec, tree_structure({"u": 0, "v": 0}))))
    source = graph.python_code("self").src
    assert "self, x_0, x_1, x_2, = fx_pytree.tree_flatten_spec([self, a, b], self._in_spec)" in source
    assert "return pytree.tree_unflatten([x_2, x_0], self._out_spec)" in source
    assert graph.process_inputs([1, {"k": 2}], 3) == [1, 2, 3]
    assert graph.process_outputs([3, 1]) == {"u": 3, "v": 1}


def test_comments_of_a_verbose_listing():
    class Meta:
        shape, dtype, device = (2, 3), "torch.float32", "cpu"

        def stride(self):
            return (3, 1)

    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_function(operator.neg, (x,))
    y.meta["val"] = Meta()
    y.stack_trace = 'File "model.py", line 7, in forward\n    return -x\n'
    graph.output(y)
    source = graph.python_code("self", verbose=True, include_stride=True, include_device=True).src
    assert "# File: model.py:7 in forward, code: return -x" in source
    assert "f32[2, 3][3, 1]cpu" in source
    assert "\x1b[" in graph.python_code("self", verbose=True, colored=True).src
    assert "\n    x,\n" in graph.python_code("self", expanded_def=True).src


def test_lines_know_their_nodes():
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_function(operator.neg, (x,))
    graph.output(graph.call_function(operator.pos, (y,)))
    numbers = graph.python_code("self")._lineno_map
    assert {1: 1, 2: 2, 3: 3}.items() <= numbers.items()
