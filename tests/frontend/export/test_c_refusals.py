"""Programs and options that have no form as a C library: typed errors, and nothing is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.cli import main
from tensocket.errors import ArgumentError, CompileError, ExportError
from tensocket.export import Dim, compile_c, export, save
from tensocket.export.pt2_archive.package import package_pt2
from tensocket.nn import functional as F


class Module(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.weight, self._function = nn.Parameter(torch.ones(3)), function

    def forward(self, x: Any) -> Any:
        return self._function(self, x)


def refused(function: Any, *args: Any, kind: type[Exception] = CompileError, folder: Path, dynamic: Any = None,
            **options: Any) -> str:
    """Return the error for a program; the folder stays empty."""
    program = export(Module(function), args or (torch.ones(2, 3),), dynamic_shapes=dynamic)
    with pytest.raises(kind) as error:
        compile_c(program, folder / "made", **options)
    assert not (folder / "made").exists()
    return str(error.value)


def test_operators_of_the_host(tmp_path: Path) -> None:
    text = refused(lambda m, x: torch.linalg.svd(x).S, folder=tmp_path)
    assert text.startswith("[compile_c] an operator without kernels: ")
    assert "a C library has no host library, and launches kernels only — leave the operator out" in text


def test_elements_that_are_read(tmp_path: Path) -> None:
    text = refused(lambda m, x: F.gaussian_nll_loss(x, x, x), folder=tmp_path)
    assert ("[compile_c] a program that reads elements of a tensor outside of kernels — a C library makes the same "
            "launches for all values — leave out item(), bool(), tolist(), step counts of optimizers, and operators "
            "that run on the host or check values other than indices") in text


def test_writes_to_an_argument(tmp_path: Path) -> None:
    text = refused(lambda m, x: x.add_(1), folder=tmp_path)
    assert ("[compile_c] a program that writes to an argument — a C library only reads its inputs — let the program "
            "write to a copy, and return it") in text


def test_memory_that_nothing_wrote(tmp_path: Path) -> None:
    text = refused(lambda m, x: x + torch.empty(3), folder=tmp_path)
    assert ("[compile_c] a program whose kernels read memory that nothing wrote — inputs, weights and constants are "
            "all that a C library starts from — initialise the tensor, or pass it as an input") in text
    text = refused(lambda m, x: torch.empty(3), folder=tmp_path)
    assert "[compile_c] a program whose output 0 has no contents — kernels write all outputs — initialise" in text


def test_sizes_without_a_limit(tmp_path: Path) -> None:
    batch = Dim("batch", min=1)
    text = refused(lambda m, x: x + 1, kind=ExportError, folder=tmp_path, dynamic={"x": {0: batch}})
    assert ("[compile_c] the size batch without a largest value — the arena of a C library has a fixed size — export "
            "with Dim('batch', max=...), or pass max_sizes={'batch': ...}") in text
    text = refused(lambda m, x: x + 1, kind=ExportError, folder=tmp_path, dynamic={"x": {0: batch}},
                   max_sizes={"batch": 0})
    assert "[compile_c] max_sizes={'batch': 0} — the size lies between 1 and inf — choose a size in this range" in text
    text = refused(lambda m, x: x + 1, kind=ExportError, folder=tmp_path, max_sizes={"batch": 3})
    assert "[compile_c] max_sizes={'batch': 3} — the program's sizes are fixed — pass the name of one of them" in text


def test_numbers_that_are_no_polynomials(tmp_path: Path) -> None:
    text = refused(lambda m, x: F.avg_pool1d(x.t(), 2).sum(0), torch.ones(8, 3), folder=tmp_path,
                   dynamic={"x": {0: Dim("batch", min=4, max=20)}})
    assert text.startswith("[compile_c] a program ")
    assert "export it with fixed sizes" in text


def test_programs_whose_writes_are_outputs(tmp_path: Path) -> None:
    program = export(Module(lambda m, x: x + m.weight), (torch.ones(2, 3),)).run_decompositions({})
    made = compile_c(program, tmp_path / "pure")
    assert made.launches == 1

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.calls.add_(1)
            return x + self.calls

    with pytest.raises(ExportError, match=r"\[compile_c\] a program of dialect \w+ with writes among its outputs — a C "
                                          "library writes in place — compile the program before run_decompositions"):
        compile_c(export(Counter(), (torch.ones(2),)).run_decompositions({}), tmp_path / "writes")


@pytest.mark.parametrize("name", ["", "Net", "2d", "int", "my-net", "ts_net", "x" * 64])
def test_names(name: str, tmp_path: Path) -> None:
    program = export(Module(lambda m, x: x + 1), (torch.ones(2, 3),))
    with pytest.raises(ArgumentError, match=r"\[compile_c\] the name .* — a name begins with a lower-case letter, has "
                                            "lower-case letters, digits and underscores, and is no word of C — choose"):
        compile_c(program, tmp_path, name=name)


def test_options(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"\[compile_c\] a Module — C libraries are made of exported programs"):
        compile_c(Module(None), tmp_path)  # type: ignore[arg-type]
    program = export(Module(lambda m, x: x + 1), (torch.ones(2, 3),))
    with pytest.raises(ArgumentError, match="weights='both' — weights are in the 'source' or in a 'file' — pass one"):
        compile_c(program, tmp_path, weights="both")  # type: ignore[arg-type]


def test_training_without_a_loss(tmp_path: Path) -> None:
    def optimizer(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=0.1)

    text = refused(lambda m, x: x + m.weight, kind=ExportError, folder=tmp_path, optimizer=optimizer)
    assert ("[compile_c] a program whose first output is no loss — a training step differentiates one number that "
            "depends on parameters — return the loss first") in text
    with pytest.raises(ExportError, match=r"\[compile_c\] a program without parameters that require gradients — a "
                                          "training step updates parameters — leave optimizer out"):
        compile_c(export(nn.ReLU(), (torch.ones(2),)), tmp_path / "made", optimizer=optimizer)


def test_optimizers_whose_first_step_is_another_one(tmp_path: Path) -> None:
    text = refused(lambda m, x: (x * m.weight).sum(), folder=tmp_path, optimizer=lambda parameters: torch.optim.SGD(
        parameters, lr=0.1, momentum=0.9, dampening=0.5))
    assert ("[compile_c] an optimizer whose state does not begin with zeros — the first step in C is like all others "
            "— use an optimizer such as Adam, or SGD without dampening") in text


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "my-net.pt2"
    save(export(Module(lambda m, x: x * m.weight), (torch.ones(2, 3),), dynamic_shapes={"x": {0: Dim("batch", min=1)}}),
         path)
    assert main(["export", str(path), "--c", "--max-size", "x_size_0=5", "--weights", "file",
                 "--cpu", "x86-64-v3", "--products", "cblas"]) == 0
    assert {x.name for x in (tmp_path / "my_net_c").iterdir()} == {
        "my_net.c", "my_net.h", "my_net.hpp", "my_net.weights", "Makefile", "CMakeLists.txt"}
    assert "-march=x86-64-v3\nBLAS ?= " in (tmp_path / "my_net_c" / "Makefile").read_text()
    assert "1 launches of 1 kernels, 64 bytes of weights, 64 bytes of memory for a call" in capsys.readouterr().out
    assert main(["export", str(path), "--c", str(tmp_path / "other"), "--max-size", "batch"]) == 2
    assert "[export] --max-size batch — it is the name of a Dim, = and a number — write" in capsys.readouterr().err
    assert main(["export", str(path), "--c", str(tmp_path / "other")]) == 1
    assert not (tmp_path / "other").exists()
    two = tmp_path / "two.pt2"
    program = export(Module(lambda m, x: x * m.weight), (torch.ones(2, 3),))
    package_pt2(two, exported_programs={"a": program, "b": program})
    assert main(["export", str(two), "--c"]) == 2
    assert "[export] a file with 2 programs — a C library is made of one — save it alone" in capsys.readouterr().err


def test_forms_that_c_does_not_have(tmp_path: Path) -> None:
    text = refused(lambda m, x: x.to_dense() + 1, torch.eye(3).to_sparse(), kind=ExportError, folder=tmp_path)
    assert "[compile_c] a sparse input x — inputs in C are dense arrays — convert it inside of the program" in text
    text = refused(lambda m, x: x.to(torch.float32), torch.ones(2).to(torch.float8_e5m2), folder=tmp_path)
    assert re.search("a tensor of float8_e5m2 — elements in C are bool, .+ or complex — convert it with", text)

    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("matrix", torch.eye(3).to_sparse())

        def forward(self, x: Any) -> Any:
            return self.matrix @ x

    with pytest.raises(ExportError, match="matrix of type SparseTensor — weights in C are dense tensors — convert it"):
        compile_c(export(Sparse(), (torch.ones(3, 2),)), tmp_path / "made")

    class Times(nn.Module):
        def forward(self, x: Any, n: int) -> Any:
            return x * n

    program = export(Times(), (torch.ones(3), 4))
    program._guards.sizes[1, None] = 4  # as in files of other programs that export integers
    with pytest.raises(ExportError, match=r"\[compile_c\] the integer n as an input that changes — inputs in C are "
                                          "arrays, and sizes follow from theirs — pass a tensor, or fix the number"):
        compile_c(program, tmp_path / "made")


def test_conditions_of_sizes(tmp_path: Path) -> None:
    a, b = Dim("a", min=1, max=8), Dim("b", min=1, max=8)

    class Halves(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + 1 if x.shape[0] // 2 < y.shape[0] * 2 else y * 2

    program = export(Halves(), (torch.ones(3), torch.ones(6)), dynamic_shapes=({0: a}, {0: b}))
    with pytest.raises(ExportError, match=r"\[compile_c\] a condition on sizes with floordiv — conditions in C are "
                                          "comparisons of sums and products — export the program with fixed sizes"):
        compile_c(program, tmp_path / "made")


class Counting(torch.optim.SGD):
    """An optimizer with further state: a number on the host, or a tensor that it replaces."""

    def __init__(self, parameters: Any, kind: str) -> None:
        super().__init__(parameters, lr=0.1)
        self.kind = kind

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                if self.kind == "host":
                    self.state[p].setdefault("count", torch.zeros((), device="cpu"))
                else:
                    self.state[p]["last"] = p.grad * 1
        return super().step(closure)


def test_state_of_optimizers(tmp_path: Path) -> None:
    def loss(m: Any, x: Any) -> Any:
        return (x * m.weight).sum()

    text = refused(loss, folder=tmp_path, optimizer=lambda parameters: Counting(parameters, "host"))
    assert ("[compile_c] the state 'count:weight' of an optimizer on the host — a C library keeps state beside the "
            "parameters — make it like the parameters") in text
    text = refused(loss, folder=tmp_path, optimizer=lambda parameters: Counting(parameters, "new"))
    assert ("[compile_c] an optimizer that replaces tensors of its state — a C library writes state in place — use "
            "another optimizer") in text
    text = refused(loss, folder=tmp_path, optimizer=torch.optim.RAdam)
    assert "[compile_c] a program that reads elements of a tensor outside of kernels" in text
