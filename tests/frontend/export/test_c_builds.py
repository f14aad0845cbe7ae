"""Building C libraries as part of a program with CMake."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.export import compile_c, export

needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("make") is None,
                                 reason="cmake and make are not installed")

_PROJECT = """\
cmake_minimum_required(VERSION 3.13)
project(program C)
add_subdirectory(net)
add_executable(main main.c)
target_link_libraries(main PRIVATE net)
target_compile_options(main PRIVATE -Wall -Wextra -Werror)
"""
_MAIN = """\
#include <stdio.h>
#include "net.h"

int main(void)
{
    net *model;
    float input[NET_INPUT_ELEMENTS], output[NET_OUTPUT_ELEMENTS];
    for (int i = 0; i < NET_INPUT_ELEMENTS; ++i) input[i] = 0.25f * (float)i;
    if (net_init(&model, "net/net.weights") != NET_OK || net_run(model, NULL, input, output) != NET_OK) return 1;
    for (int i = 0; i < NET_OUTPUT_ELEMENTS; ++i) printf("%.9g\\n", (double)output[i]);
    net_free(model);
    return 0;
}
"""


@needs_cmake
@pytest.mark.parametrize("weights", ["source", "file"])
@pytest.mark.parametrize("shared", ["OFF", "ON"])
def test_a_program_with_a_library_in_a_subdirectory(weights: Any, shared: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    compile_c(export(model, (torch.ones(2, 4),)), tmp_path / "net", name="net", weights=weights)
    (tmp_path / "CMakeLists.txt").write_text(_PROJECT)
    (tmp_path / "main.c").write_text(_MAIN)
    configure = ["cmake", "-S", ".", "-B", "build", f"-DBUILD_SHARED_LIBS={shared}"]
    for command in (configure, ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    libraries = [x.name for x in (tmp_path / "build" / "net").glob("libnet.*")]
    assert libraries == ["libnet.so" if shared == "ON" else "libnet.a"]
    lines = subprocess.run(["build/main"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
    w1, b1, w2, b2 = [p.detach().numpy().astype(np.float64) for p in model.parameters()]
    x = np.arange(8).reshape(2, 4) / 4
    expected = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
    np.testing.assert_allclose([float(y) for y in lines], expected.reshape(-1), rtol=1e-5, atol=1e-6)


_WASI = """\
import { WASI } from "node:wasi";
import fs from "node:fs";
const wasi = new WASI({version: "preview1"});
const code = await WebAssembly.compile(fs.readFileSync(process.argv[2]));
wasi.start(await WebAssembly.instantiate(code, {wasi_snapshot_preview1: wasi.wasiImport}));
"""


@pytest.mark.skipif(not all(map(shutil.which, ("clang", "wasm-ld", "node")))
                    or not Path("/usr/include/wasm32-wasi").exists(),
                    reason="clang, lld, wasi-libc and node are not installed")
def test_webassembly(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    compile_c(export(model, (torch.ones(2, 4),)), tmp_path, name="net")
    (tmp_path / "main.c").write_text(_MAIN.replace("net/net.weights", ""))
    (tmp_path / "run.mjs").write_text(_WASI)
    sources = sorted(x.name for x in tmp_path.glob("*.c"))
    flags = ["--target=wasm32-wasi", "-O2", "-msimd128", "-ffp-contract=off"]
    subprocess.run(["clang", *flags, *sources, "-o", "net.wasm"], cwd=tmp_path, check=True, timeout=120)
    done = subprocess.run(["node", "--no-warnings", "run.mjs", "net.wasm"], cwd=tmp_path, check=True, timeout=60,
                          capture_output=True, text=True)
    w1, b1, w2, b2 = [p.detach().numpy().astype(np.float64) for p in model.parameters()]
    expected = np.maximum(np.arange(8).reshape(2, 4) / 4 @ w1.T + b1, 0) @ w2.T + b2
    np.testing.assert_allclose([float(y) for y in done.stdout.split()], expected.reshape(-1), rtol=1e-5, atol=1e-6)
