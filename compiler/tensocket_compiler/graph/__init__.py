"""Graphs of operator calls: nodes, generated code, interpreter and checks."""

from __future__ import annotations

from .codegen import CodeGen, PythonCode
from .graph import Graph
from .interpreter import Interpreter
from .node import Node, map_aggregate, map_arg
from .pytree_codegen import PyTreeCodeGen, PyTreeInfo

__all__ = ["CodeGen", "Graph", "Interpreter", "Node", "PyTreeCodeGen", "PyTreeInfo", "PythonCode", "map_aggregate",
           "map_arg"]
