"""Write the page of a GPU's results from JSON files of ``gpu_check.py``, each row from the worse run.

    python benchmarks/gpu_table.py benchmarks/results/cuda-h100-*.json > benchmarks/results/cuda-h100.md
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from gpu_workloads import WORKLOADS, copy_bandwidth


def speed(name: str, microseconds: float, peak: float) -> str:
    """Return the rate of a workload as text: GB/s and its share of the fastest copy, or TFLOP/s."""
    work = WORKLOADS[name]
    if work.nbytes:
        bandwidth = work.bandwidth(microseconds)
        return f"{bandwidth:,.0f} GB/s" + (f", {bandwidth / peak:.0%} of a copy" if peak else "")
    return f"{work.throughput(microseconds):,.1f} TFLOP/s" if work.flops else ""


def rows(workloads: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines of the table."""
    peak = copy_bandwidth(workloads)
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


def worse(reports: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the workloads of the runs, each as the run has it in which it is slowest beside PyTorch."""
    def rank(row: dict[str, Any]) -> float:
        own, other = (row.get(name, {}).get("us") for name in ("tensocket", "torch"))
        return other / own if own and other else -(own or math.inf)

    runs = [report["benchmark"]["workloads"] for report in reports]
    return {name: min((run[name] for run in runs), key=rank) for name in runs[0]}


def conformance(report: dict[str, Any]) -> list[str]:
    """Return the lines about a run of the conformance suite."""
    result = report["conformance"]
    totals = ", ".join(f"{count:,} {name}" for name, count in sorted(result["totals"].items()))
    ended = f"; {len(result['errors'])} of {result['processes']} processes ran out of time" if result["errors"] else ""
    return [f"Conformance: {totals}{ended}.", "",
            *(f"* `{case['id']}`: {case.get('message', '')}" for case in result["failures"]),
            *[""] * bool(result["failures"])]


def page(reports: list[dict[str, Any]]) -> str:
    """Return the page."""
    report = reports[-1]
    packages, device, gpu = report["packages"], report["device"], report["gpu"]
    peers = ", ".join(f"{title} {packages[name]}" for title, name in
                      (("PyTorch", "torch"), ("CuPy", "cupy-cuda13x"), ("pycuda", "pycuda")) if name in packages)
    count = "One run" if len(reports) == 1 else f"The worse of {len(reports)} runs"
    lines = [f"# The CUDA backend on {device['model']}", "",
             f"{report['date'][:10]}, one {device['model']}, driver {gpu.get('driver_version', 'unknown')}, "
             f"{device['driver']}, Python {report['python']}, {report['processors']} virtual processors, {peers}. "
             f"{count} of `gpu_check.py`, nothing else running. Ratios: the other library's time over this one's, "
             "above 1 is faster. No library uses TF32. Rows of small arrays measure the host.", ""]
    for each in reports:
        lines += conformance(each) if "conformance" in each else []
    return "\n".join([*lines, *rows(worse(reports))]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page([json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:]]))
