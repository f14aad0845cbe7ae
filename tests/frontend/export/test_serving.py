"""Compiled programs: results, sizes, buffers, and files with kernels, which other processes do not compile anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import pytest

import tensocket as torch
from tensocket import nn
from tensocket._inductor import aoti_compile_and_package, aoti_load_package
from tensocket.errors import ArgumentError, CompileError, DamagedFileError, ExportError
from tensocket.export import Dim, export, load, save
from tensocket.export.serving import CompiledProgram


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 8)
        self.b.weight.data = self.b.weight.data.t()
        self.c = nn.Linear(8, 8, bias=False)
        self.c.weight = self.b.weight
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, *, scale):
        self.calls.add_(1)
        return {"y": self.c(self.b(self.a(x).relu())).softmax(-1) * scale, "n": x.shape[0]}


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def exported(net):
    return export(net, (torch.randn(2, 4),), {"scale": 2.0}, dynamic_shapes={"x": {0: Dim("batch", max=9)},
                                                                             "scale": None})


def test_results_for_several_sizes(net):
    run = CompiledProgram(exported(net))
    for batch in (2, 5, 2, 5, 5, 1):
        x = torch.randn(batch, 4)
        mine, expected = run(x, scale=2.0), net(x, scale=2.0)
        assert torch.allclose(mine["y"], expected["y"], atol=1e-6)
        assert mine["n"] == batch
        assert not mine["y"].requires_grad
    count = len(run._variants)
    assert count <= 4  # the first graph may be made again, because making it loads modules
    for batch in (2, 5, 1):
        run(torch.randn(batch, 4), scale=2.0)
    assert len(run._variants) == count
    # The program and the module share their state, and each call of either one counts.
    assert net.calls.item() == 15


def test_graphs_ahead_of_calls_leave_buffers(net):
    run = CompiledProgram(exported(net)).warm()
    assert net.calls.item() == 0
    run.warm(torch.randn(3, 4), scale=2.0)
    assert len(run._variants) == 2
    run(torch.randn(3, 4), scale=2.0)
    assert len(run._variants) == 2
    assert net.calls.item() == 1


def test_state_may_change(net):
    run = CompiledProgram(exported(net)).warm()
    x = torch.randn(2, 4)
    with torch.no_grad():
        net.a.weight.mul_(2)
    net.b.bias.data = torch.ones(8)
    assert torch.allclose(run(x, scale=2.0)["y"], net(x, scale=2.0)["y"], atol=1e-6)


def test_inputs_are_checked(net):
    run = CompiledProgram(exported(net))
    with pytest.raises(torch.export.GuardError, match=r"Guard failed: x\.size\(\)\[0\] <= 9"):
        run(torch.randn(10, 4), scale=2.0)
    with pytest.raises(ExportError, match=r"the program's arguments have the structure tuple\(tuple\(\*\), dict"):
        run(torch.randn(2, 4), 2.0)


def test_indices_are_checked():
    run = CompiledProgram(export(nn.Embedding(4, 2), (torch.tensor([0, 3]),))).warm()
    assert run(torch.tensor([1, 2])).shape == (2, 2)
    with pytest.raises(IndexError):
        run(torch.tensor([1, 4]))


def test_files_hold_the_kernels(net, tmp_path):
    program = exported(net)
    path = aoti_compile_and_package(program, package_path=str(tmp_path / "net.pt2"))
    assert net.calls.item() == 0
    with zipfile.ZipFile(path) as archive:
        kernels = [name for name in archive.namelist() if "/data/tensocket_kernels/cpu/" in name]
    assert kernels
    x = torch.randn(2, 4)
    expected = program.module()(x, scale=2.0)["y"].detach()
    torch.save((x, expected), tmp_path / "expected.pt")
    assert torch.equal(load(path).module()(x, scale=2.0)["y"], expected)
    code = (
        "import json, sys, tensocket as torch\n"
        "from tensocket._inductor import aoti_load_package\n"
        "x, expected = torch.load(sys.argv[2])\n"
        "torch.ones(2).add(1)\n"
        "before = torch.build_stats('cpu').kernels\n"
        "hits = torch.build_stats('cpu').cache_hits\n"
        "found = aoti_load_package(sys.argv[1])(x, scale=2.0)['y']\n"
        "counts = [torch.build_stats('cpu').kernels - before, torch.build_stats('cpu').cache_hits - hits]\n"
        "print(json.dumps([torch.allclose(found, expected, atol=1e-6), *counts]))")
    done = subprocess.run([sys.executable, "-c", code, path, str(tmp_path / "expected.pt")], capture_output=True,
                          text=True, check=True, env={**os.environ, "TENSOCKET_CACHE_DIR": str(tmp_path / "cache")})
    same, kernels, hits = json.loads(done.stdout)
    assert same
    assert kernels == hits > 0


def test_refusals(net, tmp_path):
    program = exported(net)
    with pytest.raises(ArgumentError, match=r"Expect package path to be a file ending in \.pt2"):
        aoti_compile_and_package(program, package_path=str(tmp_path / "net.zip"))
    with pytest.raises(ArgumentError, match="the program has its example inputs, and the compiler no settings"):
        aoti_compile_and_package(program, package_path=str(tmp_path / "net.pt2"), inductor_configs={"a": 1})
    save(program, tmp_path / "net.pt2")
    with pytest.raises(ArgumentError, match="programs run on the devices that they were exported for"):
        aoti_load_package(tmp_path / "net.pt2", device_index=1)
    program.example_inputs = None
    with pytest.raises(ExportError, match="graphs are for the sizes of arguments"):
        CompiledProgram(program).warm()
    (tmp_path / "both.pt2").write_bytes(b"PK")
    with pytest.raises(DamagedFileError):
        aoti_load_package(tmp_path / "both.pt2")

    with pytest.raises(ExportError, match="compiled programs write in place"):
        CompiledProgram(exported(net).run_decompositions())

    class Shared(nn.Module):
        def forward(self, x, y):
            return x + y

    whole = torch.randn(4)
    run = CompiledProgram(export(Shared(), (whole[:2], whole[1:3])))
    with pytest.raises(CompileError, match="a compiled program is a graph of operators"):
        run(whole[:2], whole[1:3])
