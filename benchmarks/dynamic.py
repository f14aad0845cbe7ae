"""Measure compiled training steps whose batch size changes.

    python benchmarks/dynamic.py

For each step, in milliseconds of processor time, the least of several sizes: a plain call, the first call with a new
batch size (observed), the second one (captured), a later one with the size of the call before, and one with another
known size. The last column counts the modules of machine code that all new sizes together have built or loaded.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from guards import Block

import tensocket as torch
from tensocket import nn
from tensocket_core.device import open_device

#: Batch sizes before the measurement, and those that are measured.
FIRST: Final = (16, 24)
SIZES: Final = range(33, 53)
#: Calls of a measurement of known sizes, of which the fastest counts.
CALLS: Final = 200


def make_models() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Return models with the sizes of one sample."""
    mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 10))
    cnn = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(16, 10))
    gpt = nn.Sequential(Block(32), nn.LayerNorm(32), nn.Flatten(), nn.Linear(256, 10))
    return {"mlp": (mlp, (32,)), "cnn": (cnn, (3, 16, 16)), "gpt": (gpt, (8, 32))}


def make_step(model: nn.Module) -> Callable[[Any, Any], Any]:
    """Return a whole training step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def fastest(calls: Iterable[Callable[[], Any]]) -> float:
    """Return the least processor time of calls, in milliseconds."""
    least = float("inf")
    for call in calls:
        start = time.process_time()
        call()
        least = min(least, time.process_time() - start)
    return least * 1e3


def measure(name: str, model: nn.Module, sample: tuple[int, ...]) -> None:
    """Print the row of a step."""
    plain = make_step(copy.deepcopy(model))
    compiled = torch.compile(make_step(model), options={"budget": float("inf")})
    data = {n: (torch.randn(n, *sample), torch.randint(0, 10, (n,))) for n in (*FIRST, *SIZES)}
    for n in FIRST:
        for _ in range(4):
            compiled(*data[n])
            plain(*data[n])
    stats = open_device("cpu").runtime.build_stats
    for n in SIZES:
        plain(*data[n])  # what eager calls build does not count
    before, firsts, seconds = stats.kernels, [], []
    for n in SIZES:
        firsts.append(fastest([lambda n=n: compiled(*data[n])]))  # type: ignore[misc]
        seconds.append(fastest([lambda n=n: compiled(*data[n])]))  # type: ignore[misc]
    built = stats.kernels - before
    known = [SIZES[-1], SIZES[-2]]
    same = fastest([lambda: compiled(*data[known[0]])] * CALLS)
    other = fastest([lambda k=k: compiled(*data[known[k % 2]]) for k in range(CALLS)])  # type: ignore[misc]
    eager = fastest([lambda: plain(*data[known[0]])] * CALLS)
    print(f"{name:<5}{eager:>9.3f}{min(firsts):>9.2f}{min(seconds):>9.2f}{same:>9.3f}{other:>9.3f}{built:>9}")
    assert not compiled._compiled.reasons, compiled._compiled.reasons


def main() -> None:
    """Print the table."""
    print(f"{'step':<5}{'plain':>9}{'first':>9}{'second':>9}{'same':>9}{'other':>9}{'modules':>9}")
    torch.set_num_threads(1)
    for name, (model, sample) in make_models().items():
        measure(name, model, sample)


if __name__ == "__main__":
    main()
