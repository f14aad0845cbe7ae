"""NVRTC and the cache of its results."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.bindings")

from tensocket_cuda import compiler as module
from tensocket_cuda.compiler import Compiler, build, choose_architecture, supported_architectures
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.kit.disk_cache import DiskCache

SOURCE = 'extern "C" __global__ void k(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2.0f; }\n'


def test_machine_code():
    assert build(SOURCE, "sm_90")[:4] == b"\x7fELF"


def test_ptx_for_devices_that_are_newer():
    text = build(SOURCE, "compute_90").decode()
    assert ".target sm_90" in text
    assert ".entry k" in text


def test_division_and_root_are_rounded_correctly_and_products_not_contracted():
    body = "x[0] = a * b + x[0]; x[1] = a / b; x[2] = sqrtf(b);"
    source = f'extern "C" __global__ void k(float *x, float a, float b) {{ {body} }}'
    text = build(source, "compute_90").decode()
    assert "mul.f32" in text or "mul.rn.f32" in text
    assert "add.f32" in text or "add.rn.f32" in text
    assert "fma." not in text
    assert "div.rn.f32" in text
    assert "sqrt.rn.f32" in text
    assert "ftz" not in text


def test_errors_carry_the_log():
    message = r"\[compile\] a kernel for sm_90 — NVRTC rejects it: kernel.cu\(1\): error.*nonsense"
    with pytest.raises(KernelError, match=message):
        build('extern "C" __global__ void k() { nonsense; }', "sm_90")


@pytest.mark.parametrize(("capability", "expected"), [((9, 0), "sm_90"), ((8, 6), "sm_86"), ((10, 0), "sm_100"),
                                                      ((9, 9), "compute_90"), ((13, 0), "compute_121")])
def test_architecture(capability, expected):
    assert choose_architecture(capability, (75, 80, 86, 90, 100, 121)) == expected


def test_devices_that_are_too_old():
    message = r"compute capability 6.1 — NVRTC 13.* compiles for 7.5 and newer — install an older"
    with pytest.raises(KernelError, match=message):
        choose_architecture((6, 1), (75, 80))


def test_h100_is_supported():
    assert 90 in supported_architectures()


def test_results_are_kept(tmp_path, monkeypatch):
    first = Compiler("sm_90", DiskCache(tmp_path)).compile(SOURCE)
    monkeypatch.setattr(module, "build", lambda *args: pytest.fail("compiled again"))
    again = Compiler("sm_90", DiskCache(tmp_path))
    assert again.compile(SOURCE) == first
    assert (again.stats.kernels, again.stats.cache_hits) == (1, 1)


def test_keys_depend_on_source_and_architecture(tmp_path):
    for architecture in ("sm_90", "compute_90"):
        compiler = Compiler(architecture, DiskCache(tmp_path))
        compiler.compile(SOURCE)
        compiler.compile(SOURCE.replace("2.0f", "3.0f"))
        assert compiler.stats.cache_hits == 0
    assert len(list(tmp_path.iterdir())) == 4


def test_a_damaged_file_is_replaced_with_one_warning(tmp_path):
    first = Compiler("sm_90", DiskCache(tmp_path)).compile(SOURCE)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"damaged")
    compiler = Compiler("sm_90", DiskCache(tmp_path))
    with pytest.warns(RuntimeWarning, match="damaged") as warned:
        assert compiler.compile(SOURCE) == first
    assert len(warned) == 1
    assert Compiler("sm_90", DiskCache(tmp_path)).compile(SOURCE) == first


def test_a_folder_that_cannot_be_written_is_ignored_with_one_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    compiler = Compiler("sm_90", DiskCache(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning) as warned:
        codes = [compiler.compile(SOURCE), compiler.compile(SOURCE)]
    assert [code[:4] for code in codes] == [b"\x7fELF"] * 2
    assert len(warned) == 1
