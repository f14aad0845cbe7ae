"""Running generated source: each text has a file name under which tracebacks find its lines."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from tensocket_compiler.graph.names import CUSTOM_BUILTINS, import_name
from tensocket_core.dispatch.operator import Operator
from tensocket_plugins.contract.errors import ArgumentError

#: Begin of the file names of generated code.
KEY: Final = "<eval_with_key>"


class _EvalCacheLoader:
    """The loader of generated sources, which ``linecache`` asks for their lines.

    The key is the file name. Each compilation adds one, and the texts stay for the process: tracebacks may need them.
    """

    def __init__(self) -> None:
        self.eval_cache: dict[str, str] = {}
        self.next_id = 0

    def cache(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> str:
        """Add a source to the cache, and return its file name."""
        key = f"{KEY}.{self.next_id}"
        self.next_id += 1
        if co_fields and "co_firstlineno" in co_fields:
            key += f" from {co_fields['co_filename']}:{co_fields['co_firstlineno']} in {co_fields['co_name']}"
        self.eval_cache[key] = src
        globals["__name__"] = key
        globals["__loader__"] = self
        linecache.lazycache(key, globals)
        return key

    def get_source(self, module_name: str) -> str | None:
        """Return the source of a file name."""
        return self.eval_cache.get(module_name)


_loader: Final = _EvalCacheLoader()


def _exec_with_source(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> None:
    """Run a source in a namespace."""
    key = _loader.cache(src, globals, co_fields)
    exec(compile(src, key, "exec", dont_inherit=True), globals)  # annotations are values, as the program's were


def _method_from_src(method_name: str, src: str, globals: dict[str, Any],
                     co_fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Return a function that a source defines; the namespace that it runs in is a copy."""
    namespace = dict(globals)
    _exec_with_source(src, namespace, co_fields)
    return namespace[method_name]  # type: ignore[no-any-return]


def _forward_from_src(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Return the function ``forward`` that a source defines."""
    return _method_from_src("forward", src, globals, co_fields)


def _format_import_statement(name: str, obj: Any) -> str:
    """Return the statement that imports an object under a name.

    Raises:
        ArgumentError: The object cannot be imported.
    """
    builtin = CUSTOM_BUILTINS.get(name)
    if builtin is not None and builtin.obj is obj:
        return builtin.import_str
    if isinstance(obj, ModuleType):
        return f"import {obj.__name__} as {name}"
    if isinstance(obj, Operator):
        return f'from tensocket_core.dispatch.registry import OPERATORS; {name} = OPERATORS["{obj.name}"]'
    module, attribute = getattr(obj, "__module__", None), getattr(obj, "__name__", None)
    module = "tensocket_operators.functions" if module is None else module
    if attribute is None or not _is_importable(module, attribute, obj):
        raise ArgumentError("GraphModule.__reduce__", f"{obj!r} as {name}", "generated code refers to objects that "
                            "can be imported", "move the function to the top of a module")
    return f"from {module} import {attribute} as {name}"


def _is_importable(module: str, name: str, obj: Any) -> bool:
    try:
        return import_name(f"{module}.{name}") is obj
    except (ImportError, AttributeError):
        return False


def _format_import_block(globals: dict[str, Any]) -> str:
    """Return the statements that import the objects of generated code."""
    return "\n".join(sorted({_format_import_statement(name, obj) for name, obj in globals.items()})) + "\n"
