"""The Python of README.md and docs/ runs as it stands: the blocks of one file one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program(text: str) -> str:
    """The Python blocks of a Markdown text; every line keeps its number, so that a traceback points into the page."""
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        code = block[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines) + "\n"


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in an empty folder; warnings are errors."""
    script = folder / "page.py"
    script.write_text(code, "utf-8")
    return subprocess.run([sys.executable, "-W", "error", str(script)], cwd=folder, capture_output=True, text=True,
                          check=False, env={**os.environ, "MPLBACKEND": "agg"})


PAGES = [page for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
         if BLOCK.search(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_code_of_page_runs(page, tmp_path):
    done = run(program(page.read_text("utf-8")), tmp_path)
    assert done.returncode == 0, done.stderr


def test_readme_has_an_example():
    assert ROOT / "README.md" in PAGES


def test_blocks_share_a_namespace_and_keep_line_numbers(tmp_path):
    text = "# Title\n```python\nx = 1\n```\ntext\n```\nnot python\n```\n```python\nprint(x)\nraise ValueError(x)\n```\n"
    done = run(program(text), tmp_path)
    assert done.stdout == "1\n"
    assert "line 11" in done.stderr
    assert done.returncode == 1
