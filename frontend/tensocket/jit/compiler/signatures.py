"""Signatures of functions: types from annotations and comments, defaults."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any, Final

from tensocket.jit.annotations import from_python, from_tree
from tensocket.jit.frontend import NotSupportedError, Place, ScriptError, Source, place_of
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import MISSING, Argument

_COMMENT: Final = re.compile(r"#\s*type:\s*(\(.*\)(?:\s*->.*)?)$")


def comment_types(node: ast.FunctionDef, source: Source) -> tuple[list[str], str] | None:
    """Return the types of arguments and result that a comment under ``def`` states, None without one."""
    text = node.type_comment
    if text is None:
        last = node.body[0].lineno if node.body else node.lineno
        for line in source.lines[node.lineno - 1:last]:
            found = _COMMENT.search(line)
            if found is not None:
                text = found[1]
                break
    if text is None:
        return None
    declared = "->" in text
    try:
        tree = ast.parse(text if declared else f"{text} -> None", mode="func_type")
    except SyntaxError:
        raise ScriptError(f"the comment # type: {text}", "Return type line is not of the form (arguments) -> result",
                          "correct it", place_of(source, node)) from None
    return [ast.unparse(each) for each in tree.argtypes], ast.unparse(tree.returns) if declared else ""


def script_signature(node: ast.FunctionDef, source: Source, lookup: Callable[[str], Any], python: Any,
                     receiver: t.JitType | None, default_of: Callable[[ast.expr], Any]
                     ) -> tuple[list[Argument], t.JitType | None]:
    """Return the arguments of a function that is to be compiled, and its declared result.

    Args:
        node: The definition.
        source: Its text.
        lookup: Returns the Python object of a name.
        python: The Python function, whose annotations are already objects; None for text.
        receiver: The type of ``self``, None for functions.
        default_of: Returns the value of a default's expression.

    Raises:
        NotSupportedError: The function takes any number of arguments.
    """
    given = node.args
    if given.vararg is not None or given.kwarg is not None:
        raise NotSupportedError(f"{node.name} with *{(given.vararg or given.kwarg).arg}",  # type: ignore[union-attr]
                                "Compiled functions can't take variable number of arguments or use keyword-only "
                                "arguments "
                                "with defaults", "name each argument", place_of(source, node))
    objects = dict(getattr(python, "__annotations__", None) or {})
    comments = comment_types(node, source)
    arguments: list[Argument] = []
    positional = [*given.posonlyargs, *given.args]
    everything = [*positional, *given.kwonlyargs]
    missing = [None] * (len(positional) - len(given.defaults))
    defaults: list[Any] = [*missing, *given.defaults, *given.kw_defaults]
    own = everything if receiver is None else everything[1:]
    for k, (each, default) in enumerate(zip(everything, defaults, strict=True)):
        if receiver is not None and k == 0:
            arguments.append(Argument(each.arg, receiver))
            continue
        kind = _argument_type(each, objects, comments, own.index(each), lookup, source)
        value = MISSING if default is None else default_of(default)
        arguments.append(Argument(each.arg, kind, value, each in given.kwonlyargs))
    return arguments, _result_type(node, objects, comments, lookup, source)


def _argument_type(argument: ast.arg, objects: dict[str, Any], comments: tuple[list[str], str] | None, position: int,
                   lookup: Callable[[str], Any], source: Source) -> t.JitType:
    place = place_of(source, argument)
    known = objects.get(argument.arg, MISSING)
    if known is not MISSING and not isinstance(known, str):
        return from_python(known, place)
    if argument.annotation is not None:
        return from_tree(argument.annotation, lookup, place)
    if argument.type_comment:
        return from_tree(ast.Constant(argument.type_comment), lookup, place)
    if comments is not None and comments[0] != ["..."]:
        if position >= len(comments[0]):
            raise ScriptError(f"{len(comments[0])} types for more arguments", "a comment states the type of each "
                              "argument",
                              "add the missing types", place)
        return from_tree(ast.Constant(comments[0][position]), lookup, place)
    return t.TENSOR


def _result_type(node: ast.FunctionDef, objects: dict[str, Any], comments: tuple[list[str], str] | None,
                 lookup: Callable[[str], Any], source: Source) -> t.JitType | None:
    known = objects.get("return", MISSING)
    if known is not MISSING and not isinstance(known, str):
        return from_python(known, place_of(source, node))
    if node.returns is not None:
        return from_tree(node.returns, lookup, place_of(source, node.returns))
    if comments is not None and comments[1]:
        return from_tree(ast.Constant(comments[1]), lookup, place_of(source, node))
    return None


def python_signature(function: Any, place: Place | None) -> tuple[list[Argument], t.JitType]:
    """Return the signature of a Python function that scripts call: tensors unless annotations say something else.

    Raises:
        ScriptError: An annotation is not a type of scripts.
    """
    from tensocket.jit.compiler.closures import resolver_of

    plain = getattr(function, "__func__", function)
    try:
        parameters = list(inspect.signature(plain).parameters.values())
    except (TypeError, ValueError):
        return [Argument("*args", t.ANY)], t.TENSOR
    lookup = resolver_of(plain)
    comments = _comments_of(plain)

    def kind_of(annotation: Any, k: int) -> t.JitType:
        if annotation is inspect.Signature.empty:
            if comments is not None and 0 <= k < len(comments[0]) and comments[0] != ["..."]:
                return from_tree(ast.Constant(comments[0][k]), lookup, place)
            return t.TENSOR
        if isinstance(annotation, str):
            return from_tree(ast.Constant(annotation), lookup, place)
        return from_python(annotation, place)

    skip = 1 if parameters and parameters[0].name == "self" else 0
    arguments = []
    for k, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            arguments.append(Argument("*" + parameter.name, t.ANY))
            continue
        default = MISSING if parameter.default is parameter.empty else parameter.default
        kind = t.ANY if k < skip else kind_of(parameter.annotation, k - skip)
        arguments.append(Argument(parameter.name, kind, default))
    annotation = inspect.signature(plain).return_annotation
    if annotation is inspect.Signature.empty and comments is not None and comments[1]:
        return arguments, from_tree(ast.Constant(comments[1]), lookup, place)
    return arguments, kind_of(annotation, -1)


def _comments_of(function: Any) -> tuple[list[str], str] | None:
    from tensocket.jit.frontend import definition, source_of

    try:
        source = source_of(function)
        return comment_types(definition(source), source)
    except Exception:
        return None
