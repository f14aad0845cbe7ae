"""Every folder of operators, of core's floors and of the CPU backend has a README that names each of its modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

#: Folders whose sub-folders with modules have READMEs.
HOUSES = ("operators/tensocket_operators", "core/tensocket_core", "plugin_cpu/tensocket_cpu")
#: Folders of the front end whose modules have names of ours, not PyTorch's.
ROOMS = ("namespace", "nn/modules/base", "nn/modules/layers")
ROW = re.compile(r"^\| (`[^|]*`) \|", re.MULTILINE)


def modules_of(folder: Path) -> set[str]:
    """The modules of a folder that people read: neither ``__init__`` nor generated ones (``_functions``)."""
    return {path.name for path in folder.glob("*.py") if not path.name.startswith("_")}


def named_in(page: str) -> set[str]:
    """The modules in the first column of a page's table."""
    return {name for cell in ROW.findall(page) for name in re.findall(r"`(\w+\.py)`", cell)}


@pytest.mark.parametrize("house", HOUSES)
def test_readmes_name_every_module(root, house):
    folders = [path for path in (root / house).rglob("*")
               if path.is_dir() and path.name != "_functions" and modules_of(path)]
    assert len(folders) >= 4
    for folder in folders:
        assert named_in((folder / "README.md").read_text("utf-8")) == modules_of(folder), folder.name


@pytest.mark.parametrize("room", ROOMS)
def test_readmes_of_the_front_end_name_every_module(root, room):
    folder = root / "frontend" / "tensocket" / room
    assert named_in((folder / "README.md").read_text("utf-8")) == modules_of(folder) != set()


def test_tables_are_read():
    assert named_in("| `a.py`, `b.py` | what `c.py` is not |\n|---|---|\n| `d/` | no module |\n") == {"a.py", "b.py"}
