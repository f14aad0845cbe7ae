"""Building kernels: statistics, the cache on disk, and messages."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.kit.disk_cache import DiskCache

SOURCE = "__kernel void twice(__global float *a) { a[get_global_id(0)] *= 2; }\n// %d\n"


@pytest.fixture
def compiler(device, tmp_path):
    """A function that makes a compiler with a cache in a folder."""
    from tensocket_opencl.compiler import Compiler

    def function(folder=tmp_path):
        return Compiler(device._context, device._handle, device.name, DiskCache(folder))

    return function


@pytest.fixture
def run(device, upload, download):
    """A function that runs a kernel over eight ones."""

    def function(kernel):
        handle = upload(np.ones(8, np.float32))
        device.launch(kernel, (2,), (4,), [handle.storage.buffer], device.default_stream)
        return download(handle)

    return function


def test_kernels_are_built_once_per_cache(compiler, run):
    first = compiler()
    assert (run(first.compile(SOURCE % 1, ["twice"])["twice"]) == 2).all()
    assert (first.stats.kernels, first.stats.cache_hits) == (1, 0)
    assert first.stats.seconds > 0
    second = compiler()
    assert (run(second.compile(SOURCE % 1, ["twice"])["twice"]) == 2).all()
    assert (second.stats.kernels, second.stats.cache_hits) == (1, 1)
    assert second.stats.seconds < first.stats.seconds
    second.compile(SOURCE % 2, ["twice"])
    assert (second.stats.kernels, second.stats.cache_hits) == (2, 1)


def test_damaged_cache_is_ignored_with_one_warning(compiler, run, tmp_path):
    compiler().compile(SOURCE % 3, ["twice"])
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-10] + b"0123456789")
    again = compiler()
    with pytest.warns(RuntimeWarning, match="damaged file"):
        kernel = again.compile(SOURCE % 3, ["twice"])["twice"]
    assert (run(kernel) == 2).all()
    assert again.stats.cache_hits == 0


def test_binary_that_the_driver_refuses_is_built_anew(compiler, run, tmp_path):
    compiler().compile(SOURCE % 4, ["twice"])
    (file,) = tmp_path.iterdir()
    DiskCache(tmp_path).put(file.name, b"not a binary")
    again = compiler()
    assert (run(again.compile(SOURCE % 4, ["twice"])["twice"]) == 2).all()
    assert again.stats.cache_hits == 0
    assert compiler().compile(SOURCE % 4, ["twice"]).keys() == {"twice"}


def test_unwritable_cache_is_ignored_with_one_warning(compiler, run, tmp_path):
    (tmp_path / "file").write_text("")
    built = compiler(tmp_path / "file" / "folder")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernels = [built.compile(SOURCE % i, ["twice"])["twice"] for i in (5, 6)]
    assert len(caught) == 1
    assert "TENSOCKET_CACHE_DIR" in str(caught[0].message)
    assert all((run(kernel) == 2).all() for kernel in kernels)


def test_build_failure_carries_the_log(compiler, capfd):
    with pytest.raises(KernelError, match=r"\[compile\] kernel broken for opencl:0: .*BUILD_PROGRAM_FAILURE.*undeclared"
                                          r".* — generated source must build"):
        compiler().compile("__kernel void broken(__global int *a) { a[0] = missing; }", ["broken"])
    capfd.readouterr()  # the driver may print, too


def test_several_kernels_of_a_source(compiler, run):
    source = SOURCE % 7 + SOURCE.replace("twice", "again") % 7
    kernels = compiler().compile(source, ["twice", "again"])
    assert (run(kernels["twice"]) == 2).all()
    assert (run(kernels["again"]) == 2).all()


def test_opening_a_device_counts_no_kernels(backend):
    opened = backend.open(0)
    assert opened.build_stats.kernels == 0
