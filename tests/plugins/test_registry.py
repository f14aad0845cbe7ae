"""Discovery, loading, opening, adding and closing of backends that work."""

from __future__ import annotations

import logging
import pkgutil
import subprocess
import sys
import threading

import pytest

from tensocket_plugins import contract
from tensocket_plugins.contract import (
    ArgumentError,
    BackendBroken,
    BackendDisabled,
    BackendUnavailable,
    Device,
    State,
    UnknownDevice,
)
from tensocket_plugins.contract.registry import Registry, registry


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)


def test_nothing_is_imported_before_the_first_use(make_distribution):
    make_distribution("loud", "print('loud is imported')")
    make_distribution("quiet")
    result = run("""
import sys
import tensocket_plugins
import tensocket_plugins.contract
import tensocket_plugins.contract.registry as module
assert module.registry()._entries is None, "discovery waits for the first question"
registry = module.registry()
assert {"loud", "quiet"} <= set(registry.names())
assert registry.record("loud").state.value == "discovered"
assert registry.record("loud").distribution == "tensocket-loud"
[registry.record(name) for name in registry.names()], registry.records(probe=False), registry.opened()
assert not [name for name in sys.modules if name.endswith("_under_test")]
registry.backend("quiet")
assert [name for name in sys.modules if name.endswith("_under_test")] == ["tensocket_quiet_under_test"]
registry.backend("loud")
""")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "loud is imported\n"


def test_backend_imported_before_the_runtime(make_distribution):
    make_distribution("early")
    result = run("import tensocket_early_under_test\nfrom tensocket_plugins.contract.registry import registry\n"
                 "assert registry().record('early').state.value == 'discovered'\n"
                 "assert type(registry().backend('early')) is tensocket_early_under_test.TinyBackend")
    assert result.returncode == 0, result.stderr


def test_record_through_a_backends_life(make_distribution):
    make_distribution("tiny", version="3.4")
    mine = Registry()
    before = mine.record("tiny")
    assert (before.state, before.origin, before.entry_point) == (
        State.DISCOVERED, "tensocket-tiny 3.4", "tensocket_tiny_under_test")
    assert (before.descriptor, before.device_count) == (None, 0)

    loaded = mine.record("tiny", probe=True)
    assert loaded.state is State.AVAILABLE
    assert loaded.state.usable
    assert loaded.device_count == 2
    assert loaded.descriptor is not None
    assert loaded.descriptor.name == "tiny"
    assert (loaded.reason, loaded.advice, loaded.exception, loaded.traceback) == ("", "", None, "")
    assert 0 < loaded.probe_seconds < loaded.load_seconds < 10
    assert before.state is State.DISCOVERED, "a record is a snapshot"

    opened = mine.open(Device("tiny"))
    assert mine.record("tiny").state is State.INITIALISED
    assert mine.opened() == [opened]

    mine.mark_lost("tiny", "the cable was pulled")
    lost = mine.record("tiny")
    assert (lost.state, lost.reason) == (State.LOST, "the cable was pulled")
    assert mine.opened() == []
    with pytest.raises(BackendUnavailable, match="lost: the cable was pulled — restart the process; if it happens"):
        mine.open(Device("tiny"))
    with pytest.raises(BackendUnavailable, match="lost: the cable was pulled"):
        mine.backend("tiny")


def test_loading_and_opening_happen_once(make_distribution):
    make_distribution("tiny")
    mine = Registry()
    backend = mine.backend("tiny")
    assert mine.backend("tiny") is backend
    first, second = mine.open(Device("tiny")), mine.open(Device("tiny", 1))
    assert mine.open(Device("tiny", 0)) is first
    assert mine.open(Device("tiny", 1)) is second
    assert mine.opened() == [first, second]
    loaded = sys.modules["tensocket_tiny_under_test"]
    assert (loaded.PROBED, loaded.OPENED) == (["tiny"], [0, 1])
    mine.close()
    assert sorted(loaded.CLOSED) == [0, 1]


def test_device_info_does_not_open(make_distribution):
    make_distribution("tiny")
    mine = Registry()
    info = mine.device_info(Device("tiny", 1))
    assert (info.model, info.memory, info.driver) == ("Tiny 1", 3 << 30, "tiny driver 1.2")
    assert mine.record("tiny").state is State.AVAILABLE


def test_many_threads_load_and_open_once(make_distribution):
    make_distribution("slow", "import time\ntime.sleep(0.2)\nIMPORTS = globals().get('IMPORTS', 0) + 1\n"
                              "def open(self, index):\n    time.sleep(0.05)\n    return TinyDevice(index)\n"
                              "TinyBackend.open = open")
    mine = Registry()
    barrier = threading.Barrier(8)
    backends, devices = [], []

    def use():
        barrier.wait()
        backends.append(mine.backend("slow"))
        devices.append(mine.open(Device("slow")))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(devices) == 8
    assert len(set(map(id, backends))) == len(set(map(id, devices))) == 1
    loaded = sys.modules["tensocket_slow_under_test"]
    assert (loaded.PROBED, loaded.OPENED) == (["slow"], [0])
    mine.close()


def test_questions_are_answered_while_another_thread_loads(make_distribution, make_module):
    mine = Registry()
    started, go_on = threading.Event(), threading.Event()
    module = make_module("held")
    module.TinyBackend.probe = lambda self: (started.set(), go_on.wait(30))
    mine.add(module, name="held")
    loader = threading.Thread(target=mine.backend, args=("held",))
    loader.start()
    try:
        assert started.wait(30)
        assert "held" in mine.names()
        assert mine.record("held").state is State.DISCOVERED
        assert mine.opened() == []
    finally:
        go_on.set()
        loader.join(30)
    assert mine.record("held").state is State.AVAILABLE


def test_add_and_remove(make_module):
    mine = Registry()
    module = make_module("inside")
    record = mine.add(module, name="inside", distribution="the tests")
    assert (record.state, record.distribution, record.entry_point) == (State.DISCOVERED, "the tests", "tiny_inside")
    assert module.PROBED == []
    mine.open(Device("inside", 1))
    assert module.OPENED == [1]
    mine.remove("inside")
    assert module.CLOSED == [1]
    assert "inside" not in mine.names()
    with pytest.raises(UnknownDevice, match="device 'inside'"):
        mine.remove("inside")
    mine.add(module, name="inside")
    assert mine.backend("inside").device_count() == 2


def test_added_backends_are_guarded(make_module):
    mine = Registry()
    mine.add(object(), name="empty")
    mine.add(make_module("ill", "TinyBackend.probe = lambda self: 1 // 0"), name="ill")
    with pytest.raises(BackendBroken, match="tensocket_describe is missing; tensocket_backend is missing"):
        mine.backend("empty")
    with pytest.raises(BackendBroken, match=r"probe\(\) raised ZeroDivisionError"):
        mine.backend("ill")


def test_added_backends_obey_the_environment(make_module, monkeypatch):
    monkeypatch.setenv("TENSOCKET_BACKENDS_DISABLE", "inside")
    mine = Registry()
    assert mine.add(make_module("inside"), name="inside").state is State.DISABLED
    with pytest.raises(BackendDisabled):
        mine.backend("inside")


@pytest.mark.parametrize(("name", "fault"), [
    ("inside", "the name 'inside' is taken"),
    ("inside0", "the name 'inside0' can be mistaken for a device of the backend 'inside'"),
    ("Inside", "'Inside' is not a device name"),
    ("meta", "the name 'meta' is reserved"),
])
def test_names_that_cannot_be_added(make_module, name, fault):
    mine = Registry()
    mine.add(make_module("inside"), name="inside")
    with pytest.raises(ArgumentError, match=f"backend '{name}' of this process — {fault}.* — choose another name"):
        mine.add(make_module(name), name=name)
    assert mine.backend("inside").device_count() == 2


def test_close_goes_on_after_a_failure_and_devices_can_be_opened_again(make_module, caplog):
    mine = Registry()
    for name, code in (("first", ""), ("second", "TinyDevice.close = lambda self: exit(1)"), ("third", "")):
        mine.add(make_module(name, code), name=name)
        mine.open(Device(name))
    with caplog.at_level(logging.WARNING, logger="tensocket.backends"):
        mine.close()
    assert caplog.messages == ["closing second:0 failed: SystemExit: 1"]
    assert mine.opened() == []
    assert mine.record("first").state is State.AVAILABLE
    assert mine.open(Device("first")).name == "first:0"
    mine.close()


def test_devices_are_closed_at_interpreter_exit(make_distribution):
    make_distribution("first", "TinyDevice.close = lambda self: print('closed', self.name)")
    make_distribution("second", "import atexit\natexit.register(print, 'driver of second ends')\n"
                                "TinyDevice.close = lambda self: print('closed', self.name)")
    result = run("from tensocket_plugins.contract import Device\n"
                 "from tensocket_plugins.contract.registry import registry\n"
                 "registry().backend('second')\n"
                 "devices = [registry().open(Device('first', 1)), registry().open(Device('second'))]\n"
                 "print('done')")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["done", "closed first:1", "closed second:0", "driver of second ends"]


def test_one_registry_for_the_process():
    assert registry() is registry()


def test_exported_names_exist_and_hide_no_module():
    assert len(set(contract.__all__)) == len(contract.__all__)
    assert [name for name in contract.__all__ if not hasattr(contract, name)] == []
    modules = {module.name for module in pkgutil.iter_modules(contract.__path__)}
    assert "registry" in modules
    assert not modules & set(contract.__all__)
