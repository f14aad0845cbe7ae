"""Names that libraries for PyTorch import from ``torch.fx``."""

from __future__ import annotations

import copy
import importlib
import pickle

import pytest

import tensocket as torch
from tensocket import fx

NAMES = {
    "": "Proxy Tracer GraphModule Graph Node symbolic_trace wrap replace_pattern Interpreter Transformer CodeGen PH "
        "ProxyableClassMeta map_arg has_side_effect immutable_dict immutable_list",
    "proxy": "Scope ScopeContextManager TracerBase Attribute ParameterProxy TraceError GraphAppendingTracer",
    "_symbolic_trace": "_assert_is_none _patch_function _Patcher _wrapped_fns_to_patch _proxyable_classes "
                       "is_fx_tracing is_fx_symbolic_tracing _find_proxy _maybe_revert_all_patches _new_patcher PHBase",
    "graph_module": "_copy_attr _assign_attr _get_attr _del_attr _has_attr _forward_from_src reduce_graph_module "
                    "_EvalCacheLoader _exec_with_source _format_import_block _WrappedCall",
    "node": "has_side_effect _get_qualified_name base_types map_aggregate Argument Target BaseArgumentTypes _type_repr",
    "graph": "_Namespace _PyTreeInfo PythonCode _is_from_torch _PyTreeCodeGen _custom_builtins _snake_case",
    "operator_schemas": "ArgsKwargsPair normalize_function normalize_module get_signature_for_torch_op type_matches "
                        "create_type_hint check_for_mutable_operation",
    "subgraph_rewriter": "Match ReplacedPatterns replace_pattern replace_pattern_with_filters",
    "tensor_type": "TensorType Dyn is_consistent is_more_precise", "_compatibility": "compatibility",
    "traceback": "preserve_node_meta set_stack_trace set_current_meta format_stack annotate get_current_meta",
    "passes.infra.pass_base": "PassBase PassResult", "passes.utils.matcher_utils": "SubgraphMatcher InternalMatch",
    "passes.shape_prop": "ShapeProp TensorMetadata _extract_tensor_metadata",
    "experimental.graph_gradual_typechecker": "GraphTypeChecker Refine broadcast_types register_inference_rule "
        "register_refinement_rule register_algebraic_expressions_inference_rule calculate_out_dimension "
        "expand_to_tensor_dim get_greatest_upper_bound",
    "experimental.refinement_types": "Equality", "experimental.unification": "Var isvar reify unify",
    "experimental.unify_refinements": "infer_symbolic_types infer_symbolic_types_single_pass check_for_type_equality "
                                      "substitute_all_types substitute_solution_one_type unify_eq",
    "experimental.proxy_tensor": "make_fx ProxyTorchDispatchMode get_isolated_graphmodule py_sym_types is_sym_node",
}


@pytest.mark.parametrize("module", sorted(NAMES))
def test_names(module):
    found = importlib.import_module(f"tensocket.fx.{module}".rstrip("."))
    missing = [name for name in NAMES[module].split() if not hasattr(found, name)]
    assert missing == []


def test_qualified_names():
    from tensocket.fx.graph import _is_from_torch
    from tensocket.fx.node import _get_qualified_name

    assert _get_qualified_name(torch.relu) == "torch.relu"
    assert _get_qualified_name(torch.nn.functional.relu) == "torch.nn.functional.relu"
    assert _get_qualified_name(torch.linalg.norm) == "torch.linalg.norm"
    assert _get_qualified_name(torch.ops.aten.relu.default) == "torch.ops.aten.relu.default"
    assert _get_qualified_name(torch.Tensor) == "torch.Tensor"
    assert _get_qualified_name(torch._assert) == "torch._assert"
    assert isinstance(torch.ops.aten.relu.default, torch._ops.OpOverload)
    assert _get_qualified_name(len) == "len"
    assert _get_qualified_name(pytest.raises) == "_pytest.raises.raises"
    assert _is_from_torch(torch.sin)
    assert _is_from_torch(torch.nn.Linear)
    assert not _is_from_torch(len)


def test_gradual_types():
    from tensocket.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

    assert is_consistent(TensorType((1, Dyn)), TensorType((1, 2)))
    assert is_consistent(Dyn, 3)
    assert not is_consistent(TensorType((1, 2)), TensorType((1, 3)))
    assert is_more_precise(TensorType((1, 2)), TensorType((1, Dyn)))
    assert not is_more_precise(TensorType((1, Dyn)), TensorType((1, 2)))
    assert str(TensorType[1, Dyn]) == "TensorType[(1, Dyn)]"


def test_a_mark_of_compatibility():
    from tensocket.fx._compatibility import compatibility

    @compatibility(is_backward_compatible=True)
    def f():
        """Do nothing."""

    assert "guaranteed" in f.__doc__
    assert fx.Graph is not None


def test_overloads_and_packets_are_targets():
    """Names of nodes and code as from PyTorch 2.13."""
    traced = torch.fx.symbolic_trace(lambda a: torch.ops.aten.add(a, a) + torch.ops.aten.add.Tensor(a, a))
    packet, overload = [node for node in traced.graph.nodes if "aten" in str(node.target)]
    assert (packet.name, packet.target) == ("add", torch.ops.aten.add)
    assert (overload.name, overload.target) == ("add_tensor", torch.ops.aten.add.Tensor)
    assert isinstance(packet.target, torch._ops.OpOverloadPacket)
    assert isinstance(overload.target, torch._ops.OpOverload)
    assert not isinstance(overload.target, torch._ops.OpOverloadPacket)
    assert "add = torch.ops.aten.add(a, a)" in traced.code
    assert "add_tensor = torch.ops.aten.add.Tensor(a, a)" in traced.code
    assert copy.deepcopy(traced)(torch.ones(1)).tolist() == [4.0]
    assert pickle.loads(pickle.dumps(traced))(torch.ones(1)).tolist() == [4.0]


def test_packets_are_scripted_like_overloads():
    def f(x):
        return torch.ops.aten.add(x, x)

    assert torch.jit.script(f)(torch.ones(1)).tolist() == [2.0]


def test_arguments_of_packets_have_names():
    from tensocket.fx.operator_schemas import normalize_function

    x = torch.ones(1)
    for target in (torch.ops.aten.add, torch.ops.aten.add.Tensor):
        assert normalize_function(target, (x, x), normalize_to_only_use_kwargs=True).kwargs == {
            "input": x, "other": x, "alpha": 1}
