"""``freeze`` and ``optimize_for_inference``."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tensocket.jit.compiler.module_types import unique_name
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import Argument, CompiledFunction, FunctionSchema
from tensocket.jit.graph.ir import Block, Graph, Value
from tensocket.jit.graph.passes import copied, inline, remove_dead
from tensocket.jit.modules import RecursiveScriptModule, ScriptModule
from tensocket.nn import Module
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError


def freeze(mod: Any, preserved_attrs: Sequence[str] | None = None, optimize_numerics: bool = True) -> Any:
    """Return a copy of a scripted module in evaluation mode whose attributes are constants of its graphs.

    Methods of parts are inlined, unless they return from inside of a branch, and branches that constants decide are
    settled. Attributes that a method assigns, and preserved ones, stay attributes; layers of the library stay modules.

    Args:
        mod: A scripted or traced module in evaluation mode.
        preserved_attrs: Methods and attributes that are kept, besides ``forward``.
        optimize_numerics: Accepted as in PyTorch: no pass here changes numbers.

    Raises:
        ArgumentTypeError: ``mod`` is not a scripted module.
        ArgumentError: It is in training mode, or has no such attribute.
    """
    if not isinstance(mod, ScriptModule):
        raise ArgumentTypeError("jit.freeze", f"a {type(mod).__name__}", "Freezing expects a ScriptModule as input. "
                                "Please use "
                                "torch.jit.script or torch.jit.trace to script your 'nn.Module'", "script it first")
    if mod.training:
        raise ArgumentError("jit.freeze", "a module in training mode", "Freezing is currently only implemented for "
                            "modules in "
                            "eval mode. Please call .eval() on your module before freezing", "call eval() first")
    names = list(preserved_attrs or [])
    for name in names:
        if not hasattr(mod, name) and mod._type.method(name) is None:
            raise ArgumentError("jit.freeze", f"preserved_attrs with {name!r}", "Attribute or method of this name "
                                "does not "
                                "exist", "name one that does")
    return _Frozen(mod, names).module()


def _layers(module: Any) -> bool:
    return any(_is_layer(part) for part in module.modules())


def _is_layer(part: Any) -> bool:
    details = getattr(part._type, "details", None) if isinstance(part, ScriptModule) else None
    return details is not None and details.library


class _Frozen:
    """State of one module that is frozen."""

    def __init__(self, source: Any, names: list[str]) -> None:
        self.source = source
        self.methods = ["forward"] if source._type.method("forward") is not None else []
        self.methods += [name for name in names if source._type.method(name) is not None]
        self.kept = {name for name in names if name not in self.methods}
        self.kind = t.ClassType(unique_name(source._type.name), source._type.python, is_module=True)
        self.made = RecursiveScriptModule(self.kind)
        self.constants: dict[int, Any] = {}

    def module(self) -> Any:
        """Return the frozen module."""
        graphs: dict[str, Graph] = {}
        for name in self.methods:
            method = self.source._type.method(name)
            graph = copied(method.graph)
            inline(graph)
            graphs[name] = graph
        written = {path for graph in graphs.values() for path in self._written(graph)}
        for name, graph in graphs.items():
            self._fold(graph, graph, written)
            settle(graph)
            remove_dead(graph)
            self._declare(name, graph)
        from tensocket.jit.files.file_details import FileDetails

        self.kind.details = FileDetails(self.kind, False)
        for name in ["training", *self._used(graphs), *self.kept]:
            self._keep(name)
        self.made.__dict__["training"] = False
        return self.made

    def _written(self, graph: Graph) -> set[tuple[str, ...]]:
        return {(*path, node.attributes["name"]) for node in graph.findAllNodes("prim::SetAttr")
                if (path := _path(node.inputs_[0], graph)) is not None}

    def _fold(self, block: Block, graph: Graph, written: set[tuple[str, ...]]) -> None:
        """Replace reads of attributes by constants."""
        for node in list(block.nodes_):
            for inner in node.blocks_:
                self._fold(inner, graph, written)
            if node.op != "prim::GetAttr" or not node.outputs_[0].uses_:
                continue
            path = _path(node.outputs_[0], graph)
            kind = node.outputs_[0].kind
            if path is None or path in written or path[0] in self.kept or (
                    isinstance(kind, t.ClassType)) or any(w[:len(path)] == path for w in written):
                continue
            found = self._attribute(path)
            if isinstance(kind, (t.ListType, t.DictType)) or not _is_constant(found):
                continue
            node.op = "prim::Constant"
            node.attributes = {"value": self._constant(found)}
            node.drop_inputs()

    def _constant(self, value: Any) -> Any:
        if not hasattr(value, "detach"):
            return value
        return self.constants.setdefault(id(value), value.detach())

    def _attribute(self, path: tuple[str, ...]) -> Any:
        value = self.source
        for name in path:
            value = getattr(value, name)
        return value

    def _declare(self, name: str, graph: Graph) -> None:
        before = self.source._type.method(name).schema
        graph.head.outputs_[0].kind = self.kind
        arguments = [Argument("self", self.kind), *before.arguments[1:]]
        self.kind.methods[name] = CompiledFunction(name, f"{self.kind.name}.{name}",
                                                   FunctionSchema(name, arguments, before.result), graph,
                                                   owner=self.kind,
                                                   source=self.source._type.method(name).source)

    def _used(self, graphs: dict[str, Graph]) -> list[str]:
        found: dict[str, None] = {}
        for graph in graphs.values():
            for node in graph.all_nodes():
                if node.op.startswith("prim::Call") and graph.head.outputs_[0] in node.inputs_:
                    found.update(dict.fromkeys(self.source._type.attributes))  # a method that was not inlined
                if node.op in ("prim::GetAttr", "prim::SetAttr") and node.inputs_[0] is graph.head.outputs_[0]:
                    found[node.attributes["name"]] = None
        return list(found)

    def _keep(self, name: str) -> None:
        source = self.source
        kind = source._type
        if name not in kind.attributes:
            return
        self.kind.attributes[name] = kind.attributes[name]
        for group in ("parameters", "buffers"):
            if name in getattr(kind, group):
                getattr(self.kind, group).add(name)
        for table in ("_parameters", "_buffers", "_modules"):
            if name in source.__dict__[table]:
                value = source.__dict__[table][name]
                if isinstance(value, Module):
                    value = copy.deepcopy(value)
                elif value is not None and name not in self.kept:
                    value = value.detach().clone()
                self.made.__dict__[table][name] = value
                return
        if name in source.__dict__:
            self.made.__dict__[name] = copy.deepcopy(source.__dict__[name])


def _path(value: Value, graph: Graph) -> tuple[str, ...] | None:
    """Return the attributes that lead from ``self`` to a value, None for other values."""
    names: list[str] = []
    while value.owner.op == "prim::GetAttr":
        names.insert(0, value.owner.attributes["name"])
        value = value.owner.inputs_[0]
    return tuple(names) if value is graph.head.outputs_[0] else None


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return value is None or isinstance(value, (bool, int, float, str, complex)) or hasattr(value, "detach")


def settle(block: Block) -> None:
    """Replace branches that a constant decides by the block that runs."""
    from tensocket.jit.graph.passes import copy_into

    for node in list(block.nodes_):
        for inner in node.blocks_:
            settle(inner)
        if node.op == "aten::__not__" and isinstance(node.inputs_[0].toIValue(), bool):
            node.attributes = {"value": not node.inputs_[0].toIValue()}
            node.op = "prim::Constant"
            node.drop_inputs()
        if node.op in ("aten::__is__", "aten::__isnot__") and all(
                v.owner.op == "prim::Constant" for v in node.inputs_):
            same = node.inputs_[0].toIValue() is node.inputs_[1].toIValue()
            node.attributes = {"value": same if node.op == "aten::__is__" else not same}
            node.op = "prim::Constant"
            node.drop_inputs()
        if node.op != "prim::If" or not isinstance(node.inputs_[0].toIValue(), bool):
            continue
        chosen = node.blocks_[0 if node.inputs_[0].toIValue() else 1]
        if any(n.op in ("prim::ReturnStmt", "prim::BreakStmt", "prim::ContinueStmt") for n in chosen.all_nodes()):
            continue
        results = copy_into(chosen, block, {}, block.nodes_.index(node))
        for value, result in zip(node.outputs_, results, strict=True):
            value.replaceAllUsesWith(result)
        node.destroy()


def optimize_for_inference(mod: Any, other_methods: Sequence[str] | None = None) -> Any:
    """Return a frozen copy of a scripted module.

    Args:
        mod: A scripted or traced module; it is frozen in evaluation mode.
        other_methods: Methods that are kept besides ``forward``.

    Raises:
        ArgumentTypeError: ``mod`` is not a scripted module.
    """
    if not isinstance(mod, ScriptModule):
        raise ArgumentTypeError("jit.optimize_for_inference", f"a {type(mod).__name__}", "optimize_for_inference "
                                "expects a "
                                "ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
                                "'nn.Module'", "script it first")
    if "training" not in mod._type.attributes:
        return mod
    return freeze(copy.deepcopy(mod).eval(), list(other_methods or []))


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True,
                             preserved_methods: Sequence[str] | None = None) -> None:
    """Remove unused nodes and settled branches of a frozen module."""
    for method in mod._type.methods.values():
        if method.graph is not None:
            settle(method.graph)
            remove_dead(method.graph)
            method.forget_code()


__all__ = ["freeze", "optimize_for_inference", "run_frozen_optimizations"]
