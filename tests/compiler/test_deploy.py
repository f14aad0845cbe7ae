"""Parts of C libraries: polynomials of sizes, plans from runs, unused values, and errors of the parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import CompileError
from tensocket_compiler.deploy.device import Check, ahead_device
from tensocket_compiler.deploy.fusion import note_graph
from tensocket_compiler.deploy.kernels import kernels_text
from tensocket_compiler.deploy.parts import extent_text
from tensocket_compiler.deploy.plan import make_plan
from tensocket_compiler.deploy.polynomials import fit, grid
from tensocket_compiler.deploy.runs import Block, Run, Step, Use
from tensocket_compiler.deploy.tidying import without_unused
from tensocket_compiler.deploy.weights import place_weights, weight_source
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import float32, float64, int32, int64
from tensocket_plugins.ir.nodes import Barrier, Buffer, Kernel, Let, Load, LoopKind, Program, Store, Var, const, loop


def test_polynomials_of_two_sizes() -> None:
    points = grid([(9, 6), (8, 4), (5, 1)])
    assert len(points) == 9
    found = fit(points, [3 * n * n * m - 2 * n * m + 7 for n, m in points])
    assert found is not None
    assert found.text(["n", "m"]) == "n * n * m * 3 + n * m * -2 + 7"
    assert found.at((100, 30)) == 3 * 100 * 100 * 30 - 2 * 100 * 30 + 7
    assert fit([()], [5]).text([]) == "5"  # type: ignore[union-attr]
    assert fit([(4,), (3,), (2,)], [0, 0, 0]).text(["n"]) == "0"  # type: ignore[union-attr]


def test_numbers_with_fractions_are_no_polynomials() -> None:
    assert fit([(8,), (7,), (6,)], [n // 2 for n in (8, 7, 6)]) is None
    assert fit([(8,), (7,), (6,)], [n * (n + 1) // 2 for n in (8, 7, 6)]) is None


def plan_of(number: Callable[[int], float], nbytes: Callable[[int], int] = lambda n: 64,
            kind: Callable[[int], str] = lambda n: "check", low: int = 1, high: int = 40) -> object:
    """The plan of runs of one step with one number."""
    array = DeviceArray(None, int64, (1,), (1,), 0)

    def trace(sizes: tuple[int, ...]) -> Run:
        step = Step((kind(sizes[0]),), Check(array, 0, 1, 0), (Use(0, 0, int64),), (False,), (number(sizes[0]),))
        return Run(sizes, [step], [Block("input", 0, nbytes(sizes[0]))], [])

    return make_plan(trace, (low,), (high,))


def test_numbers_of_plans() -> None:
    found = [plan_of(f).steps[0].numbers[0] for f in (  # type: ignore[attr-defined]
        lambda n: 3 * n + 1, lambda n: 2.5, lambda n: float(n * n), lambda n: 1 / (2 * n))]
    assert [x.form for x in found] == ["int", "float", "float", "inverse"]
    assert [x.value if x.value == 2.5 else x.value.at((7,)) for x in found] == [22, 2.5, 49, 14]


def test_a_size_that_another_dimension_has_is_passed_over() -> None:
    found = plan_of(lambda n: n, kind=lambda n: "other" if n in (40, 38, 37) else "check")
    assert found.steps  # type: ignore[attr-defined]
    assert plan_of(lambda n: n, low=2, high=3).steps  # type: ignore[attr-defined]


def test_plans_that_are_refused() -> None:
    with pytest.raises(CompileError, match=r"launches differ for similar sizes, such as \[40\] — one list of "
                                           "launches serves all sizes in the ranges — export it with fixed sizes"):
        plan_of(lambda n: n, kind=lambda n: str(n // 3))
    with pytest.raises(CompileError, match="— numbers of launches are polynomials of the sizes that change — export"):
        plan_of(lambda n: n // 2 * 2)
    with pytest.raises(CompileError, match="for different sizes — fractions do not change, or are one divided by a "
                                           "polynomial of the sizes — export it with fixed sizes"):
        plan_of(lambda n: n / 3)
    with pytest.raises(CompileError, match="a program that needs more memory for smaller sizes — the arena is made "
                                           "for the largest sizes — export it with fixed sizes"):
        plan_of(lambda n: n, nbytes=lambda n: 4000 - n)


def test_operators_and_launches_on_the_host_are_refused() -> None:
    x = torch.ones(3, device="cpu")
    with pytest.raises(CompileError, match="the operator add on cpu — kernels of a C library compute everything "
                                           "that changes from call to call — move its operands to the device of"):
        note_graph(lambda: [x + x], [x], [])
    out = Program("fill", (Buffer("out", float32, True),), (Kernel("fill", (Store("out", const(0, int32),
                                                                                   const(0, float32)),)),))
    run = ahead_device().runtime.compile_ir(out)
    with pytest.raises(CompileError, match="a launch of fill on memory of the host — kernels of a C library read and "
                                           "write its own memory — move the operands to one device"):
        run([np.zeros(1, np.float32)], [], None)


def test_kernels_that_c_cannot_express_are_refused() -> None:
    lane = Var("lane", int32)
    kernel = Kernel("meet", (loop(lane, 2, [Barrier()], LoopKind.LANE),))
    with pytest.raises(CompileError, match="— kernels are loops over numbers of C's "
                                           "types — leave out the operator, or convert its operands"):
        kernels_text([Program("meet", (), (kernel,))], [])
    with pytest.raises(CompileError, match=r"— numbers of iterations are integer arithmetic — leave out the operator"):
        extent_text(const(1.5, float32), {})


def test_unused_definitions_go_where_another_one_has_the_name() -> None:
    x, i = Var("x", float32), Var("i", int32)
    used = loop(i, 4, [Let(x, Load("a", i, float32)), Store("a", i, x + 1.0)])
    unused = loop(i, 4, [Let(x, Load("a", i, float32)), Store("a", i, const(2, float32))])
    program = Program("p", (Buffer("a", float32, True),), (Kernel("p", (used, unused)),))
    first, second = without_unused(program).kernels[0].body
    assert [type(s) for s in first.body] == [Let, Store]  # type: ignore[attr-defined]
    assert [type(s) for s in second.body] == [Store]  # type: ignore[attr-defined]


def test_weights_are_exact_in_c() -> None:
    values = np.array([0.1, -0.0, np.inf, -np.inf, 1e-45, 3.4e38], np.float32)
    weights, total = place_weights([(3, float32, values.tobytes()), (4, int64, np.array([-2**63]).tobytes()),
                                    (5, float64, np.array([0.1]).tobytes())])
    assert ([x.offset for x in weights], total) == ([0, 64, 128], 192)
    text = weight_source("net", weights)
    assert "const float net_weight_3[6] = {\n    0x1.99999a0000000p-4f, -0x0.0p+0f, INFINITY, -INFINITY, 0x1" in text
    assert "(-9223372036854775807LL - 1)" in text
    assert "0x1.999999999999ap-4," in text
