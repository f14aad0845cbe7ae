"""Measure what parts cost and gain: compiled functions that run as Python, with graphs of their modules.

    python benchmarks/parts.py

The first table has a model of n linear layers with activations, alone: microseconds of a graph's call and of the plain
one, without gradients, with them, and with a backward pass. The second one has a function that calls 100 modules
without operators: nanoseconds per module in the plain function, while parts are tried, and after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import tensocket as torch
from tensocket import nn
from tensocket_compiler.calls.function import CompiledFunction

#: Runs of a measurement, of which the fastest counts.
RUNS: Final = 40


class Same(nn.Module):
    """A module that returns its argument."""

    def forward(self, x: Any) -> Any:
        return x


def fastest(call: Callable[[], Any], calls: int) -> float:
    """Return the seconds of a call."""
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def compare_graphs() -> None:
    """Print the times of graphs beside those of plain calls."""
    x = torch.ones(4, 8)
    for n in (1, 2, 3, 4, 6, 8):
        model = nn.Sequential(*[m for _ in range(n) for m in (nn.Linear(8, 8), nn.Tanh())])
        row = [f"{3 * n:3} operators"]
        for label, calls in (("no_grad", 100), ("grad", 100), ("backward", 50)):
            compiled = CompiledFunction(model, share=float("inf"))

            def call(f: Callable[[Any], Any], label: str = label) -> None:
                y = f(x)
                if label == "backward":
                    y.sum().backward()
            with torch.set_grad_enabled(label != "no_grad"):
                for _ in range(6):
                    call(compiled)
                times = [1e6 * fastest(lambda f=f: call(f), calls) for f in (compiled, model)]  # type: ignore[misc]
            row.append(f"{label} {times[0]:4.0f} {times[1]:4.0f}")
        print(", ".join(row))


def measure_tiny_modules() -> None:
    """Print what looking at calls costs."""
    modules, x = [Same() for _ in range(100)], torch.ones(4)

    def function() -> float:
        for module in modules:
            module(x)
        return float(x.sum())
    compiled = CompiledFunction(function, share=float("inf"))
    for _ in range(8):
        compiled()
    tried = fastest(compiled, 1)
    for _ in range(200):
        compiled()
    for label, seconds in (("plain", fastest(function, 50)), ("tried", tried), ("later", fastest(compiled, 50))):
        print(f"{label}: {1e9 * seconds / len(modules):.0f} ns per module")


if __name__ == "__main__":
    compare_graphs()
    measure_tiny_modules()
