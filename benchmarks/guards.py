"""Measure observation, closures and words of guards for training steps.

    python benchmarks/guards.py
    python benchmarks/guards.py --limits      # exit with 1 if a comparison takes too long

For each step: milliseconds of a plain call, of an observed call, and of the walk that finds the guards; the numbers of
facts and words; and the microseconds of a comparison in NumPy, which machines without native code pay, and in machine
code.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import tensocket as torch
from tensocket import nn
from tensocket_compiler.calls.variant import use_machine_code
from tensocket_compiler.capture.closure import find_guards
from tensocket_compiler.capture.watch import observe

#: Calls of a measurement, of which the fastest counts.
CALLS: Final = 200
#: Comparisons that are measured together.
BATCH: Final = range(100)
#: The most that a comparison in machine code may take: nanoseconds for a word, and microseconds in all.
LIMITS: Final = (0.5, 1.0)


class Block(nn.Module):
    """A block of a small language model."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


def make_models() -> dict[str, tuple[nn.Module, Any]]:
    """Return models with their inputs."""
    mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    cnn = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3),
                        nn.ReLU(), nn.Flatten(), nn.Linear(32 * 121, 10))
    gpt = nn.Sequential(nn.Embedding(64, 64), *(Block(64) for _ in range(2)), nn.LayerNorm(64), nn.Linear(64, 64))
    return {"mlp": (mlp, torch.randn(32, 64)), "cnn": (cnn, torch.randn(16, 1, 28, 28)),
            "gpt": (gpt, torch.randint(0, 64, (8, 32)))}


def make_step(model: nn.Module, x: Any) -> Callable[[], None]:
    """Return a whole training step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    y = torch.zeros(model(x).flatten(0, -2).shape[0], dtype=torch.int64)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, -2), y).backward()
        optimizer.step()
    return step


def fastest(function: Callable[[], Any], calls: int = CALLS) -> float:
    """Return the least time of a call, in seconds."""
    least = float("inf")
    for _ in range(calls):
        start = time.perf_counter()
        function()
        least = min(least, time.perf_counter() - start)
    return least


def measure(name: str, step: Callable[[], None]) -> bool:
    """Print the row of a step; return whether a comparison is within the limits."""
    for _ in range(3):
        step()
    plain, observed = fastest(step, 20), fastest(lambda: observe(step), 20)
    seen = observe(step)
    walk = fastest(lambda: find_guards(seen), 10)
    guards = find_guards(seen)
    before = guards.snapshot()
    step()
    guards = guards.without(guards.effects(before, guards.snapshot()))
    facts, words = sum(len(part.facts) for part in guards.parts), len(guards.addresses)
    in_numpy = fastest(guards.compare) * 1e6
    use_machine_code(guards)
    assert guards.check()
    empty, batch = fastest(lambda: [True for _ in BATCH]), fastest(lambda: [guards.check() for _ in BATCH])
    native = (batch - empty) / len(BATCH) * 1e6
    print(f"{name:4s} {plain * 1e3:8.2f} {observed * 1e3:8.2f} {walk * 1e3:8.2f} {facts:6d} {words:6d} {in_numpy:8.1f} "
          f"{native:8.2f} {native / words * 1e3:8.2f}  {', '.join(map(str, guards.refusals)) or 'not refused'}")
    return native / words * 1e3 <= LIMITS[0] and native <= LIMITS[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limits", action="store_true", help="exit with 1 if a comparison takes too long")
    args = parser.parse_args()
    heads = zip(("plain", "observed", "walk ms", "facts", "words", "NumPy us", "us", "ns/word"),
                (8, 8, 8, 6, 6, 8, 8, 8), strict=True)
    print("    ", *(f"{head:>{width}s}" for head, width in heads))
    fits = [measure(name, make_step(model, x)) for name, (model, x) in make_models().items()]
    sys.exit(args.limits and not all(fits))


if __name__ == "__main__":
    main()
