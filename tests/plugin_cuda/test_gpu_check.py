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
    sys.path.insert(0, str(SCRIPT.parent))  # as Python does for a script
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(SCRIPT.parent))
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
    assert "unknown steps dance; there are benchmark, digits, sanitizer, conformance" in done.stderr
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
    assert len(gpu_check.WORKLOADS) >= 30
    assert all(row["tensocket"]["us"] > 0 for row in report["benchmark"]["workloads"].values())
    assert {"device", "gpu", "packages", "date", "python"} <= set(report)
    assert "tensocket" in report["packages"]
    assert f"written to {out}" in done.stdout


def test_results_that_differ_are_reported(gpu_check):
    row = {"tensocket": {"us": 1, "value": 2.0}, "torch": {"us": 2, "value": 2.001}, "cupy": {"us": 3, "value": 2.5}}
    assert gpu_check.disagreeing(row) == ["cupy"]
    assert gpu_check.disagreeing({"torch": {"us": 2, "value": 2.0}}) == []
    assert gpu_check.disagreeing({"tensocket": {"us": 1, "value": 2.0}, "torch": {"error": "no"}}) == []


def test_the_table_shows_ratios_shares_and_gaps(gpu_check):
    rows = {"copy_256MiB": {"tensocket": {"us": 2000.0, "first_ms": 7.0}, "torch": {"us": 1000.0}},
            "add_16M": {"tensocket": {"us": 750.0}}, "matmul_4096_f32": {"tensocket": {"us": 1e6}},
            "item": {"tensocket": {"error": "no"}}}
    text = gpu_check.table(rows).splitlines()
    # A copy of 256 MiB in 1 ms is 537 GB/s, read and written; a sum of 16 Mi numbers moves 201 MB.
    assert text[1].split() == ["copy_256MiB", "2000.0", "1000.0", "-", "0.50x", "-", "268", "50%", "-", "7"]
    assert text[2].split() == ["add_16M", "750.0", "-", "-", "-", "-", "268", "50%", "-", "0"]
    assert text[3].split() == ["matmul_4096_f32", "1000000.0", "-", "-", "-", "-", "-", "-", "0.1", "0"]
    assert text[4].split() == ["item", "error", "-", "-", "-", "-", "-", "-", "-", "-"]


def test_conformance_runs_in_parts(gpu_check, tmp_path):
    options = gpu_check.parse(["--device", "ref", "--select", "T2.op.[as]*/f32/prime#0"])
    result = gpu_check.conformance(options)
    assert (result["ok"], result["failures"], result["errors"]) == (True, [], [])
    assert result["totals"]["PASS"] > 10


def test_a_part_that_is_cut_off_counts_as_failed(gpu_check, monkeypatch):
    text = "PASS  T2.op.add/f32/prime#0  1.0 ms\nPASS  T2.op.add/f32/prime#1  1.0 ms\n"
    monkeypatch.setattr(gpu_check, "run_python", lambda *command, timeout: subprocess.CompletedProcess(
        command, 124, text, f"took longer than {timeout:g} s"))
    result = gpu_check.shard(gpu_check.parse([]), "3/12", 5)
    assert result["totals"] == {"PASS": 2}
    assert result["error"] == "part 3/12: took longer than 5 s after ['PASS  T2.op.add/f32/prime#1  1.0 ms']"


def test_without_the_sanitizer_its_step_is_skipped(gpu_check, monkeypatch):
    monkeypatch.setattr(gpu_check.shutil, "which", lambda name: None)
    assert gpu_check.sanitizer(gpu_check.parse([])) == {"ok": True, "skipped": "compute-sanitizer is not installed"}


def test_missing_packages_of_the_example_are_reported(gpu_check, monkeypatch):
    monkeypatch.setattr(gpu_check, "find_spec", lambda name: None)
    assert gpu_check.digits(SimpleNamespace(device="cuda")) == {"ok": False,
                                                                "skipped": "not installed: sklearn, matplotlib"}


def test_the_last_line_of_a_failure_is_its_reason(gpu_check):
    failed = subprocess.CompletedProcess([], 1, "working\n", "Traceback\nKernelError: it failed\n")
    assert gpu_check.last_line(failed) == "KernelError: it failed"
    assert gpu_check.last_line(subprocess.CompletedProcess([], 0, "a\nb\n", "warning")) == "b"
    assert gpu_check.last_line(subprocess.CompletedProcess([], -11, "", "")) == "exit code -11"


def test_a_step_that_hangs_is_ended(gpu_check):
    done = gpu_check.run_python("-c", "import time; time.sleep(60)", timeout=0.5)
    assert (done.returncode, done.stderr) == (124, "took longer than 0.5 s")
