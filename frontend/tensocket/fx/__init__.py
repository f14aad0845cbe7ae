"""Recording modules and functions as graphs, changing the graphs, and running them: PyTorch's ``torch.fx``.

``symbolic_trace`` runs a module once on proxies, which record every operation as a node of a ``Graph``. A
``GraphModule`` generates Python code from a graph, so that the result is a module like any other.
"""

from __future__ import annotations

from . import operator_schemas as operator_schemas
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .immutable_collections import immutable_dict, immutable_list
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = ["PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "ProxyableClassMeta", "Tracer",
           "Transformer", "has_side_effect", "immutable_dict", "immutable_list", "map_arg", "replace_pattern",
           "symbolic_trace", "wrap"]
