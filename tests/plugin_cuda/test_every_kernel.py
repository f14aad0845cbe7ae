"""Every kernel that the conformance suite's sample asks for, scheduled as for a GPU, is one that NVRTC compiles.

The device prints and compiles CUDA C++ for each program and then lets the reference interpreter run the very program
that was printed, so that the schedules for a GPU are executed, too.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("cuda.bindings")
pytest.importorskip("tensocket_conformance")

BACKEND = '''
from tensocket_cuda.compiler import build
from tensocket_plugins.kit.disk_cache import BuildStats
from tensocket_plugins.contract import Descriptor, hookimpl
from tensocket_plugins.ir.printers.c import print_c
from tensocket_plugins.ir.printers.dialect import CUDA
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit import ref


class PrintedDevice(ref.RefDevice):
    def __init__(self, index, memory):
        super().__init__(index, memory)
        self.name = f"printedcuda:{index}"
        self.allocator.device = self.name
        self.target = Target(kind="simt", group_size=256, max_group_size=1024, local_bytes=48 << 10, parallelism=528)
        self.build_stats = BuildStats()

    def compile_ir(self, program):
        assert build(print_c(program, CUDA), "sm_90")
        self.build_stats.kernels += 1
        return super().compile_ir(program)


class PrintedBackend(ref.RefBackend):
    def open(self, index):
        return PrintedDevice(index, self.memory)


@hookimpl
def tensocket_describe():
    return Descriptor("printedcuda", ((1, 0), (2, 0)), ref.PROFILE)


@hookimpl
def tensocket_backend():
    return PrintedBackend()
'''


def test_nvrtc_compiles_every_kernel_of_the_sample(make_distribution, tmp_path):
    make_distribution("printedcuda", BACKEND, replace=True)
    report = tmp_path / "report.json"
    done = subprocess.run([sys.executable, "-m", "tensocket", "conformance", "printedcuda", "--quick", "--report",
                           str(report)], capture_output=True, text=True, timeout=600, check=False)
    assert report.exists(), done.stdout + done.stderr
    result = json.loads(report.read_text("utf-8"))
    assert result["build_stats"]["kernels"] > 50
    assert result["totals"]["PASS"] > 150
    assert [case["id"] for case in result["cases"] if case["outcome"] == "FAIL"] == [], done.stdout
