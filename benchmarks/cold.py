"""Break down what compiling a training step costs, with an empty cache and in a second process.

    python benchmarks/cold.py                         # all steps
    python benchmarks/cold.py --only mlp --repeat 5 --limits
    python benchmarks/cold.py --only mlp --peer-python /path/to/python

Each row is the least CPU time of several processes, in milliseconds, all threads together. ``all`` is what the first
calls of the compiled step cost more than those of the plain step, in processes with equal caches; the stages exclude
each other, and ``rest`` includes the eager calls that the plain step makes, too. ``import`` is not part of ``all``.
With ``--peer-python``, a row for ``torch.compile`` of the PyTorch in that interpreter's environment follows, in one
thread; its C++ compilers count.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final

#: Calls of a step: by the fourth, a compiled one runs as a graph.
CALLS: Final = 4
#: The stages of compilation.
STAGES: Final = ("observe", "closure", "capture", "plan", "schedule", "print", "llvm", "cache", "tape")
#: The most that the step of the small MLP may cost, in milliseconds: with an empty cache, and with a full one.
LIMITS: Final = {"empty": 400.0, "full": 120.0}


class Clock:
    """A clock of the process's exclusive CPU time by stage."""

    def __init__(self) -> None:
        self.times = dict.fromkeys(STAGES, 0)
        self._stack: list[int] = []

    def wrap(self, owner: Any, name: str, stage: str) -> None:
        """Count the time in ``owner.name``, less that of stages inside, as ``stage``."""
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, **named: Any) -> Any:
            began = time.process_time_ns()
            self._stack.append(0)
            try:
                return function(*args, **named)
            finally:
                inside = self._stack.pop()
                spent = time.process_time_ns() - began
                self.times[stage] += spent - inside
                if self._stack:
                    self._stack[-1] += spent

        setattr(owner, name, timed)


def watch(clock: Clock) -> None:
    """Wrap the functions of all stages in a clock."""
    import tensocket_compiler.calls.function as function
    import tensocket_compiler.calls.variant as variant
    import tensocket_cpu.code.compiler as compiler
    import tensocket_plugins.ir.pipeline as pipeline
    from tensocket_compiler.capture.guards import Guards
    from tensocket_compiler.execute.runner import Runner
    from tensocket_plugins.kit.disk_cache import DiskCache

    for owner, name, stage in ((function, "observe", "observe"), (function, "find_guards", "closure"),
                               (Guards, "without", "closure"), (function, "capture", "capture"),
                               (variant, "_variant", "plan"), (variant, "Runner", "plan"),
                               (pipeline, "scheduled", "schedule"), (compiler, "print_llvm", "print"),
                               (compiler.Compiler, "compile_text", "llvm"), (Runner, "assemble", "tape"),
                               (DiskCache, "get", "cache"), (DiskCache, "put", "cache")):
        clock.wrap(owner, name, stage)


def make_step(name: str, compiled: bool, library: str = "tensocket") -> Callable[[], Any]:
    """Return a training step of a small model."""
    torch = importlib.import_module(library)
    nn: Any = importlib.import_module(f"{library}.nn")

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(-2))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    torch.manual_seed(0)
    if name == "mlp":
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
        x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
    elif name == "cnn":
        model = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
        x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    else:
        model = nn.Sequential(nn.Embedding(256, 128), Block(128), Block(128), nn.LayerNorm(128), nn.Linear(128, 256))
        x, y = torch.randint(0, 256, (8, 64)), torch.randint(0, 256, (512,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9) if name == "cnn" else (
        torch.optim.Adam(model.parameters(), lr=1e-3))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, -2), y).backward()
        optimizer.step()

    if not compiled:
        return step
    compile_step: Callable[..., Callable[[], Any]] = torch.compile
    return compile_step(step) if library == "torch" else compile_step(step, options={"budget": float("inf")})


def measure(name: str, compiled: bool) -> dict[str, float]:
    """Measure the first calls of a step in this process, in milliseconds; only compiled ones have stages."""
    began = time.process_time_ns()
    import tensocket  # noqa: F401

    imported = time.process_time_ns() - began
    step, clock = make_step(name, compiled), Clock()
    began = time.process_time_ns()
    step()
    first = time.process_time_ns() - began
    if compiled:
        watch(clock)
    began = time.process_time_ns()
    for _ in range(CALLS - 1):
        step()
    spent = first + time.process_time_ns() - began
    rest = spent - sum(clock.times.values())
    return {k: v / 1e6 for k, v in {"import": imported, **clock.times, "rest": rest, "calls": spent}.items()}


def measure_peer(name: str, compiled: bool) -> dict[str, float]:
    """Measure the first calls of a step with PyTorch, and the compilers that it starts, in milliseconds."""
    def spent() -> float:
        now = os.times()
        return 1e3 * (now.user + now.system + now.children_user + now.children_system)

    before = spent()
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    imported = spent() - before
    step = make_step(name, compiled, "torch")
    before = spent()
    for _ in range(CALLS):
        step()
    return {"import": imported, "calls": spent() - before}


def measured(name: str, compiled: bool, directory: str, python: str = "") -> dict[str, float]:
    """Measure a step in a new process with a cache directory; ``python`` is that of a peer."""
    # Modules are compiled to byte code once, whatever the settings of this process.
    named = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    places = {"TENSOCKET_CACHE_DIR": directory, "PYTHONPYCACHEPREFIX": os.path.join(tempfile.gettempdir(), "cold.pyc")}
    if python:
        places |= {"TORCHINDUCTOR_CACHE_DIR": directory, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    flags = [*(["--compiled"] if compiled else []), *(["--peer"] if python else [])]
    answer = subprocess.run([python or sys.executable, __file__, "--worker", name, *flags],
                            capture_output=True, text=True, check=True, env={**named, **places})
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def runs(name: str, compiled: bool, python: str = "") -> dict[str, dict[str, float]]:
    """Measure a process with an empty cache, and a second one with the same cache."""
    with tempfile.TemporaryDirectory() as directory:
        return {cache: measured(name, compiled, directory, python) for cache in LIMITS}


def added_by(name: str, repeat: int, python: str) -> dict[str, float]:
    """Return what the first calls of a peer's compiled step cost more than those of its plain step."""
    plain, compiled = ([runs(name, kind, python) for _ in range(repeat)] for kind in (False, True))
    return {cache: min(run[cache]["calls"] for run in compiled) - min(run[cache]["calls"] for run in plain)
            for cache in LIMITS}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["mlp", "cnn", "gpt"], choices=["mlp", "cnn", "gpt"])
    parser.add_argument("--repeat", type=int, default=3, help="pairs of processes, of which the fastest count")
    parser.add_argument("--limits", action="store_true", help="exit with 1 if the step of the MLP costs too much")
    parser.add_argument("--peer-python", default="", help="interpreter of an environment with PyTorch")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps((measure_peer if args.peer else measure)(args.worker, args.compiled)))
        return
    measured("mlp", True, "")  # writes byte code
    names = ("import", *STAGES, "rest")
    print(f"{'step cache':10}  {'all':>6}", *(f"{name:>8}" for name in names))
    fits = True
    for name in args.only:
        plain, compiled = ([runs(name, kind) for _ in range(args.repeat)] for kind in (False, True))
        for cache, limit in LIMITS.items():
            best = min((run[cache] for run in compiled), key=lambda run: run["calls"])
            added = best["calls"] - min(run[cache]["calls"] for run in plain)
            print(f"{name + ' ' + cache:10}  {added:6.0f}", *(f"{best[stage]:8.1f}" for stage in names), flush=True)
            fits = fits and (name != "mlp" or added <= limit)
        if args.peer_python:
            for cache, added in added_by(name, args.repeat, args.peer_python).items():
                print(f"{name + ' ' + cache:10}  {added:6.0f}  torch.compile", flush=True)
    sys.exit(args.limits and not fits)


if __name__ == "__main__":
    main()
