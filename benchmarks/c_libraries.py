"""Latency and size of models as C libraries beside onnxruntime and compiled programs in Python.

    python benchmarks/c_libraries.py [--models mlp cnn ...] [--runs 30] [--cflags "-O3 -march=native"] [--folder DIR]

Each model is exported, written by ``compile_c``, built with ``gcc -std=c99 -Wall -Wextra -Werror``, and checked against
eager results; ``ldd`` must not show Python. One thread each. The runs of C, onnxruntime and Python take turns; a run is
a few calls, and the least time per call of all runs counts, which other programs on the machine affect least.
``--valgrind`` also runs a program that calls the library under valgrind.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import tensocket as torch
from tensocket import nn
from tensocket.export import compile_c, export
from tensocket.export.serving import CompiledProgram
from tensocket.nn import functional as F

#: Seconds that one run takes at least.
_RUN = 0.02


class Recurrent(nn.Module):
    """Two layers of LSTM and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(32, 64, num_layers=2, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        """Return scores of the last step."""
        return self.head(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    """A residual block of ResNet-18."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.down = nn.Sequential() if stride == 1 and inside == outside else nn.Sequential(
            nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Any) -> Any:
        """Return the sum of both ways."""
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.down(x))


class Attention(nn.Module):
    """Causal attention and a perceptron, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Any) -> Any:
        """Return the next hidden states."""
        n, length, width = x.shape
        q, k, v = [part.view(n, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2)]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A language model of two layers."""

    def __init__(self, words: int = 1000, width: int = 128, length: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Attention(width, 4) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Any) -> Any:
        """Return scores of the next word at each place."""
        places = torch.arange(tokens.shape[1])
        return self.head(self.norm(self.blocks(self.words(tokens) + self.places(places))))


def mlp() -> Any:
    """Return a perceptron of three layers."""
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn() -> Any:
    """Return a network of three convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resnet() -> Any:
    """Return ResNet-18."""
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
              (512, 512, 1)]
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
                         *[Block(*w) for w in widths], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (mlp, lambda: torch.randn(1, 32)),
    "cnn": (cnn, lambda: torch.randn(1, 3, 32, 32)),
    "lstm": (Recurrent, lambda: torch.randn(1, 20, 32)),
    "gpt": (GPT, lambda: torch.randint(0, 1000, (1, 64))),
    "resnet18": (resnet, lambda: torch.randn(1, 3, 64, 64)),
}

_MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "{name}.h"

int main(void)
{{
    {name} *model = NULL;
    {kind} *input = calloc({elements}, sizeof({kind}));
    float *output = malloc(sizeof(float) * {up}_OUTPUT_ELEMENTS);
    int status = {name}_init(&model, "{name}.weights");
    if (status == {up}_OK) status = {name}_run(model, NULL, input, output);
    printf("%s\\n", {name}_error(status));
    {name}_free(model);
    free(input);
    free(output);
    return status;
}}
"""


def build(name: str, folder: Path, flags: list[str]) -> Path:
    """Build the shared library, and return its path."""
    library = folder / f"lib{name}.so"
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", *flags, "-fPIC", "-shared",
                    *map(str, sorted(folder.glob("*.c"))), "-o", str(library), "-lm"], check=True)
    needed = subprocess.run(["ldd", str(library)], check=True, capture_output=True, text=True).stdout
    assert "python" not in needed.lower(), needed
    return library


def valgrind(name: str, folder: Path, tokens: bool) -> str:
    """Run the library under valgrind, and return the verdict."""
    if shutil.which("valgrind") is None:
        return "not installed"
    (folder / "program").mkdir()
    main = folder / "program" / "main.c"
    elements = re.findall(r"#define (\w+_ELEMENTS)", (folder / f"{name}.h").read_text())[0]
    main.write_text(_MAIN.format(name=name, up=name.upper(), elements=elements, kind="int64_t" if tokens else "float"))
    subprocess.run(["gcc", "-std=c99", "-O1", "-g", "-ffp-contract=off", f"-I{folder}", str(main),
                    str(folder / f"{name}.c"), "-o", str(folder / "program" / "main"), "-lm"], check=True)
    done = subprocess.run(["valgrind", "-q", "--leak-check=full", "--error-exitcode=9", "./program/main"], cwd=folder,
                          check=False, capture_output=True, text=True)
    return "clean" if done.returncode == 0 and not done.stderr.strip() else done.stderr[:500]


class Run:
    """Calls of a function, by turns with others.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function, self._count, self.least = function, 1, float("inf")
        while self._once() * self._count < _RUN:
            self._count *= 2
        self.least = float("inf")

    def _once(self) -> float:
        """Return the seconds of a call."""
        begin = time.perf_counter()
        for _ in range(self._count):
            self._function()
        taken = (time.perf_counter() - begin) / self._count
        self.least = min(self.least, taken)
        return taken

    def again(self) -> None:
        """Run once more."""
        self._once()


def caller(library: Path, name: str, folder: Path, x: np.ndarray[Any, Any],
           output: np.ndarray[Any, Any]) -> Callable[[], Any]:
    """Return a function without arguments that runs a library on arrays; it includes the time of ctypes."""
    loaded, model = ctypes.CDLL(str(library)), ctypes.c_void_p()
    assert getattr(loaded, f"{name}_init")(ctypes.byref(model), str(folder / f"{name}.weights").encode()) == 0
    header = (folder / f"{name}.h").read_text().split()
    arena = ctypes.create_string_buffer(int(header[header.index(f"{name.upper()}_ARENA_BYTES") + 1].strip("()uUlL")))
    run, given = getattr(loaded, f"{name}_run"), [ctypes.c_void_p(a.ctypes.data) for a in (x, output)]
    place = ctypes.cast(arena, ctypes.c_void_p)

    def call() -> None:
        assert run(model, place, *given) == 0

    return call


def measure(name: str, folder: Path, options: argparse.Namespace) -> str:
    """Return the row of a model."""
    torch.manual_seed(0)
    make, data = MODELS[name]
    model, x = make().eval(), data()
    program = export(model, (x,))
    made = compile_c(program, folder, name=name, weights="file")
    library = build(name, folder, options.cflags.split())
    with torch.no_grad():
        expected = model(x).numpy()
    output = np.zeros_like(expected)
    call = caller(library, name, folder, x.numpy(), output)
    call()
    error = float(np.abs(output - expected).max() / np.abs(expected).max())
    assert error < 1e-4, f"{name}: the results differ by {error}"
    torch.onnx.export(model, (x,), str(folder / f"{name}.onnx"), dynamo=True, verbose=False)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), settings, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x.numpy()}
    served = CompiledProgram(program).warm()
    runs = [Run(call), Run(lambda: session.run(None, feed)), Run(lambda: served(x))]
    for _ in range(options.runs):
        for run in runs:
            run.again()
    c, onnx, python = [run.least * 1e6 for run in runs]
    verdict = valgrind(name, folder, name == "gpt") if options.valgrind else "-"
    return (f"| {name} | {library.stat().st_size / 1e3:.0f} | {made.weight_bytes / 1e3:.0f} | {made.launches} "
            f"| {c:.1f} | {onnx:.1f} | {python:.1f} | {c / onnx:.2f} | {error:.0e} | {verdict} |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--cflags", default="-O3 -march=native")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--valgrind", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}, gcc {options.cflags}; one thread; microseconds, least of {options.runs}\n")
    print("| model | .so kB | weights kB | launches | C | onnxruntime | Python, compiled | C / onnxruntime | error "
          "| valgrind |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.models:
            print(measure(name, (options.folder or Path(temporary)) / name, options), flush=True)


if __name__ == "__main__":
    main()
