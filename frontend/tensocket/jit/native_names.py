"""Names of PyTorch's native module that are about scripts: types, the graph's classes, hooks."""

from __future__ import annotations

from typing import Any, Final

from tensocket.jit.compiler.classes import ScriptObject, clear
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


class _Optional(type):
    """The class of ``OptionalType``: its instances are the unions of a type and None."""

    def __call__(cls, kind: JitType) -> JitType:
        return optional(kind)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, UnionType) and instance.is_optional


class OptionalType(metaclass=_Optional):
    """The type ``Optional[T]``."""


def _jit_set_emit_hooks(module_hook: Any, function_hook: Any) -> None:
    """Keep the hooks that PyTorch calls after compilations; nothing calls them here."""
    HOOKS[:] = [module_hook, function_hook]


def _jit_get_emit_hooks() -> tuple[Any, Any]:
    """Return the hooks."""
    return HOOKS[0], HOOKS[1]


#: Switches of fusers, of which there are none: programs set and restore them.
_FUSERS: Final = {"cpu": False, "gpu": False, "texpr": False, "nvfuser": False, "guard": False, "llga": False,
                  "profiling_executor": True, "profiling_mode": True}


def _switch(name: str) -> tuple[Any, Any]:
    """Return a function that reads a switch of fusers, and one that sets it and returns what it was."""
    def get() -> bool:
        return _FUSERS[name]

    def put(value: bool) -> bool:
        before, _FUSERS[name] = _FUSERS[name], bool(value)
        return before

    return get, put


_jit_can_fuse_on_cpu, _jit_override_can_fuse_on_cpu = _switch("cpu")
_jit_can_fuse_on_gpu, _jit_override_can_fuse_on_gpu = _switch("gpu")
_jit_texpr_fuser_enabled, _jit_set_texpr_fuser_enabled = _switch("texpr")
_jit_nvfuser_enabled, _jit_set_nvfuser_enabled = _switch("nvfuser")
_jit_nvfuser_guard_mode, _jit_set_nvfuser_guard_mode = _switch("guard")
_jit_llga_enabled, _jit_set_llga_enabled = _switch("llga")
_get_graph_executor_optimize, _jit_set_profiling_executor = _switch("profiling_executor")
_jit_get_profiling_mode, _jit_set_profiling_mode = _switch("profiling_mode")


def _get_privateuse1_backend_name() -> str:
    """Return the name of devices from outside of PyTorch, which none here is."""
    return "privateuseone"


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
           "ScriptMethod", "ScriptModule", "ScriptObject", "StringType", "TensorType", "TupleType", "Type",
           "UnionType", "Value"]
