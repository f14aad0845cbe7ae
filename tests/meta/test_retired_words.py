"""Names and phrases that the project gave up: each has a standard term of the field in its place (docs/glossary.md)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

#: A retired identifier, and the name to use.
RETIRED = {
    "BlockRow": "RowsAndColumnSums", "Box": "WrapperLayout", "BroadMath": "RowMath", "BroadRow": "RowOperator",
    "DeviceEntry": "DeviceState", "Direct": "HostPath", "Kept": "RecordedCall", "KeptCalls": "ReplayCompiler",
    "Launcher": "PointwisePlanner", "Lies": "RowLayout", "Lying": "OperandLayout", "NativeForm": "EntryPlan",
    "Nest": "ProgramBuilder", "Numbered": "PointwiseWithConstants", "Packet": "AtenOverloads",
    "ProductForm": "ProductPlan", "REPLACED": "OVERRIDDEN_KERNELS", "Surface": "StorageMethods", "TAPES": "RECORDERS",
    "Tape": "LaunchRecorder", "asked": "call_overrides", "called_again": "retry_function",
    "dense_two": "planned_two", "direct_binary": "host_binary", "fit_to": "fit_edge", "kept_code": "replay_code",
    "looking": "is_recording", "move_retained": "transfer_retained_grad", "narrow_products": "lowp_products",
    "native_entry": "compile_plan", "native_product": "compile_plan", "natives": "native_entries",
    "note_checked": "note_range", "note_view": "record_view", "open_entry": "open_device", "rebase": "view_history",
    "room_for": "writable_copy", "true_somewhere": "any_true", "watched": "is_intercepted",
}
#: Phrases of docstrings and comments that a native reader has to translate, and the rule of CONTRIBUTING.md.
PHRASES = {
    re.compile(r"(?:^|[.:;]\s+|\n\s*\n\s*)What(?:ever)?\b(?![^.]*\?)"): "no sentence begins with a relative What",
    re.compile(r"(?<![Tt]here )\b(?:is|are) no (?:tensor|number|list|view|composite|operator|array|plain)s?\b"):
        "a thing is not a tensor",
}


def retired_names(source: str) -> list[tuple[int, str]]:
    """Return line and name of each retired identifier of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(token.start[0], token.string) for token in tokens
            if token.type == tokenize.NAME and token.string in RETIRED]


def prose(source: str) -> Iterator[str]:
    """Return the docstrings of a module, and its comments; comments on adjacent lines are one text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""
    for line in source.splitlines():
        before, mark, comment = line.partition("#")
        if mark and not before.strip():
            yield comment.lstrip(":! ")


def retired_phrases(source: str) -> list[str]:
    """Return the phrases of a module that break a rule, with the rule."""
    return [f"{found.group().strip()!r}: {rule}" for text in prose(source) for pattern, rule in PHRASES.items()
            for found in pattern.finditer(text)]


@pytest.fixture(scope="module")
def sources(root, distributions):
    paths = [path for item in distributions.values() for path in item.package.rglob("*.py")]
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in paths}


def test_no_module_uses_a_retired_name(sources):
    found = {path: names for path, source in sources.items() if (names := retired_names(source))}
    assert found == {}, f"use {RETIRED}"


def test_no_docstring_or_comment_uses_a_retired_phrase(sources):
    assert {path: phrases for path, source in sources.items() if (phrases := retired_phrases(source))} == {}


def test_a_retired_name_is_seen():
    assert retired_names("x = 1\nTape = x  # looking\n") == [(2, "Tape")]


@pytest.mark.parametrize("source", [
    '"""What a kernel reads."""', '"""A page.\n\nWhatever fits is served."""', "# What is left.",
    "def f():\n    '''Refuse x: What is no tensor.'''", "# It is no tensor."])
def test_a_retired_phrase_is_seen(source):
    assert retired_phrases(source)


@pytest.mark.parametrize("source", [
    '"""Say what a kernel reads."""', '"""What is a tensor?"""', "# It is not a tensor; there is no tensor here."])
def test_plain_phrases_are_allowed(source):
    assert not retired_phrases(source)
