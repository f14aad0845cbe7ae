"""The classes and functions that the files of an archive define, compiled at their first use."""

from __future__ import annotations

import ast
import collections
import enum
from collections.abc import Callable
from typing import Any

from tensocket.errors import SerializationError
from tensocket.jit.frontend import Source, parse
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import MISSING, Argument, CompiledFunction, FunctionSchema


class Qualified:
    """A dotted name in printed code that is not a class or function yet.

    Args:
        files: The files.
        path: The name.
    """

    def __init__(self, files: PrintedFiles, path: str) -> None:
        self._files = files
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not name.startswith("___torch"):
            raise AttributeError(name)
        return self._files.find(f"{self._path}.{name}") or Qualified(self._files, f"{self._path}.{name}")


class PrintedFiles:
    """The code of an archive.

    Args:
        texts: Text of each file, by path below ``code/`` without ``.py`` and with dots.
        constants: The constants of the code.
    """

    def __init__(self, texts: dict[str, str], constants: dict[str, Any]) -> None:
        self.texts = texts
        self.constants = constants
        self.definitions: dict[str, tuple[ast.stmt, Source]] = {}
        self.found: dict[str, Any] = {}
        self.parsed: set[str] = set()
        self.hooks: dict[str, dict[str, list[str]]] = {}

    def resolve(self, name: str) -> Any:
        """Return what a global name of printed code means.

        Raises:
            KeyError: Nothing.
        """
        from tensocket.jit.annotations import Module
        from tensocket.jit.compiler.sugared import OperatorNamespace

        if name == "__torch__":
            return Qualified(self, name)
        if name == "torch":
            return OperatorNamespace()
        if name == "ops":
            return OperatorNamespace(("ops",))
        if name == "CONSTANTS":
            return Module("CONSTANTS", self.constants)
        if name in ("inf", "nan"):
            return float(name)
        raise KeyError(name)

    def find(self, path: str) -> Any:
        """Return the class or function of a qualified name, None if there is none."""
        if path in self.found:
            return self.found[path]
        space = path.rpartition(".")[0]
        self._parse(space)
        if path not in self.definitions:
            return None
        node, source = self.definitions[path]
        if isinstance(node, ast.FunctionDef):
            return self._function(path, node, source)
        assert isinstance(node, ast.ClassDef)
        return self._class(path, node, source)

    def _parse(self, space: str) -> None:
        if space in self.parsed or space not in self.texts:
            return
        self.parsed.add(space)
        source = Source(self.texts[space], f"{space}.py")
        for node in parse(source).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                self.definitions[f"{space}.{node.name}"] = (node, source)

    def _function(self, path: str, node: ast.FunctionDef, source: Source) -> CompiledFunction:
        made = CompiledFunction(node.name, path, FunctionSchema(node.name, [], t.NEVER), source=source)
        self.found[path] = made
        self.compile(made, node, source)
        return made

    def compile(self, made: CompiledFunction, node: ast.FunctionDef, source: Source) -> None:
        """Compile a definition."""
        from tensocket.jit.compiler.compilation import compile_tree

        compile_tree(made, node, source, self.resolve, from_file=True)

    def annotation(self, node: ast.expr) -> t.JitType:
        """Return the type that an annotation states."""
        from tensocket.jit.annotations import from_tree

        def lookup(name: str) -> Any:
            if name == "__torch__":
                return Qualified(self, name)
            raise KeyError(name)

        return from_tree(node, lookup)

    def _class(self, path: str, node: ast.ClassDef, source: Source) -> t.JitType:
        base = ast.unparse(node.bases[0]) if node.bases else ""
        if base == "NamedTuple":
            return self._named_tuple(path, node)
        if base == "Enum":
            return self._enum(path, node)
        if base == "Interface" or base == "ModuleInterface":
            return self._interface(path, node, source, base)
        kind = t.ClassType(path, None, is_module=base in ("Module", "Layer"))
        self.found[path] = kind
        methods: dict[str, ast.FunctionDef] = {}
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                methods[each.name] = each
            else:
                self._member(kind, each)
        if kind.is_module:
            from tensocket.jit.files.file_details import FileDetails

            kind.details = FileDetails(kind, base == "Layer")
        kind.compile_method = self._compiler(kind, methods, source)
        return kind

    def _member(self, kind: t.ClassType, node: ast.stmt) -> None:
        """Read an attribute of a class."""
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("__forward_pre_hooks__", "__forward_hooks__"):
                self.hooks.setdefault(kind.name, {})[name] = list(ast.literal_eval(node.value))
            if name in ("__parameters__", "__buffers__", "__annotations__"):
                names = ast.literal_eval(node.value) if name != "__annotations__" else []
                (kind.parameters if name == "__parameters__" else kind.buffers).update(names)
            return
        if isinstance(node, ast.Assign):  # __annotations__["0"] = type
            target = node.targets[0]
            if isinstance(target, ast.Subscript):
                kind.attributes[str(ast.literal_eval(target.slice))] = self.annotation(node.value)
            return
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.value is not None:
                kind.constants[node.target.id] = _literal(node.value)
            else:
                kind.attributes[node.target.id] = self.annotation(node.annotation)

    def _compiler(self, kind: t.ClassType, methods: dict[str, ast.FunctionDef], source: Source
                  ) -> Callable[[str], CompiledFunction | None]:
        def compile_one(name: str) -> CompiledFunction | None:
            node = methods.get(name)
            if node is None:
                return kind.details.layer_method(name) if kind.details is not None else None
            made = CompiledFunction(name, f"{kind.name}.{name}", FunctionSchema(name, [], t.NEVER), owner=kind,
                                    source=source)
            kind.methods[name] = made
            self.compile(made, node, source)
            return made

        return compile_one

    def compile_all(self, kind: t.ClassType) -> None:
        """Compile every method of a class."""
        node, _ = self.definitions[kind.name]
        assert isinstance(node, ast.ClassDef)
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                kind.method(each.name)

    def _named_tuple(self, path: str, node: ast.ClassDef) -> t.TupleType:
        fields = [(each.target.id, self.annotation(each.annotation)) for each in node.body
                  if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
        names = [name for name, _ in fields]
        make: Any = collections.namedtuple
        python = make(node.name, names)
        made = self.found[path] = t.TupleType([kind for _, kind in fields], python, path, names)
        return made

    def _enum(self, path: str, node: ast.ClassDef) -> t.EnumType:
        members = {each.targets[0].id: ast.literal_eval(each.value) for each in node.body
                   if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)}
        make: Any = enum.Enum
        python = make(node.name, members)
        kinds: dict[type, t.JitType] = {int: t.INT, float: t.FLOAT, str: t.STRING}
        made = self.found[path] = t.EnumType(python, kinds[type(next(iter(members.values())))], path)
        return made

    def _interface(self, path: str, node: ast.ClassDef, source: Source, base: str) -> t.InterfaceType:
        made = t.InterfaceType(path, None, base == "ModuleInterface")
        self.found[path] = made
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                arguments = [Argument(a.arg, made if k == 0 else self.annotation(a.annotation or ast.Name("Tensor")),
                                      MISSING) for k, a in enumerate(each.args.args)]
                result = t.NONE if each.returns is None else self.annotation(each.returns)
                made.methods[each.name] = CompiledFunction(
                    each.name, f"{path}.{each.name}", FunctionSchema(each.name, arguments, result), owner=made,
                    source=source)
        return made




def _literal(node: ast.expr) -> Any:
    """Return the value of a constant of a class.

    Raises:
        SerializationError: It is not a literal.
    """
    try:
        return ast.literal_eval(node)
    except ValueError:
        text = ast.unparse(node)
        if text in ("inf", "nan", "-inf"):
            return float(text)
        raise SerializationError("jit.load", f"the constant {text[:60]}", "constants of classes are literals",
                                 "save the file again") from None
