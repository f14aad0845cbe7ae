"""Which programs run on processors and elsewhere: the declarations, and what they choose."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import tensocket_operators
from tensocket_core.keys import AUTOGRAD
from tensocket_operators.kinds import programs
from tensocket_operators.kinds.programs import DECLARED, Programs, processors_only

# Modules of kernels load with the first call that needs them.
for module in pkgutil.walk_packages(tensocket_operators.__path__, "tensocket_operators."):
    import_module(module.name)

#: All declarations; a new one is added here, and gets tests of its own on both kinds of devices.
NAMES = {"bags", "ctc_flows", "ctc_scores", "flip", "fractional_pool", "gather and scatter of runs", "grid_sample",
         "grid_slopes", "histogram", "pad", "place", "place_points", "randperm", "read_points", "row_norm_gradients",
         "scan", "select", "short_transforms", "slopes_points", "small_images", "sort by digits", "topk"}


@pytest.fixture(autouse=True)
def own_table(monkeypatch):
    monkeypatch.setattr(programs, "DECLARED", dict(DECLARED))


def entry(kind):
    target = None if kind is None else SimpleNamespace(kind=kind)
    return SimpleNamespace(runtime=SimpleNamespace(target=target))


def test_declarations():
    assert set(DECLARED) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_processors_and_other_devices_run_different_programs(name):
    declared = DECLARED[name]
    assert declared.name == name
    assert declared.of(entry("cpu")) is declared.cpu
    assert declared.of(entry("gpu")) is declared.of(entry(None)) is declared.simt
    assert declared.cpu is not declared.simt


def test_names_are_unique():
    Programs("made up", cpu=1, simt=2)
    with pytest.raises(ValueError, match="two declarations of programs are called made up"):
        Programs("made up", cpu=1, simt=2)


def test_shortcuts_of_processors_are_taken_there_and_without_gradients_only():
    built = processors_only("a shortcut")(lambda key, entry, general: lambda: (key, general))
    assert built(4, entry("cpu"), "general")() == (4, "general")
    assert built(4 | AUTOGRAD, entry("cpu"), "general") is None
    assert built(4, entry("gpu"), "general") is None
    assert built(4, entry(None), "general") is None


def test_no_family_asks_for_the_kind_of_device_by_itself():
    root = Path(tensocket_operators.__file__).parent
    found = [str(path.relative_to(root)) for path in root.rglob("*.py")
             if re.search(r"""target\.kind\s*[!=]=\s*["']cpu""", path.read_text("utf-8")) and "kinds" not in path.parts]
    assert found == []
