"""The LLVM printer as text: its ABI, what it refuses, and what it must not say. Running kernels is the CPU's test."""

from __future__ import annotations

import re

import pytest

from tensocket_plugins.contract.dtypes import bfloat16, bool_, complex64, float16, float32, float64, int32, int64
from tensocket_plugins.ir.nodes import (
    Atomic,
    Barrier,
    Buffer,
    Combine,
    IRError,
    Kernel,
    Let,
    Load,
    LoopKind,
    Program,
    Reduce,
    Scalar,
    Store,
    Temporary,
    Var,
    call,
    cast,
    const,
    loop,
)
from tensocket_plugins.ir.printers.llvm import print_llvm
from tensocket_plugins.ir.printers.llvm_calls import entry_name, slots, split_loop

I, J, N = (Var(name, int32) for name in ("i", "j", "n"))
P = LoopKind.PARALLEL


def program(*body, params=None, temporaries=(), name="test"):
    params = params or (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32))
    return Program(name, tuple(params), (Kernel(name, tuple(body)),), tuple(temporaries))


def copy_loop(kind=P, stop=N):
    return loop(I, stop, [Store("out", I, Load("in0", I, float32))], kind)


def test_symbols_never_clash_with_the_c_library():
    assert entry_name(0, Kernel("exp", ())) == "tensocket.0.exp"
    assert entry_name(3, Kernel("a.b-c", ())) == "tensocket.3.a_b_c"
    assert "define void @tensocket.0.exp(ptr noalias readonly %args, i64 %begin, i64 %end)" in print_llvm(
        program(copy_loop(), name="exp"))


def test_slots_are_buffers_temporaries_scalars():
    built = program(copy_loop(), temporaries=[Temporary("t", float32, N)])
    assert [slot.name for slot in slots(built)] == ["out", "in0", "t", "n"]


def test_array_slots_may_hold_objects():
    assert "getelementptr i8" not in print_llvm(program(copy_loop()))
    assert print_llvm(program(copy_loop()), pointer_field=16).count("getelementptr i8, ptr %v2, i64 16") == 1


def test_text_depends_on_the_program_alone():
    assert print_llvm(program(copy_loop())) == print_llvm(program(copy_loop()))


def test_floating_point_is_strict():
    x = Load("in0", I, float32)
    text = print_llvm(program(loop(I, N, [Store("out", I, (x * x + x) / (x - 1.0))], P)))
    assert {"fmul float", "fadd float", "fdiv float", "fsub float"} <= set(re.findall(r"f\w+ float", text))
    assert not re.search(r"\b(fast|contract|reassoc|nnan|ninf|nsz|arcp|afn|fma)\b", text)


def test_index_arithmetic_is_64_bit_and_does_not_wrap():
    stride = Var("s", int32)
    text = print_llvm(program(loop(I, N, [Store("out", I * stride + 1, Load("in0", I, float32))], P), params=(
        Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32), Scalar("s", int32))))
    assert "mul nsw i64" in text
    assert "add nsw i64" in text
    assert "mul i32" not in text


def test_data_arithmetic_wraps():
    x = Load("in0", I, int32)
    text = print_llvm(program(loop(I, N, [Store("out", I, x * x + x)], P), params=(
        Buffer("out", int32, True), Buffer("in0", int32), Scalar("n", int32))))
    assert "mul i32" in text
    assert "mul nsw" not in text


def test_independent_iterations_are_declared_for_parallel_loops_only():
    assert "llvm.loop.parallel_accesses" in print_llvm(program(copy_loop()))
    assert "llvm.loop.parallel_accesses" not in print_llvm(program(copy_loop(LoopKind.SERIAL)))
    add = Atomic("add", "out", const(0, int32), Load("in0", I, float32))
    assert "llvm.loop.parallel_accesses" not in print_llvm(program(loop(I, N, [add], P)))


def test_shared_parts_are_printed_once():
    x = Load("in0", I, float32)
    for _ in range(40):
        x = x * x
    text = print_llvm(program(loop(I, N, [Store("out", I, x)], P)))
    assert text.count("fmul") == 40


def test_shared_index_parts_are_printed_once():
    index = I
    for _ in range(40):
        index = index + index
    text = print_llvm(program(loop(I, N, [Let(J, index), Store("out", J, Load("in0", J, float32))], P)))
    assert text.count("add nsw i64") == 41


def test_math_functions_come_from_the_c_library():
    text = print_llvm(program(loop(I, N, [Store("out", I, cast(call("tanh", cast(Load("in0", I, float32), float64)),
                                                               float32))], P)))
    assert "declare double @tanh(double) nounwind willreturn memory(none)" in text


@pytest.mark.parametrize(("body", "splits"), [
    ([copy_loop()], True),
    ([Let(J, const(1, int32)), copy_loop()], True),
    ([copy_loop(stop=N * 2 + 1)], True),
    ([copy_loop(LoopKind.SERIAL)], False),
    ([copy_loop(), copy_loop()], False),
    ([Let(J, const(1, int32)), copy_loop(stop=J)], False),
    ([loop(I, N, [Atomic("add", "out", const(0, int32), const(1.0, float32))], P)], False),
])
def test_which_loop_threads_may_divide(body, splits):
    built = program(*body)
    assert (split_loop(built, built.kernels[0]) is body[-1]) is splits
    assert ("phi i64 [ %begin" in print_llvm(built)) is splits


def test_integer_atomics_may_be_divided():
    add = loop(I, N, [Atomic("max", "out", const(0, int32), Load("in0", I, int64))], P)
    built = program(add, params=(Buffer("out", int64, True), Buffer("in0", int64), Scalar("n", int32)))
    assert split_loop(built, built.kernels[0]) is add
    assert "atomicrmw max ptr" in print_llvm(built)


X = Var("x", float32)
REDUCE = Reduce((X,), ((J, N),), (), (const(1.0, float32),), (const(0.0, float32),),
                Combine((Var("l", float32),), (Var("r", float32),), (Var("l", float32) + Var("r", float32),)))


@pytest.mark.parametrize(("statement", "message"), [
    (REDUCE, "kernel test: Reduce in a kernel for a processor; schedule it first"),
    (Barrier(), "kernel test: Barrier in a kernel for a processor; schedule it first"),
    (copy_loop(LoopKind.GROUP), "kernel test: For group in a kernel for a processor; schedule it first"),
    (copy_loop(LoopKind.LANE), "kernel test: For lane in a kernel for a processor; schedule it first"),
    (Store("out", J, const(1.0, float32)), "kernel test: variable j is not defined"),
    (Store("nowhere", const(0, int32), const(1.0, float32)), "kernel test: array nowhere is not defined"),
    (Store("out", const(0, int32), Load("gone", const(0, int32), float32)), "kernel test: array gone is not defined"),
    (Let(Var("z", complex64), Load("out", const(0, int32), complex64)),
     "LLVM kernels do not compute with complex64"),
    (Let(X, call("add", const(1.0, float16), Var("n", float16))), "add of float16: convert it to float32 first"),
    (Let(X, call("lt", const(1.0, bfloat16), Var("n", bfloat16))), "lt of bfloat16: convert it to float32 first"),
    (Let(X, call("sqrt", Var("n", int32))), "sqrt of int32 has no LLVM form"),
    (Let(X, call("shl", Var("n", float32), Var("n", float32))), "shl of float32 has no LLVM form"),
], ids=str)
def test_what_cannot_be_printed(statement, message):
    with pytest.raises(IRError, match=f"^{re.escape(message)}$"):
        print_llvm(program(statement))


def test_an_expression_must_be_one():
    with pytest.raises(IRError, match="Barrier is not an expression"):
        print_llvm(program(Let(X, Barrier())))


def test_bool_is_a_byte_in_memory():
    text = print_llvm(program(loop(I, N, [Store("out", I, call("not", Load("in0", I, bool_)))], P), params=(
        Buffer("out", bool_, True), Buffer("in0", bool_), Scalar("n", int32))))
    assert "icmp ne i8" in text
    assert "zext i1" in text
