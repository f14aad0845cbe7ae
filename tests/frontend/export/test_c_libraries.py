"""Exported programs as C libraries: results against eager runs and NumPy, sizes, threads, weights and C++."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.export import Dim, compile_c, export
from tensocket.nn import functional as F
from tensocket_compiler.deploy.device import note_run

from .c_programs import Loaded, build, built_program, needs_compiler

pytestmark = needs_compiler
BATCH = Dim("batch", min=1, max=12)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.layers = nn.Sequential(*[nn.TransformerEncoderLayer(16, 2, 24, activation="gelu", batch_first=True)
                                      for _ in range(2)])
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 40)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.norm(self.layers(self.embed(tokens))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 9, num_layers=2, batch_first=True)
        self.head = nn.Linear(9, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


def mlp() -> Any:
    return nn.Sequential(nn.Linear(7, 20), nn.ReLU(), nn.Linear(20, 18), nn.GELU(), nn.Linear(18, 5))


def cnn() -> Any:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(8, 10, 3, stride=2, groups=2), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(),
                          nn.Linear(10, 4))
    with torch.no_grad():
        model[1].running_mean.normal_()
        model[1].running_var.uniform_(0.5, 2)
    return model


MODELS = {
    "mlp": (mlp, lambda n: torch.randn(n, 7)),
    "cnn": (cnn, lambda n: torch.randn(n, 3, 11, 11)),
    "transformer": (Transformer, lambda n: torch.randint(0, 40, (n, 6))),
    "recurrent": (Recurrent, lambda n: torch.randn(n, 4, 6)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_models_give_the_results_of_eager_runs(name: str, dynamic: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, data = MODELS[name]
    model = make().eval()
    program = export(model, (data(3),), dynamic_shapes=({0: BATCH},) if dynamic else None)
    made = compile_c(program, tmp_path, name=name)
    assert made.launches > 0
    assert set(made.files) == {x.name for x in tmp_path.iterdir()}
    library = Loaded(tmp_path, name)
    for n in (1, 2, 3, 8, 12) if dynamic else (3,):
        x = data(n)
        expected = model(x).detach().numpy()
        np.testing.assert_allclose(library.run([n] if dynamic else [], [x], expected), expected, rtol=2e-5, atol=2e-6)
    library.close()


def test_a_perceptron_agrees_with_numpy(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(70, 300), nn.ReLU(), nn.Linear(300, 33), nn.Softmax(-1))
    x = torch.randn(9, 70)
    compile_c(export(model, (x,)), tmp_path, name="net")
    w1, b1, w2, b2 = [p.detach().numpy().astype(np.float64) for p in model.parameters()]
    hidden = np.maximum(x.numpy().astype(np.float64) @ w1.T + b1, 0) @ w2.T + b2
    powers = np.exp(hidden - hidden.max(-1, keepdims=True))
    expected = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(Loaded(tmp_path, "net").run([], [x], expected.astype(np.float32)), expected, rtol=2e-5)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (1, 300, 40), (3, 17, 16), (4, 256, 16), (5, 257, 17),
                                           (33, 600, 70)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_all_layouts_agree_with_numpy(m: int, k: int, n: int, dtype: Any, tmp_path: Path) -> None:
    class Products(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.stack([x @ y.transpose(1, 2), (x.transpose(1, 2).contiguous().transpose(1, 2)) @ (
                y.transpose(1, 2).contiguous())])

    x, y = torch.randn(2, m, k, dtype=dtype), torch.randn(1, n, k, dtype=dtype)
    compile_c(export(Products(), (x, y)), tmp_path, name="products")
    one = np.einsum("bmk,bnk->bmn", x.numpy().astype(np.float64), np.broadcast_to(y.numpy(), (2, n, k)))
    expected = np.stack([one, one]).astype(x.numpy().dtype)
    tolerance = 2e-4 if dtype is torch.float32 else 1e-12
    np.testing.assert_allclose(Loaded(tmp_path, "products").run([], [x, y], expected), expected, rtol=tolerance,
                               atol=tolerance)


def test_two_sizes_change(tmp_path: Path) -> None:
    class Scores(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return F.softmax(x @ y.transpose(1, 2), -1) @ y, x.mean((1, 2))

    length = Dim("length", min=1, max=9)
    program = export(Scores(), (torch.randn(2, 4, 5), torch.randn(2, 3, 5)),
                     dynamic_shapes=({0: BATCH, 1: length}, {0: BATCH}))
    compile_c(program, tmp_path, name="scores")
    library = Loaded(tmp_path, "scores")
    for n, m in ((1, 1), (2, 9), (12, 1), (5, 4), (12, 9)):
        x, y = torch.randn(n, m, 5), torch.randn(n, 3, 5)
        first, second = [np.empty_like(z.numpy()) for z in Scores()(x, y)]
        assert library.status([n, m], x.numpy(), y.numpy(), first, second) == 0
        a, b = x.numpy().astype(np.float64), y.numpy().astype(np.float64)
        scores = np.exp(a @ b.transpose(0, 2, 1))
        np.testing.assert_allclose(first, scores / scores.sum(-1, keepdims=True) @ b, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(second, a.mean((1, 2)), rtol=1e-4, atol=1e-6)


def test_results_of_other_dtypes(tmp_path: Path) -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("edges", torch.tensor([float("-inf"), 0.5, float("inf"), float("nan")]))
            self.register_buffer("big", torch.tensor([-2**63, 2**63 - 1]))

        def forward(self, x: Any, k: Any) -> Any:
            return (x > 0, k * 3 + self.big[1], x.half() * 2, x.bfloat16() + 1, x.double() / 3,
                    torch.arange(5) + k[:1], self.edges * 1, x.argmax())

    x, k = torch.randn(6), torch.tensor([4, -5])
    compile_c(export(Many(), (x, k)), tmp_path, name="many")
    expected = Many()(x, k)
    outputs = [np.zeros(y.shape, np.uint16 if y.dtype in (torch.float16, torch.bfloat16) else y.numpy().dtype)
               for y in expected]
    assert Loaded(tmp_path, "many").status([], x.numpy(), k.numpy(), *outputs) == 0
    for found, y in zip(outputs, expected, strict=True):
        bits = y.view(torch.int16).numpy().view(np.uint16) if found.dtype == np.uint16 else y.numpy()
        np.testing.assert_array_equal(found, bits)


def test_outputs_that_are_inputs_weights_and_views(tmp_path: Path) -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 2))

        def forward(self, x: Any) -> Any:
            y = x + 1
            return x, self.weight.t(), y, y[1:], y.t(), 5

    x = torch.randn(2, 3)
    compile_c(export(model := Views(), (x,)), tmp_path, name="views")
    expected = [y.detach().numpy() for y in model(x)[:5]]
    outputs = [np.empty(y.shape, np.float32) for y in expected]
    assert Loaded(tmp_path, "views").status([], x.numpy(), *outputs) == 0
    for found, y in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(found, y)


def test_buffers_change_from_call_to_call(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.tensor(3.0))

        def forward(self, x: Any) -> Any:
            self.calls.add_(x.sum())
            return self.calls * 2

    compile_c(export(Counter(), (torch.ones(2),)), tmp_path, name="counter")
    library = Loaded(tmp_path, "counter")
    x, output = np.array([1.0, 2.0], np.float32), np.zeros((), np.float32)
    for expected in (12.0, 18.0, 24.0):
        assert library.status([], x, output) == 0
        assert output == expected
    found = library.state("calls", np.float32)
    assert found is not None
    assert found == [12.0]
    assert library.state("nothing", np.float32) is None


@pytest.mark.parametrize("weights", ["source", "file"])
def test_the_same_program_gives_the_same_files(weights: Any, tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = cnn().eval()
    for folder in ("a", "b"):
        program = export(model, (torch.randn(2, 3, 11, 11),), dynamic_shapes=({0: BATCH},))
        compile_c(program, tmp_path / folder, name="net", weights=weights)
    files = sorted(x.name for x in (tmp_path / "a").iterdir())
    assert all((tmp_path / "a" / x).read_bytes() == (tmp_path / "b" / x).read_bytes() for x in files)


def test_weights_in_a_file(tmp_path: Path) -> None:
    torch.manual_seed(3)
    model, x = mlp(), torch.randn(2, 7)
    compile_c(export(model, (x,)), tmp_path, name="net", weights="file")
    expected = model(x).detach().numpy()
    library = Loaded(tmp_path, "net", "net.weights")
    np.testing.assert_allclose(library.run([], [x], expected), expected, rtol=2e-5, atol=2e-6)
    data = (tmp_path / "net.weights").read_bytes()
    init, model_at = library.function("init"), ctypes.c_void_p()
    for damaged in (data[:-1], data + b"\0", data[:100] + bytes([data[100] ^ 1]) + data[101:], b"", b"x" + data[1:]):
        (tmp_path / "other").write_bytes(damaged)
        assert init(ctypes.byref(model_at), str(tmp_path / "other").encode()) == 3
        assert model_at.value is None
    assert init(ctypes.byref(model_at), str(tmp_path / "missing").encode()) == 3
    assert init(ctypes.byref(model_at), None) == 1


def test_calls_in_threads_and_shared_loops(tmp_path: Path) -> None:
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 64))
    x = torch.randn(200, 128)
    compile_c(export(model, (x,)), tmp_path, name="wide")
    library = Loaded(tmp_path, "wide")
    expected = library.run([], [x], np.empty((200, 64), np.float32))
    np.testing.assert_allclose(expected, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: library.run([], [x], expected), range(16)):
            np.testing.assert_array_equal(found, expected)
    work_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    counts = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, work_type, ctypes.c_void_p, ctypes.c_int64)
    def parallel(context: Any, work: Any, argument: Any, count: int) -> None:
        counts.append(count)
        for first in reversed(range(0, count, 3)):
            work(argument, first, min(first + 3, count))

    library.function("set_parallel")(library.model, parallel, None)
    np.testing.assert_array_equal(library.run([], [x], expected), expected)
    assert len(counts) >= 3
    assert min(counts) > 1


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

int main(int count, char **arguments)
{
    static int64_t tokens[NET_TOKENS_ELEMENTS(4)];
    float *output = malloc(sizeof(float) * NET_OUTPUT_ELEMENTS(4));
    unsigned char *arena = malloc(NET_ARENA_BYTES);
    net *model = NULL;
    FILE *file = fopen(arguments[1], "rb");
    if (count < 3 || !file || net_init(&model, NULL) != NET_OK) return 1;
    if (fread(tokens, sizeof(int64_t), NET_TOKENS_ELEMENTS(4), file) != NET_TOKENS_ELEMENTS(4)) return 2;
    fclose(file);
    if (net_run(model, arena, 4, tokens, output) != NET_OK) return 3;
    file = fopen(arguments[2], "wb");
    if (!file || fwrite(output, sizeof(float), NET_OUTPUT_ELEMENTS(4), file) != NET_OUTPUT_ELEMENTS(4)) return 4;
    fclose(file);
    if (net_run(model, NULL, 13, tokens, output) != NET_ERROR_SIZE) return 5;
    if (net_run(model, NULL, 0, tokens, output) != NET_ERROR_SIZE) return 6;
    if (net_run(model, NULL, 4, NULL, output) != NET_ERROR_ARGUMENT) return 7;
    if (net_run(NULL, NULL, 4, tokens, output) != NET_ERROR_ARGUMENT) return 8;
    tokens[5] = 40;
    if (net_run(model, arena, 4, tokens, output) != NET_ERROR_INDEX) return 9;
    tokens[5] = -1;
    if (net_run(model, NULL, 4, tokens, output) != NET_ERROR_INDEX) return 10;
    puts(net_error(NET_ERROR_INDEX));
    net_free(model);
    net_free(NULL);
    free(arena);
    free(output);
    return 0;
}
"""


def test_a_c_program_runs_clean_under_the_sanitizers(tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = Transformer().eval()
    tokens = torch.randint(0, 40, (4, 6))
    compile_c(export(model, (tokens,), dynamic_shapes=({0: BATCH},)), tmp_path, name="net")
    program = built_program(tmp_path, MAIN, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    tokens.numpy().tofile(tmp_path / "in")
    done = subprocess.run([str(program), str(tmp_path / "in"), str(tmp_path / "out")], check=False, text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "an index in an input is out of range\n"
    found = np.fromfile(tmp_path / "out", np.float32).reshape(4, 6, 40)
    np.testing.assert_allclose(found, model(tokens).detach().numpy(), rtol=2e-5, atol=2e-6)


def test_a_library_needs_nothing_but_the_c_library(tmp_path: Path) -> None:
    compile_c(export(mlp(), (torch.randn(2, 7),)), tmp_path, name="net")
    build(tmp_path)
    needed = subprocess.run(["ldd", str(tmp_path / "libnet.so")], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0].partition(".so")[0].rpartition("/")[2] for line in needed.splitlines()}
    assert names <= {"libc", "libm", "linux-vdso", "ld-linux-x86-64", "ld-linux-aarch64"}


CPP = """
#include <cstdio>
#include "net.hpp"

int main()
{
    net_model::Model model;
    std::vector<float> input(2 * 7, 0.5f), output(2 * 5);
    model.run(2, input, output);
    for (float x : output) std::printf("%.9g\\n", x);
    try { model.run(3, input, output); } catch (const std::invalid_argument &error) { std::puts(error.what()); }
    try { model.run(99, input, output); } catch (const std::invalid_argument &error) { std::puts(error.what()); }
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_class_for_cpp(tmp_path: Path) -> None:
    torch.manual_seed(6)
    model = mlp()
    compile_c(export(model, (torch.randn(2, 7),), dynamic_shapes=({0: BATCH},)), tmp_path, name="net")
    build(tmp_path)
    (tmp_path / "main.cpp").write_text(CPP)
    done = subprocess.run(["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "main.cpp", "libnet.a", "-o", "main"],
                          cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[:3000]
    lines = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
    expected = model(torch.full((2, 7), 0.5)).detach().numpy().reshape(-1)
    np.testing.assert_allclose([float(x) for x in lines[:10]], expected, rtol=2e-5, atol=2e-6)
    assert lines[10:] == ["net: the size of input", "net: the size of batch"]


def test_a_training_step(tmp_path: Path) -> None:
    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Sequential(nn.Linear(7, 20), nn.Tanh(), nn.Linear(20, 5))

        def forward(self, x: Any, target: Any) -> Any:
            return F.cross_entropy(self.model(x), target)

    torch.manual_seed(7)
    loss = Loss()

    def optimizer(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=0.2, momentum=0.9, weight_decay=1e-3)

    program = export(loss, (torch.randn(3, 7), torch.randint(0, 5, (3,))), dynamic_shapes=({0: BATCH}, {0: BATCH}))
    compile_c(program, tmp_path, name="step", optimizer=optimizer)
    library = Loaded(tmp_path, "step")
    eager = optimizer(loss.parameters())
    for n in (3, 12, 1, 6):
        x, target = torch.randn(n, 7), torch.randint(0, 5, (n,))
        eager.zero_grad()
        expected = loss(x, target)
        expected.backward()
        eager.step()
        found = library.run([n], [x, target], expected.detach().numpy())
        np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-5)
    for path, p in loss.named_parameters():
        weight = library.state(path, np.float32)
        assert weight is not None
        np.testing.assert_allclose(weight.reshape(p.shape), p.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert library.state("momentum_buffer:model.0.weight", np.float32) is not None


def test_no_list_of_devices_shows_the_device_that_notes_launches():
    note_run(lambda: None)
    assert all("ahead" not in name for name in torch.available_devices())
