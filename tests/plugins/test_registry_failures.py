"""Backends that fail in every way there is: the reason is kept, told and chained; all other backends keep working."""

from __future__ import annotations

import sys

import pytest

from tensocket_plugins.contract import (
    BackendBroken,
    BackendError,
    BackendIncompatible,
    BackendUnavailable,
    Device,
    State,
    UnknownDevice,
)
from tensocket_plugins.contract.registry import Registry

# Name, what its code does wrong, the state it ends in, parts of the reason, parts of the advice, type of the cause.
FAILURES = [
    ("raises_at_import", "raise ZeroDivisionError('no luck')", State.BROKEN,
     ["the import of tensocket_sick_under_test raised ZeroDivisionError: no luck"],
     ["tensocket doctor sick", "pip install -U tensocket-sick", "TENSOCKET_BACKENDS_DISABLE=sick"], ZeroDivisionError),
    ("exits_at_import", "import sys; sys.exit(3)", State.BROKEN, ["raised SystemExit: 3"], ["doctor"], SystemExit),
    ("odd_exception", "class Odd(BaseException): pass\nraise Odd", State.BROKEN, ["raised Odd"], ["doctor"],
     BaseException),
    ("unprintable", "class Bad(Exception):\n    def __str__(self): raise KeyError\nraise Bad", State.BROKEN,
     ["Bad: its message cannot be printed"], ["doctor"], Exception),
    ("missing_library", "import a_library_that_nobody_has", State.BROKEN,
     ["ModuleNotFoundError: No module named 'a_library_that_nobody_has'"], ["doctor"], ModuleNotFoundError),
    ("contract_of_tomorrow", "from tensocket_plugins.contract import of_tomorrow", State.INCOMPATIBLE,
     ["ImportError", "of_tomorrow"], ["pip install -U tensocket tensocket-sick"], ImportError),
    ("raises_in_probe", "def probe(self): raise OSError('driver said no')\nTinyBackend.probe = probe", State.BROKEN,
     ["probe() raised OSError: driver said no"], ["doctor"], OSError),
    ("unavailable_in_probe",
     "def probe(self): raise Unavailable('libtiny.so.1 not found', 'install the tiny driver')\n"
     "TinyBackend.probe = probe",
     State.UNAVAILABLE, ["libtiny.so.1 not found"], ["install the tiny driver"], Exception),
    ("newer_contract", "CONTRACT = ((2, 0), (3, 0))", State.INCOMPATIBLE,
     ["from 2.0 up to, but not including, 3.0; this runtime has 1.1"], ["pip install -U tensocket tensocket-sick"],
     None),
    ("older_contract", "CONTRACT = ((0, 1), (1, 0))", State.INCOMPATIBLE,
     ["from 0.1 up to, but not including, 1.0; this runtime has 1.1"], ["pip install -U"], None),
    ("odd_contract", "CONTRACT = '999'", State.BROKEN,
     ["its contract range is '999', not two versions such as ((1, 0), (2, 0))"], ["doctor"], None),
    ("other_name", "NAME = 'other'", State.BROKEN,
     ["its descriptor says 'other', but its entry point says 'sick'"], ["authors of tensocket-sick"], None),
    ("no_descriptor", "@hookimpl\ndef tensocket_describe(): return {'name': NAME}", State.BROKEN,
     ["tensocket_describe() returned an object of type dict, not a Descriptor"], ["doctor"], None),
    ("raises_in_describe", "@hookimpl\ndef tensocket_describe(): return 1 // 0", State.BROKEN,
     ["tensocket_describe() raised ZeroDivisionError"], ["doctor"], ZeroDivisionError),
    ("no_backend", "BACKEND = lambda: None", State.BROKEN, ["tensocket_backend() returned None, not a Backend"],
     ["doctor"], None),
    ("unfinished_backend", "class BACKEND(Backend):\n    def probe(self): pass", State.BROKEN,
     ["tensocket_backend() raised TypeError", "abstract method", "device_count"], ["doctor"], TypeError),
    ("no_device", "TinyBackend.device_count = lambda self: 0", State.UNAVAILABLE, ["it finds no device"],
     ["connect or enable"], None),
    ("odd_count", "TinyBackend.device_count = lambda self: -1", State.BROKEN, ["device_count() returned -1"],
     ["doctor"], None),
    ("raises_in_count", "TinyBackend.device_count = lambda self: [][0]", State.BROKEN,
     ["device_count() raised IndexError"], ["doctor"], IndexError),
    ("unmarked_hook", "def tensocket_describe(): return None", State.BROKEN,
     ["tensocket_describe is not marked with @hookimpl"], ["doctor"], None),
]
KINDS = {State.BROKEN: BackendBroken, State.INCOMPATIBLE: BackendIncompatible, State.UNAVAILABLE: BackendUnavailable}


@pytest.mark.parametrize(("code", "state", "reason", "advice", "cause"),
                         [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_failing_backend(make_distribution, code, state, reason, advice, cause):
    make_distribution("sick", code)
    make_distribution("sound")
    registry = Registry()

    with pytest.raises(KINDS[state]) as caught:
        registry.backend("sick")

    record = registry.record("sick")
    assert record.state is state
    for part in reason:
        assert part in record.reason
    for part in advice:
        assert part in record.advice
    message = str(caught.value)
    assert message.startswith("[device] backend 'sick' of tensocket-sick 0.1 — ")
    assert f"{state.value}: {record.reason}" in message
    assert message.endswith(record.advice)
    if cause is None:
        assert record.exception is None
        assert record.traceback == ""
    else:
        assert isinstance(caught.value.__cause__, cause)
        assert caught.value.__cause__ is record.exception
        assert "Traceback" in record.traceback
        assert "importlib" not in record.traceback
        assert "loader.py" not in record.traceback

    # The failure stays the same, is not tried again, and touches nobody else.
    with pytest.raises(BackendError) as again:
        registry.open(Device("sick", 0))
    assert str(again.value) == message
    assert registry.open(Device("sound", 1)).name == "sound:1"
    assert registry.record("sick").state is state
    registry.close()


def test_all_problems_of_the_hooks_are_told_at_once(make_distribution):
    make_distribution("sick", replace=True, code="""
from tensocket_plugins.contract import hookimpl

@hookimpl
def tensocket_describe(first, second, third=3, *more, **others): ...

@hookimpl
def tensocket_polish(): ...

@hookimpl
def surprise(): ...
""")
    record = Registry().record("sick", probe=True)
    assert record.state is State.BROKEN
    assert record.reason == ("its hooks do not fit the contract: surprise is not a hook of contract 1.1; "
                             "tensocket_describe takes first, second, but is called without arguments; "
                             "tensocket_polish is not a hook of contract 1.1; tensocket_backend is missing")


def test_keyboard_interrupt_passes_and_the_backend_can_be_loaded_later(make_distribution):
    make_distribution("slow", """
import sys
if not hasattr(sys, "slow_backend_was_interrupted"):
    sys.slow_backend_was_interrupted = True
    raise KeyboardInterrupt
""")
    registry = Registry()
    try:
        with pytest.raises(KeyboardInterrupt):
            registry.backend("slow")
        assert registry.record("slow").state is State.DISCOVERED
        assert registry.backend("slow").device_count() == 2
    finally:
        del sys.slow_backend_was_interrupted


def test_backend_that_asks_for_itself_at_import(make_distribution):
    make_distribution("vain", "from tensocket_plugins.contract import registry as r\nr.vain_test.backend('vain')")
    from tensocket_plugins.contract import registry as module
    module.vain_test = Registry()
    try:
        with pytest.raises(BackendBroken, match="it is still being loaded and its own import asks for it — use the "
                                                "device after the import"):
            module.vain_test.backend("vain")
        assert module.vain_test.record("vain").state is State.BROKEN
    finally:
        del module.vain_test


def test_backend_that_asks_about_others_at_import(make_distribution):
    make_distribution("curious", "from tensocket_plugins.contract import registry as r\n"
                                 "R = r.curious_test\nSEEN = (R.names(), R.backend('sound'), R.record('curious').state,"
                                 "R.record('curious', probe=True).state)")
    make_distribution("sound")
    from tensocket_plugins.contract import registry as module
    module.curious_test = Registry()
    try:
        assert module.curious_test.backend("curious").device_count() == 2
        seen = sys.modules["tensocket_curious_under_test"].SEEN
        assert {"curious", "sound"} <= set(seen[0])
        assert seen[1] is module.curious_test.backend("sound")
        assert seen[2:] == (State.DISCOVERED, State.DISCOVERED)
    finally:
        del module.curious_test


def test_two_distributions_with_one_name(make_distribution):
    make_distribution("twin", distribution="first-twin", version="1.5")
    make_distribution("twin", distribution="second-twin")
    make_distribution("sound")
    registry = Registry()
    record = registry.record("twin")
    assert record.state is State.BROKEN
    assert "2 distributions offer a backend named 'twin'" in record.reason
    assert "first-twin 1.5" in record.reason
    assert "second-twin 0.1" in record.reason
    assert "keep one of them, for example: pip uninstall " in record.advice
    assert set(record.distribution.split(", ")) == {"first-twin", "second-twin"}
    with pytest.raises(BackendBroken, match="2 distributions offer a backend named 'twin'"):
        registry.backend("twin")
    assert registry.backend("sound").device_count() == 2
    assert not {"first_twin_under_test", "second_twin_under_test"} & sys.modules.keys()


def test_one_distribution_that_offers_a_name_twice(make_distribution):
    folder = make_distribution("twin")
    points = next(folder.glob("*.dist-info")) / "entry_points.txt"
    points.write_text("[tensocket.backends]\ntwin = here\ntwin = there\n")
    record = Registry().record("twin")
    assert record.reason == "tensocket-twin 0.1 offers 'twin' twice: here and there"
    assert record.advice == "report this to the authors of tensocket-twin"


def test_same_distribution_on_two_paths_counts_once(make_distribution, tmp_path, monkeypatch):
    first = make_distribution("double")
    copy = tmp_path / "copy"
    copy.symlink_to(first)
    monkeypatch.syspath_prepend(str(copy))
    assert Registry().backend("double").device_count() == 2


def test_unreadable_entry_points_hide_no_other_distribution(make_distribution):
    folder = make_distribution("garbled")
    points = next(folder.glob("*.dist-info")) / "entry_points.txt"
    points.write_text("[tensocket.backends]\nno equals sign\n")
    make_distribution("sound")
    registry = Registry()
    record = registry.record("tensocket-garbled")
    assert record.state is State.BROKEN
    assert record.reason.startswith("its entry_points.txt cannot be read: ")
    assert record.advice == "reinstall it: pip install --force-reinstall tensocket-garbled"
    assert registry.backend("sound").device_count() == 2


def test_target_that_does_not_exist(make_distribution):
    make_distribution("gone", target="module_that_is_gone:nothing")
    record = Registry().record("gone", probe=True)
    assert record.state is State.BROKEN
    assert "the import of module_that_is_gone:nothing raised ModuleNotFoundError" in record.reason


def test_failing_to_open_one_device_leaves_the_others(make_distribution):
    make_distribution("half", """
def open(self, index):
    if index == 0:
        raise RuntimeError("device 0 is on fire")
    return TinyDevice(index)
TinyBackend.open = open
""")
    registry = Registry()
    with pytest.raises(BackendBroken, match=r"backend 'half' of tensocket-half 0\.1 — opening half:0 raised "
                                            "RuntimeError: device 0 is on fire — see the traceback with: "
                                            "tensocket doctor half") as caught:
        registry.open(Device("half"))
    assert isinstance(caught.value.__cause__, RuntimeError)
    record = registry.record("half")
    assert record.state is State.AVAILABLE
    assert "on fire" in record.reason
    assert "Traceback" in record.traceback
    assert registry.open(Device("half", 1)).index == 1
    assert registry.record("half").state is State.INITIALISED
    assert registry.record("half").reason == ""
    registry.close()


def test_unavailable_while_opening(make_distribution):
    make_distribution("busy", "def open(self, index): raise Unavailable('in use', 'wait')\nTinyBackend.open = open")
    with pytest.raises(BackendUnavailable, match="opening busy:0: in use — wait"):
        Registry().open(Device("busy"))


def test_open_that_returns_an_incomplete_device(make_distribution):
    make_distribution("hollow", "del TinyDevice.profile\nTinyDevice.allocator = None")
    with pytest.raises(BackendBroken, match=r"device 'hollow' — open\(0\) returned a TinyDevice without profile, "
                                            "allocator — report this to the authors of tensocket-hollow"):
        Registry().open(Device("hollow"))


def test_a_name_that_is_refused_is_not_suggested(make_distribution):
    make_distribution("Bad-Name", distribution="tensocket-bad")
    with pytest.raises(UnknownDevice, match="pass a name such as 'cpu' or 'opencl:0'"):
        Device("Bad-Name")


def test_open_that_returns_something_else(make_distribution):
    make_distribution("odd", "TinyBackend.open = lambda self, index: 'device'")
    with pytest.raises(BackendBroken, match=r"open\(0\) returned a str, not an OpenDevice — report this to"):
        Registry().open(Device("odd"))


def test_device_info_that_raises(make_distribution):
    make_distribution("mute", "TinyBackend.device_info = lambda self, index: 1 // 0")
    with pytest.raises(BackendBroken, match=r"device_info\(1\) raised ZeroDivisionError"):
        Registry().device_info(Device("mute", 1))
