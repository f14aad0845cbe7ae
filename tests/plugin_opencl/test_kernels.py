"""Every schedule, printed as OpenCL C and run on the device, gives what NumPy computes in float64."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.strategies import Strategy

NAMES = ["flat_add", "strided", "single", "row_sum", "sum_all", "sum_middle", "sum_columns", "argmax", "maximum",
         "softmax", "normalize", "matmul", "matmul_int", "runs"]


def run_on(device, upload, download, executable, case):
    outputs = case.program.buffers[len(case.inputs):]
    outs = [device.empty(e.shape, b.dtype, device.default_stream) for e, b in zip(case.expected, outputs, strict=True)]
    executable([*map(upload, case.inputs), *outs], case.scalars, device.default_stream)
    for out, expected in zip(outs, case.expected, strict=True):
        np.testing.assert_allclose(download(out), expected, rtol=case.tolerance, atol=case.tolerance)


def test_all_forms_are_here(forms):
    assert list(forms.FORMS) == NAMES


@pytest.mark.parametrize("strategy", Strategy, ids=lambda s: s.value)
@pytest.mark.parametrize("name", NAMES)
def test_device_computes_what_numpy_does(device, upload, download, forms, name, strategy):
    form = forms.FORMS[name]
    # As on a GPU, with small groups, so that the sizes have several and a tail.
    target = replace(device.target, group_size=32, sequential=False)
    executable = device.compile_ir(schedule(form(1).program, target, strategy))
    for n in forms.SIZES:
        run_on(device, upload, download, executable, form(n))


@pytest.mark.parametrize("name", ["row_sum", "argmax", "sum_middle"])
def test_long_reductions_are_split(device, upload, download, forms, name):
    form = forms.FORMS[name]
    executable = device.compile_ir(schedule(form(1).program, device.target, Strategy.SPLIT))
    for n in (1, 33_391):
        run_on(device, upload, download, executable, form(n))


def test_offsets_are_counted_from_views(device, upload, download, forms):
    case = forms.FORMS["flat_add"](50)
    run = device.compile_ir(schedule(case.program, device.target, Strategy.SERIAL))
    a = upload(np.arange(100, dtype=np.float32))
    out = upload(np.zeros(60, np.float32))
    run([a[10:60], a[50:100], out[5:55]], [50], device.default_stream)
    expected = np.zeros(60, np.float32)
    expected[5:55] = np.arange(10, 60) + np.arange(50, 100)
    np.testing.assert_array_equal(download(out), expected)


RACE_CHECK = """
import importlib.util, sys
from dataclasses import replace
import numpy as np
from tensocket_opencl.backend import OpenCLBackend
from tensocket_plugins.contract.dtypes import FROM_NUMPY
from tensocket_plugins.ir.schedule import Strategy, schedule

spec = importlib.util.spec_from_file_location("forms", sys.argv[1])
forms = importlib.util.module_from_spec(spec)
sys.modules["forms"] = forms
spec.loader.exec_module(forms)
device = OpenCLBackend().open(0)
stream = device.default_stream
target = replace(device.target, group_size=16, sequential=False, parallelism=4)
checked = 0
for form in forms.FORMS.values():
    for strategy in Strategy:
        run = device.compile_ir(schedule(form(1).program, target, strategy))
        for n in (1, 33):
            case = form(n)
            arrays = []
            for a in (*case.inputs, *(e.astype(b.dtype.numpy) for e, b in
                                      zip(case.expected, case.program.buffers[len(case.inputs):], strict=True))):
                arrays.append(device.empty(a.shape, FROM_NUMPY[a.dtype], stream))
                device.copy(arrays[-1], np.ascontiguousarray(a), stream)
            run(arrays, case.scalars, stream)
            for handle, expected in zip(arrays[len(case.inputs):], case.expected, strict=True):
                out = np.empty(handle.shape, handle.dtype.numpy)
                device.copy(out, handle, stream)
                np.testing.assert_allclose(out, expected, rtol=case.tolerance, atol=case.tolerance)
                checked += 1
print("checked", checked, "on", device._handle.platform.name)
"""


@pytest.mark.skipif(shutil.which("oclgrind") is None, reason="oclgrind, which finds races and bad accesses, is missing")
def test_no_races_and_no_access_out_of_bounds(backend):
    """In a simulator that watches every access of every work-item."""
    environment = {**os.environ, "TENSOCKET_CACHE_DIR": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    forms = Path(__file__).parents[1] / "ir" / "forms.py"
    done = subprocess.run(
        ["oclgrind", "--data-races", sys.executable, "-c", RACE_CHECK, str(forms)],
        capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("checked ")
    assert "Oclgrind" in done.stdout
    for trouble in ("data race", "Invalid", "divergence", "FATAL"):
        assert trouble.lower() not in done.stderr.lower(), done.stderr[:3000]
