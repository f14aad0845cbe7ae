"""Check and measure the CUDA backend on a machine with an NVIDIA GPU, in one command.

    python benchmarks/gpu_check.py

Runs the conformance suite on the device, trains the digits example there, and times about a dozen workloads against
PyTorch and CuPy if these are installed. Prints tables and writes one JSON file. Every step runs in its own process, so
that a device error ends that step alone.

Exit codes: 0 all steps passed, 1 a step failed, 2 the device is not available here.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STEPS = ("conformance", "digits", "benchmark")
LIBRARIES = ("tensocket", "torch", "cupy")
PACKAGES = ("tensocket", "tensocket-plugins", "tensocket-core", "tensocket-cuda", "tensocket-conformance", "pycuda",
            "numpy", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cublas", "torch", "cupy", "cupy-cuda12x",
            "cupy-cuda13x")
#: The allowed relative difference between the results of two libraries.
TOLERANCE = 1e-2

# ------------------------------------------------------------------------------------------------- workloads

Workload = Callable[[Any], Callable[[], Any]]


class Library:
    """One library in the worker process: it makes arrays on the device, and waits for the device."""

    def __init__(self, name: str, device: str, scale: int) -> None:
        self.name = name
        self.device = device
        self.scale = scale
        self.module = __import__(name)
        if name != "cupy":
            __import__(f"{name}.nn")

    def array(self, *shape: int, dtype: str = "float32", seed: int = 0) -> Any:
        """Return normal random numbers that are the same in every library; the scale divides the first size."""
        import numpy as np

        shape = (max(shape[0] // self.scale, 1), *shape[1:])
        values = np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)
        return self.upload(values)

    def integers(self, count: int, limit: int, seed: int = 1) -> Any:
        """Return random integers from 0 up to ``limit``."""
        import numpy as np

        return self.upload(np.random.default_rng(seed).integers(0, limit, max(count // self.scale, 1)))

    def upload(self, values: Any) -> Any:
        """Return a copy of a NumPy array on the device."""
        if self.name == "cupy":
            return self.module.asarray(values)
        return self.module.tensor(values).to(self.device)

    def synchronize(self) -> None:
        """Wait for all queued work."""
        if self.name == "cupy":
            self.module.cuda.Device().synchronize()
        elif self.name == "tensocket":
            self.module.synchronize(self.device)
        elif self.device.startswith("cuda"):
            self.module.cuda.synchronize()

    def magnitude(self, result: Any) -> float | None:
        """Return the mean magnitude of a result, for comparing libraries; None if the result has no values."""
        import numpy as np

        if result is None:
            return None
        values = result.get() if self.name == "cupy" else result.detach().cpu().numpy()
        return float(np.abs(values.astype(np.float64)).mean())


def _torch_like(expression: str, **shapes: Any) -> Workload:
    """Return a workload that torch and tensocket spell the same."""

    def setup(library: Library) -> Callable[[], Any]:
        names = {name: library.array(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
        scope = {"torch": library.module, "F": library.module.nn.functional, **names}
        run: Callable[[], Any] = eval(f"lambda: {expression}", scope)  # the expressions are below
        return run

    return setup


def _cupy(expression: str, **shapes: Any) -> Workload:
    """Return a workload in CuPy's spelling."""

    def setup(library: Library) -> Callable[[], Any]:
        names = {name: library.array(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
        run: Callable[[], Any] = eval(f"lambda: {expression}", {"cp": library.module, **names})  # see below, too
        return run

    return setup


def _overhead(library: Library) -> Callable[[], Any]:
    a, b = library.array(1), library.array(1, seed=1)

    def run() -> Any:
        for _ in range(99):
            a + b
        return a + b

    return run


def _half_matmul(library: Library) -> Callable[[], Any]:
    a = library.array(4096, 4096, dtype="float16")
    b = library.array(4096 * library.scale, 4096, dtype="float16", seed=1)  # the scale leaves the inner size alone
    return lambda: a @ b


def _index_select(library: Library) -> Callable[[], Any]:
    table, index = library.array(65536, 1024), library.integers(16384, 65536 // library.scale)
    return lambda: table[index]


def _cross_entropy(library: Library) -> Callable[[], Any]:
    x, y = library.array(8192, 1000).requires_grad_(), library.integers(8192, 1000)

    def run() -> Any:
        x.grad = None
        library.module.nn.functional.cross_entropy(x, y).backward()
        return x.grad

    return run


def _training_step(library: Library) -> Callable[[], Any]:
    torch = library.module
    layers = [library.array(1024 * library.scale, 1024, seed=i).mul(0.02).requires_grad_() for i in range(3)]
    x = library.array(1024, 1024, seed=9)

    def run() -> Any:
        y = x
        for weight in layers:
            weight.grad = None
            y = torch.relu(y @ weight)
        (y * y).mean().backward()
        return layers[0].grad

    return run


_M16 = {"a": (1 << 24,), "b": (1 << 24,)}
_SQUARE = {"a": (4096, 4096)}
WORKLOADS: dict[str, dict[str, Workload]] = {
    "add_1_x100": {"torch": _overhead, "cupy": _overhead},
    "add_16M": {"torch": _torch_like("a + b", **_M16), "cupy": _cupy("a + b", **_M16)},
    "exp_16M": {"torch": _torch_like("a.exp()", a=(1 << 24,)), "cupy": _cupy("cp.exp(a)", a=(1 << 24,))},
    "gelu_16M": {"torch": _torch_like("F.gelu(a)", a=(1 << 24,))},
    "where_16M": {"torch": _torch_like("torch.where(a > b, a, b)", **_M16),
                  "cupy": _cupy("cp.where(a > b, a, b)", **_M16)},
    "sum_16M": {"torch": _torch_like("(a * a).sum()", a=(1 << 24,)), "cupy": _cupy("(a * a).sum()", a=(1 << 24,))},
    "sum_rows_4096x4096": {"torch": _torch_like("a.sum(1)", **_SQUARE), "cupy": _cupy("a.sum(1)", **_SQUARE)},
    "sum_columns_4096x4096": {"torch": _torch_like("a.sum(0)", **_SQUARE), "cupy": _cupy("a.sum(0)", **_SQUARE)},
    "softmax_4096x4096": {"torch": _torch_like("torch.softmax(a, -1)", **_SQUARE)},
    "transpose_4096x4096": {"torch": _torch_like("a.t().contiguous()", **_SQUARE),
                            "cupy": _cupy("cp.ascontiguousarray(a.T)", **_SQUARE)},
    "index_16384_of_65536x1024": {"torch": _index_select, "cupy": _index_select},
    "matmul_4096_f32": {"torch": _torch_like("a @ a.t()", **_SQUARE), "cupy": _cupy("a @ a.T", **_SQUARE)},
    "matmul_4096_f16": {"torch": _half_matmul, "cupy": _half_matmul},
    "bmm_256x256x64x256": {"torch": _torch_like("a @ b", a=(256, 256, 64), b=(256, 64, 256)),
                           "cupy": _cupy("a @ b", a=(256, 256, 64), b=(256, 64, 256))},
    "cross_entropy_backward_8192x1000": {"torch": _cross_entropy},
    "training_step_1024": {"torch": _training_step},
}  # fmt: skip


def measure(library: Library, run: Callable[[], Any], seconds: float) -> dict[str, float | None]:
    """Return the best mean of five batches in microseconds, after a warm-up, and the magnitude of the result."""
    result = None
    for _ in range(3):
        result = run()
    value = library.magnitude(result)
    start = time.perf_counter()
    run()
    library.synchronize()
    count = max(1, min(10000, int(seconds / 5 / max(time.perf_counter() - start, 1e-7))))
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            run()
        library.synchronize()
        best = min(best, (time.perf_counter() - start) / count)
    return {"us": best * 1e6, "value": value}


def worker(name: str, device: str, seconds: float, scale: int) -> None:
    """Time all workloads of one library, and print a line of JSON for each."""
    library = Library(name, device, scale)
    if name == "torch":
        library.module.backends.cuda.matmul.allow_tf32 = False  # float32 products must not use TF32
    for workload, setups in WORKLOADS.items():
        setup = setups.get("cupy" if name == "cupy" else "torch")
        if setup is None:
            continue
        try:
            row: dict[str, Any] = measure(library, setup(library), seconds)
        except Exception as error:  # a library may lack an operator; the row of the table says so
            row = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({"workload": workload, **row}), flush=True)


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


def run_python(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run Python and return its result; a timeout becomes a result with exit code 124."""
    try:
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=timeout, cwd=ROOT,
                              check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 124, "", f"took longer than {timeout:g} s")


def conformance(options: argparse.Namespace) -> dict[str, Any]:
    """Run ``tensocket conformance`` on the device, and return totals and failures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        quick = ["--quick"] if options.quick else []
        done = run_python("-m", "tensocket", "conformance", options.device, "--report", str(path), *quick, timeout=1800)
        if not path.exists():
            return {"ok": False, "error": last_line(done)}
        report = json.loads(path.read_text("utf-8"))
    failed = [{key: case[key] for key in ("id", "message", "repro") if key in case}
              for case in report["cases"] if case["outcome"] == "fail"]
    return {"ok": done.returncode == 0, "exit_code": done.returncode, "totals": report["totals"], "failures": failed,
            "build_stats": report.get("build_stats", {})}


def digits(options: argparse.Namespace) -> dict[str, Any]:
    """Run the digits example on the device, and return its last line as the result."""
    missing = [name for name in ("sklearn", "matplotlib") if find_spec(name) is None]
    if missing:
        return {"ok": True, "skipped": f"not installed: {', '.join(missing)}"}
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        example = str(ROOT / "examples" / "train_digits.py")
        done = run_python(example, "--device", options.device, "--out", folder, timeout=600)
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
                          "--scale", str(options.scale), timeout=900)
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
    """Return the table of microseconds by library, and of tensocket's speed-up over each peer."""
    lines = [f"{'workload':<34}{'tensocket':>12}{'torch':>12}{'cupy':>12}{'vs torch':>10}{'vs cupy':>10}"]
    for name, row in workloads.items():
        times = {library: row.get(library, {}).get("us") for library in LIBRARIES}
        own = times["tensocket"]
        cells = [f"{times[library]:12.1f}" if times[library] else f"{'error' if library in row else '-':>12}"
                 for library in LIBRARIES]
        ratios = [f"{times[peer] / own:9.2f}x" if own and times[peer] else f"{'-':>10}" for peer in LIBRARIES[1:]]
        lines.append(f"{name:<34}" + "".join(cells) + "".join(ratios))
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
    for key in ("totals", "build_stats", "result", "seconds", "skipped", "error"):
        if key in result:
            print(f"  {key}: {result[key]}")
    for failure in result.get("failures", [])[:20]:
        print(f"  {failure['id']}: {failure.get('message', '')}")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="the device (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu.json", help="the JSON file")
    parser.add_argument("--steps", default=",".join(STEPS), help="what to do, separated by commas (default: all)")
    parser.add_argument("--quick", action="store_true", help="a sample of the conformance suite")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each workload and library")
    parser.add_argument("--scale", type=int, default=1, help="divide the size of the workloads, to try the script out")
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
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
    print(f"{options.device}: {info.get('model')}, {info.get('driver')}")
    run: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
        "conformance": conformance, "digits": digits, "benchmark": benchmark}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for step in options.steps:
        report[step] = run[step](options)
        show(step, report[step])
        # Write after every step, so that a crash in a later one loses nothing.
        options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(f"\nwritten to {options.out}")
    return 0 if all(report[step]["ok"] for step in options.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
