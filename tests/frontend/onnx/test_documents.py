"""The tables of docs/onnx.md are those of the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx_ir")

ROOT = Path(__file__).parents[3]


def test_the_tables_of_operators_are_up_to_date():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "generate_onnx_table.py"), "--check"], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
