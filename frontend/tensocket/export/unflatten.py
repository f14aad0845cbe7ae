"""Modules of exported programs in the hierarchy of the original one: ``torch.export.unflatten``.

The graph is cut along the calls of modules that its nodes name in ``meta["nn_module_stack"]``: each call becomes a
module with a graph of its own, whose inputs are the values from outside that it uses.
"""

from __future__ import annotations

import abc
from typing import Any

from tensocket.errors import ExportError
from tensocket.fx.graph import Graph
from tensocket.fx.interpreter import Interpreter
from tensocket.utils._pytree import tree_flatten, tree_unflatten

from .cutting import Cutter
from .exported_program import ExportedProgram
from .interpreter_modules import InterpreterModule, InterpreterModuleDispatcher


class FlatArgsAdapter(abc.ABC):
    """Adapts arguments of another structure to those that a program was exported with."""

    @abc.abstractmethod
    def adapt(self, target_spec: Any, input_spec: Any, input_args: list[Any], metadata: dict[str, Any] | None = None,
              obj: Any = None) -> list[Any]:
        """Return the leaves in the order of the exported structure.

        Args:
            target_spec: The structure of the program's arguments.
            input_spec: The structure of the arguments given.
            input_args: Their leaves.
            metadata: The ``meta`` of the module.
            obj: The positional arguments.
        """

    def get_flat_arg_paths(self) -> list[str]:
        """Return how messages call the leaves; none by default."""
        return []


class UnflattenedModule(InterpreterModule):
    """The module of a program with submodules; its parameters and buffers are copies of the program's.

    Args:
        export_module: The program.
        flat_args_adapter: Adapts arguments of other structures.

    Raises:
        ExportError: Its graph has no place in modules.
    """

    def __init__(self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> None:
        super().__init__(Graph())
        self.module_call_graph = list(export_module.module_call_graph)
        self.range_constraints = dict(export_module.range_constraints)
        self.graph_signature = export_module.graph_signature
        self.flat_args_adapter = flat_args_adapter
        self.meta = dict(export_module.graph_module.meta)
        self.check_input_constraints = True
        self._call = export_module.call_spec
        self._guards = None if export_module._guards is None else [export_module._guards]
        Cutter(export_module, self).cut()
        self._ty = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program.

        Raises:
            ExportError: The arguments have another structure, and there is no adapter.
            GuardError: One is not as the graph needs it.
        """
        leaves, spec = tree_flatten((args, _ordered(kwargs, self._call.in_spec)))
        if spec != self._call.in_spec:
            if self.flat_args_adapter is None:
                raise ExportError("unflatten", f"arguments of structure {spec.brief()}", "There is no flat args "
                                  "adapter specified, and the program's arguments have the structure "
                                  f"{self._call.in_spec.brief()}", "pass arguments as the exported module got them")
            leaves = self.flat_args_adapter.adapt(self._call.in_spec, spec, leaves, self.meta, args)
        if self.check_input_constraints and self._guards is not None:
            self._guards[0](*leaves)
        found = Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)
        return tree_unflatten(found, self._call.out_spec)


def _ordered(kwargs: dict[str, Any], in_spec: Any) -> dict[str, Any]:
    """Return keyword arguments in the order of a structure."""
    order = list(in_spec.children()[1].context)
    return {name: kwargs[name] for name in order} if sorted(order) == sorted(kwargs) else kwargs


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """Return a program as modules in the hierarchy of the original one.

    Each module of the program that computes is an ``InterpreterModule`` at its path, so that it can be looked at,
    replaced and fine-tuned. A replacement gets the tensors that the module's graph gets, or, for the paths that
    ``preserve_module_call_signature`` lists, the arguments of the original module.

    Args:
        module: The program.
        flat_args_adapter: Adapts arguments of other structures.

    Raises:
        ExportError: Its graph has no place in modules.
    """
    return UnflattenedModule(module, flat_args_adapter)


__all__ = ["FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten"]
