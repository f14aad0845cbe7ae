"""Writes ``expected.json`` with PyTorch 2.13: ``python make_expected.py``. Results are those of float64."""

import hashlib
import json
from pathlib import Path

import torch
from program import NAMES, fill, make, step


def digest(model):
    """Names, shapes and dtypes of a state dict, in order."""
    text = "\n".join(f"{name} {list(value.shape)} {str(value.dtype).split('.')[1]}"
                     for name, value in model.state_dict().items())
    return hashlib.sha256(text.encode()).hexdigest()


def summary(tensor):
    """A few numbers that tell tensors apart."""
    wave = torch.cos(torch.arange(tensor.numel(), dtype=torch.float64))
    flat = tensor.detach().double().reshape(-1)
    return [float(f"{float(x):.11g}") for x in (flat.norm(), flat @ wave)]


def main():
    expected = {}
    for name in NAMES:
        model, inputs = make(name)
        fill(model)
        entry = {"digest": digest(model), "parameters": sum(p.numel() for p in model.parameters())}
        model.double()
        inputs = tuple(x.double() if x.is_floating_point() else x for x in inputs)
        for mode in ("eval", "train"):
            outputs, gradients = step(model, inputs, mode == "train")
            entry["shapes"] = [list(x.shape) for x in outputs]
            entry[mode] = [summary(x) for x in outputs]
        entry["gradients"] = [summary(x) for x in gradients.values()]
        expected[name] = entry
    Path(__file__).with_name("expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
