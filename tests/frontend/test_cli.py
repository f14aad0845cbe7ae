"""The command line: what it prints, where, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from rich.console import Console

from tensocket.cli import devices, doctor, main, scaffold, selftest
from tensocket.cli.survey import DeviceRow, memory, survey
from tensocket_plugins.contract.registry import Registry

ABSENT = ("def probe(self): raise Unavailable('libtiny.so.1 not found', 'install the tiny driver')\n"
          "TinyBackend.probe = probe")


@pytest.fixture
def fresh(monkeypatch):
    """A registry that has not looked yet, in place of the process's, and only the backends of these tests."""
    monkeypatch.setenv("TENSOCKET_BACKENDS", "tiny,absent,sick")
    registry = Registry()
    for module in (devices, doctor, scaffold):
        monkeypatch.setattr(module, "registry", lambda: registry)
    return registry


@pytest.fixture
def three(make_distribution, fresh):
    """A working, a missing and a broken backend."""
    make_distribution("tiny", version="1.2")
    make_distribution("absent", ABSENT)
    make_distribution("sick", "raise ValueError('bad wiring')")
    return fresh


@pytest.fixture
def healthy(monkeypatch):
    """Self-tests that pass without a process."""
    asked = []

    def run(device):
        asked.append(device)
        return selftest.Outcome(True, "passed: as if")

    monkeypatch.setattr(selftest, "run", run)
    return asked


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tensocket", *arguments], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})


def render(rows: list[DeviceRow], width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(devices.as_table(rows))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_devices_as_text(three, capsys):
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "tiny:0  available  Tiny 0, 3.0 GiB, tiny driver 1.2  (tensocket-tiny 1.2)",
        "tiny:1  available  Tiny 1, 3.0 GiB, tiny driver 1.2  (tensocket-tiny 1.2)",
        "absent  unavailable: libtiny.so.1 not found  (tensocket-absent 0.1)",
        "        next step: install the tiny driver",
        "sick    broken: the import of tensocket_sick_under_test raised ValueError: bad wiring  (tensocket-sick 0.1)",
    ):
        assert line in lines


def test_devices_as_a_table_wraps_and_cuts_nothing(three):
    rows = [row for row in survey(three) if row.record.name in ("absent", "tiny")]
    wide, narrow = render(rows, 200), render(rows, 60)
    for cell in ("tiny:0", "tiny:1", "unavailable", "libtiny.so.1 not found", "→ install the tiny driver",
                 "tensocket-tiny 1.2", "Tiny 1", "3.0 GiB", "tiny driver 1.2"):
        assert cell in wide
    assert max(map(len, narrow.splitlines())) <= 60
    assert "…" not in narrow
    assert Counter("".join(narrow.split())) == Counter("".join(wide.split())), "a letter is missing"


@pytest.mark.parametrize(("columns", "table"), [("119", False), ("120", True)])
def test_devices_on_a_terminal(three, capsys, monkeypatch, columns, table):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["devices"]) == 0
    text = capsys.readouterr().out
    assert ("reason and next step" in text) is table
    assert ("next step: install the tiny driver" in text) is not table


def test_devices_as_json(three, capsys):
    assert main(["devices", "--json"]) == 0
    rows = {row["device"]: row for row in json.loads(capsys.readouterr().out)["devices"]}
    tiny = rows["tiny:1"]
    assert 0 < tiny.pop("probe_seconds") < tiny.pop("load_seconds")
    assert tiny == {
        "device": "tiny:1", "backend": "tiny", "state": "available", "reason": "", "advice": "",
        "distribution": "tensocket-tiny", "version": "1.2", "model": "Tiny 1", "memory_bytes": 3 << 30,
        "driver": "tiny driver 1.2", "details": {"cores": "4"},
    }
    assert (rows["absent"]["state"], rows["absent"]["reason"], rows["absent"]["advice"], rows["absent"]["model"]) == (
        "unavailable", "libtiny.so.1 not found", "install the tiny driver", None)
    assert rows["sick"]["state"] == "broken"


def test_devices_in_strict_mode(three, capsys, monkeypatch):
    monkeypatch.setenv("TENSOCKET_BACKENDS_STRICT", "1")
    assert main(["devices"]) == 1
    assert "tiny:0  available" in capsys.readouterr().out


def test_device_that_does_not_answer(make_distribution, fresh, capsys, healthy):
    make_distribution("tiny", "def device_info(self, index):\n    if index == 0: raise OSError('asleep')\n"
                              "    return DeviceInfo('M', 1 << 20, 'd')\nTinyBackend.device_info = device_info")
    assert main(["devices"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "tiny:0 broken: device_info(0) raised OSError: asleep (tensocket-tiny 0.1)" in text
    assert "tiny:1 available M, 1 MiB, d (tensocket-tiny 0.1)" in text
    assert main(["doctor", "tiny"]) == 1


def test_no_backend_at_all(fresh, capsys, monkeypatch):
    monkeypatch.setattr("tensocket_plugins.contract.registry.offers", lambda group: [])
    assert main(["devices"]) == 0
    assert capsys.readouterr().out == "no backend is installed; start with: pip install tensocket-cpu\n"


def test_doctor_of_a_working_backend(three, capsys, healthy):
    assert main(["doctor", "tiny"]) == 0
    text = capsys.readouterr().out
    for part in (f"Python {sys.version.split()[0]}", "contract 1.1", "TENSOCKET_BACKENDS=tiny,absent,sick",
                 "\ntiny: available\n", "tensocket-tiny 1.2 (entry point tensocket_tiny_under_test)",
                 "1.0 up to, but not including, 2.0", "float32", "Tiny 1, 3.0 GiB, tiny driver 1.2", "cores: 4",
                 "self-test passed: as if"):
        assert part in text
    assert "absent:" not in text
    assert healthy == ["tiny:0", "tiny:1"]


def test_doctor_of_a_broken_backend(three, capsys, healthy):
    assert main(["doctor", "sick"]) == 1
    text = capsys.readouterr().out
    assert "sick: broken" in text
    assert "Traceback (most recent call last):" in text
    assert "raise ValueError('bad wiring')" in text
    assert healthy == []


def test_doctor_of_an_unavailable_backend(three, capsys, healthy):
    assert main(["doctor", "absent"]) == 1
    text = capsys.readouterr().out
    assert "absent: unavailable" in text
    assert "libtiny.so.1 not found" in text
    assert "install the tiny driver" in text
    assert "Traceback" not in text


def test_doctor_when_the_device_computes_wrongly(three, capsys, monkeypatch):
    monkeypatch.setattr(selftest, "run", lambda device: selftest.Outcome(device != "tiny:1", "failed: 42", "one\ntwo"))
    assert main(["doctor", "tiny"]) == 1
    assert "self-test failed: 42\n      one\n      two\n" in capsys.readouterr().out


def test_doctor_of_all(make_distribution, fresh, capsys, healthy):
    make_distribution("tiny")
    make_distribution("absent", ABSENT)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "tiny: available" in text
    assert "absent: unavailable" in text
    assert "note: the switches name 'sick', which is not installed\n" in text
    assert text.endswith("ill: none\n")


def test_doctor_of_all_with_a_broken_one(three, capsys, healthy):
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert text.endswith("ill: sick\n")
    assert "note:" not in text


def test_doctor_says_which_switch_is_a_typing_error(make_distribution, fresh, capsys, healthy, monkeypatch):
    make_distribution("tiny")
    monkeypatch.setenv("TENSOCKET_BACKENDS_DISABLE", "tinny")
    main(["doctor", "tiny"])
    assert "note: the switches name 'tinny', which is not installed; 'tiny' is\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["tinny", "tiny:0", "TINY"])
def test_doctor_of_an_unknown_name(three, capsys, name):
    assert main(["doctor", name]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"tensocket doctor: [device] device '{name}' — no installed backend has this name" in printed.err
    assert "did you mean 'tiny'?" in printed.err


def test_switch_that_is_neither_on_nor_off(fresh, capsys, monkeypatch):
    monkeypatch.setenv("TENSOCKET_BACKENDS_STRICT", "perhaps")
    assert main(["devices"]) == 2
    assert "TENSOCKET_BACKENDS_STRICT=perhaps" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["devices", "--yaml"]])
def test_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: tensocket" in capsys.readouterr().err


@pytest.mark.parametrize(("nbytes", "text"), [(3 << 30, "3.0 GiB"), (1 << 20, "1 MiB"), (0, "0 MiB")])
def test_memory(nbytes, text):
    assert memory(nbytes) == text


def test_process_with_an_ascii_terminal_and_a_broken_backend(make_distribution):
    make_distribution("tiny")
    make_distribution("sick", "raise ValueError('kaputt — völlig')")
    result = command("devices", PYTHONIOENCODING="ascii", TENSOCKET_BACKENDS="tiny,sick")
    assert result.returncode == 0, result.stderr
    assert "ValueError: kaputt ? v?llig" in result.stdout
    assert result.stderr == ""
    result = command("doctor", "nothing-like-it", TENSOCKET_BACKENDS="tiny")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
