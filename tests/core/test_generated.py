"""The generated functions and methods are what the records say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tensocket_core as torch
from tensocket_core._generated import functions
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.mark.skipif(not TOOLS.exists(), reason="the tools of the repository are not beside the tests")
@pytest.mark.parametrize("tool", ["generate_operators.py", "generate_stubs.py"])
def test_generated_files_are_up_to_date(tool: str) -> None:
    done = subprocess.run([sys.executable, str(TOOLS / tool), "--check"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_record_is_reachable_by_its_names() -> None:
    for record in (*OPERATORS.values(), *COMPOSITES.values()):
        names = [record.schema.name, *record.aliases]
        if record.function:
            assert all(callable(getattr(functions, name)) for name in names), names
        if record.method:
            methods = [record.method, *record.aliases] if isinstance(record.method, str) else names
            assert all(callable(getattr(torch.Tensor, name)) for name in (*methods, *record.dunder)), names
