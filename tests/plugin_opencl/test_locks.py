"""Several processes build the same kernels at once, from empty caches."""

import os
import subprocess
import sys

BUILD = """
import sys
from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.registry import registry
device = registry().open(Device("opencl"))
for k in range(10):
    source = "__kernel void k%d(__global float *a) { size_t i = get_global_id(0); a[i] = a[i] * %d.0f + i; }" % (k, k)
    device.compile_source(source, ["k%d" % k])
print(device.build_stats.kernels)
"""


def test_processes_do_not_disturb_each_other(device, tmp_path):
    assert device  # skips where there is none
    env = {**os.environ, "POCL_CACHE_DIR": str(tmp_path / "pocl"), "TENSOCKET_CACHE_DIR": str(tmp_path / "kernels")}
    (tmp_path / "pocl").mkdir()
    running = [subprocess.Popen([sys.executable, "-c", BUILD], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for _ in range(3)]
    ends = [(process.communicate(timeout=120), process.returncode) for process in running]
    assert [code for _, code in ends] == [0, 0, 0], [err.decode()[-300:] for (_, err), _ in ends]
    assert {out.decode().strip() for (out, _), _ in ends} == {"10"}
