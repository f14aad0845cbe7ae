"""The Python of the documentation runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_on_backends_runs():
    text = (DOCS / "backends.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    done = subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(blocks)], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "conformance of tiny:0" in done.stdout


def test_the_page_on_conformance_names_every_outcome_and_option():
    from tensocket_conformance.case import TIERS, Outcome

    text = (DOCS / "conformance.md").read_text("utf-8")
    names = [*(outcome.value for outcome in Outcome), *TIERS, "--quick", "--tier", "--select", "--seed", "--report",
             "repro"]
    assert [name for name in names if name not in text] == []
