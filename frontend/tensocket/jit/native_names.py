"""Names of PyTorch's native module that are about scripts: types, the graph's classes, hooks."""

from __future__ import annotations

from typing import Any, Final

from tensocket.jit.compiler.classes import clear
from tensocket.jit.compiler.module_types import clear_store
from tensocket.jit.frontend import Error as JITException
from tensocket.jit.graph.functions import INLINE, Argument, FunctionSchema
from tensocket.jit.graph.ir import Block, Graph, Node, Value
from tensocket.jit.graph.script_types import (
    AnyType,
    BoolType,
    ClassType,
    ComplexType,
    DeviceObjType,
    DictType,
    EnumType,
    FloatType,
    FutureType,
    InterfaceType,
    IntType,
    JitType,
    ListType,
    NoneType,
    NumberType,
    StringType,
    TensorType,
    TupleType,
    UnionType,
    optional,
)
from tensocket.jit.modules import ScriptModule
from tensocket.jit.script_functions import CompilationUnit, ScriptFunction, ScriptMethod

#: PyTorch's hooks for modules and functions, which programs set and read.
HOOKS: Final[list[Any]] = [None, None]
Type = JitType


def OptionalType(kind: JitType) -> JitType:  # noqa: N802  PyTorch's name
    """Return ``Optional[T]``."""
    return optional(kind)


def _jit_set_emit_hooks(module_hook: Any, function_hook: Any) -> None:
    """Keep the hooks that PyTorch calls after compilations; nothing calls them here."""
    HOOKS[:] = [module_hook, function_hook]


def _jit_get_emit_hooks() -> tuple[Any, Any]:
    """Return the hooks."""
    return HOOKS[0], HOOKS[1]


def _jit_clear_class_registry() -> None:
    """Forget all scripted classes and types of modules."""
    clear()
    clear_store()


def _jit_pass_dce(graph: Graph) -> None:
    """Remove the nodes that nothing uses."""
    from tensocket.jit.graph.passes import remove_dead

    remove_dead(graph)


def _jit_pass_lint(graph: Graph) -> None:
    """Check that every value of a graph is defined before its use.

    Raises:
        ScriptError: One is not.
    """
    from tensocket.jit.graph.passes import lint

    lint(graph)


def _jit_get_inline_everything_mode() -> bool:
    """Return whether called functions are inlined when a function is compiled."""
    return INLINE.everything


def _jit_set_inline_everything_mode(enabled: bool) -> None:
    """Set whether called functions are inlined when a function is compiled."""
    INLINE.everything = enabled


def _jit_pass_inline(graph: Graph) -> None:
    """Put the graphs of called functions in the place of the calls."""
    from tensocket.jit.graph.passes import inline

    inline(graph)


__all__ = ["AnyType", "Argument", "Block", "BoolType", "ClassType", "CompilationUnit", "ComplexType", "DeviceObjType",
           "DictType", "EnumType", "FloatType", "FunctionSchema", "FutureType", "Graph", "IntType", "InterfaceType",
           "JITException", "JitType", "ListType", "Node", "NoneType", "NumberType", "OptionalType", "ScriptFunction",
           "ScriptMethod", "ScriptModule", "StringType", "TensorType", "TupleType", "Type", "UnionType", "Value"]
