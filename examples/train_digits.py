"""Train a small network on scikit-learn's handwritten digits, on any device by name.

    python examples/train_digits.py --device opencl

Writes the weights, the losses (JSON) and two pictures to a folder, and checks that the weights give the same accuracy
on another device. The same seed gives the same curve on every device, because the CPU draws the initial weights and the
order of the samples.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import tensocket as torch
from tensocket import nn, optim
from tensocket.utils import progress
from tensocket.utils.data import DataLoader, TensorDataset

try:
    import matplotlib
    from sklearn.datasets import load_digits

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator
except ModuleNotFoundError as missing:
    print(f"train_digits.py needs scikit-learn and matplotlib, but {missing.name} is not installed.\n"
          "Install both with: pip install scikit-learn matplotlib", file=sys.stderr)
    raise SystemExit(2) from None

BATCH = 64
RATE = 5e-3


@dataclass
class Digits:
    """1,797 images of 8 × 8 pixels as rows of 64 values from 0 to 1: four fifths for training, one for testing."""

    train: TensorDataset
    test: TensorDataset


@dataclass
class History:
    """The data of the curve: the loss of every step and epoch, and the accuracy on test images after every epoch."""

    step_losses: list[float] = field(default_factory=list)
    epoch_losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


def load_data(seed: int, device: str) -> Digits:
    """Return the images on ``device``, split randomly by ``seed``."""
    bunch = load_digits()
    images = torch.tensor(bunch.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(bunch.target, dtype=torch.int64)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    images, labels = images[order].to(device), labels[order].to(device)
    count = len(images) * 4 // 5
    return Digits(TensorDataset(images[:count], labels[:count]), TensorDataset(images[count:], labels[count:]))


def make_model(seed: int, device: str) -> nn.Sequential:
    """Return a network of three layers whose initial weights depend on ``seed`` only."""
    torch.manual_seed(seed)
    # Smooth activations: rounding on one device may push a unit to either side of a ReLU's kink.
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10)).to(device)


def predict(model: nn.Module, data: TensorDataset) -> torch.Tensor:
    """Return the probabilities (n, 10) of the digits, on the CPU."""
    model.eval()
    with torch.no_grad():
        probabilities: torch.Tensor = torch.softmax(model(data.tensors[0]), 1).cpu()
    return probabilities


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    """Return the fraction of images whose most probable digit is right."""
    labels = data.tensors[1].cpu()
    right = predict(model, data).argmax(1) == labels
    return float(right.sum().item()) / len(labels)


def train(model: nn.Module, data: Digits, epochs: int, seed: int) -> History:
    """Train with AdamW and a cosine schedule."""
    history = History()
    loss_of = nn.CrossEntropyLoss()
    optimizer = optim.AdamW(model.parameters(), lr=RATE)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    loader = DataLoader(data.train, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(seed))
    for epoch in range(epochs):
        model.train()
        losses: list[float] = []
        bar = progress(loader, description=f"epoch {epoch + 1:{len(str(epochs))}d}/{epochs}")
        for images, labels in bar:
            loss = loss_of(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            bar.show(loss=losses[-1])
            if len(losses) == len(loader):
                history.accuracies.append(accuracy(model, data.test))
                bar.show(loss=sum(losses) / len(losses), accuracy=f"{100 * history.accuracies[-1]:.1f} %")
        schedule.step()
        history.step_losses += losses
        history.epoch_losses.append(sum(losses) / len(losses))
    return history


def draw_curve(history: History, device: str, path: Path) -> None:
    """Draw the loss of every step and epoch, and the accuracy on test images."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    steps = len(history.step_losses) / len(history.epoch_losses)
    epochs = range(1, len(history.epoch_losses) + 1)
    left.plot([(k + 1) / steps for k in range(len(history.step_losses))], history.step_losses, color="#9ecae1", lw=0.8,
              label="one step")
    left.plot(epochs, history.epoch_losses, color="#08519c", lw=2, marker="o", ms=3, label="mean of an epoch")
    left.set(xlabel="epoch", ylabel="cross entropy", yscale="log", title=f"Training loss on {device}")
    left.legend()
    right.plot(epochs, [100 * value for value in history.accuracies], color="#238b45", lw=2, marker="o", ms=3)
    right.axhline(95, color="grey", lw=0.8, ls="--")
    right.set(xlabel="epoch", ylabel="accuracy in %", title="Accuracy on test images")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def draw_mistakes(probabilities: torch.Tensor, data: TensorDataset, path: Path, columns: int = 6) -> None:
    """Draw the wrong predictions of which the network was most confident, at most three rows of them."""
    images, labels = data.tensors[0].cpu().numpy(), data.tensors[1].cpu().numpy()
    table = probabilities.numpy()
    guesses = table.argmax(1)
    wrong = sorted((guesses != labels).nonzero()[0], key=lambda k: -table[k].max())
    rows = max(1, -(-min(len(wrong), 3 * columns) // columns))
    figure, grid = pyplot.subplots(rows, columns, figsize=(1.7 * columns, 2.2 * rows + 0.4), layout="constrained",
                                   squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, k in zip(grid.flat, wrong, strict=False):
        axes.imshow(images[k].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(f"label {labels[k]}, predicted {guesses[k]}\n({100 * table[k].max():.0f} % sure)", fontsize=9)
    figure.suptitle(f"{len(wrong)} of {len(labels)} test images are predicted wrongly")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def other_device(device: str) -> str:
    """Return the device on which to check the weights: another available one, otherwise the CPU."""
    kind = torch.device(device).type
    others = [name for name in torch.available_devices() if torch.device(name).type != kind]
    return others[0] if others else "cpu"


def full_name(device: str) -> str:
    """Return the name of a device with its index."""
    parsed = torch.device(device)
    return f"{parsed.type}:{parsed.index or 0}"


def check_elsewhere(weights: Path, device: str, expected: float, seed: int) -> bool:
    """Load the weights on another device and compare the accuracy there."""
    model = make_model(seed + 1, device)
    model.load_state_dict(torch.load(weights, map_location=device))
    found = accuracy(model, load_data(seed, device).test)
    same = found == expected
    print(f"weights reloaded on {full_name(device)}: {100 * found:.1f} %, {'the same' if same else 'NOT THE SAME'}")
    return same


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu", help="where to train, for example cpu or opencl:0")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("digits"), help="folder for pictures, losses and weights")
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--save", type=Path, help="file for the weights (OUT/weights.tsk)")
    files.add_argument("--load", type=Path, help="read weights from this file instead of training")
    parser.add_argument("--check-device", help="where the weights are checked (another device that is available)")
    options = parser.parse_args(arguments)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    if not -(1 << 63) <= options.seed < 1 << 64:
        parser.error("--seed must fit 64 bits")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Train or load, write the results, check the weights on another device, and return the exit code."""
    options = parse_arguments(arguments)
    try:
        return run(options)
    except (torch.errors.DeviceError, torch.errors.SerializationError, torch.errors.StateDictError, OSError) as error:
        print(f"train_digits.py: {error}", file=sys.stderr)
        return 1


def run(options: argparse.Namespace) -> int:
    """Do the work of ``main`` for parsed options, and return the exit code."""
    start = time.perf_counter()
    data = load_data(options.seed, options.device)
    model = make_model(options.seed, options.device)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    weights = options.load or options.save or out / "weights.tsk"
    if options.load:
        model.load_state_dict(torch.load(weights, map_location=options.device))
    else:
        history = train(model, data, options.epochs, options.seed)
        seconds = time.perf_counter() - start
        torch.save(model.state_dict(), weights)
        draw_curve(history, full_name(options.device), out / "loss_curve.png")
        report = {"device": full_name(options.device), "seed": options.seed, "epochs": options.epochs,
                  "seconds": seconds, "test_accuracy": history.accuracies[-1], **vars(history)}
        (out / "losses.json").write_text(json.dumps(report, indent=1) + "\n")
        print(f"{options.epochs} epochs in {seconds:.1f} s; results are in {out}")
    reached = accuracy(model, data.test)
    draw_mistakes(predict(model, data.test), data.test, out / "wrong_predictions.png")
    same = check_elsewhere(weights, options.check_device or other_device(options.device), reached, options.seed)
    print(f"test accuracy {100 * reached:.1f} % on {full_name(options.device)}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
