"""``benchmarks/gpu_check.py``: what can be tried without a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_check.py"


@pytest.fixture(scope="module")
def gpu_check():
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, env=environment,
                          check=False)


def test_without_a_gpu_it_says_why_and_exits_with_2(tmp_path):
    pytest.importorskip("tensocket")
    done = run("--out", str(tmp_path / "gpu.json"))
    assert done.returncode == 2
    assert done.stderr.startswith("gpu_check.py: cuda is not available here: [")
    assert "libcuda.so.1 not found" in done.stderr or "no NVIDIA GPU is visible" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "gpu.json").exists()


def test_unknown_steps_and_devices_exit_with_2():
    done = run("--steps", "benchmark,dance")
    assert done.returncode == 2
    assert "unknown steps dance; there are conformance, digits, benchmark" in done.stderr
    pytest.importorskip("tensocket")
    done = run("--device", "cuta")
    assert done.returncode == 2
    assert "cuta is not available here" in done.stderr


def test_the_benchmark_runs_on_any_device_and_writes_json(tmp_path, gpu_check):
    pytest.importorskip("tensocket")
    out = tmp_path / "results" / "gpu.json"
    done = run("--device", "cpu", "--steps", "benchmark", "--seconds", "0.001", "--scale", "1024", "--out", str(out))
    report = json.loads(out.read_text("utf-8"))
    assert (done.returncode, report["benchmark"]["errors"]) == (0, []), done.stdout + done.stderr
    assert set(report["benchmark"]["workloads"]) == set(gpu_check.WORKLOADS)
    assert len(gpu_check.WORKLOADS) >= 12
    assert all(row["tensocket"]["us"] > 0 for row in report["benchmark"]["workloads"].values())
    assert {"device", "gpu", "packages", "date", "python"} <= set(report)
    assert "tensocket" in report["packages"]
    assert f"written to {out}" in done.stdout


def test_results_that_differ_are_reported(gpu_check):
    row = {"tensocket": {"us": 1, "value": 2.0}, "torch": {"us": 2, "value": 2.001}, "cupy": {"us": 3, "value": 2.5}}
    assert gpu_check.disagreeing(row) == ["cupy"]
    assert gpu_check.disagreeing({"torch": {"us": 2, "value": 2.0}}) == []
    assert gpu_check.disagreeing({"tensocket": {"us": 1, "value": 2.0}, "torch": {"error": "no"}}) == []


def test_the_table_shows_ratios_and_gaps(gpu_check):
    rows = {"one": {"tensocket": {"us": 2.0}, "torch": {"us": 5.0}}, "two": {"tensocket": {"error": "no"}}}
    text = gpu_check.table(rows).splitlines()
    assert text[1].split() == ["one", "2.0", "5.0", "-", "2.50x", "-"]
    assert text[2].split() == ["two", "error", "-", "-", "-", "-"]


def test_missing_packages_of_the_example_are_reported(gpu_check, monkeypatch):
    monkeypatch.setattr(gpu_check, "find_spec", lambda name: None)
    assert gpu_check.digits(SimpleNamespace(device="cuda")) == {"ok": True,
                                                                "skipped": "not installed: sklearn, matplotlib"}


def test_the_last_line_of_a_failure_is_its_reason(gpu_check):
    failed = subprocess.CompletedProcess([], 1, "working\n", "Traceback\nKernelError: it failed\n")
    assert gpu_check.last_line(failed) == "KernelError: it failed"
    assert gpu_check.last_line(subprocess.CompletedProcess([], 0, "a\nb\n", "warning")) == "b"
    assert gpu_check.last_line(subprocess.CompletedProcess([], -11, "", "")) == "exit code -11"


def test_a_step_that_hangs_is_ended(gpu_check):
    done = gpu_check.run_python("-c", "import time; time.sleep(60)", timeout=0.5)
    assert (done.returncode, done.stderr) == (124, "took longer than 0.5 s")
