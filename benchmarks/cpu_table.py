"""Print the table of ``results/cpu.md``: two runs of the side-by-side benchmark, and the limits of the machine.

    python benchmarks/cpu_table.py RUN1.json RUN2.json > benchmarks/results/cpu.md

``compare.py --json`` writes the files, with any number of groups. This program itself measures the copy bandwidth and
the peak of multiplications and additions: run it on the same machine, with nothing else running.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from tensocket_cpu.device import CpuDevice
from tensocket_plugins.contract.dtypes import float32, int64
from tensocket_plugins.ir.nodes import (
    Buffer,
    Kernel,
    Load,
    Local,
    LoopKind,
    Program,
    Scalar,
    Store,
    Var,
    call,
    const,
    loop,
)

MIB: Final = 1 << 20
#: The least traffic of a row in MiB, read and written by eager operators one after the other.
TRAFFIC: Final = {
    "add_4M": 48, "mul_add_4M": 96, "exp_4M": 32, "tanh_4M": 32, "gelu_4M": 32, "sigmoid_4M": 32, "where_4M": 88,
    "sum_4M": 16, "var_4M": 16, "argmax_4M": 16, "cumsum_4M": 32, "to_f16_4M": 24, "randn_4M": 16,
    "sum_dim0_2048x1024": 8, "sum_dim1_2048x1024": 8, "softmax_2048x1024": 16, "log_softmax_2048x1024": 16,
    "layer_norm_2048x1024": 16, "transpose_copy_2048x1024": 16, "broadcast_add_2048x1024": 16,
    "embedding_4096_of_2048x1024": 32, "index_select_4096_of_2048x1024": 32, "cat_2x2048x1024": 32,
    "dropout_2048x1024": 16, "cross_entropy_fwd_bwd_4096x1000": 31.25, "layer_norm_fwd_bwd_2048x1024": 40,
    "max_pool2d_16x32x56x56": 6.125 + 1.53 + 3.06, "batch_norm_train_16x32x56x56": 18.375,
}
#: The multiplications and additions of a row.
OPERATIONS: Final = {
    "matmul_1024": 2 * 1024**3, "matmul_64": 20 * 2 * 64**3, "bmm_64x128x64x128": 64 * 2 * 128 * 64 * 128,
    "linear_fwd_bwd_256x1024x1024": 3 * 2 * 256 * 1024**2, "conv2d_fwd_16x32x56x56_64x3x3": 2 * 16 * 64 * 288 * 56**2,
    "conv2d_fwd_bwd_8x32x28x28_64x3x3": 3 * 2 * 8 * 64 * 288 * 28**2, "attention_4x8x256x64": 4 * 32 * 256**2 * 64,
    "einsum_bhqd_bhkd": 2 * 32 * 256**2 * 64, "lstm_fwd_32x64x128": 2 * 64 * 32 * 256 * 512,
}


def best(run: Callable[[], Any], seconds: float = 1.0) -> float:
    """Return the time of the shortest of many runs, in seconds."""
    run()
    shortest, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        run()
        shortest = min(shortest, time.perf_counter() - began)
    return shortest


def copy_bandwidth(threads: int) -> float:
    """Return the bytes read and written per second by NumPy's copies of 16 MiB in ``threads`` threads."""
    source, target = np.ones(16 * MIB, np.uint8), np.zeros(16 * MIB, np.uint8)
    pieces = [slice(k * source.size // threads, (k + 1) * source.size // threads) for k in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return 2 * source.size / best(lambda: list(pool.map(lambda p: np.copyto(target[p], source[p]), pieces)))


def peak(device: CpuDevice) -> float:
    """Return the float32 multiplications and additions per second, all in registers."""
    sums, steps, lane, step, task = 24, 1 << 16, Var("lane", int64), Var("step", int64), Var("task", int64)
    names = [f"sum{k}" for k in range(sums)]
    value = Load("factors", lane, float32)

    def vectors(*body: Any) -> Any:
        return loop(lane, 16, body, LoopKind.VECTOR)

    body = [
        vectors(*(Store(name, lane, const(0.0, float32)) for name in names)),
        loop(step, steps, [vectors(*(
            Store(name, lane, call("fma", value, value, Load(name, lane, float32))) for name in names))]),
        *(vectors(Store("out", (task * sums + k) * 16 + lane, Load(name, lane, float32)))
          for k, name in enumerate(names)),
    ]
    program = Program("peak", (Buffer("out", float32, True), Buffer("factors", float32), Scalar("tasks", int64)), (
        Kernel("peak", (loop(task, Var("tasks", int64), body, LoopKind.PARALLEL),),
               tuple(Local(name, float32, 16) for name in names)),))
    run = device.compile_ir(program)
    tasks = 8 * device.pool.threads
    # The result is so large that threads divide the work.
    out, factors = np.zeros(max(tasks * sums * 16, 1 << 21), np.float32), np.ones(16, np.float32)
    return tasks * steps * sums * 16 * 2 / best(lambda: run((out, factors), (tasks,), device.default_stream))


def rows_of(path: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a run by name."""
    with open(path, encoding="utf-8") as file:
        return {row["name"]: row for row in json.load(file)["rows"]}


def mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(runs: list[dict[str, dict[str, Any]]], bandwidth: float, operations: float) -> list[str]:
    """Return the lines of Markdown, with a section for every group."""
    lines: list[str] = []
    for group in dict.fromkeys(row["group"] for row in runs[0].values()):
        names = [name for name, row in runs[0].items() if row["group"] == group]
        lines += [f"## {group}", "", "| row | run 1 | run 2 | share |", "|---|---|---|---|"]
        for name in names:
            seconds = min(run[name]["subject_us"] for run in runs) / 1e6
            share = ""
            if name in TRAFFIC:
                share = f"{TRAFFIC[name] * MIB / seconds / bandwidth:.0%} of copying"
            elif name in OPERATIONS:
                share = f"{OPERATIONS[name] / seconds / operations:.0%} of the peak"
            lines.append(f"| `{name}` | " + " | ".join(f"{run[name]['ratio']:.2f}" for run in runs) + f" | {share} |")
        worse = [min(run[name]["ratio"] for run in runs) for name in names]
        means = " | ".join(f"**{mean([run[name]['ratio'] for name in names]):.2f}**" for run in runs)
        lines += [f"| **geometric mean** | {means} | |", "",
                  f"{sum(r >= 1 for r in worse)} of {len(worse)} rows are at least 1.0 in both runs; the lowest is "
                  f"{min(worse):.2f}.", ""]
    return lines


def main() -> None:
    """Measure, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs=2, metavar="RUN.json")
    parser.add_argument("--machine", default="2-core AMD EPYC (Zen 5, AVX-512), Python 3.11, PyTorch 2.13 (CPU)")
    args = parser.parse_args()
    device = CpuDevice(0)
    bandwidth, operations = copy_bandwidth(device.pool.threads), peak(device)
    print("\n".join([
        "# The CPU backend beside PyTorch", "",
        f"{time.strftime('%Y-%m-%d')}, {args.machine}, {device.pool.threads} threads each. Ratios: PyTorch's time over "
        "this one's, above 1 is faster; two consecutive runs, nothing else running.",
        "Shares are of what this machine did right after: copying 16 MiB, read and written, at "
        f"{bandwidth / 1e9:.0f} GB/s, and {operations / 1e9:.0f} GFLOP/s of float32 in registers. Arrays that a cache "
        "holds can be faster than copying.", "",
        *table([rows_of(path) for path in args.runs], bandwidth, operations)]))


if __name__ == "__main__":
    sys.exit(main())
