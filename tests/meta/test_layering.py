"""Arrows between the packages point down only; read from the sources, so that no import is missed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

BACKENDS = frozenset({"tensocket_cpu", "tensocket_opencl", "tensocket_cuda"})
STDLIB = frozenset(sys.stdlib_module_names)

#: Folder to the packages of tensocket that it may import, besides its own.
ARROWS = {
    "plugins": set(),
    "core": {"tensocket_plugins"},
    "operators": {"tensocket_core", "tensocket_plugins"},
    "compiler": {"tensocket_operators", "tensocket_core", "tensocket_plugins"},
    "frontend": {"tensocket_compiler", "tensocket_operators", "tensocket_core", "tensocket_plugins"},
    "plugin_cpu": {"tensocket_plugins"},
    "plugin_opencl": {"tensocket_plugins"},
    "plugin_cuda": {"tensocket_plugins"},
    "conformance": {"tensocket"},
}


@dataclass(frozen=True)
class Import:
    module: str
    names: tuple[str, ...]
    line: int
    typing_only: bool

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def _is_type_checking(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    test = node.test
    return getattr(test, "id", None) == "TYPE_CHECKING" or getattr(test, "attr", None) == "TYPE_CHECKING"


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    base = package.split(".")
    base = base[: len(base) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def imports(source: str, package: str) -> Iterator[Import]:
    """All imports of a module inside ``package``, at any depth, relative ones made absolute."""
    pending: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while pending:
        node, typing_only = pending.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), node.lineno, typing_only)
        elif isinstance(node, ast.ImportFrom):
            module, names = _absolute(node, package), tuple(alias.name for alias in node.names)
            yield Import(module, names, node.lineno, typing_only)
        if _is_type_checking(node):
            assert isinstance(node, ast.If)
            pending += [(child, True) for child in node.body] + [(child, typing_only) for child in node.orelse]
        else:
            pending += [(child, typing_only) for child in ast.iter_child_nodes(node)]


def strings(source: str) -> Iterator[tuple[int, str]]:
    """All string constants of a module that are not docstrings, with their lines."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def arrow_violations(source: str, package: str, allowed: set[str]) -> list[str]:
    """Imports of tensocket packages outside of ``allowed``."""
    own = package.partition(".")[0]
    return [f"line {item.line}: imports {item.module}" for item in imports(source, package)
            if (item.top == "tensocket" or item.top.startswith("tensocket_")) and item.top not in {own, *allowed}]


def literal_violations(source: str) -> list[str]:
    """String constants that name a backend's package."""
    return [f"line {line}: names {text!r}" for line, text in strings(source)
            if any(backend in text for backend in BACKENDS)]


def contract_violations(source: str, package: str) -> list[str]:
    """Imports of ``ir`` or ``kit`` that happen at run time."""
    found = []
    for item in imports(source, package):
        modules = [item.module, *(f"{item.module}.{name}" for name in item.names)]
        if not item.typing_only and any(module.startswith(("tensocket_plugins.ir", "tensocket_plugins.kit"))
                                        for module in modules):
            found.append(f"line {item.line}: imports {item.module}")
    return found


def conformance_violations(source: str, package: str) -> list[str]:
    """Imports of anything but the standard library, NumPy, pytest and public names of tensocket."""
    found = []
    for item in imports(source, package):
        if item.top not in STDLIB | {"numpy", "pytest", "rich", "tensocket", "tensocket_conformance"}:
            found.append(f"line {item.line}: imports {item.module}")
        parts = [*item.module.split("."), *item.names]
        if item.top == "tensocket" and any(part.startswith("_") and not part.endswith("__") for part in parts):
            found.append(f"line {item.line}: imports a private name from {item.module}")
    return found


def modules(distribution) -> Iterator[tuple[str, str, str]]:
    """Path, source and package of every module of a distribution."""
    for path in sorted(distribution.package.rglob("*.py")):
        package = ".".join(path.relative_to(distribution.folder).parent.parts)
        yield str(path.relative_to(distribution.folder)), path.read_text("utf-8"), package


def _report(found: dict[str, list[str]]) -> str:
    return "\n".join(f"{path}, {text}" for path, lines in found.items() for text in lines)


def test_every_folder_has_its_arrows(distributions):
    assert set(ARROWS) == set(distributions)


@pytest.mark.parametrize("folder", sorted(ARROWS))
def test_arrows_point_down(folder, distributions):
    found = {path: arrow_violations(source, package, ARROWS[folder])
             for path, source, package in modules(distributions[folder])}
    assert found, f"{folder} has no modules"
    assert not any(found.values()), _report(found)


@pytest.mark.parametrize("folder", ["core", "operators", "frontend"])
def test_no_backend_is_named_by_its_package(folder, distributions):
    found = {path: literal_violations(source) for path, source, _ in modules(distributions[folder])}
    assert not any(found.values()), _report(found)


def test_contract_stands_alone(distributions):
    found = {path: contract_violations(source, package) for path, source, package in modules(distributions["plugins"])
             if package.startswith("tensocket_plugins.contract")}
    assert found, "the contract has no modules"
    assert not any(found.values()), _report(found)


def test_conformance_uses_the_public_surface(distributions):
    found = {path: conformance_violations(source, package)
             for path, source, package in modules(distributions["conformance"])}
    assert not any(found.values()), _report(found)


def test_importing_tensocket_imports_no_backend():
    code = "import sys, tensocket; print(sorted(m for m in sys.modules if m in " + repr(set(BACKENDS)) + "))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("folder", ["core", "operators"])
def test_tests_run_with_the_packages_below_alone(folder, root):
    """Their environments hold nothing above, so that a module that imports more cannot be collected there."""
    found = {}
    for path in sorted((root / "tests" / folder).rglob("*.py")):
        body = ast.parse(path.read_text("utf-8")).body
        source = "\n".join(ast.unparse(node) for node in body if isinstance(node, (ast.Import, ast.ImportFrom)))
        found[str(path.relative_to(root))] = arrow_violations(source, f"tensocket_{folder}", ARROWS[folder])
    assert found
    assert not any(found.values()), _report(found)


# The rules themselves, on planted violations.

@pytest.mark.parametrize("source", [
    "import tensocket_core", "from tensocket_core.ops import arithmetic", "def f():\n    import tensocket",
    "try:\n    from tensocket import nn\nexcept ImportError:\n    pass",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tensocket_opencl import device",
])
def test_planted_upward_import_is_seen(source):
    assert arrow_violations(source, "tensocket_cpu", ARROWS["plugin_cpu"])


@pytest.mark.parametrize("source", ["import numpy", "from . import device", "from tensocket_plugins.kit import pool"])
def test_downward_import_is_allowed(source):
    assert not arrow_violations(source, "tensocket_cpu", ARROWS["plugin_cpu"])


def test_planted_backend_name_is_seen():
    assert literal_violations("import importlib\nimportlib.import_module('tensocket_cpu.device')")
    assert not literal_violations("def f():\n    '''Works on tensocket_cpu.'''")


@pytest.mark.parametrize(("source", "seen"), [
    ("from ..ir.nodes import Program", True), ("from .. import kit", True),
    ("def f():\n    from ..kit import ref", True),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..ir.nodes import Program", False),
    ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    from ..ir import nodes", True),
    ("from .arrays import Block", False),
])
def test_planted_contract_import(source, seen):
    assert bool(contract_violations(source, "tensocket_plugins.contract")) is seen


@pytest.mark.parametrize(("source", "seen"), [
    ("import scipy", True), ("from tensocket._tensor import Tensor", True), ("from tensocket import _tensor", True),
    ("import pluggy", True), ("from tensocket import Tensor, __version__", False), ("import numpy as np", False),
    ("from .cases import Case", False),
])
def test_planted_conformance_import(source, seen):
    assert bool(conformance_violations(source, "tensocket_conformance")) is seen
