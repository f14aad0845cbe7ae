"""Graphs, and the generation of their code."""

from __future__ import annotations

import sys
from typing import Any

from tensocket.utils import _pytree as pytree
from tensocket_compiler.graph.codegen import CodeGen, PythonCode
from tensocket_compiler.graph.comments import source_of
from tensocket_compiler.graph.graph import Graph
from tensocket_compiler.graph.names import (
    CUSTOM_BUILTINS,
    is_from_torch,
    is_magic,
    register_custom_builtin,
    snake_case,
    type_name,
)
from tensocket_compiler.graph.names import CustomBuiltin as _CustomBuiltin
from tensocket_compiler.graph.names import Namespace as _Namespace
from tensocket_compiler.graph.node_list import InsertPoint as _InsertPoint
from tensocket_compiler.graph.node_list import NodeList
from tensocket_compiler.graph.pytree_codegen import PyTreeCodeGen as _PyTreeCodeGen
from tensocket_compiler.graph.pytree_codegen import PyTreeInfo as _PyTreeInfo
from tensocket_plugins.contract.devices import Device

from . import _pytree as fx_pytree
from .node import Node

_custom_builtins = CUSTOM_BUILTINS
_node_list = NodeList


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    """Let generated code use a name, which ``import_str`` imports in a saved program."""
    register_custom_builtin(name, import_str, obj)


def _is_from_torch(obj: Any) -> bool:
    """Whether a program knows an object by a name below ``torch``."""
    return is_from_torch(obj)


def _is_magic(x: str) -> bool:
    return is_magic(x)


def _snake_case(s: str) -> str:
    """Return a class's name as that of a variable."""
    return snake_case(s)


def _type_repr(obj: Any) -> str:
    return type_name(obj)


def _parse_stack_trace(stack_trace: str) -> str:
    """Return file, line, function and text of the innermost call in a stack trace."""
    return source_of(stack_trace)


# Programs call this package torch, and generated code is a program.
_register_custom_builtin("torch", "import tensocket as torch", sys.modules[__name__.partition(".")[0]])
_register_custom_builtin("device", "from tensocket import device", Device)
_register_custom_builtin("fx_pytree", "import tensocket.fx._pytree as fx_pytree", fx_pytree)
_register_custom_builtin("pytree", "import tensocket.utils._pytree as pytree", pytree)

__all__ = ["CodeGen", "Graph", "Node", "PythonCode", "_CustomBuiltin", "_InsertPoint", "_Namespace", "_PyTreeCodeGen",
           "_PyTreeInfo", "_custom_builtins", "_node_list"]
