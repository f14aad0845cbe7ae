"""An opened OpenCL device, and the nests that all schedules are tested with."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tensocket_plugins.contract.backend import Unavailable
from tensocket_plugins.contract.dtypes import FROM_NUMPY


@pytest.fixture(scope="session")
def backend(tmp_path_factory):
    """The backend, with a kernel cache of its own."""
    from tensocket_opencl.backend import OpenCLBackend

    found = OpenCLBackend()
    try:
        found.probe()
    except Unavailable as error:
        pytest.skip(f"OpenCL is unavailable: {error.reason}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSOCKET_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield found


@pytest.fixture(scope="session")
def device(backend):
    """The first OpenCL device."""
    opened = backend.open(0)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def upload(device):
    """A function that copies an ndarray to the device's default stream."""

    def function(array, stream=None):
        array = np.ascontiguousarray(array)
        stream = stream or device.default_stream
        handle = device.empty(array.shape, FROM_NUMPY[array.dtype], stream)
        device.copy(handle, array, stream)
        return handle

    return function


@pytest.fixture(scope="session")
def download(device):
    """A function that copies a handle to a new ndarray."""

    def function(handle, stream=None):
        result = np.empty(handle.shape, handle.dtype.numpy)
        device.copy(result, handle, stream or device.default_stream)
        return result

    return function


@pytest.fixture(scope="session")
def forms():
    """The module ``tests/ir/forms.py``."""
    spec = importlib.util.spec_from_file_location("forms", Path(__file__).parents[1] / "ir" / "forms.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["forms"] = module
    spec.loader.exec_module(module)
    return module
