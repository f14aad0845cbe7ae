"""Pictures of memory over time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import tensocket as torch
from tensocket.errors import MissingPackage
from tensocket.utils import viz

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def recorded() -> Any:
    with torch.profiler.profile(profile_memory=True) as p:
        x = torch.ones(1000)
        (x + 1).sum()
    return p


def test_line_is_the_total(recorded: Any) -> None:
    axes = viz.memory_timeline(recorded).axes[0]
    line = axes.lines[0]
    assert max(line.get_ydata()) == 8004
    assert list(line.get_ydata())[:2] == [4000, 8000]
    assert "cpu" in axes.get_legend().get_texts()[0].get_text()


def test_formats(recorded: Any, tmp_path: Path) -> None:
    recorded.export_memory_timeline(str(tmp_path / "memory.svg"))
    assert ElementTree.parse(tmp_path / "memory.svg").getroot().tag.endswith("svg")
    viz.memory_timeline(recorded, tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
    viz.memory_timeline(recorded, tmp_path / "memory.html")
    assert "data:image/png;base64," in (tmp_path / "memory.html").read_text()
    with pytest.raises(ValueError, match="the path ends with the format of a picture"):
        viz.memory_timeline(recorded, tmp_path / "memory.txt")


def test_matplotlib_is_asked_for(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackage, match="pictures are drawn by matplotlib"):
        viz.memory_timeline(recorded)
