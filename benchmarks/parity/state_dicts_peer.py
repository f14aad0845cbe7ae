"""PyTorch's side of ``state_dicts.py``, which runs it as ``write FOLDER`` and as ``compare FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

ARCHITECTURES = Path(__file__).resolve().parents[2] / "tests" / "architectures"


def write(folder: Path) -> None:
    """Write state, inputs, outputs and gradients of every architecture with random weights."""
    from program import NAMES, make, step

    for seed, name in enumerate(NAMES):
        torch.manual_seed(seed)
        model, inputs = make(name)
        state = {key: value.clone() for key, value in model.state_dict().items()}
        torch.save(model.state_dict(), folder / f"{name}.pt")
        record: dict[str, Any] = {"inputs": list(inputs)}
        for mode in ("eval", "train"):
            model.load_state_dict(state)
            record[mode] = step(model, inputs, mode == "train")
        torch.save(record, folder / f"{name}.results.pt")


def bits(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a tensor's elements."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def difference(first: Any, second: Any) -> str:
    """Return how two state dicts differ; empty if every bit is the same."""
    if list(first) != list(second):
        return "other names, or in another order"
    if getattr(first, "_metadata", None) != getattr(second, "_metadata", None):
        return "other metadata"
    for name, value in first.items():
        other = second[name]
        if (value.dtype, value.shape, value.stride()) != (other.dtype, other.shape, other.stride()):
            return f"{name} has another dtype, shape or stride"
        if bits(value) != bits(other):
            return f"{name} has other bits"
    return ""


def compare(folder: Path) -> None:
    """Print how the returned states differ from the written ones."""
    from program import make

    found = {}
    for path in sorted(folder.glob("*.back.pt")):
        name = path.name.partition(".")[0]
        before, after = torch.load(folder / f"{name}.pt"), torch.load(path)
        model, _ = make(name)
        model.load_state_dict(after)
        found[name] = difference(before, after) or difference(before, model.state_dict())
    print(json.dumps(found))


if __name__ == "__main__":
    sys.path.insert(0, str(ARCHITECTURES))
    {"write": write, "compare": compare}[sys.argv[1]](Path(sys.argv[2]))
