"""Commands of other distributions, the scaffold command, and the self-test's process."""

from __future__ import annotations

import signal
import sys

import pytest

from tensocket.cli import main, scaffold, selftest
from tensocket.cli.extensions import find_extensions
from tensocket_plugins.contract.registry import Registry

COMMAND = "def run(arguments):\n    print('got', arguments)\n    return 5\n"


@pytest.fixture
def make_command(make_distribution):
    def make(name, code=COMMAND, *, distribution="", target="greeter_under_test:run", module="greeter_under_test"):
        make_distribution(name, code, distribution=distribution or f"tensocket-{name}", group="tensocket.commands",
                          replace=True, module=module, target=target)
    return make


def test_command_of_another_distribution_gets_all_arguments(make_command, capsys):
    make_command("greet")
    assert main(["greet", "--json", "-x", "world", "--help"]) == 5
    assert capsys.readouterr().out == "got ['--json', '-x', 'world', '--help']\n"


def test_commands_are_listed_without_being_imported(make_command, capsys):
    make_command("greet", "raise RuntimeError('imported')")
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "greet of tensocket-greet 0.1" in text
    for name in ("devices", "doctor", "new-backend", "conformance"):
        assert name in text
    assert "greeter_under_test" not in sys.modules


def test_command_that_cannot_be_imported(make_command, capsys):
    make_command("greet", "raise RuntimeError('no luck')")
    assert main(["greet"]) == 1
    text = capsys.readouterr().err
    assert "RuntimeError: no luck" in text
    assert "tensocket greet: it cannot be imported (see above) — tensocket-greet 0.1 brings it — upgrade it: " in text


def test_command_that_is_no_function(make_command, capsys):
    make_command("greet", "run = 3")
    assert main(["greet"]) == 1
    assert "greeter_under_test:run is not a function — tensocket-greet 0.1 brings it" in capsys.readouterr().err


def test_command_without_an_exit_code(make_command):
    make_command("greet", "def run(arguments): pass")
    assert main(["greet"]) == 0


def test_two_distributions_with_one_command(make_command, capsys):
    make_command("greet", distribution="first-greeter")
    make_command("greet", distribution="second-greeter")
    assert main(["greet"]) == 2
    text = capsys.readouterr().err
    assert "first-greeter 0.1" in text
    assert "second-greeter 0.1" in text
    assert "uninstall the others" in text


def test_built_in_commands_cannot_be_replaced(make_command):
    make_command("devices")
    assert "devices" not in find_extensions()


def test_conformance_that_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr("tensocket.cli.extensions.offers", lambda group: [])
    assert main(["conformance", "cpu", "--tier", "T0"]) == 2
    assert capsys.readouterr().err == (
        "tensocket conformance: not installed — it comes with tensocket-conformance — install it: "
        "pip install tensocket-conformance\n")


def test_new_backend(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scaffold, "registry", Registry)
    assert main(["new-backend", "mychip", "--path", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    folder = next(tmp_path.iterdir())
    assert f"wrote {folder}\n" in text
    assert f"pip install -e {folder}\n" in text
    assert "tensocket doctor mychip\n" in text
    assert (folder / "pyproject.toml").read_text().count('mychip') > 0


@pytest.mark.parametrize(("name", "fault"), [
    ("MyChip", "'MyChip' is not a device name"), ("meta", "reserved"), ("taken0", "can be mistaken"),
    ("taken", "a backend named 'taken' is installed"),
])
def test_new_backend_with_a_bad_name(make_distribution, tmp_path, capsys, monkeypatch, name, fault):
    make_distribution("taken")
    monkeypatch.setattr(scaffold, "registry", Registry)
    target = tmp_path / "target"
    assert main(["new-backend", name, "--path", str(target)]) == 2
    text = capsys.readouterr().err
    assert f"tensocket new-backend: '{name}' — " in text
    assert fault in text
    assert not target.exists()


def test_new_backend_where_something_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(scaffold, "registry", Registry)
    assert main(["new-backend", "mychip", "--path", str(tmp_path)]) == 0
    assert main(["new-backend", "mychip", "--path", str(tmp_path)]) == 2
    assert "choose another name or folder" in capsys.readouterr().err


def test_selftest_passes_on_the_cpu():
    outcome = selftest.run("cpu")
    assert outcome.passed, outcome
    assert outcome.summary.startswith("passed: [1, 2, 3] + 1 gave [2.0, 3.0, 4.0] in ")


def test_selftest_on_a_device_that_cannot_be_opened(make_distribution):
    make_distribution("tiny", "TinyBackend.open = lambda self, index: 1 // 0")
    outcome = selftest.run("tiny:0")
    assert not outcome.passed
    assert "opening tiny:0 raised ZeroDivisionError" in outcome.summary
    assert "Traceback" in outcome.output


@pytest.mark.parametrize(("code", "summary"), [
    ("print([2.0, 3.0, 5.0])", "failed: [1, 2, 3] + 1 gave [2.0, 3.0, 5.0]"),
    ("pass", "failed: [1, 2, 3] + 1 gave nothing"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed: the process was ended by SIGSEGV"),
    ("import os; os._exit(4)", "failed: it said nothing"),
    ("import time; time.sleep(60)", "failed: no result after 1 s"),
])
def test_selftest_of_a_device_that_fails(monkeypatch, code, summary):
    monkeypatch.setattr(selftest, "_CHILD", code)
    assert selftest.run("tiny:0", timeout=1 if "sleep" in code else 60) == selftest.Outcome(False, summary)


def test_selftest_of_a_crash_with_an_unnamed_signal():
    assert selftest._signal(int(signal.SIGABRT)) == "SIGABRT"
    assert selftest._signal(999) == "signal 999"
