"""Copies of runs of memory."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from tensocket_cpu.device import CpuDevice
from tensocket_cpu.kernels.memcpy_kernels import runs
from tensocket_plugins.contract.errors import KernelError


def test_axes_that_follow_each_other_are_one() -> None:
    whole = np.zeros((6, 10, 8, 4), np.float32)
    assert runs(whole, whole.copy()) == (whole.nbytes, [])
    assert runs(whole[:, 2:7], whole[:, :5].copy()) == (5 * 8 * 16, [(6, 1280, 640)])
    assert runs(whole[:, ::2], whole[:, ::2]) == (128, [(30, 256, 256)])
    assert runs(whole[:1], whole[:1]) == (1280, [])


@pytest.mark.parametrize("threads", [1, 3])
def test_copies_are_numpys(threads: int) -> None:
    device = CpuDevice()
    device.set_num_threads(threads)
    found = device.kernels.find("copy", "float32", direct=False)
    assert found is not None
    source = np.random.default_rng(2).standard_normal((40, 30, 20, 16)).astype(np.float32)
    views = [np.s_[:], np.s_[:, 3:7], np.s_[::3], np.s_[::2, 1:9:2], np.s_[..., 2:9], np.s_[::2, ::2, :-1],
             np.s_[:, :, ::-1, 2:15], np.s_[::-2, ::-1, 3]]
    for view in views:
        target = np.zeros_like(source)
        found.run([target[view]], [source[view]], (), device.default_stream)
        expected = np.zeros_like(source)
        expected[view] = source[view]
        np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("width", [3, 200])
@pytest.mark.parametrize("axis", [0, 1])
def test_gathered_rows_are_numpys(width: int, axis: int) -> None:
    device, generator = CpuDevice(), np.random.default_rng(3)
    found = device.kernels.find("gather", "float32", direct=False)
    assert found is not None
    source = generator.standard_normal((50, 40, width)).astype(np.float32)
    index = generator.integers(0, source.shape[axis], 70)
    shape = (70, 40, width) if axis == 0 else (50, 70, width)
    wide = np.broadcast_to(index.reshape((-1, 1, 1) if axis == 0 else (1, -1, 1)), shape)
    target = np.empty(shape, np.float32)
    found.run([target], [source, wide], (axis,), device.default_stream)
    np.testing.assert_array_equal(target, np.take(source, index, axis))


def test_numpy_copies_where_nothing_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    device = CpuDevice()

    def fail(*args: object) -> None:
        raise KernelError("compile", "copy_runs", "no LLVM here", "install it")

    monkeypatch.setattr(device.compiler, "compile_text", fail)
    found = device.kernels.find("copy", "float32", direct=False)
    assert found is not None
    source = np.arange(100000, dtype=np.float32)
    for warned in (True, False):
        target = np.zeros_like(source)
        with pytest.warns(RuntimeWarning, match="NumPy copies instead") if warned else nullcontext():
            found.run([target], [source], (), device.default_stream)
        np.testing.assert_array_equal(target, source)
    assert list(device.build_stats.failures) == ["copy_runs"]


@pytest.mark.parametrize("shapes", [((20, 300), (20, 300)), ((20, 300), (20, 7)), ((20, 3), (20, 3)),
                                    ((20, 300), (20, 0), (20, 300)), ((1, 300000), (1, 5)), ((70, 4), (70, 17)),
                                    ((9, 8), (9, 16), (9, 33)), ((3000, 31), (3000, 50))])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_joined_arrays_are_numpys(shapes: tuple[tuple[int, int], ...], dtype: str) -> None:
    device, generator = CpuDevice(), np.random.default_rng(1)
    found = device.kernels.find("cat", dtype, direct=False)
    assert found is not None
    for turned in (False, True):
        parts = [(100 * generator.standard_normal(shape)).clip(-128, 127).astype(dtype) for shape in shapes]
        parts = [np.asfortranarray(x) if turned else x for x in parts]
        expected = np.concatenate(parts, 1)
        target = np.empty(expected.shape, dtype)
        found.run([target], parts, (1,), device.default_stream)
        np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("width", range(1, 70))
def test_runs_of_every_length_are_numpys(width: int) -> None:
    """Short runs are moves that overlap inside the run, and touch nothing beside it."""
    device = CpuDevice()
    found = device.kernels.find("copy", "int8", direct=False)
    assert found is not None
    source = np.random.default_rng(width).integers(-128, 127, (30, 7, 80), dtype=np.int8)
    target, expected = np.full_like(source, 9), np.full_like(source, 9)
    found.run([target[:, 1:6, 5:5 + width]], [source[:, 2:7, 3:3 + width]], (), device.default_stream)
    expected[:, 1:6, 5:5 + width] = source[:, 2:7, 3:3 + width]
    np.testing.assert_array_equal(target, expected)
