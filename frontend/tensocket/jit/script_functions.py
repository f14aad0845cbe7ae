"""Scripted functions and methods as Python objects, and units of several functions."""

from __future__ import annotations

import functools
from typing import Any

from tensocket.jit.boundary import OverriddenCall
from tensocket.jit.compiler.closures import resolver_of_frame
from tensocket.jit.compiler.compilation import bodies, compile_tree
from tensocket.jit.frontend import Source
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import CompiledFunction, FunctionSchema
from tensocket.jit.graph.ir import Graph, Node
from tensocket.overrides import handle_torch_function


class _Code:
    """The attributes that functions and methods share."""

    _compiled: CompiledFunction

    @property
    def graph(self) -> Graph:
        """The graph; that of a layer's method has one node."""
        return layer_graph(self._compiled) if self._compiled.graph is None else self._compiled.graph

    @property
    def inlined_graph(self) -> Graph:
        """The graph, with the graphs of the functions that it calls in their place."""
        return self.graph if self._compiled.graph is None else self._compiled.inlined_graph

    @property
    def code(self) -> str:
        """The graph as Python code, which ``torch.jit`` reads."""
        from tensocket.jit.graph.printing import code_of

        return code_of(self._compiled)

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The code, and its constants."""
        from tensocket.jit.graph.printing import Constants, code_of

        constants = Constants()
        return code_of(self._compiled, constants), constants

    @property
    def schema(self) -> FunctionSchema:
        """The signature."""
        return self._compiled.schema

    @property
    def name(self) -> str:
        """The name."""
        return self._compiled.name

    @property
    def qualified_name(self) -> str:
        """The name in printed code."""
        return self._compiled.qualified

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the graph that runs for arguments: the one graph of the function."""
        return self.graph


def layer_graph(compiled: CompiledFunction) -> Graph:
    """Return a graph of the one call that a layer of the library is."""
    graph, schema = Graph(), compiled.schema
    inputs = [graph.add_input(argument.type, argument.name) for argument in schema.arguments]
    owner = "" if compiled.owner is None else compiled.owner.name.rpartition(".")[2]
    node = graph.append(Node(graph, f"nn::{owner}", inputs))
    graph.add_output(node.add_output(schema.result))
    return graph


class ScriptFunction(_Code):
    """A function that ``script`` or ``trace`` compiled.

    Args:
        compiled: The compiled function.
        original: The Python function.
    """

    def __init__(self, compiled: CompiledFunction, original: Any = None) -> None:
        if original is not None:
            functools.update_wrapper(self, original)
        else:
            self.__name__ = self.__qualname__ = compiled.name
        self._compiled = compiled
        self._torchdynamo_inline = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        compiled = self._compiled
        try:
            return (compiled._checked or compiled.checked)(*args, **kwargs)
        except OverriddenCall:
            return _overridden(self, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        import pickle

        raise pickle.PickleError("[ScriptFunction] pickle of a script — ScriptFunction cannot be pickled — save it "
                                 "with "
                                 "torch.jit.save")

    def __deepcopy__(self, memo: Any) -> ScriptFunction:
        return self

    def save(self, f: Any, **options: Any) -> None:
        """Write the function to a file, as ``jit.save`` does."""
        from tensocket.jit.entry_points import save

        save(self, f, **options)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """Return the contents of the file that ``save`` writes."""
        from tensocket.jit.files.archive import to_bytes

        return to_bytes(self, _extra_files)


class ScriptMethod(_Code):
    """A compiled method with its module.

    Args:
        module: The module.
        compiled: The compiled method.
    """

    def __init__(self, module: Any, compiled: CompiledFunction) -> None:
        self._module = module
        self._compiled = compiled
        self.__name__ = compiled.name

    @property
    def __self__(self) -> Any:
        return self._module

    @property
    def owner(self) -> Any:
        """The module."""
        return self._module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph."""
        try:
            return self._compiled.checked(self._module, *args, **kwargs)
        except OverriddenCall:
            return _overridden(self, args, kwargs)


def _overridden(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what the class of an argument makes of a call of a script, such as a node of a graph."""
    return handle_torch_function(function, (*args, *kwargs.values()), *args, **kwargs)


class CompilationUnit:
    """Functions that a text defines.

    Args:
        lang: The text.
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> list[Any]:
        """Compile the functions of a text, which may call each other.

        Raises:
            FrontendError: The text is not the definition of functions.
            ScriptError: A function is not a script.
        """
        outer = rcb or resolver_of_frame(_frames_up + 1)
        waiting: dict[str, tuple[Any, Source]] = {tree.name: (tree, source) for tree, source in bodies(lang)}
        compiled: dict[str, CompiledFunction] = {}

        def resolve(name: str) -> Any:
            if name in waiting:
                return compile_one(name)
            if name in self._functions:
                return self._functions[name]
            found = outer(name)
            if found is None and rcb is not None:
                raise KeyError(name)
            return found

        def compile_one(name: str) -> CompiledFunction:
            if name not in compiled:
                tree, source = waiting[name]
                made = compiled[name] = CompiledFunction(name, f"__torch__.{name}", FunctionSchema(name, [], t.NEVER),
                                                         source=source)
                compile_tree(made, tree, source, resolve)
            return compiled[name]

        for name in waiting:
            compile_one(name)
        made = [ScriptFunction(each) for each in compiled.values()]
        self._functions.update({each.name: each for each in made})
        return made

    def __getattr__(self, name: str) -> ScriptFunction:
        try:
            return self.__dict__["_functions"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'") from None

    def find_function(self, name: str) -> ScriptFunction | None:
        """Return a function, None if there is none of this name."""
        return self._functions.get(name)

    def get_functions(self) -> list[ScriptFunction]:
        """Return all functions."""
        return list(self._functions.values())


__all__ = ["CompilationUnit", "ScriptFunction", "ScriptMethod"]
