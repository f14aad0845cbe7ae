"""Break down the time from a kernel's first call to its result on the CPU: the tables of ``results/compile-cpu.md``.

    python benchmarks/compile_times.py --repeat 3          # every operator in fresh processes, no disk cache
    python benchmarks/compile_times.py --only attention --modules
    python benchmarks/compile_times.py --cached            # once more with the disk cache of a first run
    python benchmarks/compile_times.py --records           # all operators of the conformance suite, largest samples

All times are CPU time of the calling thread, in milliseconds; the stages exclude each other. A module is one unit of
compilation for LLVM: a kernel, or a program's several kernels, plain or as a native entry. Before the first call of an
operator, another one has loaded LLVM and made the thread pool.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

#: The measured calls, over ``t`` (the package), ``F`` and the arguments of ``_inputs``.
OPERATORS: Final = {
    "add": "a + b",
    "exp": "a.exp()",
    "tanh": "a.tanh()",
    "gelu": "F.gelu(a)",
    "where": "t.where(a > b, a, b)",
    "to_float16": "a.to(t.float16)",
    "sum": "a.sum()",
    "var": "a.var()",
    "argmax": "a.argmax()",
    "cumsum": "a.cumsum(0)",
    "sort": "a.sort()",
    "randn": "t.randn(65536)",
    "dropout": "F.dropout(x, 0.1, True)",
    "broadcast_add": "x + v",
    "sum_columns": "x.sum(0)",
    "sum_rows": "x.sum(1)",
    "softmax": "t.softmax(x, -1)",
    "log_softmax": "t.log_softmax(x, -1)",
    "layer_norm": "F.layer_norm(x, (256,), v, v)",
    "layer_norm_backward": "F.layer_norm(xg, (256,), vg, vg).sum().backward()",
    "cross_entropy_backward": "F.cross_entropy(xg, y).backward()",
    "transpose": "x.t().contiguous()",
    "permute": "i.permute(0, 2, 3, 1).contiguous()",
    "matmul": "x @ x.t()",
    "conv2d": "F.conv2d(i, w, padding=1)",
    "conv2d_backward": "F.conv2d(ig, wg, padding=1).sum().backward()",
    "max_pool2d": "F.max_pool2d(i, 2)",
    "batch_norm": "F.batch_norm(i, None, None, training=True)",
    "attention": "F.scaled_dot_product_attention(q, q, q)",
    "attention_causal": "F.scaled_dot_product_attention(q, q, q, is_causal=True)",
    "attention_backward": "F.scaled_dot_product_attention(qg, qg, qg).sum().backward()",
    "lstm": "t.nn.LSTM(32, 32)(s)",
    "gru": "t.nn.GRU(32, 32)(s)",
    "adam": "t.optim.Adam([g], lr=1e-3).step()",
}
#: The stages of a module's compilation, in order.
STAGES: Final = ("schedule", "verify", "print", "parse", "passes", "code", "link", "cache")


class Clock:
    """A clock of exclusive thread time by stage, for every module."""

    def __init__(self) -> None:
        self.modules: list[dict[str, Any]] = []
        self._times = dict.fromkeys(STAGES, 0)
        self._stack: list[int] = []

    def wrap(self, owner: Any, name: str, stage: str, ends: bool = False) -> None:
        """Count the time in ``owner.name`` as ``stage``; with ``ends``, its return ends a module."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **named: Any) -> Any:
            began = time.thread_time_ns()
            self._stack.append(0)
            try:
                return function(*args, **named)
            finally:
                inside = self._stack.pop()
                spent = time.thread_time_ns() - began
                self._times[stage] += spent - inside
                if self._stack:
                    self._stack[-1] += spent
                if ends:
                    label = next((a for a in args if isinstance(a, str)), name)
                    self.modules.append({"name": label, **{k: v / 1e6 for k, v in self._times.items()}})
                    self._times = dict.fromkeys(STAGES, 0)

        setattr(owner, name, timed)


def _watch(clock: Clock) -> None:
    """Wrap the functions of all stages in the clock, in every module that holds them."""
    import tensocket_cpu.code.compiler as compiler
    import tensocket_cpu.device as device
    import tensocket_cpu.native.entries as entries
    import tensocket_plugins.ir.pipeline as pipeline
    from tensocket_plugins.kit.disk_cache import DiskCache

    clock.wrap(pipeline, "verify", "verify")
    for owner, name in ((pipeline, "decompose"), (pipeline, "schedule"), (pipeline, "name_shared"),
                        (device, "decompose"), (device.CpuDevice, "program")):
        clock.wrap(owner, name, "schedule")
    for owner in (compiler, entries):
        clock.wrap(owner, "print_llvm", "print")
    clock.wrap(entries, "_EntryCode", "print")
    clock.wrap(entries.Builtin, "text", "print")
    clock.wrap(compiler.llvm, "parse_assembly", "parse")
    clock.wrap(compiler.llvm.ModuleRef, "verify", "parse")
    clock.wrap(compiler.llvm.newpassmanagers.ModulePassManager, "run", "passes")
    clock.wrap(compiler.llvm.TargetMachine, "emit_object", "code")
    clock.wrap(compiler.Compiler, "_link", "link")
    clock.wrap(compiler.Compiler, "compile_text", "cache", ends=True)
    clock.wrap(DiskCache, "get", "cache")


def _inputs(t: Any) -> dict[str, Any]:
    """Return arguments large enough for generated kernels; filling them runs no generated kernel."""
    def make(*shape: int, grad: bool = False) -> Any:
        made = t.tensor(_numbers(shape)).float()
        return made.requires_grad_() if grad else made

    g = make(70000, grad=True)
    g.grad = make(70000)
    return {"t": t, "F": t.nn.functional, "a": make(65536), "b": make(65536), "x": make(256, 256), "v": make(256),
            "xg": make(256, 256, grad=True), "vg": make(256, grad=True), "y": t.tensor([1] * 256),
            "i": make(4, 16, 32, 32), "ig": make(4, 16, 32, 32, grad=True), "w": make(16, 16, 3, 3),
            "wg": make(16, 16, 3, 3, grad=True), "q": make(2, 4, 128, 64), "qg": make(2, 4, 128, 64, grad=True),
            "s": make(16, 8, 32), "g": g}


def _numbers(shape: tuple[int, ...]) -> Any:
    return np.linspace(0.1, 1.0, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _records() -> dict[str, Any]:
    """Return the operators of the conformance suite by name."""
    from tensocket_conformance.ops import operators

    return {record.name: record for record in operators()}


def _record_call(name: str) -> Callable[[], Any]:
    """Return a call of an operator of the conformance suite with its sample of the most elements."""
    import tensocket as t
    from tensocket_conformance.numerics import FORMATS
    from tensocket_conformance.record import Draw, Given

    record = _records()[name]
    form = FORMATS["f32" if "f32" in record.dtypes else record.dtypes[0]]
    samples = [make(Draw(np.random.default_rng(0), form)) for make in record.samples.values()]
    sample = max(samples, key=lambda x: sum(a.array.size for a in x.args if isinstance(a, Given)))
    args = [t.tensor(a.array, dtype=getattr(t, FORMATS[a.short].name)) if isinstance(a, Given) else a
            for a in sample.args]
    return lambda: record.call(*args, **sample.kwargs)


def measure(name: str) -> dict[str, Any]:
    """Measure an operator's first call in this process."""
    import tensocket as t
    import tensocket_cpu.code.compiler  # noqa: F401  # before the clock starts

    clock = Clock()
    t.set_num_threads(1)
    values = _inputs(t)
    t.linspace(0.0, 1.0, 40000).log1p().cos()
    _watch(clock)
    call = (lambda: eval(OPERATORS[name], values)) if name in OPERATORS else _record_call(name)
    began = time.thread_time_ns()
    call()
    total = (time.thread_time_ns() - began) / 1e6
    began = time.thread_time_ns()
    call()
    return {"total": total, "again": (time.thread_time_ns() - began) / 1e6, "modules": clock.modules}


def measured(name: str, cache: str) -> dict[str, Any]:
    """Measure an operator's first call in a new process, with a cache directory or none."""
    answer = subprocess.run([sys.executable, __file__, "--worker", name], capture_output=True, text=True, check=True,
                            env={**os.environ, "TENSOCKET_CACHE_DIR": cache})
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def row(name: str, found: dict[str, Any]) -> str:
    """Return a line of the table."""
    modules = found["modules"]
    count = len(modules)
    first = found["total"] - found["again"]
    stages = [sum(m[s] for m in modules) / max(count, 1) for s in STAGES]
    rest = first / max(count, 1) - sum(stages)
    cells = [f"`{name}`", str(count), f"{first:.0f}", f"{first / max(count, 1):.1f}", *(f"{s:.1f}" for s in stages),
             f"{rest:.1f}"]
    return f"| {' | '.join(cells)} |"


def summary(runs: list[dict[str, Any]]) -> str:
    """Return the percentiles of first calls and of modules."""
    calls = [found["total"] - found["again"] for found in runs]
    modules = [sum(module[stage] for stage in STAGES) for found in runs for module in found["modules"]]
    return "\n".join(
        f"{len(times)} {what}: median {np.median(times):.0f}, 95th percentile {np.percentile(times, 95):.0f}, "
        f"largest {max(times):.0f} ms" for what, times in (("first calls", calls), ("modules", modules)) if times)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(OPERATORS), choices=list(OPERATORS), metavar="OPERATOR")
    parser.add_argument("--records", action="store_true", help="all operators of the conformance suite")
    parser.add_argument("--modules", action="store_true", help="a line for every module, too")
    parser.add_argument("--cached", action="store_true", help="measure a second process that finds the code")
    parser.add_argument("--repeat", type=int, default=1, help="processes for each operator; the fastest counts")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(measure(args.worker)))
        return
    print(f"| operator | modules | all | each | {' | '.join(STAGES)} | rest |\n|{'---|' * (len(STAGES) + 5)}")
    measurements = []
    with tempfile.TemporaryDirectory() as directory:
        for name in _records() if args.records else args.only:
            if args.cached:
                measured(name, directory)
            runs = [measured(name, directory if args.cached else "") for _ in range(args.repeat)]
            found = min(runs, key=lambda run: run["total"])
            measurements.append(found)
            print(row(name, found), flush=True)
            for module in found["modules"] if args.modules else ():
                stages = " ".join(f"{module[s]:.1f}" for s in STAGES)
                print(f"    {module['name'][:60]:60} {sum(module[s] for s in STAGES):6.1f} = {stages}")
    print(summary(measurements))


if __name__ == "__main__":
    main()
