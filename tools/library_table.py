"""Runner of programs that use libraries written for PyTorch, and writer of the table in docs/libraries.md.

    python tools/library_table.py FOLDER --python PATH [--devices cpu,opencl] [--results FILE.json] [--timeout S]

FOLDER has a program ``use_NAME.py`` for each library, which prints ``USE OK`` at its end. PATH is the interpreter of an
environment with the libraries and tensocket. FILE keeps the results: programs that passed on a device do not run there
again. The page keeps everything outside of the two comments around the table.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "libraries.md"
_BEGIN, _END = "<!-- uses -->\n", "<!-- end of uses -->"


class Use(NamedTuple):
    """One program: the distribution whose version the table gives, and what the program does."""

    distribution: str
    action: str


#: The programs by the names of their files.
USES: Final = {
    "accelerate": Use("accelerate", "trains a model with `Accelerator`"),
    "captum": Use("captum", "attributes predictions to inputs"),
    "diffusers": Use("diffusers", "models and schedulers: steps of denoising"),
    "e3nn": Use("e3nn", "a tensor product, checked for equivariance under rotations"),
    "einops": Use("einops", "rearranges, reduces and contracts tensors"),
    "gpytorch": Use("gpytorch", "trains a Gaussian process"),
    "ignite": Use("pytorch-ignite", "trains with engines and metrics"),
    "kornia": Use("kornia", "filters, warps and augments images"),
    "lightning": Use("lightning", "trains with `Trainer`"),
    "onnxscript_export": Use("onnxscript", "exports a model to ONNX"),
    "peft": Use("peft", "trains LoRA adapters"),
    "pytorch_metric_learning": Use("pytorch-metric-learning", "losses and miners of pairs"),
    "safetensors": Use("safetensors", "writes and reads checkpoints"),
    "skorch": Use("skorch", "trains as an estimator of scikit-learn"),
    "stable_baselines3": Use("stable-baselines3", "trains PPO, A2C, DQN and SAC agents"),
    "tensordict": Use("tensordict", "dictionaries of tensors, and modules of them"),
    "timm": Use("timm", "trains six architectures"),
    "torch_geometric": Use("torch_geometric", "trains a network of graph convolutions"),
    "torchao": Use("torchao", "rounds a model's weights to 8 bits"),
    "torchdiffeq": Use("torchdiffeq", "solves and trains differential equations"),
    "torchinfo": Use("torchinfo", "summaries of models"),
    "torchmetrics": Use("torchmetrics", "metrics of several tasks"),
    "torchvision": Use("torchvision", "models and transforms of images"),
    "transformers_bert_gpt2": Use("transformers", "BERT and GPT-2: forward, backward, generation"),
    "transformers_trainer": Use("transformers", "trains with `Trainer`"),
    "vit_pytorch": Use("vit-pytorch", "trains a vision transformer"),
}
_VERSIONS: Final = """
import importlib.metadata as m, json, sys
print(json.dumps({name: m.version(name) for name in sys.argv[1:] if any(True for _ in m.distributions(name=name))}))
"""


def passes(python: str, program: Path, device: str, timeout: float) -> bool:
    """Run a program with ``cuda`` answered by a device; return whether it reached its end."""
    command = [python, "-m", "tensocket.as_torch", *([] if device == "cpu" else ["--device", device]), str(program)]
    environment = dict(os.environ, HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore")
    try:
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and "USE OK" in done.stdout


def versions(python: str) -> dict[str, str]:
    """Return the versions of the installed distributions."""
    names = sorted({use.distribution for use in USES.values()})
    text = subprocess.run([python, "-c", _VERSIONS, *names], check=True, capture_output=True, text=True).stdout
    return dict(json.loads(text))


def table(results: dict[str, dict[str, bool]], installed: dict[str, str]) -> str:
    """Return the table: one line for each program, and how many passed on each device."""
    devices = list(results)
    lines = ["| Library | Version | What it does | " + " | ".join(devices) + " |", "|---" * (3 + len(devices)) + "|"]
    for name, use in USES.items():
        found = [results[device].get(name) for device in devices]
        marks = ["not run" if passed is None else "passes" if passed else "fails" for passed in found]
        lines.append(f"| {use.distribution} | {installed.get(use.distribution, 'not installed')} | {use.action} | "
                     + " | ".join(marks) + " |")
    counts = [f"{sum(results[device].values())} of {len(results[device])} on `{device}`" for device in devices]
    return "\n".join(lines) + f"\n\nPassed: {', '.join(counts)}.\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what has not passed, and write the results and the page; return 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--devices", default="cpu,opencl")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--timeout", type=float, default=600)
    options = parser.parse_args(argv)
    kept = json.loads(options.results.read_text("utf-8")) if options.results and options.results.exists() else {}
    results: dict[str, dict[str, bool]] = {device: dict(kept.get(device, {})) for device in options.devices.split(",")}
    for device, found in results.items():
        for name in USES:
            program = options.folder / f"use_{name}.py"
            if program.exists() and not found.get(name):
                found[name] = passes(options.python, program, device, options.timeout)
                print(f"{device}: {name} {'passes' if found[name] else 'fails'}", flush=True)
        if options.results:
            options.results.write_text(json.dumps(results), "utf-8")
    made = _BEGIN + table(results, versions(options.python)) + _END
    PAGE.write_text(re.sub(f"{_BEGIN}.*{_END}", lambda _: made, PAGE.read_text("utf-8"), flags=re.DOTALL), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
