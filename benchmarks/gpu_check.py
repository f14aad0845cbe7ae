"""Check and measure the CUDA backend on a machine with an NVIDIA GPU, in one command of at most ten minutes.

    python benchmarks/gpu_check.py

Times the workloads of ``gpu_workloads.py`` beside PyTorch and CuPy if these are installed, trains the digits example,
lets ``compute-sanitizer`` watch some cases of the conformance suite, and runs the suite in parallel processes for as
long as ``--budget`` allows. Prints each result at once and writes one JSON file after each step. Every step runs in
processes of its own, so that a device error ends that step alone.

Exit codes: 0 all steps passed, 1 a step failed, 2 the device is not available here.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpu_workloads import WORKLOADS, Library, copy_bandwidth, measure

ROOT = Path(__file__).resolve().parent.parent
#: What is worth most comes first, in case the time runs out.
STEPS = ("benchmark", "digits", "sanitizer", "conformance")
#: The cases that compute-sanitizer watches, which makes them about a hundred times slower.
WATCHED = "T2.op.[ms]*/f32/prime#0"
LIBRARIES = ("tensocket", "torch", "cupy")
PACKAGES = ("tensocket", "tensocket-plugins", "tensocket-core", "tensocket-cuda", "tensocket-conformance", "pycuda",
            "numpy", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cublas", "torch", "cupy", "cupy-cuda12x",
            "cupy-cuda13x")
#: The allowed relative difference between the results of two libraries.
TOLERANCE = 1e-2

def worker(name: str, device: str, seconds: float, scale: int) -> None:
    """Time all workloads of one library, and print a line of JSON for each."""
    library = Library(name, device, scale)
    if name == "torch":
        # Products and convolutions of float32 must not use TF32, which has 10 bits of precision.
        library.module.backends.cuda.matmul.allow_tf32 = library.module.backends.cudnn.allow_tf32 = False
    for title, workload in WORKLOADS.items():
        if name == "cupy" and workload.cupy is None:
            continue
        try:
            row: dict[str, Any] = measure(library, workload, seconds)
        except Exception as error:  # a library may lack an operator; the row of the table says so
            row = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"workload": title, **row}), flush=True)


# ----------------------------------------------------------------------------------------------------- steps


def describe(device: str) -> dict[str, Any]:
    """Return the device's description, from a separate process.

    Raises:
        LookupError: The device is not available; the message has the reason.
    """
    code = ("import dataclasses, json, sys, tensocket\n"
            "try:\n"
            "    tensocket.zeros(1, device=sys.argv[1])\n"
            "    print(json.dumps(dataclasses.asdict(tensocket.get_device_info(sys.argv[1])), default=dict))\n"
            "except tensocket.errors.TensocketError as error:\n"
            "    sys.exit(str(error))\n")
    done = run_python("-c", code, device, timeout=300)
    if done.returncode:
        raise LookupError((done.stderr.strip() or "no message").splitlines()[-1])
    info: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return info


def run(*command: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a program and return its result; a timeout becomes a result with exit code 124 and the output until then."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=ROOT, check=False)
    except subprocess.TimeoutExpired as error:
        printed = error.stdout or b""
        text = printed if isinstance(printed, str) else printed.decode(errors="replace")
        return subprocess.CompletedProcess(command, 124, text, f"took longer than {timeout:g} s")


def run_python(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run Python; see ``run``."""
    return run(sys.executable, *arguments, timeout=timeout)


def conformance(options: argparse.Namespace) -> dict[str, Any]:
    """Run ``tensocket conformance`` on the device in parallel processes, and return totals and failures.

    A process that is still busy when the time is over counts as failed; its finished cases count.
    """
    shards = min(os.cpu_count() or 1, 12)
    left = remaining(options)
    with ThreadPoolExecutor(shards) as pool:
        parts = list(pool.map(lambda i: shard(options, f"{i + 1}/{shards}", left), range(shards)))
    totals = Counter[str]()
    for part in parts:
        totals.update(part["totals"])
    failures = [failure for part in parts for failure in part["failures"]]
    errors = [part["error"] for part in parts if part["error"]]
    return {"ok": not failures and not errors and totals["PASS"] > 0, "processes": shards, "totals": dict(totals),
            "failures": failures, "errors": errors}


def remaining(options: argparse.Namespace) -> float:
    """Return the seconds that are left of the budget; half a minute if it is used up, so that a step can say so."""
    return max(options.end - time.monotonic(), 30.0)


def shard(options: argparse.Namespace, part: str, seconds: float) -> dict[str, Any]:
    """Run one part of the suite. Without a report, its printed lines say which cases ran."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        quick = ["--quick"] if options.quick else []
        select = ["--select", options.select] if options.select else []
        tier = ["--tier", options.tier] if options.tier else []
        done = run_python("-m", "tensocket", "conformance", options.device, "--shard", part, "--report", str(path),
                          "-v", *quick, *select, *tier, timeout=seconds)
        if not path.exists():
            lines = [line for line in done.stdout.splitlines() if line[:1].isupper() and "/" in line]
            printed, last = Counter(line.split()[0] for line in lines), lines[-1:]
            return {"totals": printed, "failures": [], "error": f"part {part}: {last_line(done)} after {last}"}
        report = json.loads(path.read_text("utf-8"))
    failures = [{key: case[key] for key in ("id", "message", "repro", "log") if key in case}
                for case in report["cases"] if case["outcome"] == "FAIL"]
    return {"totals": Counter(case["outcome"] for case in report["cases"]), "failures": failures, "error": ""}


def sanitizer(options: argparse.Namespace) -> dict[str, Any]:
    """Run some conformance cases under ``compute-sanitizer``, which reports bad accesses and races."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"ok": True, "skipped": "compute-sanitizer is not installed"}
    results = {}
    for check in ("memcheck", "racecheck"):
        done = run(tool, "--tool", check, "--error-exitcode", "9", sys.executable, "-m", "tensocket", "conformance",
                   options.device, "--select", options.watched, timeout=min(60, remaining(options)))
        lines = [line for line in done.stdout.splitlines() if line.startswith("=========")]
        results[check] = {"exit_code": done.returncode, "lines": lines[:40], "last": last_line(done)}
    return {"ok": all(result["exit_code"] == 0 for result in results.values()), "result": results}


def digits(options: argparse.Namespace) -> dict[str, Any]:
    """Run the digits example on the device, and return its last line as the result."""
    missing = [name for name in ("sklearn", "matplotlib") if find_spec(name) is None]
    if missing:
        return {"ok": False, "skipped": f"not installed: {', '.join(missing)}"}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        example = str(ROOT / "examples" / "train_digits.py")
        done = run_python(example, "--device", options.device, "--out", folder, timeout=remaining(options))
        return {"ok": done.returncode == 0, "seconds": time.perf_counter() - start, "result": last_line(done)}


def benchmark(options: argparse.Namespace) -> dict[str, Any]:
    """Time the workloads of all installed libraries, one after the other."""
    rows: dict[str, dict[str, Any]] = {name: {} for name in WORKLOADS}
    skipped: dict[str, str] = {}
    for library in LIBRARIES:
        if find_spec(library) is None:
            skipped[library] = "not installed"
            continue
        done = run_python(__file__, "--worker", library, "--device", options.device, "--seconds", str(options.seconds),
                          "--scale", str(options.scale), timeout=remaining(options))
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                rows[row.pop("workload")][library] = row
        if done.returncode:
            skipped[library] = last_line(done)
    wrong = [f"{name}: {library}" for name, row in rows.items() for library in disagreeing(row)]
    errors = [name for name, row in rows.items() if "us" not in row.get("tensocket", {})]
    return {"ok": not wrong and not errors and "tensocket" not in skipped, "workloads": rows, "skipped": skipped,
            "disagreements": wrong, "errors": errors}


def disagreeing(row: dict[str, dict[str, Any]]) -> list[str]:
    """Return the libraries whose results differ from tensocket's."""
    own = row.get("tensocket", {}).get("value")
    if own is None:
        return []
    values = {name: entry.get("value") for name, entry in row.items() if name != "tensocket"}
    return [name for name, value in values.items()
            if value is not None and not math.isclose(own, value, rel_tol=TOLERANCE, abs_tol=1e-9)]


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of a program's output, or of its errors if it failed."""
    text = (done.stderr.strip() if done.returncode else "") or done.stdout.strip()
    return text.splitlines()[-1] if text else f"exit code {done.returncode}"


# ---------------------------------------------------------------------------------------------------- report


def packages() -> dict[str, str]:
    """Return the versions of the installed packages that matter here."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def gpu() -> dict[str, str]:
    """Return what ``nvidia-smi`` reports of the first GPU; empty without ``nvidia-smi``."""
    fields = ("name", "driver_version", "memory.total", "clocks.max.sm")
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = done.stdout.strip().splitlines()
    return dict(zip(fields, lines[0].split(", "), strict=False)) if lines else {}


def table(workloads: dict[str, dict[str, Any]]) -> str:
    """Return the table of microseconds by library, of tensocket's speed-up over each peer, and of its share of a copy.

    The share is the memory speed of the row, from the bytes that it has to move, over that of the fastest copy.
    """
    peak = copy_bandwidth(workloads)
    lines = [f"{'workload':<34}{'tensocket':>12}{'torch':>12}{'cupy':>12}{'vs torch':>10}{'vs cupy':>10}{'GB/s':>8}"
             f"{'of copy':>9}{'TFLOP/s':>9}{'first ms':>10}"]
    for name, row in workloads.items():
        times = {library: row.get(library, {}).get("us") for library in LIBRARIES}
        own, work = times["tensocket"], WORKLOADS.get(name)
        cells = [f"{times[library]:12.1f}" if times[library] else f"{'error' if library in row else '-':>12}"
                 for library in LIBRARIES]
        ratios = [f"{times[peer] / own:9.2f}x" if own and times[peer] else f"{'-':>10}" for peer in LIBRARIES[1:]]
        bandwidth, throughput = (work.bandwidth(own), work.throughput(own)) if own and work else (0.0, 0.0)
        ends = [f"{bandwidth:8.0f}" if bandwidth else f"{'-':>8}",
                f"{bandwidth / peak:9.0%}" if bandwidth and peak else f"{'-':>9}",
                f"{throughput:9.1f}" if throughput else f"{'-':>9}",
                f"{row['tensocket'].get('first_ms', 0):10.0f}" if own else f"{'-':>10}"]
        lines.append(f"{name:<34}" + "".join((*cells, *ratios, *ends)))
    return "\n".join(lines)


def show(step: str, result: dict[str, Any]) -> None:
    """Print the result of a step."""
    print(f"\n{step}: {'ok' if result['ok'] else 'FAILED'}")
    if step == "benchmark":
        print(table(result["workloads"]))
        for name, row in result["workloads"].items():
            for library, entry in row.items():
                if "error" in entry:
                    print(f"  {name} with {library}: {entry['error']}")
        for library, reason in result["skipped"].items():
            print(f"  {library}: {reason}")
        for text in result["disagreements"]:
            print(f"  results differ in {text}")
        return
    for key in ("processes", "totals", "errors", "result", "seconds", "skipped"):
        if key in result:
            print(f"  {key}: {result[key]}")
    for failure in result.get("failures", [])[:40]:
        print(f"  {failure['id']}: {failure.get('message', '')[:300]}")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="the device (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu.json", help="the JSON file")
    parser.add_argument("--steps", default=",".join(STEPS), help="what to do, separated by commas (default: all)")
    parser.add_argument("--quick", action="store_true", help="a sample of the conformance suite")
    parser.add_argument("--tier", help="highest tier of the conformance cases: T5 adds compiled programs")
    parser.add_argument("--select", help="only conformance cases whose id matches")
    parser.add_argument("--watched", default=WATCHED, help="the cases for compute-sanitizer (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=540, help="seconds for everything (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each workload and library")
    parser.add_argument("--scale", type=int, default=1, help="divide the size of the workloads, to try the script out")
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.end = time.monotonic() + options.budget
    options.steps = [step for step in options.steps.split(",") if step]
    unknown = [step for step in options.steps if step not in STEPS]
    if unknown:
        parser.error(f"unknown steps {', '.join(unknown)}; there are {', '.join(STEPS)}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the steps, and return the exit code."""
    options = parse(arguments)
    if options.worker:
        worker(options.worker, options.device, options.seconds, options.scale)
        return 0
    try:
        info = describe(options.device)
    except LookupError as error:
        print(f"gpu_check.py: {options.device} is not available here: {error}", file=sys.stderr)
        return 2
    report: dict[str, Any] = {"device": {"name": options.device, **info}, "gpu": gpu(), "packages": packages(),
                              "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "python": platform.python_version(),
                              "system": platform.platform(), "processors": os.cpu_count(), "scale": options.scale}
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a run that is cut off has printed all
    print(f"{options.device}: {info.get('model')}, {info.get('driver')}")
    steps: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
        "benchmark": benchmark, "digits": digits, "sanitizer": sanitizer, "conformance": conformance}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for step in options.steps:
        report[step] = steps[step](options)
        show(step, report[step])
        # Write after every step, so that a crash in a later one loses nothing.
        options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(f"\nwritten to {options.out}")
    return 0 if all(report[step]["ok"] for step in options.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
