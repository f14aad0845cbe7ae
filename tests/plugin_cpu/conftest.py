"""One CPU device for all tests of this folder, with a kernel cache of its own."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_cpu.code.compiler import Compiler
from tensocket_cpu.device import CpuDevice
from tensocket_plugins.kit import host_memory
from tensocket_plugins.kit.disk_cache import DiskCache


@pytest.fixture(scope="session")
def device(tmp_path_factory):
    opened = CpuDevice(0)
    opened._compiler = Compiler(DiskCache(tmp_path_factory.mktemp("kernels")), opened.build_stats)
    return opened


@pytest.fixture(autouse=True)
def the_pool_of_numpys_kernels():
    """Let the first device that starts its pool provide it, not a device of one test."""
    installed = list(host_memory._INSTALLED)
    yield
    if installed:
        host_memory._INSTALLED[:] = installed


@pytest.fixture
def rng():
    return np.random.default_rng(20240817)
