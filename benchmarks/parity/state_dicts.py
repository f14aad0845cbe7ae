"""Compare state dicts of standard architectures, from PyTorch to tensocket and back, and results and gradients.

    python benchmarks/parity/state_dicts.py --peer-python ENV/bin/python [--device opencl] [--only resnet18,gpt]

PyTorch makes every model of ``tests/architectures`` with random weights and saves its state, inputs, outputs and
gradients. tensocket loads the state into its own model and saves that model's state, which PyTorch reads with
``weights_only=True``. A model counts as equal if names, metadata, dtypes, shapes, strides and every bit of the state
came back, outputs agree within 1e-4 and gradients within 1e-3 of their largest element (and 1e-6 of the largest
gradient), both in training and in evaluation.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

import tensocket

PEER: Final = Path(__file__).with_name("state_dicts_peer.py")
ARCHITECTURES: Final = PEER.resolve().parents[2] / "tests" / "architectures"
OUTPUTS: Final = 1e-4
GRADIENTS: Final = 1e-3
NOTHING: Final = 1e-6


def programs() -> Any:
    """Return the architectures' module ``program``, for which ``torch`` is tensocket."""
    for name in ("", "nn", "nn.functional", "nn.parameter", "nn.utils", "nn.utils.rnn"):
        sys.modules[f"torch.{name}".rstrip(".")] = importlib.import_module(f"tensocket.{name}".rstrip("."))
    sys.path.insert(0, str(ARCHITECTURES))
    return importlib.import_module("program")


def worst(mine: Any, theirs: Any, floor: float) -> float:
    """Return the largest difference, relative to the largest element."""
    a, b = (np.asarray(x.detach().cpu().numpy(), np.float64) for x in (mine, theirs))
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), floor))


def results(program: Any, name: str, folder: Path, device: str) -> tuple[float, float]:
    """Return the largest differences of outputs and gradients, and save the state for the way back."""
    state = tensocket.load(folder / f"{name}.pt", map_location=device)
    record = tensocket.load(folder / f"{name}.results.pt")
    model = program.make(name)[0].to(device)
    inputs = [x.to(device) for x in record["inputs"]]
    outputs = gradients = 0.0
    for mode in ("eval", "train"):
        model.load_state_dict(state)
        mine, my_gradients = program.step(model, inputs, mode == "train")
        theirs, their_gradients = record[mode]
        outputs = max([outputs, *(worst(a, b, NOTHING) for a, b in zip(mine, theirs, strict=True))])
        if my_gradients.keys() != their_gradients.keys():
            raise ValueError("gradients of other parameters")
        # A gradient that is tiny compared with the others is rounding error.
        floor = NOTHING / GRADIENTS * max(float(g.abs().max()) for g in their_gradients.values())
        gradients = max([gradients, *(worst(my_gradients[key], g, floor) for key, g in their_gradients.items())])
    model.load_state_dict(state)
    tensocket.save(model.cpu().state_dict(), folder / f"{name}.back.pt")
    return outputs, gradients


def main() -> int:
    """Compare, print a table, and return the number of models that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="Python of an environment with PyTorch")
    parser.add_argument("--device", default="cpu", help="where tensocket computes")
    parser.add_argument("--only", default="", help="names of architectures, separated by commas")
    parser.add_argument("--json", type=Path, help="write the results there, too")
    options = parser.parse_args()
    program = programs()
    rows = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        subprocess.run([options.peer_python, "-W", "ignore", str(PEER), "write", place], check=True)
        for name in options.only.split(",") if options.only else program.NAMES:
            try:
                rows[name] = [*results(program, name, folder, options.device), ""]
            except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
                rows[name] = [float("nan"), float("nan"), f"{type(error).__name__}: {error}"]
        done = subprocess.run([options.peer_python, "-W", "ignore", str(PEER), "compare", place], check=True,
                              capture_output=True, text=True)
    states = json.loads(done.stdout)
    bad = 0
    for name, (outputs, gradients, error) in rows.items():
        state = error or states.get(name, "did not come back")
        good = not state and outputs <= OUTPUTS and gradients <= GRADIENTS
        bad += not good
        print(f"{name:14} {'equal ' if good else 'DIFFERS'} outputs {outputs:8.1e} gradients {gradients:8.1e} "
              f"state {state or 'every bit'}")
    print(f"{len(rows) - bad} of {len(rows)} architectures are equal")
    if options.json:
        options.json.write_text(json.dumps({"device": options.device, "equal": len(rows) - bad, "rows": rows}) + "\n")
    return bad


if __name__ == "__main__":
    sys.exit(main())
