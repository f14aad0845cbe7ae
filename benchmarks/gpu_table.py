"""Write the table of a GPU's results from the JSON file of ``gpu_check.py``.

    python benchmarks/gpu_table.py benchmarks/results/cuda-h100.json > benchmarks/results/cuda-h100.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gpu_workloads import COPY, WORKLOADS


def speed(name: str, microseconds: float, peak: float) -> str:
    """Return the rate of a workload: GB/s and its share of the fastest copy, or TFLOP/s."""
    work = WORKLOADS[name]
    if work.nbytes:
        rate = work.nbytes / microseconds / 1e3
        return f"{rate:,.0f} GB/s, {rate / peak:.0%} of a copy"
    return f"{work.flops / microseconds / 1e6:,.1f} TFLOP/s" if work.flops else ""


def rows(workloads: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of the table."""
    copies = [entry["us"] for entry in workloads[COPY].values() if "us" in entry]
    peak = WORKLOADS[COPY].nbytes / min(copies) / 1e3
    lines = ["| row | µs | PyTorch's, µs | ratio | CuPy's, µs | ratio | rate |", "|---|---|---|---|---|---|---|"]
    for name, row in workloads.items():
        own = row["tensocket"].get("us")
        if own is None:
            lines.append(f"| `{name}` | {row['tensocket'].get('error', 'missing')} | | | | | |")
            continue
        cells = [f"`{name}`", f"{own:,.1f}"]
        for peer in ("torch", "cupy"):
            other = row.get(peer, {}).get("us")
            cells += [f"{other:,.1f}", f"{other / own:.2f}"] if other else ["", ""]
        lines.append(f"| {' | '.join([*cells, speed(name, own, peak)])} |")
    return lines


def page(report: dict[str, Any]) -> str:
    """Return the page."""
    packages, device, gpu = report["packages"], report["device"], report["gpu"]
    peers = ", ".join(f"{title} {packages[name]}" for title, name in
                      (("PyTorch", "torch"), ("CuPy", "cupy-cuda13x"), ("pycuda", "pycuda")) if name in packages)
    lines = [f"# The CUDA backend on {device['model']}", "",
             f"{report['date'][:10]}, one {device['model']}, driver {gpu.get('driver_version', 'unknown')}, "
             f"{device['driver']}, Python {report['python']}, {report['processors']} virtual processors, {peers}. One "
             "run of `gpu_check.py`, nothing else running. Ratios: the other library's time over this one's, above 1 "
             "is faster. No library uses TF32.", ""]
    if "conformance" in report:
        totals = ", ".join(f"{count:,} {name}" for name, count in sorted(report["conformance"]["totals"].items()))
        lines += [f"Conformance: {totals}.", ""]
        lines += [f"* `{case['id']}`: {case.get('message', '')}" for case in report["conformance"]["failures"]]
        lines += [""] * bool(report["conformance"]["failures"])
    return "\n".join([*lines, *rows(report["benchmark"]["workloads"])]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
