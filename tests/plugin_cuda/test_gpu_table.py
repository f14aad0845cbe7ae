"""``benchmarks/gpu_table.py``: the page that it writes from a report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_table.py"


def test_the_page_has_ratios_rates_and_failures(tmp_path):
    report = {
        "device": {"model": "Model H1", "driver": "CUDA 13.0, NVRTC 13.0"}, "gpu": {"driver_version": "580.1"},
        "packages": {"torch": "2.11.0", "pycuda": "2026.1"}, "date": "2026-11-27T17:37:09+0000", "python": "3.12.3",
        "processors": 16,
        "conformance": {"totals": {"PASS": 1200, "FAIL": 1}, "errors": ["part 1/12: took too long"], "processes": 12,
                        "failures": [{"id": "T2.op.add/f32/one#0", "message": "no"}]},
        "benchmark": {"workloads": {
            "copy_256MiB": {"tensocket": {"us": 2000.0}, "torch": {"us": 1000.0}},
            "matmul_4096_f32": {"tensocket": {"us": 1e6}, "torch": {"us": 5e5}, "cupy": {"us": 2e6}},
            "item": {"tensocket": {"error": "KernelError: no"}, "torch": {"us": 3.0}}}},
    }  # fmt: skip
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(report), "utf-8")
    done = subprocess.run([sys.executable, str(SCRIPT), str(path)], capture_output=True, text=True, check=True)
    assert "2026-11-27, one Model H1, driver 580.1" in done.stdout
    assert "PyTorch 2.11.0, pycuda 2026.1" in done.stdout
    assert "Conformance: 1 FAIL, 1,200 PASS; 1 of 12 processes ran out of time." in done.stdout
    assert "* `T2.op.add/f32/one#0`: no" in done.stdout
    # A copy of 256 MiB in 2 ms is 268 GB/s, read and written; a product of 4096 rows takes 2 * 4096**3 operations.
    assert "| `copy_256MiB` | 2,000.0 | 1,000.0 | 0.50 |  |  | 268 GB/s, 50% of a copy |" in done.stdout
    assert "| `matmul_4096_f32` | 1,000,000.0 | 500,000.0 | 0.50 | 2,000,000.0 | 2.00 | 0.1 TFLOP/s |" in done.stdout
    assert "| `item` | KernelError: no | | | | | |" in done.stdout
    faster = json.loads(json.dumps(report))
    faster["conformance"] |= {"totals": {"PASS": 1201}, "errors": [], "failures": []}
    faster["benchmark"]["workloads"]["matmul_4096_f32"]["tensocket"]["us"] = 2.5e5
    faster["benchmark"]["workloads"]["copy_256MiB"]["tensocket"]["us"] = 4000.0
    (tmp_path / "second.json").write_text(json.dumps(faster), "utf-8")
    both = subprocess.run([sys.executable, str(SCRIPT), str(path), str(tmp_path / "second.json")], capture_output=True,
                          text=True, check=True)
    assert "The worse of 2 runs of `gpu_check.py`" in both.stdout
    assert "Conformance: 1,201 PASS.\n" in both.stdout
    assert "| `matmul_4096_f32` | 1,000,000.0 | 500,000.0 | 0.50 |" in both.stdout
    assert "| `copy_256MiB` | 4,000.0 | 1,000.0 | 0.25 |" in both.stdout
    # A copy that failed leaves the others without a share.
    report["benchmark"]["workloads"] = {"copy_256MiB": {"tensocket": {"error": "KernelError: no"}},
                                        "add_16M": {"tensocket": {"us": 1000.0}}}
    path.write_text(json.dumps(report), "utf-8")
    done = subprocess.run([sys.executable, str(SCRIPT), str(path)], capture_output=True, text=True, check=True)
    assert "| `add_16M` | 1,000.0 |  |  |  |  | 201 GB/s |" in done.stdout
