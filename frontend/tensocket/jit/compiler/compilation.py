"""Compilation of functions: from source to graph."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from tensocket.jit.annotations import qualified
from tensocket.jit.compiler.closures import resolver_of
from tensocket.jit.compiler.compiler import Compiler
from tensocket.jit.frontend import FrontendError, Place, ScriptError, Source, definition, place_of, source_of
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import INLINE, CompiledFunction, FunctionSchema
from tensocket.jit.graph.ir import Node

#: Compiled functions by Python function, as long as that lives.
_COMPILED: Final[WeakKeyDictionary[Any, CompiledFunction]] = WeakKeyDictionary()


def compile_python(function: Any, place: Place | None = None, resolve: Callable[[str], Any] | None = None
                   ) -> CompiledFunction:
    """Return a Python function compiled, once.

    Raises:
        ScriptError: It is not a script.
        FrontendError: It uses syntax that scripts do not have.
    """
    plain = inspect.unwrap(function)
    known = _COMPILED.get(plain)
    if known is not None:
        return known
    source = source_of(plain)
    tree = definition(source)
    name = getattr(plain, "__name__", tree.name)
    made = CompiledFunction(name, qualified(plain), FunctionSchema(name, [], t.NEVER), source=source, python=plain)
    _COMPILED[plain] = made
    try:
        compile_tree(made, tree, source, resolve or resolver_of(plain), plain)
    except BaseException as error:
        del _COMPILED[plain]
        if place is not None and isinstance(error, (ScriptError, FrontendError)):
            note_caller(error, name, place)
        raise
    return made


def note_caller(error: Exception, name: str, place: Place) -> None:
    """Add to an error where the function with the mistake is called from."""
    error.args = (f"{error.args[0]}\n'{name}' is being compiled since it was called from '{place.source.name}'\n"
                  f"{place.highlight()}",)


def default_value(node: ast.expr, resolve: Callable[[str], Any], source: Source, from_file: bool) -> Any:
    """Return the value of a default's expression.

    Raises:
        ScriptError: It is not a constant.
    """
    try:
        return ast.literal_eval(node)
    except ValueError:
        pass
    if not from_file:
        names = {n.id: resolve(n.id) for n in ast.walk(node) if isinstance(n, ast.Name) and _has(resolve, n.id)}
        if not any(isinstance(n, (ast.Lambda, ast.Await, ast.NamedExpr)) for n in ast.walk(node)):
            return eval(compile(ast.Expression(node), source.file, "eval"), dict(names))
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
        from tensocket.jit.files.printed_names import constant_of

        return constant_of(node.attr)
    raise ScriptError(ast.unparse(node), "defaults are constants", "use a number, str or None", place_of(source, node))


def _has(resolve: Callable[[str], Any], name: str) -> bool:
    try:
        resolve(name)
    except KeyError:
        return False
    return True


def declare(made: CompiledFunction, tree: ast.FunctionDef, source: Source, resolve: Callable[[str], Any],
            python: Any = None, from_file: bool = False) -> t.JitType | None:
    """Set the schema of a function from its definition, and return the declared type of its result."""
    from tensocket.jit.compiler.signatures import script_signature

    receiver = made.owner if made.owner is not None and not made.is_static else None
    values = {} if python is None else _python_defaults(python)
    names = _default_names(tree.args)

    def default_of(node: ast.expr) -> Any:
        name = names.get(id(node), "")
        return values[name] if name in values else default_value(node, resolve, source, from_file)

    arguments, result = script_signature(tree, source, resolve, python, receiver, default_of)
    made.schema = FunctionSchema(made.name, arguments, t.NEVER if result is None else result)
    return result


def _default_names(given: ast.arguments) -> dict[int, str]:
    """Return the arguments that defaults belong to, by the expressions' identities."""
    order = [*given.posonlyargs, *given.args]
    pairs = list(zip(given.defaults, order[len(order) - len(given.defaults):], strict=True))
    pairs += [(node, arg) for node, arg in zip(given.kw_defaults, given.kwonlyargs, strict=True) if node is not None]
    return {id(node): arg.arg for node, arg in pairs}


def _python_defaults(python: Any) -> dict[str, Any]:
    try:
        parameters = inspect.signature(python).parameters
    except (TypeError, ValueError):
        return {}
    return {name: p.default for name, p in parameters.items() if p.default is not p.empty}


def compile_tree(made: CompiledFunction, tree: ast.FunctionDef, source: Source, resolve: Callable[[str], Any],
                 python: Any = None, from_file: bool = False, prepare: Callable[[Compiler],
                                                                                None] | None = None) -> None:
    """Compile a definition: set the graph and the schema of ``made``."""
    result = declare(made, tree, source, resolve, python, from_file)
    compiler = Compiler(source, resolve, made, from_file)
    compiler.result = result
    if prepare is not None:
        prepare(compiler)
    for argument in made.schema.arguments:
        value = compiler.graph.add_input(argument.type, argument.name)
        compiler.scope.set(argument.name, value)
        if argument.type is not made.owner:
            compiler.scope.types[argument.name] = argument.type
        elif not compiler.self_name:
            compiler.self_name = argument.name
    compiler.statements(tree.body)
    finish(compiler, tree, made)


def finish(compiler: Compiler, tree: ast.FunctionDef, made: CompiledFunction) -> None:
    """Set the result of a function whose statements are compiled.

    Raises:
        ScriptError: Results are of several types, or a path has none.
    """
    place = compiler.place(tree)
    place = Place(place.source, place.line, place.column, len(place.source.lines[place.line - 1]))
    if not compiler.scope.exit:
        value = compiler.constant(None, t.NONE, place)
        if compiler.result is not None:
            if not t.is_subtype(t.NONE, compiler.result):
                raise ScriptError(f"Function was not annotated as having type None, but does not return along all "
                                  f"paths: "
                                  f"{tree.name}", "a function returns a value of its declared type on all paths",
                                  "add a return", place)
            value = compiler.convert(value, compiler.result, place)
        compiler.returned.append((compiler.add("prim::ReturnStmt", [value], place), value))
    kinds = [value.kind for _, value in compiler.returned]
    result = compiler.result
    if result is None:
        result = t.unify_all(kinds) if kinds else t.NONE
        if result is None:
            shown = " and ".join(dict.fromkeys(kind.annotation_str for kind in kinds))
            raise ScriptError(f"{tree.name} returns {shown}", "Previous return statement returned a value of another "
                              "type: "
                              "all results of a function have one type", "annotate the result", place)
    made.schema.result = result
    _hoist(compiler)
    made.graph = compiler.graph
    if INLINE.everything:
        from tensocket.jit.graph.passes import inline

        inline(made.graph)
    made.forget_code()


def _hoist(compiler: Compiler) -> None:
    """Make the last statement the graph's result if it is a return."""
    graph = compiler.graph
    last = graph.nodes_[-1] if graph.nodes_ else None
    if last is not None and last.op == "prim::ReturnStmt":
        value = last.inputs_[0]
        last.destroy()
        graph.add_output(value)
        return
    node = Node(graph, "prim::Uninitialized")
    graph.append(node)
    graph.add_output(node.add_output(compiler.function.schema.result))


def bodies(text: str, file: str = "<string>") -> list[tuple[ast.FunctionDef, Source]]:
    """Return the functions that a text defines.

    Raises:
        FrontendError: The text defines something else.
    """
    from tensocket.jit.frontend import parse

    text = textwrap.dedent(text)
    source = Source(text, file)
    found = []
    for node in parse(source).body:
        if not isinstance(node, ast.FunctionDef):
            raise FrontendError(ast.unparse(node)[:60], "the text of a compilation unit defines functions", "remove it",
                                place_of(source, node))
        found.append((node, Source(text, file, 1, 0, node.name)))
    return found


__all__ = ["bodies", "compile_python", "compile_tree", "declare", "definition", "note_caller"]
