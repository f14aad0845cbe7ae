"""The reference pages are what the records say."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize("generator", ["generate_reference.py", "generate_names.py"])
def test_pages_are_up_to_date(root, generator):
    done = subprocess.run([sys.executable, str(root / "tools" / generator), "--check"], cwd=root, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_states_of_names(root):
    """A refused and a missing name, and a module without either."""
    page = (root / "docs" / "names.md").read_text("utf-8")
    assert "- `torch`, refused: `dequantize`" in page
    assert "- `torch`, missing: `QInt32Storage`" in page
    assert re.search(r"^\| `torch\.nn` \| (\d+) \| \1 \|  \|  \|$", page, re.MULTILINE)


def test_most_operators_have_an_example(root):
    pages = "".join(path.read_text("utf-8") for path in (root / "docs" / "reference").glob("*.md"))
    entries, examples = pages.count("\n### "), pages.count("\nShapes: ")
    assert entries > 300
    assert examples > 0.9 * entries


def test_losses_of_the_main_namespace_show_their_own_defaults(root):
    page = (root / "docs" / "reference" / "nn_losses.md").read_text("utf-8")
    assert "Tensor input2, Tensor target, float margin=0.0, any reduction=0) -> Tensor" in page
    assert "`torch.nn.functional.margin_ranking_loss` has `reduction='mean'`." in page
