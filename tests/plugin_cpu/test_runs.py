"""Copies of runs of memory."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_cpu.device import CpuDevice
from tensocket_cpu.runs import runs


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
    views = [np.s_[:], np.s_[:, 3:7], np.s_[::3], np.s_[::2, 1:9:2], np.s_[..., 2:9], np.s_[::2, ::2, :-1]]
    for view in views:
        target = np.zeros_like(source)
        found.run([target[view]], [source[view]], (), device.default_stream)
        expected = np.zeros_like(source)
        expected[view] = source[view]
        np.testing.assert_array_equal(target, expected)
