"""Modules whose ``forward`` is generated from a graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tensocket.errors import ArgumentError
from tensocket.nn import Module

from ._attributes import _assign_attr, _copy_attr, _del_attr, _get_attr, _has_attr
from ._calls import _print_readable, _WrappedCall
from ._folders import write_folder
from ._sources import (
    _EvalCacheLoader,
    _exec_with_source,
    _format_import_block,
    _format_import_statement,
    _forward_from_src,
    _method_from_src,
)
from .graph import Graph, PythonCode, _PyTreeCodeGen

#: Attributes that copies keep although the graph does not read them.
_USER_PRESERVED_ATTRIBUTES_KEY: Final = "_user_preserved_attributes"
#: Hooks of changes of the graph, by attribute.
_HOOKS: Final = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


class _CodeOnlyModule(Module):
    """A module with the state of another one, for making a graph module from it."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Make a graph module from a pickle: its generated code runs on proxies.

    Args:
        body: State of the module, with the code.
        import_block: Statements that import the objects of the code.
    """
    source = body.get("_code") or body["code"]
    return _deserialize_graph_module(_forward_from_src(import_block + source, {}), body)


def _deserialize_graph_module(forward: Callable[..., Any], body: dict[str, Any],
                              graph_module_cls: type[Any] | None = None) -> Module:
    """Make a graph module whose graph is recorded from its code, with all modules as leaves."""
    from ._lazy_graph_module import _make_graph_module
    from ._symbolic_trace import Tracer

    # forward has to be a method, which the tracer looks up in the class.
    kind = type("CodeOnly", (_CodeOnlyModule,), {"forward": forward})
    tracer_cls = body.get("_tracer_cls") or Tracer
    name = body.pop("_graphmodule_cls_name", "GraphModule")

    def is_leaf_module(self: Any, m: Module, module_qualified_name: str) -> bool:
        return True

    tracer = type("KeepModules", (tracer_cls,), {"is_leaf_module": is_leaf_module})()
    module = kind(body)
    graph = tracer.trace(module, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = body.get("_tracer_cls")
    made: Module = _make_graph_module(module, graph, class_name=name, graph_module_cls=graph_module_cls)
    for key, value in body.items():
        if not hasattr(made, key):
            setattr(made, key, value)
    return made


class GraphModule(Module):
    """A module whose ``forward`` is generated from a graph. Assign ``graph``, or call ``recompile``, after a change.

    Each instance has a class of its own, which holds its code.

    Args:
        root: The module, or dict by paths, that has the attributes which the graph reads.
        graph: The graph.
        class_name: Name of the instance's class.

    Attributes:
        meta: Notes of passes about the module.
    """

    _code: str
    meta: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """Make an instance of a class of its own."""
        # A copy of an instance gets a class beside the instance's, not below it.
        base = next(kind for kind in cls.__mro__ if kind.__qualname__.rpartition(".")[2] != "GraphModuleImpl")
        names = {"__module__": base.__module__, "__qualname__": "GraphModule.__new__.<locals>.GraphModuleImpl"}
        impl: Any = type("GraphModuleImpl", (base,), names)
        return super().__new__(impl)  # type: ignore[no-any-return]

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for target in targets:
                if _has_attr(root, target):
                    _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for target in targets:
                if target not in root:
                    raise ArgumentError("GraphModule", f"a dict with {sorted(root)}", f"Node target {target} was "
                                        "referenced by the graph but there was no reference to it in the `root` dict",
                                        "add it")
            # Shallow paths first: a submodule replaces all that is below it.
            for target in sorted(dict.fromkeys(targets), key=lambda path: path.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise ArgumentError("GraphModule", f"a {type(root).__name__} as root", f"Unsupported type {root} passed "
                                "for root!", "pass a module or a dict")
        self.__dict__.update(dict.fromkeys(_HOOKS))
        for name in _HOOKS:
            self.__dict__[name] = []
        self.graph = graph
        tracer_cls = graph._tracer_cls
        # A class within a function cannot be pickled; the state then says nothing of it.
        self._tracer_cls = None if tracer_cls is None or "<locals>" in tracer_cls.__qualname__ else tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta = dict(getattr(root, "meta", None) or {})

    @property
    def graph(self) -> Graph:
        """The graph; assigning one generates the code."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The generated source.

        Raises:
            ArgumentError: It has not been generated.
        """
        if "_code" not in self.__dict__:
            raise ArgumentError("GraphModule.code", "a module without code", "the code has not been generated",
                                "call recompile()")
        return self._code

    def recompile(self) -> PythonCode:
        """Generate the code from the graph, and return it."""
        python_code = self._graph.python_code(root_module="self")
        if isinstance(self._graph._codegen, _PyTreeCodeGen):
            info = self._graph._codegen.pytree_info
            if info is not None:
                self._in_spec, self._out_spec = info.in_spec, info.out_spec
        self._code = python_code.src
        self._lineno_map = python_code._lineno_map
        self._prologue_start = python_code._prologue_start
        cls: Any = type(self)
        cls.forward = _forward_from_src(self._code, python_code.globals, self._graph._co_fields)
        if "_wrapped_call" not in vars(cls):
            own = vars(cls).get("__call__")
            cls._wrapped_call = _WrappedCall(cls, own)

            def call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
                return self._wrapped_call(self, *args, **kwargs)

            cls.__call__ = call_wrapped
        return python_code

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        """Generate the code of all graph modules below this one."""
        return [(name, module.recompile()) for name, module in self.named_modules() if isinstance(module, GraphModule)]

    # ---- submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module at a path, with empty modules where the path is missing.

        Returns:
            Whether that is possible: no part of the path is another kind of object.
        """
        *path, name = target.split(".")
        here: Module = self
        for part in path:
            below = getattr(here, part, None)
            if below is None:
                below = Module()
                here.add_module(part, below)
            if not isinstance(below, Module):
                return False
            here = below
        here.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a path.

        Returns:
            Whether there was one.
        """
        parent, _, name = target.rpartition(".")
        if not _has_attr(self, target) or not isinstance(_get_attr(self, target), Module):
            return False
        delattr(_get_attr(self, parent), name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete all submodules that neither the graph uses nor contain one that it uses."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used |= {".".join(parts[:at]) for at in range(1, len(parts) + 1)}
            if node.op == "call_module" and _has_attr(self, node.target):
                module = _get_attr(self, node.target)
                used |= {f"{node.target}.{name}" for name, _ in module.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- files and copies

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Write the module to a folder as a Python package with its weights.

        Args:
            folder: The folder, made if it is missing.
            module_name: Name of the class.
        """
        write_folder(self, Path(folder), module_name)

    def __reduce__(self) -> Any:
        state = self.__dict__.copy()
        state["_graphmodule_cls_name"] = type(self).__name__
        python_code = self._graph.python_code(root_module="self")
        state["_code"] = python_code.src
        imports = _format_import_block(python_code.globals)
        del state["_graph"]
        return reduce_graph_module, (state, imports)

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made: Any = type(self).__new__(type(self))
        memo[id(self)] = made
        shared = {name: self.__dict__[name] for name in _HOOKS}
        state = {name: value for name, value in self.__dict__.items() if name not in shared}
        body = _CodeOnlyModule(copy.deepcopy(state, memo))
        self._deepcopy_init()(made, body, body.__dict__["_graph"])
        type(made).__name__ = type(self).__name__
        for name in (*_TABLES, *self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, ())):
            if name in body.__dict__:
                setattr(made, name, body.__dict__[name])
        made.meta = body.__dict__.get("meta", {})
        for name, hooks in shared.items():
            made.__dict__[name] = list(hooks)
        for hook in shared["_deepcopy_hooks"]:
            hook(made)
        return made  # type: ignore[no-any-return]

    def __copy__(self) -> GraphModule:
        from ._lazy_graph_module import _make_graph_module

        made = _make_graph_module(self, self.graph, graph_module_cls=_base_class(self))
        made.meta = dict(self.meta)
        return made

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = copy.copy(self)
        made.__dict__["_is_replica"] = True
        return made

    # ---- printing

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
                       colored: bool = False, *, fast_sympy_print: bool = False, expanded_def: bool = False,
                       additional_meta: list[str] | None = None) -> str:
        """Return, and print, the code of this module and of the graph modules below it, with comments.

        Args:
            print_output: Whether it is printed.
            include_stride: Whether comments show strides.
            include_device: Whether they show devices.
            colored: Whether the text has colours for a terminal.
            fast_sympy_print: Accepted for programs; sizes are numbers here.
            expanded_def: Whether each parameter is on a line of its own.
            additional_meta: Further entries of ``node.meta`` that comments show.
        """
        return _print_readable(self, self._get_name(), print_output, include_stride=include_stride,
                               include_device=include_device, colored=colored, expanded_def=expanded_def,
                               additional_meta=additional_meta)

    def __str__(self) -> str:
        return "\n".join([super().__repr__(), self.code,
                          "# To see more debug info, please use `graph_module.print_readable()`"])

    # ---- hooks of changes

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        """Call ``f(old=node, new=name, user=node)`` when a node's argument is replaced."""
        _add(self._replace_hooks, f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[..., Any]) -> None:
        """Call ``f(node)`` when a node is made."""
        _add(self._create_node_hooks, f)

    def _unregister_create_node_hook(self, f: Callable[..., Any]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[..., Any]) -> None:
        """Call ``f(node)`` before a node is erased."""
        _add(self._erase_node_hooks, f)

    def _unregister_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable[..., Any]) -> None:
        """Call ``f(copy)`` when the module has been copied."""
        _add(self._deepcopy_hooks, f)

    def _unregister_deepcopy_hook(self, f: Callable[..., Any]) -> None:
        self._deepcopy_hooks.remove(f)


#: Tables of modules that a copy of a graph module keeps.
_TABLES: Final = ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_forward_hooks",
                  "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs",
                  "_forward_hooks_always_called", "_backward_hooks", "_backward_pre_hooks")


def _add(hooks: list[Any], hook: Any) -> None:
    if not callable(hook):
        raise AssertionError("the hook must be a callable")
    hooks.append(hook)


def _base_class(module: GraphModule) -> type[GraphModule]:
    """Return the class that a graph module's own class derives from."""
    return next(kind for kind in type(module).__mro__[1:] if issubclass(kind, GraphModule))


__all__ = ["GraphModule", "_EvalCacheLoader", "_del_attr", "_exec_with_source", "_format_import_statement",
           "_method_from_src", "reduce_graph_module"]
