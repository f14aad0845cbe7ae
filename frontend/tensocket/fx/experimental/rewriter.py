"""Recording programs with ``assert``: the statements become calls, which are recorded."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tensocket.nn import Module

from .. import annotate  # noqa: F401 - rewritten programs call it by its path
from .._symbolic_trace import Tracer
from ..graph import Graph


class AST_Rewriter(ast.NodeTransformer):
    """Rewrites the source of a function: ``assert x, text`` as ``torch._assert(x, text)``."""

    def rewrite(self, fn: Any) -> Any:
        """Return the function with its rewritten source; it keeps its globals."""
        source = "".join(inspect.getsourcelines(fn)[0])
        # An indented function is the body of a statement; strings of several lines in it stay as they are.
        tree: Any = ast.parse(f"if True:\n{source}").body[0] if source[:1].isspace() else ast.parse(source)
        inner: Any = self.visit(tree).body[0]
        inner.decorator_list = []
        # A function around it has the variables of its closure.
        outer: Any = ast.parse(f"def outer({', '.join(fn.__code__.co_freevars)}): return {inner.name}").body[0]
        outer.body.insert(0, inner)
        module = ast.fix_missing_locations(ast.Module([outer], []))
        namespace: dict[str, Any] = {**fn.__globals__}
        exec(compile(module, "<rewritten>", "exec"), namespace)
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        code = namespace["outer"](*cells).__code__
        # The function's own globals, in which a tracer replaces functions, with the name of the rewritten calls.
        space = fn.__globals__ if "torch" in fn.__globals__ else {**fn.__globals__, "torch": sys.modules["tensocket"]}
        made = FunctionType(code, space, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars))
        made.__kwdefaults__ = fn.__kwdefaults__
        names = ("__module__", "__name__", "__qualname__", "__annotations__")
        return functools.update_wrapper(made, fn, assigned=names)

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """Return the call for an ``assert`` statement."""
        function = ast.Attribute(ast.Name("torch", ast.Load()), "_assert", ast.Load())
        message = node.msg if node.msg is not None else ast.Constant("")
        return ast.copy_location(ast.Expr(ast.Call(function, [node.test, message], [])), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Return the call of ``annotate`` for an assignment with an annotation of tensors."""
        if node.value is None:
            return node
        function = ast.parse("torch.fx.annotate.annotate", mode="eval").body
        value = ast.Call(function, [node.value, node.annotation], [])
        return ast.copy_location(ast.Assign([node.target], value), node)


class RewritingTracer(Tracer):
    """A tracer that rewrites ``assert`` statements of the recorded modules."""

    def trace(self, root: Module | Callable[..., Any], concrete_args: Any = None) -> Graph:
        """Record a module or function, after rewriting its source."""
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(fn: Module | Callable[..., Any]) -> Any:
    """Return a copy of a module, or a function, with rewritten sources."""
    if not isinstance(fn, Module):
        return AST_Rewriter().rewrite(fn)

    def rewritten(module: Module) -> Module:
        kind = type(module)
        forward = getattr(kind, "forward", None)
        made = copy.copy(module)
        if not kind.__module__.startswith(("tensocket.", "torch.")) and inspect.isfunction(forward):
            made.__class__ = type(kind.__name__, (kind,), {
                "forward": AST_Rewriter().rewrite(forward), "__module__": kind.__module__})
        made.__dict__ = dict(module.__dict__)
        made._modules = {name: rewritten(child) for name, child in module._modules.items() if child is not None}
        return made

    return rewritten(fn)
