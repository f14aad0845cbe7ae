"""Passes: shapes, splits, partitions, schedules, duplicates, pictures."""

from __future__ import annotations

import operator
import typing

import numpy as np
import pytest

import tensocket as torch
from tensocket import fx, nn
from tensocket.fx import symbolic_trace
from tensocket.fx.experimental.proxy_tensor import make_fx
from tensocket.fx.passes import pass_manager
from tensocket.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from tensocket.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from tensocket.fx.passes.fake_tensor_prop import FakeTensorProp
from tensocket.fx.passes.graph_drawer import FxGraphDrawer
from tensocket.fx.passes.graph_manipulation import get_size_of_all_nodes, replace_target_nodes_with
from tensocket.fx.passes.graph_transform_observer import GraphTransformObserver
from tensocket.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from tensocket.fx.passes.infra.pass_base import PassBase, PassResult
from tensocket.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper, this_before_that_pass_constraint
from tensocket.fx.passes.net_min_base import _MinimizerBase, _MinimizerSettingBase
from tensocket.fx.passes.operator_support import OperatorSupport, OpSupports, any_chain, chain, create_op_support
from tensocket.fx.passes.param_fetch import lift_lowering_attrs_to_nodes
from tensocket.fx.passes.shape_prop import ShapeProp
from tensocket.fx.passes.split_module import split_module
from tensocket.fx.passes.split_utils import split_by_tags
from tensocket.fx.passes.splitter_base import _SplitterBase, _SplitterSettingBase
from tensocket.fx.passes.tools_common import get_node_target, legalize_graph, stable_topological_sort
from tensocket.fx.passes.utils.common import compare_graphs
from tensocket.fx.passes.utils.fuser_utils import fuse_by_partitions
from tensocket.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
from tensocket.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions
from tensocket.fx.subgraph_rewriter import replace_pattern

x34 = torch.linspace(-1, 1, 12).reshape(3, 4)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        y = self.first(x).relu()
        return self.second(y + x), y.sum()


def equal(mine, theirs):
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.fixture
def traced():
    return symbolic_trace(Model())


def named(module, name):
    return next(node for node in module.graph.nodes if node.name == name)


def test_shapes(traced):
    ShapeProp(traced).propagate(x34)
    meta = named(traced, "second").meta["tensor_meta"]
    assert (tuple(meta.shape), meta.dtype, meta.stride, meta.requires_grad) == ((3, 2), torch.float32, (2, 1), True)
    assert meta.memory_format is torch.contiguous_format
    assert not meta.is_quantized
    assert named(traced, "output").meta["type"] is tuple
    with pytest.raises(RuntimeError, match=r"ShapeProp error for: node=%first .* with meta=\{"):
        ShapeProp(traced).propagate(torch.ones(3, 7))
    get_size_of_all_nodes(traced, [x34])
    assert named(traced, "second").size_bytes == (24, 24 + (8 + 2) * 4)
    with pytest.raises(RuntimeError, match="Node x has no tensor metadata associated with it! Check that shape "
                       "propagation has run"):
        get_size_of_all_nodes(symbolic_trace(Model()))


def test_shapes_without_values(traced):
    FakeTensorProp(traced).propagate(x34)
    assert tuple(named(traced, "second").meta["val"].shape) == (3, 2)
    assert "f32[3, 2]" in traced.print_readable(print_output=False)


def test_replacing_targets(traced):
    replace_target_nodes_with(traced, "call_method", "relu", "call_function", torch.sigmoid)
    model = Model()
    model.load_state_dict(traced.state_dict())
    y = torch.sigmoid(model.first(x34))
    equal(traced(x34), (model.second(y + x34), y.sum()))


def test_splits(traced):
    model = traced
    paths = {}
    split = split_module(model, model, lambda node: int(node.name in ("second", "sum_1")), paths)
    equal(split(x34), model(x34))
    assert [name for name, _ in split.named_children()] == ["submod_0", "submod_1"]
    assert paths == {"submod_0.first": "first", "submod_1.second": "second"}
    named_split = split_module(model, model, lambda node: 0, partition_affix="part")
    assert [name for name, _ in named_split.named_children()] == ["submod_part_0"]
    equal(named_split(x34), model(x34))
    with pytest.raises(RuntimeError, match="cycle exists between partitions!"):
        split_module(model, model, lambda node: int(node.name == "add"))


def test_splits_by_tags(traced):
    for node in traced.graph.nodes:
        if node.op not in ("placeholder", "output"):
            node.tag = "late" if node.name in ("second", "sum_1") else "early"
    split, paths = split_by_tags(traced, ["early", "late"], return_fqn_mapping=True)
    equal(split(x34), traced(x34))
    assert paths == {"first": "early.first", "second": "late.second"}
    equal(split_by_tags(traced, ["early", "late"], return_tuple=True)(x34), traced(x34))
    with pytest.raises(RuntimeError, match=r"Nodes and tags are not in the same order: it uses .* of the later early"):
        split_by_tags(traced, ["late", "early"])


class Adds(OperatorSupport):
    def is_node_supported(self, submodules, node):
        return node.target in (operator.add, operator.mul)


def test_partitions():
    def f(x):
        a = (x + 1) * 2
        b = a.relu()
        return (a + b) * 3, b + 5

    traced = symbolic_trace(f)
    partitioner = CapabilityBasedPartitioner(traced, Adds())
    groups = [sorted(node.name for node in group.nodes) for group in partitioner.propose_partitions()]
    assert sorted(groups) == [["add", "mul"], ["add_1", "add_2", "mul_1"]]
    fused = partitioner.partition_and_fuse()
    assert [node.target for node in fused.graph.nodes if node.op == "call_module"] == ["fused_1", "fused_0"]
    equal(fused(x34), f(x34))
    again = symbolic_trace(f)
    with pytest.raises(AssertionError, match="dependency cycles"):
        fuse_by_partitions(again, [[named(again, "mul"), named(again, "add_1")]])


class OnlyModules(OperatorSupport):
    def is_node_supported(self, submodules, node):
        return node.op == "call_module"


@pytest.mark.parametrize(("smallest", "names"), [(1, ["_run_on_acc_0", "_run_on_cpu_1", "_run_on_acc_2"]),
                                                 (2, ["_run_on_cpu_0"])])
def test_splitters(traced, smallest, names, capsys):
    settings = _SplitterSettingBase(min_acc_module_size=smallest)
    splitter = _SplitterBase(traced, (x34,), OnlyModules(), settings)
    assert "Unsupported node types in the model:\nrelu" in splitter.node_support_preview()
    assert "acc" in splitter.split_preview()
    result = splitter.generate_split_results()
    assert [name for name, _ in result.split_module.named_children()] == names
    assert set(result.submodule_inputs) == set(names)
    equal(result.split_module(x34), traced(x34))
    few = _SplitterSettingBase(max_acc_splits=1)
    with pytest.raises(RuntimeError, match="Cannot fulfill max_acc_splits limit: 2 > 1"):
        _SplitterBase(symbolic_trace(Model()), (x34,), OnlyModules(), few)()


@pytest.mark.parametrize(("method", "found"), [("sequential", {"relu"}), ("binary", {"relu"}), ("accumulate", {"relu"}),
                                               ("block", {"relu"}), ("skip", None)])
def test_minimizers(traced, method, found):
    class Minimizer(_MinimizerBase):
        def run_a(self, mod, inputs, report_idx=-1):
            return mod(*inputs)

        def run_b(self, mod, inputs, report_idx=-1):
            class Wrong(fx.Interpreter):
                def call_method(self, target, args, kwargs):
                    return super().call_method(target, args, kwargs) + (target == "relu")

            return Wrong(mod).run(*inputs)

    def compare(a, b, names):
        a, b = (value if isinstance(value, tuple) else (value,) for value in (a, b))
        difference = max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))
        return difference, difference < 1e-6

    minimizer = Minimizer(traced, (x34,), compare, _MinimizerSettingBase(traverse_method=method))
    culprits = {node.name for node in minimizer.minimize()}
    assert culprits == (found or {node.name for node in traced.graph.nodes if node.op.startswith("call")})
    assert any("Result mismatch for the two ways to run the nodes" in report[0] for report in minimizer.reports)
    assert minimizer.minimize(start="first", end="first") == set()


def test_minimizers_refuse(traced):
    class Failing(_MinimizerBase):
        def run_a(self, mod, inputs, report_idx=-1):
            raise OSError("no device")

    settings = _MinimizerSettingBase()
    failing = Failing(traced, (x34,), lambda a, b, names: (0.0, True), settings)
    assert {node.name for node in failing.minimize()} == {"first"}
    assert "Exception raised when running run_a" in failing.reports[0][0]
    with pytest.raises(ValueError, match="start and end are names of nodes that compute"):
        failing.minimize(start="missing")
    with pytest.raises(RuntimeError, match="Found a node behind the compared ones that they depend on"):
        failing._build_submodule({named(traced, "first"), named(traced, "add")})
    with pytest.raises(RuntimeError, match="a part to compare has nodes"):
        failing._build_submodule(set())
    settings.traverse_method = "other"
    with pytest.raises(ValueError, match=r"Unknown traverse method: it is one of \['accumulate'"):
        failing.minimize()


def test_support_tables(traced):
    ShapeProp(traced).propagate(x34)
    modules = dict(traced.named_modules())
    table = OperatorSupport({"torch.nn.modules.linear.Linear": ([[torch.float32]], {}), "relu": None,
                             "_operator.add": ([[torch.float64]], {})})
    answers = {node.name: table.is_node_supported(modules, node) for node in traced.graph.nodes}
    assert answers == {"x": True, "first": True, "relu": True, "add": False, "second": True, "sum_1": False,
                       "output": True}
    assert get_node_target(modules, named(traced, "add")) == "_operator.add"
    yes, no = create_op_support(lambda modules, node: True), OpSupports.decline_if_node_in_names({"add"})
    assert not chain(yes, no).is_node_supported(modules, named(traced, "add"))
    assert any_chain(yes, no).is_node_supported(modules, named(traced, "add"))
    assert not OpSupports.decline_if_input_dtype(torch.float32).is_node_supported(modules, named(traced, "add"))


def test_duplicates_are_computed_once():
    def f(x):
        a, b = torch.sin(x), torch.sin(x)
        return a + b + torch.sin(a), torch.cat([x, x], dim=1)[:, :4] + torch.cat([x, x], dim=1)[:, 4:]

    traced = symbolic_trace(f)
    result = CSEPass(get_CSE_banned_ops())(traced)
    assert result.modified
    targets = [node.target for node in result.graph_module.graph.nodes]
    assert targets.count(torch.sin) == 2
    assert targets.count(torch.cat) == 1
    equal(result.graph_module(x34), f(x34))
    assert not CSEPass()(result.graph_module).modified
    random = symbolic_trace(lambda x: torch.rand_like(x) + torch.rand_like(x))
    assert not CSEPass()(random).modified
    sums = make_fx(lambda x: (x + 1) * (x + 1))(x34)
    assert CSEPass()(sums).modified
    assert not CSEPass([torch.ops.aten.add])(sums).modified
    assert not CSEPass([torch.ops.aten.add.Tensor])(sums).modified


def test_orders_of_nodes(traced):
    add, first = named(traced, "add"), named(traced, "first")
    first.prepend(add)
    stable_topological_sort(traced).graph.lint()
    named(traced, "first").prepend(named(traced, "add"))
    legalize_graph(traced).graph.lint()
    equal(traced(x34)[1:], [traced.first(x34).relu().sum()])
    relu = named(traced, "relu")
    relu.args = (named(traced, "add"),)
    with pytest.raises(RuntimeError, match=r"Input graph has cycles, unable to add \[relu"):
        legalize_graph(traced)


def test_schedules(traced):
    class Rename(PassBase):
        def call(self, graph_module):
            return PassResult(graph_module, False)

    def swap(gm):
        for node in gm.graph.nodes:
            if node.target == "relu":
                node.target = "sigmoid"

    manager = PassManager([pass_result_wrapper(swap), Rename()], steps=2)
    assert manager(traced).modified
    assert named(traced, "relu").target == "sigmoid"

    def one(gm):
        return None

    def two(gm):
        return None

    before = this_before_that_pass_constraint
    manager = PassManager([one, two], [before(two, one)])
    with pytest.raises(RuntimeError, match=r"pass schedule constraint violated. Expected two before one"):
        manager.validate_constraints()
    manager.solve_constraints()
    assert manager.passes == [two, one]
    manager.add_constraint(before(one, two))
    with pytest.raises(RuntimeError, match=r"Circular dependency detected within the following passes: \['two', "
                       r"'one'\]"):
        manager.solve_constraints()
    with pytest.raises(TypeError, match="PassManager check function should only take in one variable, a module"):
        manager.add_checks(lambda a, b: None)
    with pytest.raises(Exception, match="An error occurred when running the 'one' pass") as caught:
        PassManager([one])(traced)
    assert "The result of the pass one should be type PassResult. Please wrap it with pass_result_wrapper()" in str(
        caught.value.__cause__)


def test_former_schedules():
    def double(x):
        return 2 * x

    def increase(x):
        return x + 1

    manager = pass_manager.PassManager.build_from_passlist([double, pass_manager.loop_pass(increase, n_iter=3)])
    assert manager(5) == 13
    manager.replace_pass(double, increase)
    assert manager(5) == 9
    manager.remove_pass(["increase"])
    assert manager(5) == 5
    assert pass_manager.loop_pass(double, predicate=lambda x: x < 100)(3) == 192
    assert pass_manager.inplace_wrapper(lambda items: items.append(1))([]) == [1]
    assert pass_manager.log_hook(double)(4) == 8
    manager = pass_manager.PassManager([double, increase],
                                       [pass_manager.this_before_that_pass_constraint(increase, double)])
    with pytest.raises(RuntimeError, match=r"pass schedule constraint violated. Expected increase before double"):
        manager(1)
    manager = pass_manager.PassManager([double, increase],
                                       [pass_manager.these_before_those_pass_constraint(double, increase)])
    assert manager(1) == 3


def test_pictures(traced, tmp_path, monkeypatch):
    ShapeProp(traced).propagate(x34)
    text = FxGraphDrawer(traced, "model").dot_source()
    assert text.startswith('digraph "model" {')
    assert '"relu" -> "add";' in text
    assert "Linear" in text
    assert "shape=(3, 2)" in text.replace("\\", "")
    monkeypatch.setitem(__import__("sys").modules, "pydot", None)
    with pytest.raises(ImportError, match="FXGraphDrawer requires the pydot package for graphs as objects"):
        FxGraphDrawer(traced, "model").get_main_dot_graph()
    with GraphTransformObserver(traced, "swap", log_url=str(tmp_path)) as seen:
        relu = named(traced, "relu")
        with traced.graph.inserting_before(relu):
            relu.replace_all_uses_with(traced.graph.call_function(torch.sigmoid, relu.args))
        traced.graph.erase_node(relu)
    assert (seen.created_nodes, seen.erased_nodes) == ({"sigmoid"}, {"relu"})
    assert sorted(path.name.split("_", 2)[2] for path in tmp_path.iterdir()) == ["swap_input_graph.dot",
                                                                                 "swap_output_graph.dot"]
    assert GraphTransformObserver(traced, "again").apply_graph_pass(lambda graph: len(graph.nodes)) == 7
    assert GraphTransformObserver.get_current_pass_count() >= 2


def test_attributes_for_lowering(traced):
    lift_lowering_attrs_to_nodes(traced)
    assert named(traced, "first").attrs_for_lowering["name"] == "torch.nn.modules.linear.Linear"
    assert named(traced, "first").attrs_for_lowering["weight"] is traced.first.weight
    with pytest.raises(ValueError, match="GELU is not in the module_fetch_book yet, please add it to the "
                       "module_fetch_book"):
        lift_lowering_attrs_to_nodes(symbolic_trace(nn.Sequential(nn.GELU())))


def test_types_of_items():
    graph = fx.Graph()
    pair = graph.placeholder("pair", type_expr=typing.Tuple[int, str])  # noqa: UP006
    items = [graph.call_function(operator.getitem, (pair, at)) for at in (0, 1)]
    many = graph.placeholder("many", type_expr=list[float])
    items.append(graph.call_function(operator.getitem, (many, 5)))
    annotate_getitem_nodes(graph)
    assert [item.type for item in items] == [int, str, float]


def test_sources_and_comparisons(traced):
    for node in traced.graph.nodes:
        node.meta.pop("nn_module_stack", None)
    parts = get_source_partitions(traced.graph, [nn.Linear, operator.add])
    (first, second), (add,) = parts[nn.Linear], parts[operator.add]
    assert [node.name for node in (*first.nodes, *second.nodes)] == ["first", "second"]
    assert check_subgraphs_connected(add, second)
    assert not check_subgraphs_connected(second, first)
    assert compare_graphs(traced.graph, symbolic_trace(Model()).graph)
    assert not compare_graphs(traced.graph, symbolic_trace(nn.Sequential(nn.ReLU())).graph)


def _pool(x, *args, **kwargs):
    return torch.ops.aten.max_pool2d_with_indices.default(x, *args, **kwargs)


@pytest.mark.parametrize(("pattern", "function", "count"), [
    # A default that is a number is the list of the pattern.
    (lambda x, k, s: _pool(x, k, s, padding=[0, 0]), lambda x: _pool(x, [2, 2], stride=[2, 2]), 1),
    (lambda x, k, s: _pool(x, k, s), lambda x: _pool(x, [2, 2], [2, 2], padding=[0, 0]), 1),
    (lambda x, k, s: _pool(x, k, s, padding=[1, 0]), lambda x: _pool(x, [2, 2], stride=[2, 2]), 0),
    # A placeholder stands for a list, or for one of its elements.
    (lambda x, a, b: x.as_strided(a, b), lambda x: x.as_strided([1, 2], [3, 4]), 1),
    (lambda x, a: x.as_strided([1, a], [3, 4]), lambda x: x.as_strided([1, 2], [3, 4]), 1),
    (lambda x, a: x.as_strided([1, a], [a, 4]), lambda x: x.as_strided([1, 2], [3, 4]), 0),
    # Elements of one list are not those of the next.
    (lambda x: x.as_strided([1, 2, 3], [4]), lambda x: x.as_strided([1, 2], [3, 4]), 0),
    (lambda x: x[0:2], lambda x: x[0:2], 1),
    (lambda x: x[0:2], lambda x: x[0:3], 0),
])
def test_patterns_with_lists(pattern, function, count):
    assert len(replace_pattern(symbolic_trace(function), pattern, pattern)) == count


def test_a_pattern_with_lists_is_replaced():
    copy = torch.ops.aten._reshape_alias_copy.default
    traced = symbolic_trace(lambda x: copy(x, [2, 2], [4, 1]))
    x = torch.arange(12.0).reshape(3, 4)
    assert traced(x).tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert traced(x).data_ptr() != x.data_ptr()
    replace_pattern(traced, lambda x, a, b: copy(x, a, b), lambda x, a, b: copy(x, b, a))
    assert "_reshape_alias_copy.default(x, [4, 1], [2, 2])" in traced.code


def test_patterns_with_names():
    pattern = symbolic_trace(_named)
    matcher = SubgraphMatcherWithNameNodeMap(pattern)
    graph = symbolic_trace(lambda x: torch.relu(x + 1) * 2).graph
    (match,) = matcher.match(graph)
    assert match.name_node_map["inner"].target is operator.add
    with pytest.raises(RuntimeError, match="Expecting the input graph to have a dict output as the last element"):
        SubgraphMatcherWithNameNodeMap(symbolic_trace(lambda x: torch.relu(x)))


def _named(x):
    inner = x + 1
    return torch.relu(inner), {"inner": inner}
