"""The set-up scripts: which interpreter they take, what they reuse and what they say where they cannot go on."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def _loaded(root, name):
    """A fresh copy of a file in tools as a module."""
    spec = importlib.util.spec_from_file_location(f"{name}_under_test", root / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dev(root):
    return _loaded(root, "dev")


def _find_python(root, tmp_path, minimum, **env):
    script = tmp_path / "find-python"
    script.write_text((root / "tools" / "find-python").read_text("utf-8").replace("(3, 11)", minimum), "utf-8")
    return subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False,
                          env={"PATH": "/usr/bin:/bin", **env})


def test_interpreter_asked_for_is_taken(root, tmp_path):
    assert _find_python(root, tmp_path, "(3, 11)", PYTHON=sys.executable).stdout.strip() == sys.executable


def test_unsuitable_interpreters_are_named_as_the_problem(root, tmp_path):
    done = _find_python(root, tmp_path, "(99, 0)", PYTHON=sys.executable)
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "python3-venv" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["lint", "types"]])
def test_unknown_command_is_refused(dev, arguments, capsys):
    assert dev.main(arguments) == 2
    assert "usage: tools/run {quickstart," in capsys.readouterr().err


def test_environments_of_another_version_are_made_again_if_one_is_asked_for(dev, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(dev, "must", lambda command, **_: made.append(command))
    monkeypatch.setattr(dev, "run", lambda command, **_: subprocess.run(
        [sys.executable, *command[1:]], check=False).returncode == 0)
    monkeypatch.setattr(dev, "tool", lambda env, name: Path(sys.executable))
    monkeypatch.setenv("PYTHON", sys.executable)
    dev._make_env(tmp_path)
    assert not made
    monkeypatch.setattr(dev.sys, "version_info", (3, 99, 0))
    monkeypatch.delenv("PYTHON")
    dev._make_env(tmp_path)
    assert not made
    monkeypatch.setenv("PYTHON", "python3.99")
    dev._make_env(tmp_path)
    assert made == [[sys.executable, "-m", "venv", "--clear", tmp_path]]


def test_installation_is_reused(dev, tmp_path, monkeypatch):
    """Nothing runs while the stamp fits; only what is missing is added; a changed project is installed anew."""
    commands = []
    monkeypatch.setattr(dev, "must", lambda command, **_: commands.append(
        [str(word) for word in command][6:]) if "pip" in command else None)
    monkeypatch.setattr(dev, "_make_env", lambda env: None)
    monkeypatch.setattr(dev, "_fingerprint", lambda folders: "one")
    dev.install(tmp_path, ["plugins"], ["numpy"])
    dev.install(tmp_path, ["plugins"], ["numpy"])
    anew = [[*dev.BUILD, "numpy"], ["--no-build-isolation", "-e", "./plugins"]]
    assert commands == anew
    dev.install(tmp_path, ["plugins"], ["numpy", "rich"])
    dev.install(tmp_path, ["plugins"], ["numpy"])
    assert commands[2:] == [[*dev.BUILD, "rich"]]
    monkeypatch.setattr(dev, "_fingerprint", lambda folders: "two")
    dev.install(tmp_path, ["plugins"], ["numpy"])
    assert commands[3:] == anew
    stamp = json.loads((tmp_path / "tensocket-installed.json").read_text("utf-8"))
    assert stamp == {"fingerprint": "two", "requirements": ["numpy"]}


def test_fingerprint_follows_the_projects(dev, tmp_path, monkeypatch):
    (tmp_path / "plugins").mkdir()
    for folder in (tmp_path, tmp_path / "plugins"):
        (folder / "pyproject.toml").write_text("one", "utf-8")
    monkeypatch.setattr(dev, "ROOT", tmp_path)
    before = dev._fingerprint(["plugins"])
    assert len({before, dev._fingerprint(["plugins[scipy]"]), dev._fingerprint([])}) == 3
    assert dev._fingerprint(["plugins"]) == before
    (tmp_path / "plugins" / "pyproject.toml").write_text("two", "utf-8")
    assert dev._fingerprint(["plugins"]) != before


def test_missing_opencl_is_explained_to_a_user_who_may_not_install(dev, monkeypatch, capsys):
    monkeypatch.setattr(dev, "opencl_works", lambda: False)
    monkeypatch.setattr(dev.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(dev, "run", lambda *_, **__: pytest.fail("nothing may be installed"))
    assert dev.provide_opencl() is False
    assert "pocl-opencl-icd" in capsys.readouterr().out


def test_opencl_driver_is_installed_for_root(dev, monkeypatch):
    works, commands = iter([False, True]), []
    monkeypatch.setattr(dev, "opencl_works", lambda: next(works))
    monkeypatch.setattr(dev.os, "geteuid", lambda: 0)
    monkeypatch.setattr(dev.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(dev, "run", lambda command, **_: commands.append(command) or True)
    monkeypatch.setenv("DEBIAN_FRONTEND", "readline")
    assert dev.provide_opencl() is True
    assert [command[0] for command in commands] == ["apt-get", "apt-get"]
    assert commands[1][-1] == "pocl-opencl-icd"


def test_a_failing_step_fails_the_gate_and_the_others_still_run(dev, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(dev, "_install_for_checks", lambda: None)
    monkeypatch.setattr(dev, "provide_opencl", lambda: False)
    monkeypatch.setattr(dev, "run", lambda *_, **__: pytest.fail("a step is not replaced"))
    steps = {"core_alone": 0, "operators_alone": 0, "lint": 1, "types": 0, "suite": 0}
    for name, status in steps.items():
        monkeypatch.setattr(dev, name, lambda name=name, status=status: ran.append(name) or status)
    assert dev.test() == 1
    assert ran == list(steps)
    assert "Failed: ruff" in capsys.readouterr().out


def test_generators_run_in_order_until_one_fails(dev, monkeypatch):
    ran = []
    monkeypatch.setattr(dev, "_install_for_checks", lambda: None)
    monkeypatch.setattr(dev, "run", lambda command: ran.append(command[-1].name) or "stubs" not in command[-1].name)
    assert dev.generate() == 1
    assert ran == ["generate_operators.py", "generate_stubs.py"]
    monkeypatch.setattr(dev, "run", lambda command: ran.append(command[-1].name) or True)
    assert dev.generate() == 0
    assert ran[-3:] == ["generate_reference.py", "generate_onnx_table.py", "generate_names.py"]


def test_generated_files_are_written_where_they_differ_and_removed_where_they_are_gone(root, tmp_path, capsys):
    tool = _loaded(root, "generated_files")
    (tmp_path / "same.py").write_text("same", "utf-8")
    (tmp_path / "changed.py").write_text("before", "utf-8")
    (tmp_path / "gone.py").write_text("", "utf-8")

    def run(*arguments):
        texts = {"same.py": "same", "changed.py": "after", "new.py": "new"}
        return tool.run(list(arguments), "", tmp_path, lambda: texts, "*.py"), capsys.readouterr().out

    assert run("--check") == (1, "stale: changed.py, new.py, gone.py\n")
    assert (tmp_path / "changed.py").read_text("utf-8") == "before"
    assert run() == (0, "written: changed.py, new.py, gone.py\n")
    assert {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()} == {
        "same.py": "same", "changed.py": "after", "new.py": "new"}
    assert run("--check") == (0, "stale: nothing\n")


def test_fast_tests_are_there_and_from_every_area(dev, root):
    named = [*dev.FAST_TESTS, *dev.SLOW_TESTS]
    assert [name for name in named if not (root / name.partition("::")[0]).exists()] == []
    assert all(any(name.startswith(f"{folder}/") for folder in dev.FAST_TESTS) for name in dev.SLOW_TESTS)
    assert len(set(dev.FAST_TESTS)) == len(dev.FAST_TESTS)
    areas = {"core", "plugins", "ir", "operators", "paths", "frontend", "plugin_cpu", "plugin_opencl", "conformance",
             "meta"}
    assert {name.split("/")[1] for name in dev.FAST_TESTS} == areas


@pytest.mark.parametrize(("fails", "status"), [((), 0), (("ruff",), 1), (("pytest",), 1)])
def test_fast_tests_run_after_ruff_whatever_it_says(dev, monkeypatch, fails, status):
    ran = []
    monkeypatch.setattr(dev, "_install_for_checks", lambda: None)
    monkeypatch.setattr(dev, "run", lambda command, **_: ran.append(command) or command[2] not in fails)
    assert dev.main(["test-fast"]) == status
    assert [command[2] for command in ran] == ["ruff", "pytest"]
    assert ran[1][-len(dev.FAST_TESTS):] == dev.FAST_TESTS
    assert {f"--ignore={name}" for name in dev.SLOW_TESTS} < set(ran[1])


def test_tests_that_passed_are_left_out_of_the_next_run(root, tmp_path):
    """Failed and skipped tests, and those whose fixture fails at its end, run again."""
    (tmp_path / "test_some.py").write_text(textwrap.dedent("""
        import pytest

        @pytest.fixture
        def ends_badly():
            yield
            raise OSError

        @pytest.mark.parametrize("k", [0, 1])
        def test_one(k):
            assert k

        def test_two(ends_badly):
            pass

        def test_three():
            pytest.skip("not here")
    """), "utf-8")
    notes = tmp_path / "notes.txt"

    def outcome(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "1", "-c", os.devnull, "--rootdir", tmp_path, "-p",
             "tests.passed_before", *arguments, tmp_path], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.splitlines()[-1].partition(" in ")[0]

    assert outcome("--leave-out", notes) == "1 failed, 2 passed, 1 skipped, 1 error"
    assert outcome("--note-passed", notes) == "1 failed, 2 passed, 1 skipped, 1 error"
    assert notes.read_text("utf-8") == "test_some.py::test_one[1]\n"
    assert outcome("--leave-out", notes) == "1 failed, 1 passed, 1 skipped, 1 error"
