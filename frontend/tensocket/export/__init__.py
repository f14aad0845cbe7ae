"""Export of modules as graphs, ahead of time: ``torch.export``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tensocket.errors import ExportError
from tensocket.nn import Module
from tensocket.utils import _pytree as pytree
from tensocket_operators import Tensor

from .dynamic_shapes import Dim, ShapesCollection, dims
from .exported_program import (
    CallSpec,
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
)
from .graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportBackwardSignature,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .guards import ConstraintViolation, GuardError
from .pt2_archive.package import load, save
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

if TYPE_CHECKING:
    from .additional_inputs import AdditionalInputs
    from .c_library import CLibrary, compile_c
    from .decompositions import CustomDecompTable, default_decompositions

#: Names whose modules load with their first use: processes that run saved programs need none of them.
_LATER: Final = {
    "AdditionalInputs": "additional_inputs", "CLibrary": "c_library", "compile_c": "c_library",
    "CustomDecompTable": "decompositions", "default_decompositions": "decompositions"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return value


def export(mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
           strict: bool = False, preserve_module_call_signature: tuple[str, ...] = (),
           prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:
    """Return a module as a graph of operators.

    The module runs on the arguments; with dynamic shapes, it also runs on others, whose elements are those of the
    arguments. Its state stays as it is.

    Args:
        mod: The module.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        dynamic_shapes: The sizes that may change: for each argument, by name, a dict from dimensions to ``Dim``,
            ``Dim.AUTO`` or ``Dim.DYNAMIC``, or None; in containers, a container of these.
            ``ShapesCollection`` and ``AdditionalInputs`` stand for such dicts.
        strict: Not supported.
        preserve_module_call_signature: Paths of submodules whose arguments and results ``unflatten`` preserves.
        prefer_deferred_runtime_asserts_over_guards: Not supported.

    Raises:
        ExportError: The module has no graph that is right for all of its inputs, or an option is not supported.
    """
    from .additional_inputs import AdditionalInputs
    from .assembling import assemble
    from .capture import capture
    from .module_calls import ModuleCalls

    if not isinstance(mod, Module):
        raise ExportError("export", f"a {type(mod).__name__}", "Expected `mod` to be an instance of "
                          f"`torch.nn.Module`, got {type(mod)}", "put the function into the forward() of a module")
    if not isinstance(args, tuple):
        raise ExportError("export", f"args of type {type(args).__name__}", "Expecting `args` to be a tuple of example "
                          f"positional inputs, got {type(args)}", "pass a tuple")
    if strict:
        raise ExportError("export", "strict=True", "modules run as Python, under a recorder, and no compiler of "
                          "bytecode checks them", "leave strict out: the graph is the same in PyTorch, too")
    if prefer_deferred_runtime_asserts_over_guards:
        raise ExportError("export", "prefer_deferred_runtime_asserts_over_guards=True", "comparisons of inputs' "
                          "sizes are checks of the inputs", "leave the option out")
    named = dict(kwargs or {})
    additional = dynamic_shapes if isinstance(dynamic_shapes, AdditionalInputs) else None
    if additional is not None:
        dynamic_shapes = additional.dynamic_shapes(mod, args, named)
    captured = capture(mod, args, named, dynamic_shapes, ModuleCalls(mod, tuple(preserve_module_call_signature)))
    program = assemble(captured, mod, args, named)
    if additional is not None:
        additional.verify(program)
    return program


def draft_export(mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """Refuse: a program that may be wrong is not made.

    Raises:
        ExportError: Always.
    """
    raise ExportError("draft_export", f"a {type(mod).__name__}", "a program is right for all inputs in its ranges, or "
                      "refused with the place", "call export, whose errors tell what to change")


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let instances of a dataclass be arguments and results of exported programs.

    Raises:
        ExportError: The class is not a dataclass.
    """
    if not dataclasses.is_dataclass(cls):
        raise ExportError("register_dataclass", f"{cls}", "Only dataclasses can be registered with this "
                          f"function: {cls}", "decorate the class with dataclass")
    pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


__all__ = ["AdditionalInputs", "ArgumentSpec", "CLibrary", "CallSpec", "ConstantArgument", "ConstraintViolation",
           "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram",
           "FlatArgsAdapter", "GuardError", "InputKind", "InputSpec", "ModuleCallEntry", "ModuleCallSignature",
           "OutputKind", "OutputSpec", "ShapesCollection", "Tensor", "TensorArgument", "UnflattenedModule",
           "compile_c", "default_decompositions", "dims", "draft_export", "export", "load", "register_dataclass",
           "save", "unflatten"]
