"""Names that the project gave up: each has one standard term of the field in its place (docs/glossary.md)."""

from __future__ import annotations

import io
import tokenize

import pytest

#: A retired identifier, and the name to use.
RETIRED = {
    "Tape": "LaunchRecorder",
    "TAPES": "RECORDERS",
    "KeptCalls": "ReplayCompiler",
    "dense_two": "planned_two",
    "direct_binary": "host_binary",
    "kept_code": "replay_code",
    "looking": "recording",
    "note_checked": "note_guarded",
}


def retired_names(source: str) -> list[tuple[int, str]]:
    """Return line and name of each retired identifier of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(token.start[0], token.string) for token in tokens
            if token.type == tokenize.NAME and token.string in RETIRED]


@pytest.fixture(scope="module")
def sources(root, distributions):
    paths = [path for item in distributions.values() for path in item.package.rglob("*.py")]
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in paths}


def test_no_module_uses_a_retired_name(sources):
    found = {path: names for path, source in sources.items() if (names := retired_names(source))}
    assert found == {}, f"use {RETIRED}"


def test_a_retired_name_is_seen():
    assert retired_names("x = 1\nTape = x  # looking\n") == [(2, "Tape")]
