"""Products of C libraries by a BLAS that the user links, against NumPy; and build files for one processor."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError
from tensocket.export import Dim, compile_c, export

from .c_programs import Loaded, needs_compiler

pytestmark = needs_compiler
_REFERENCE = Path(__file__).with_name("reference_cblas.h")


@pytest.fixture
def blas(tmp_path: Path) -> tuple[str, ...]:
    """Build a BLAS that counts its calls; return what ``make`` needs for it."""
    folder = tmp_path / "blas"
    folder.mkdir()
    (folder / "cblas.h").write_text(_REFERENCE.read_text())
    (folder / "cblas.c").write_text('#define REFERENCE_BODY\n#include "cblas.h"\n')
    subprocess.run(["gcc", "-std=c99", "-O2", "-fPIC", "-c", "cblas.c"], cwd=folder, check=True, timeout=60)
    return f"CFLAGS=-O2 -pedantic -Werror -I{folder}", f"BLAS={folder / 'cblas.o'}"


def calls(library: Loaded) -> int:
    return ctypes.c_int.in_dll(library.library, "reference_calls").value


class Products(nn.Module):
    """Products of all layouts: weights, transposes, batches, vectors, and operands that no BLAS reads."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(7, 5, dtype=dtype))

    def forward(self, x: Any, y: Any) -> Any:  # [n, 6, 5], [n, 5, 8]
        plain = x @ y
        turned = y.transpose(1, 2) @ x.transpose(1, 2)
        weighted = nn.functional.linear(x, self.weight)
        part = x[:, :, 1:4] @ y[:, 1:4, 2:6]
        vectors = x[:, 0] @ self.weight.t(), (x @ self.weight[0][:, None])
        strided = x[:, ::2, ::2] @ y[:, :3, ::2]
        return plain, turned.contiguous(), weighted, part, *vectors, strided


def expected(x: Any, y: Any, w: Any) -> list[Any]:
    x, y, w = [v.detach().numpy().astype(np.float64) for v in (x, y, w)]
    return [x @ y, y.swapaxes(1, 2) @ x.swapaxes(1, 2), x @ w.T, x[:, :, 1:4] @ y[:, 1:4, 2:6], x[:, 0] @ w.T,
            x @ w[0][:, None], x[:, ::2, ::2] @ y[:, :3, ::2]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_all_layouts(dtype: torch.dtype, blas: tuple[str, ...], tmp_path: Path) -> None:
    model = Products(dtype)
    x, y = torch.randn(2, 6, 5, dtype=dtype), torch.randn(2, 5, 8, dtype=dtype)
    batch = Dim("batch", min=1, max=4)
    compile_c(export(model, (x, y), dynamic_shapes=({0: batch}, {0: batch})), tmp_path, name="net", products="cblas")
    library = Loaded(tmp_path, "net", options=blas)
    for n in (1, 2, 4):
        x, y = torch.randn(n, 6, 5, dtype=dtype), torch.randn(n, 5, 8, dtype=dtype)
        wanted = expected(x, y, model.weight)
        outputs = [np.full(v.shape, np.nan, x.numpy().dtype) for v in wanted]
        before = calls(library)
        assert library.status([n], x.numpy(), y.numpy(), *outputs) == 0
        assert calls(library) > before
        for found, value in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-5)


def test_convolutions_and_halves_need_no_blas(blas: tuple[str, ...], tmp_path: Path) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.weight = nn.Parameter(torch.randn(4, 5).half())

        def forward(self, x: Any, y: Any) -> Any:
            return self.conv(x), (y.half() @ self.weight).float()

    model = Mixed()
    x, y = torch.randn(1, 3, 6, 6), torch.randn(2, 4)
    compile_c(export(model, (x, y)), tmp_path, name="net", products="cblas")
    library = Loaded(tmp_path, "net", options=blas)
    image, product = np.zeros((1, 8, 4, 4), np.float32), np.zeros((2, 5), np.float32)
    assert library.status([], x.numpy(), y.numpy(), image, product) == 0
    assert calls(library) == 0
    weight = model.conv.weight.detach().numpy().astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x.numpy().astype(np.float64)[0], (3, 3), (1, 2))
    bias = model.conv.bias.detach().numpy()[:, None, None]
    np.testing.assert_allclose(image[0], np.einsum("cijkl,ockl->oij", windows, weight) + bias, rtol=1e-5, atol=1e-5)
    halves = y.half().numpy().astype(np.float64) @ model.weight.detach().numpy().astype(np.float64)
    np.testing.assert_allclose(product, halves, rtol=1e-2, atol=1e-2)


def test_products_without_elements(blas: tuple[str, ...], tmp_path: Path) -> None:
    class Empty(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x @ y

    x, y = torch.ones(3, 0), torch.ones(0, 2)
    compile_c(export(Empty(), (x, y)), tmp_path, name="net", products="cblas")
    out = np.full((3, 2), np.nan, np.float32)
    assert Loaded(tmp_path, "net", options=blas).status([], x.numpy(), y.numpy(), out) == 0
    assert (out == 0).all()


def test_build_files_for_a_processor(tmp_path: Path) -> None:
    compile_c(export(nn.Linear(2, 2), (torch.ones(1, 2),)), tmp_path, name="net", cpu="x86-64-v3", products="cblas")
    assert "CFLAGS ?= -O3 -march=x86-64-v3\nBLAS ?= -lopenblas\n" in (tmp_path / "Makefile").read_text()
    cmake = (tmp_path / "CMakeLists.txt").read_text()
    assert "PRIVATE -ffp-contract=off -march=x86-64-v3)" in cmake
    assert "find_package(BLAS REQUIRED)\ntarget_link_libraries(net PUBLIC ${BLAS_LIBRARIES})" in cmake


@pytest.mark.skipif(platform.machine() != "x86_64", reason="a processor of this family")
def test_a_library_for_a_processor_runs(tmp_path: Path) -> None:
    model = nn.Linear(2, 3)
    compile_c(export(model, (torch.ones(1, 2),)), tmp_path, name="net", cpu="x86-64")
    done = subprocess.run(["make", "-C", str(tmp_path)], capture_output=True, text=True, check=True, timeout=120)
    assert "-march=x86-64 " in done.stdout
    x = torch.randn(1, 2)
    wanted = x.numpy().astype(np.float64) @ model.weight.detach().numpy().T + model.bias.detach().numpy()
    np.testing.assert_allclose(Loaded(tmp_path, "net").run([], [x], wanted.astype(np.float32)), wanted, rtol=1e-5)


@pytest.mark.parametrize(("options", "message"), [
    ({"products": "mkl"}, r"\[compile_c\] products='mkl' — matrices are multiplied by 'tiles' or 'cblas'"),
    ({"cpu": "v3 -fplugin=x"},
     r"\[compile_c\] cpu='v3 -fplugin=x' — a processor is a name that compilers take after -march="),
    ({"cpu": "$(shell id)"}, r"\[compile_c\] cpu="), ({"cpu": ""}, r"\[compile_c\] cpu=''"),
    ({"cpu": 3}, r"\[compile_c\] cpu=3")])
def test_refused_options(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=message):
        compile_c(export(nn.Linear(2, 2), (torch.ones(1, 2),)), tmp_path / "net", **options)
    assert not (tmp_path / "net").exists()
