"""The suite under pytest, in processes of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run_pytest(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], cwd=folder,
                          capture_output=True, text=True, timeout=300, check=False)


def suite(folder, *arguments):
    return run_pytest(folder, "--pyargs", "tensocket_conformance", *arguments)


def test_cases_are_tests(tmp_path):
    done = suite(tmp_path, "--device", "cpu", "--conformance-select", "T2.op.add/f32/*", "-vv")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_case[T2.op.add/f32/prime#0] PASSED" in done.stdout


@pytest.mark.parametrize(("arguments", "message"), [
    (["--device", "nosuchdevice"], "nosuchdevice"),
    (["--device", "cpu", "--conformance-select", "T2.nosuch*"], "[conformance] the pattern 'T2.nosuch*' — it matches"),
    (["--device", "cpu", "--conformance-select", "T0.load.state", "-k", "nosuchcase"], "deselected"),
    ([], "name the device to validate"),
])
def test_nothing_to_run_exits_2(tmp_path, arguments, message):
    done = suite(tmp_path, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stdout + done.stderr


def test_other_projects_do_not_notice(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "import sys\ndef test_mine():\n    assert 'numpy' not in sys.modules\n"
        "    assert 'tensocket' not in sys.modules\n")
    done = run_pytest(tmp_path, "-p", "no:hypothesispytest", "test_mine.py")
    assert done.returncode == 0, done.stdout + done.stderr
