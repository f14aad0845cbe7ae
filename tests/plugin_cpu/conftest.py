"""One CPU device for all tests of this folder, with a kernel cache of its own."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_cpu.code.compiler import Compiler
from tensocket_cpu.device import CpuDevice
from tensocket_plugins.kit.disk_cache import DiskCache


@pytest.fixture(scope="session")
def device(tmp_path_factory):
    opened = CpuDevice(0)
    opened._compiler = Compiler(DiskCache(tmp_path_factory.mktemp("kernels")), opened.build_stats)
    return opened


@pytest.fixture
def rng():
    return np.random.default_rng(20240817)
