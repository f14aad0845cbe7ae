"""Digests of programs: equal for equal programs, in any process and of any size."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from tensocket_plugins.contract.dtypes import float32, float64, int32, int64
from tensocket_plugins.ir.digest import program_digest
from tensocket_plugins.ir.nodes import (
    Buffer,
    Const,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Scalar,
    Store,
    Temporary,
    Var,
    call,
    loop,
)

I, N = Var("i", int32), Var("n", int32)


def program(value=None, kind=LoopKind.PARALLEL, name="p", writable=True):
    value = Load("x", I, float32) * 2.0 if value is None else value
    params = (Buffer("out", float32, writable), Buffer("x", float32), Scalar("n", int32))
    return Program(name, params, (Kernel(name, (loop(I, N, [Store("out", I, value)], kind),)),))


def test_programs_that_are_built_twice_are_equal():
    assert program_digest(program()) == program_digest(program())


def test_shared_parts_do_not_matter():
    x = Load("x", I, float32)
    assert program_digest(program(x * x)) == program_digest(program(Load("x", I, float32) * Load("x", I, float32)))


@pytest.mark.parametrize("other", [
    program(Load("x", I, float32) * 3.0), program(Load("x", I, float32) + 2.0), program(2.0 * Load("x", I, float32)),
    program(kind=LoopKind.SERIAL), program(name="q"), program(writable=False),
    program(Load("out", I, float32) * 2.0), program(Load("x", N, float32) * 2.0),
    program(call("exp", Load("x", I, float32)) * 2.0),
    replace(program(), temporaries=(Temporary("t", float32, N),)),
    replace(program(), kernels=(*program().kernels, *program().kernels)),
    replace(program(), params=(*program().params, Scalar("m", int32))),
    replace(program(), params=(Buffer("out", float32, True, True), *program().params[1:])),
    replace(program(), kernels=(replace(program().kernels[0], locals=(Local("l", float32, 4),)),)),
    replace(program(), kernels=(replace(program().kernels[0], body=(Let(Var("y", float32), Const(1.0, float32)),
                                                                    *program().kernels[0].body)),)),
])
def test_every_part_counts(other):
    assert program_digest(other) != program_digest(program())


def test_numbers_and_dtypes_count():
    values = [Const(0.0, float32), Const(-0.0, float32), Const(0.0, float64), Const(0, int32), Const(0, int64),
              Const(1, int32), Const(True, int32), Const(float("nan"), float32), Const(float("inf"), float32)]
    assert len({program_digest(program(value)) for value in values}) == len(values)


def test_texts_cannot_imitate_other_parts():
    one, other = (replace(program(), name=name) for name in ("p' #1", "p"))
    assert program_digest(one) != program_digest(other)


def test_parts_that_are_used_twice_on_every_level_cost_no_more():
    x = Load("x", I, float32)
    for _ in range(2000):  # as a text, 2 ** 2000 loads
        x = x * x
    assert len(program_digest(program(x))) == 64


def test_digests_are_the_same_in_every_process():
    code = "from tests.ir.test_digest import program, program_digest; print(program_digest(program()))"
    found = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed}).stdout.strip()
             for seed in ("1", "2")}
    assert found == {program_digest(program())}
