"""Names of backends, the environment switches, and what an unknown name is answered."""

from __future__ import annotations

import pytest

from tensocket_plugins.contract import (
    ArgumentError,
    BackendBroken,
    BackendDisabled,
    Device,
    InvalidDeviceIndex,
    State,
    UnknownDevice,
    parse_device,
)
from tensocket_plugins.contract.registry import Registry


@pytest.mark.parametrize("name", ["Upper", "x", "1st", "has-dash", "a" * 33, "ümlaut"])
def test_illegal_names_are_refused(make_distribution, name):
    make_distribution(name, distribution="tensocket-odd")
    make_distribution("sound")
    registry = Registry()
    record = registry.record(name)
    assert record.state is State.BROKEN
    assert f"'{name}' is not a device name: a lower-case letter, then 1 to 31" in record.reason
    assert record.advice == "rename the backend, or remove it: pip uninstall tensocket-odd"
    with pytest.raises(BackendBroken, match="is not a device name"):
        registry.backend(name)
    assert registry.backend("sound").device_count() == 2


def test_reserved_name_is_refused(make_distribution):
    make_distribution("meta")
    assert Registry().record("meta").reason == "the name 'meta' is reserved for the runtime itself"


@pytest.mark.parametrize("name", ["mychip0", "mychip_", "mychip_12"])
def test_name_that_looks_like_a_device_of_another_backend(make_distribution, name):
    make_distribution("mychip")
    make_distribution(name)
    registry = Registry()
    assert registry.record(name).reason == f"the name '{name}' can be mistaken for a device of the backend 'mychip'"
    assert registry.backend("mychip").device_count() == 2


def test_other_common_prefixes_are_fine(make_distribution):
    for name in ("chip", "chips", "chip_x", "sx2", "sx3"):
        make_distribution(name)
    registry = Registry()
    for name in ("chip", "chips", "chip_x", "sx2", "sx3"):
        assert registry.open(Device(name)).name == f"{name}:0"
    registry.close()


def test_unknown_name_suggests_matches_and_the_package(make_distribution):
    make_distribution("zebra")
    with pytest.raises(UnknownDevice) as caught:
        Registry().backend("zebar")
    message = str(caught.value)
    assert message.startswith("[device] device 'zebar' — no installed backend has this name (installed: ")
    assert "zebra" in message.partition("installed: ")[2].partition(")")[0]
    assert message.endswith("did you mean 'zebra'? Otherwise install the package of that backend, for example: "
                            "pip install tensocket-zebar")


def test_unknown_name_without_a_match():
    with pytest.raises(UnknownDevice, match=r"no installed backend has this name \(installed: .+\) — "
                                            "install the package of that backend, for example: "
                                            "pip install tensocket-qqqqq"):
        Registry().open(Device("qqqqq"))


def test_unknown_name_that_no_package_can_have(make_distribution):
    make_distribution("zebra")
    with pytest.raises(UnknownDevice, match=r"did you mean 'zebra'\? Otherwise see the names with: tensocket devices"):
        Registry().record("zebra:0")


@pytest.mark.parametrize(("given", "meant"), [("opencI", "opencl"), ("OPENCL:0", "opencl"), ("open cl", "opencl")])
def test_illegal_spelling_suggests_an_installed_backend(make_distribution, given, meant):
    make_distribution("opencl", distribution="some-opencl")
    with pytest.raises(UnknownDevice, match=f"device '{given}' — a device name is .* — did you mean '{meant}'"):
        parse_device(given)


def test_index_out_of_range(make_distribution):
    make_distribution("pair")
    registry = Registry()
    with pytest.raises(InvalidDeviceIndex, match=r"\[device\] device 'pair:2' — backend 'pair' has 2 devices — use an "
                                                 "index from 0 to 1"):
        registry.open(Device("pair", 2))
    with pytest.raises(InvalidDeviceIndex, match="device 'pair:99'"):
        registry.device_info(Device("pair", 99))
    assert registry.open(Device("pair", 1)).index == 1
    registry.close()


def test_index_out_of_range_of_a_single_device(make_distribution):
    make_distribution("single", "TinyBackend.device_count = lambda self: 1")
    with pytest.raises(InvalidDeviceIndex, match="backend 'single' has 1 device — use 'single:0'"):
        Registry().open(Device("single", 1))


def test_allow_list(make_distribution, monkeypatch):
    make_distribution("left", "raise RuntimeError('must not be imported')")
    make_distribution("right")
    monkeypatch.setenv("TENSOCKET_BACKENDS", " right , third")
    registry = Registry()
    record = registry.record("left", probe=True)
    assert record.state is State.DISABLED
    assert record.reason == "TENSOCKET_BACKENDS=right,third does not name it"
    assert record.advice == "add 'left' to TENSOCKET_BACKENDS, or unset it"
    with pytest.raises(BackendDisabled, match="disabled: TENSOCKET_BACKENDS=right,third does not name it — add 'left'"):
        registry.backend("left")
    assert registry.backend("right").device_count() == 2


def test_deny_list(make_distribution, monkeypatch):
    make_distribution("left", "raise RuntimeError('must not be imported')")
    make_distribution("right")
    monkeypatch.setenv("TENSOCKET_BACKENDS_DISABLE", "left")
    registry = Registry()
    with pytest.raises(BackendDisabled, match="disabled: TENSOCKET_BACKENDS_DISABLE=left excludes it — remove 'left' "
                                              "from TENSOCKET_BACKENDS_DISABLE"):
        registry.open(Device("left"))
    assert registry.record("left", probe=True).state is State.DISABLED
    assert registry.backend("right").device_count() == 2


def test_empty_variables_change_nothing(make_distribution, monkeypatch):
    make_distribution("left")
    for variable in ("TENSOCKET_BACKENDS", "TENSOCKET_BACKENDS_DISABLE", "TENSOCKET_BACKENDS_STRICT"):
        monkeypatch.setenv(variable, " ")
    assert Registry().backend("left").device_count() == 2


def test_strict_mode_raises_for_what_is_known_to_be_broken(make_distribution, monkeypatch):
    make_distribution("sick", "raise ValueError('bad wiring')")
    make_distribution("sound")
    make_distribution("absent", "def probe(self): raise Unavailable('no card', 'buy one')\nTinyBackend.probe = probe")
    monkeypatch.setenv("TENSOCKET_BACKENDS", "sick,sound,absent")
    assert {record.name: record.state for record in Registry().records() if record.name in ("sick", "sound")} == {
        "sick": State.BROKEN, "sound": State.AVAILABLE}

    monkeypatch.setenv("TENSOCKET_BACKENDS_STRICT", "1")
    registry = Registry()
    assert registry.backend("sound").device_count() == 2  # Nobody has looked at the broken one yet.
    with pytest.raises(BackendBroken, match="ValueError: bad wiring"):
        registry.records()
    with pytest.raises(BackendBroken, match="ValueError: bad wiring"):
        registry.backend("sound")
    assert registry.record("absent", probe=True).state is State.UNAVAILABLE
    assert "sick" in registry.names()

    monkeypatch.setenv("TENSOCKET_BACKENDS_DISABLE", "sick")
    registry = Registry()
    assert {"sick", "sound", "absent"} <= {record.name for record in registry.records()}
    assert registry.backend("sound").device_count() == 2


def test_strict_mode_and_a_clash(make_distribution, monkeypatch):
    make_distribution("twin", distribution="first-twin")
    make_distribution("twin", distribution="second-twin")
    make_distribution("sound")
    monkeypatch.setenv("TENSOCKET_BACKENDS", "twin,sound")
    monkeypatch.setenv("TENSOCKET_BACKENDS_STRICT", "yes")
    with pytest.raises(BackendBroken, match="2 distributions"):
        Registry().backend("sound")


def test_strict_must_be_on_or_off(monkeypatch):
    monkeypatch.setenv("TENSOCKET_BACKENDS_STRICT", "maybe")
    with pytest.raises(ArgumentError, match=r"_STRICT=maybe — a switch is on \(1\) or off \(0\) — set TENSOCKET_"):
        Registry().names()
