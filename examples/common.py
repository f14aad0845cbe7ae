"""The parts that all examples share: the command line, the loop with its progress bar, and the picture at the end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensocket as torch
from tensocket.utils import progress

try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
except ModuleNotFoundError as missing:
    print(f"The examples draw with {missing.name}, which is not installed: pip install matplotlib scikit-learn",
          file=sys.stderr)
    raise SystemExit(2) from None


@dataclass(frozen=True)
class Settings:
    """The options of the command line.

    Attributes:
        device: The device of the model and its data.
        steps: The number of training steps.
        tiny: Whether sizes are as small as possible, for a check that everything runs.
        out: The folder of the picture.
    """

    device: str
    steps: int
    tiny: bool
    out: Path


def settings(description: str | None, argv: Sequence[str] | None, steps: int, tiny_steps: int = 3) -> Settings:
    """Read the command line of an example, and seed all generators.

    Args:
        description: The example's description; ``--help`` shows its first line.
        argv: The arguments; None takes those of the process.
        steps: The default number of training steps.
        tiny_steps: The default number of training steps with ``--tiny``.
    """
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where to compute, for example opencl:0 (default: cpu)")
    parser.add_argument("--steps", type=int, help=f"training steps (default: {steps})")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes and few steps, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder of the picture (default: runs)")
    options = parser.parse_args(argv)
    torch.manual_seed(options.seed)
    chosen = options.steps if options.steps is not None else tiny_steps if options.tiny else steps
    return Settings(options.device, chosen, options.tiny, options.out)


def train(chosen: Settings, step: Callable[[int], Any], name: str) -> list[float]:
    """Call ``step`` with 0, 1, ... and show the loss that it returns next to a progress bar.

    Returns:
        The losses.
    """
    losses: list[float] = []
    bar = progress(range(chosen.steps), description=name)
    for index in bar:
        losses.append(float(step(index)))
        bar.show(loss=losses[-1])
    return losses


def picture(chosen: Settings, name: str, losses: Sequence[float], draw: Callable[[Any], None]) -> Path:
    """Save a picture: on the left the losses, on the right a plot that ``draw`` fills.

    Returns:
        The path of the file.
    """
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.plot(losses, linewidth=1)
    left.set(xlabel="step", ylabel="loss", title=f"{name} on {chosen.device}")
    draw(right)
    chosen.out.mkdir(parents=True, exist_ok=True)
    file = chosen.out / f"{name}.png"
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
    print(f"{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, picture in {file}")
    return file


def show_text(title: str, text: str) -> Callable[[Any], None]:
    """Return a function that draws text."""

    def draw(axes: Any) -> None:
        axes.text(0, 1, text.replace("$", r"\$"), family="monospace", fontsize=6, va="top", wrap=True)
        axes.set(title=title)
        axes.axis("off")

    return draw


def show_images(title: str, images: Any) -> Callable[[Any], None]:
    """Return a function that draws gray images, shape (n, height, width), in rows of eight."""
    count = images.shape[0] // 8 * 8
    rows = images[:count].reshape(-1, 8, *images.shape[1:]).transpose(1, 2)
    wall = rows.reshape(rows.shape[0] * rows.shape[1], -1)

    def draw(axes: Any) -> None:
        axes.imshow(wall.detach().cpu().numpy(), cmap="gray")
        axes.set(title=title)
        axes.axis("off")

    return draw
