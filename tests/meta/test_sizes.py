"""Files and functions stay small enough to be read in one go. Generated sources are not read, so not counted."""

from __future__ import annotations

import ast

import pytest

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80
EXTRA_FOLDERS = ("tests", "tools", "examples", "benchmarks")


def long_functions(source: str) -> list[str]:
    """Functions of a module above the limit, as ``name (lines)``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                found.append(f"{node.name} ({lines} lines)")
    return found


@pytest.fixture(scope="module")
def sources(root, distributions):
    folders = [*(item.package for item in distributions.values()), *(root / name for name in EXTRA_FOLDERS)]
    paths = [path for folder in folders for path in folder.rglob("*.py") if "_generated" not in path.parts]
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in paths}


def test_files_are_short(sources):
    lines = {path: source.count("\n") for path, source in sources.items()}
    assert len(lines) > 20
    assert {path: count for path, count in lines.items() if count > MAX_FILE_LINES} == {}


def test_functions_are_short(sources):
    found = {path: long_functions(source) for path, source in sources.items()}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_long_function_is_seen():
    body = "    pass\n"
    assert long_functions("def f():\n" + body * 80) == ["f (81 lines)"]
    assert long_functions("def f():\n" + body * 79) == []
