"""Fixtures for all areas: tiny distributions on disk, as pip would install them."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

os.environ["TENSOCKET_COMPILE_BUDGET"] = "inf"  # graphs at once, in child processes, too

#: A whole backend in a few lines; its device only counts how often it was opened and closed.
BACKEND = '''
from tensocket_plugins.contract import (
    Backend, Descriptor, DeviceInfo, KernelTable, OpenDevice, Profile, Unavailable, hookimpl)

OPENED: list[int] = []
CLOSED: list[int] = []
PROBED: list[str] = []


class TinyDevice(OpenDevice):
    profile, kernels, allocator, default_stream = Profile(frozenset({"float32"})), KernelTable(), object(), object()

    def __init__(self, index):
        self.name, self.index = f"{NAME}:{index}", index
        OPENED.append(index)

    def copy(self, dst, src, stream):
        pass

    def synchronize(self):
        pass

    def close(self):
        CLOSED.append(self.index)


class TinyBackend(Backend):
    def probe(self):
        PROBED.append(NAME)

    def device_count(self):
        return 2

    def device_info(self, index):
        return DeviceInfo(f"Tiny {index}", 3 << 30, "tiny driver 1.2", {"cores": "4"})

    def open(self, index):
        return TinyDevice(index)


BACKEND = TinyBackend
CONTRACT = ((1, 0), (2, 0))


@hookimpl
def tensocket_describe():
    return Descriptor(NAME, CONTRACT, Profile(frozenset({"float32"})))


@hookimpl
def tensocket_backend():
    return BACKEND()
'''


def _forget_layouts() -> None:
    """From now on this process is an interpreter and a NumPy whose objects lie in memory in an unknown way.

    The modules that find out are told before anything else imports what they found.
    """
    sys.getobjects = None  # type: ignore[attr-defined]  # as where references are traced
    importlib.import_module("tensocket_cpu.code.pointers").POINTER_FIELD = None
    importlib.import_module("tensocket_cpu.memory.arena")._SET_HANDLER = 305  # another function of NumPy's


if os.environ.get("TENSOCKET_UNKNOWN_LAYOUT", "0") != "0":
    _forget_layouts()


def _has_native_entries() -> bool:
    if os.environ.get("TENSOCKET_NATIVE", "1") in ("", "0"):
        return False
    try:
        return importlib.import_module("tensocket_cpu.native").LAYOUT is not None
    except ModuleNotFoundError:
        return False


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "native: looks at native entries; skipped where there are none")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("native") is not None and not _has_native_entries():
        pytest.skip("native entries are turned off, or this interpreter or NumPy has another layout")


def pytest_collection_finish() -> None:
    """Collections of garbage, of which tests ask for many, do not look at what was there before the first test."""
    gc.collect()
    gc.freeze()


MakeDistribution = Callable[..., Path]


@pytest.fixture
def make_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeDistribution]:
    """``make(name, code)`` installs ``tensocket-<name>`` with a working backend, then ``code`` to spoil it.

    It goes to a folder of its own, on ``sys.path`` and on ``PYTHONPATH`` for child processes.
    """
    modules: list[str] = []

    def make(name: str, code: str = "", *, distribution: str = "", version: str = "0.1", module: str = "",
             replace: bool = False, group: str = "tensocket.backends", target: str = "") -> Path:
        distribution = distribution or f"tensocket-{name}"
        module = module or distribution.replace("-", "_") + "_under_test"
        modules.append(module)
        folder = tmp_path / distribution
        metadata = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {target or module}\n")
        whole = code if replace else f"NAME = {name!r}\n{BACKEND}\n{code}\n"
        (folder / f"{module}.py").write_text(whole)
        importlib.invalidate_caches()
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        return folder

    yield make
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def make_module() -> Callable[..., ModuleType]:
    """``make(name, code)``: the module of a working backend without a distribution, spoiled by ``code``."""

    def make(name: str, code: str = "") -> ModuleType:
        module = ModuleType(f"tiny_{name}")
        exec(f"NAME = {name!r}\n{BACKEND}\n{code}\n", module.__dict__)
        return module

    return make


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module ``program`` of the architectures, for which ``import torch`` gives this library."""
    folder = Path(__file__).parent / "architectures"
    for name in ("", ".nn", ".nn.functional", ".nn.parameter", ".nn.utils", ".nn.utils.rnn"):
        monkeypatch.setitem(sys.modules, f"torch{name}", importlib.import_module(f"tensocket{name}"))
    monkeypatch.syspath_prepend(str(folder))
    names = [path.stem for path in folder.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("program")
    for name in names:
        sys.modules.pop(name, None)
