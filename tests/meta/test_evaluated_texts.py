"""Texts are compiled before they run.

``exec`` and ``eval`` of a text clear the mark of a KeyboardInterrupt that ends the program, which then exits with
status 1 instead of by SIGINT if a thread still computes.
"""

from __future__ import annotations

import ast


def _is_code(given: ast.expr) -> bool:
    """Whether an argument is a call of ``compile``, or a variable or the result of a function that is called code."""
    if isinstance(given, ast.Call):
        given = given.func
    return isinstance(given, ast.Name) and (given.id == "compile" or given.id.endswith("code"))


def test_texts_are_compiled_first(distributions):
    found = []
    for distribution in distributions.values():
        for path in distribution.package.rglob("*.py"):
            found += [f"{path}:{node.lineno}" for node in ast.walk(ast.parse(path.read_text("utf-8")))
                      if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                      and node.func.id in ("exec", "eval") and not _is_code(node.args[0])]
    assert found == []
