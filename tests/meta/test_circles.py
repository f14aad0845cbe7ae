"""Modules import each other in one direction: no circle of imports is larger than a few files."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from .test_layering import _absolute, _is_type_checking

#: Files that may import each other in a circle: a class, what it holds, and what shows it.
MOST = 3
#: The floors of core, lowest first: a module imports its own floor and those below it.
FLOORS = (
    ("warned", "keys", "formats", "geometry", "limits", "promotion", "pytree", "pytree_nodes", "recording",
     "meta", "device", "strides", "tensor", "functions"),
    ("dispatch",), ("launch",), ("autograd",), ("transforms",),
)


def run_time_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements that run when a module is imported."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If):
            yield from run_time_imports(node.orelse if _is_type_checking(node) else [*node.body, *node.orelse])
        elif isinstance(node, (ast.Try, ast.With)):
            for part in ("body", "orelse", "finalbody"):
                yield from run_time_imports(getattr(node, part, []))


def graph(sources: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Return each module's imports in its package; ``sources`` by module name, each with whether it is a package."""
    edges: dict[str, set[str]] = {}
    for module, (source, is_package) in sources.items():
        package = module if is_package else module.rpartition(".")[0]
        edges[module] = set()
        for node in run_time_imports(ast.parse(source).body):
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                base = _absolute(node, package)
                names = [f"{base}.{name}" if f"{base}.{name}" in sources else base for name in names]
            edges[module].update(name for name in names if name in sources and name != module)
    return edges


def circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules that reach each other (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    pending: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        pending.append(module)
        for other in edges[module]:
            if other not in order:
                visit(other)
            if other in pending:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == order[module]:
            at = pending.index(module)
            found.append(set(pending[at:]))
            del pending[at:]

    for module in edges:
        if module not in order:
            visit(module)
    return [circle for circle in found if len(circle) > 1]


def sources_of(distribution) -> dict[str, tuple[str, bool]]:
    found = {}
    for path in distribution.package.rglob("*.py"):
        parts = path.relative_to(distribution.folder).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if is_package else parts)] = (path.read_text("utf-8"), is_package)
    return found


@pytest.mark.parametrize("folder", [
    "plugins", "core", "operators", "compiler", "frontend", "plugin_cpu", "plugin_opencl", "plugin_cuda",
    "conformance"])
def test_circles_are_small(folder, distributions):
    found = circles(graph(sources_of(distributions[folder])))
    assert all(len(circle) <= MOST for circle in found), sorted(map(sorted, found), key=len)[-1]


def test_floors_of_core_stand_on_those_below(distributions):
    level = {name: k for k, names in enumerate(FLOORS) for name in names}
    edges = graph(sources_of(distributions["core"]))
    floors = {module: module.split(".")[1] for module in edges if module.count(".")}
    assert set(floors.values()) == set(level)
    upward = [f"{module} imports {other}" for module, floor in floors.items() for other in edges[module]
              if other in floors and level[floors[other]] > level[floor]]
    assert not upward, "\n".join(upward)


# The rules themselves, on planted circles.

def test_planted_circles():
    sources = {"p": ("", True), "p.a": ("from . import b", False), "p.b": ("import p.c", False),
               "p.c": ("try:\n    from .a import x\nexcept ImportError:\n    pass", False),
               "p.d": ("from . import a", False)}
    assert circles(graph(sources)) == [{"p.a", "p.b", "p.c"}]


def test_imports_for_types_and_inside_of_functions_make_no_circle():
    sources = {"p.a": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import b", False),
               "p.b": ("from . import a", False), "p.c": ("from . import d", False),
               "p.d": ("def f():\n    from . import c", False)}
    assert circles(graph(sources)) == []
