"""Each rule of the IR with programs that break it, and programs that break none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensocket_plugins.contract.dtypes import (
    bfloat16,
    bool_,
    complex64,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
)
from tensocket_plugins.ir.nodes import (
    Assign,
    Atomic,
    Barrier,
    Buffer,
    Call,
    Combine,
    Const,
    Declare,
    For,
    If,
    IRError,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Reduce,
    Scalar,
    Store,
    Temporary,
    Var,
    cast,
    const,
    loop,
)
from tensocket_plugins.ir.rules import RULES
from tensocket_plugins.ir.vector_access import LoadVector, StoreVector
from tensocket_plugins.ir.verify import verify

I, J, K, N = (Var(name, int32) for name in ("i", "j", "k", "n"))
A, B, S, X = (Var(name, float32) for name in ("a", "b", "s", "x"))
ZERO, ONE = const(0, int32), const(1.0, float32)
P, G, L, V = LoopKind.PARALLEL, LoopKind.GROUP, LoopKind.LANE, LoopKind.VECTOR
PARAMS = (Buffer("in0", float32), Buffer("out0", float32, True), Buffer("half", float16), Scalar("n", int32),
          Scalar("scale", float32))
WRITE = Store("out0", ZERO, ONE)
SUM = Reduce((S,), ((K, N),), (), (Load("in0", K, float32),), (const(0.0, float32),), Combine((A,), (B,), (A + B,)))
TILE = Local("tile", float32, 8)


def program(*body, params=PARAMS, temporaries=(), locals=(TILE,)):
    return Program("p", tuple(params), (Kernel("k0", body, tuple(locals)),), tuple(temporaries))


def lanes(*body):
    return loop(I, N, [loop(J, 8, body, L)], G)


GOOD = [
    program(loop(I, N, [Let(X, Load("in0", I, float32) * 2.0), Store("out0", I, X)], P)),
    program(SUM, Store("out0", ZERO, S)),
    program(SUM, loop(I, N, [Store("out0", I, S)], P)),
    program(lanes(Store("tile", J, ONE), Barrier(), loop(K, N, [Barrier()]), If(J < 4, (WRITE,)))),
    program(Declare(X, ONE), loop(I, N, [If(I < 3, (Assign(X, X + ONE),))]), Store("out0", ZERO, X)),
    program(loop(I, N, [], P), loop(I, N, [], P)),
    program(Atomic("max", "out0", ZERO, ONE)),
    program(Store("t", ZERO, Load("t", ZERO, float16)), temporaries=[Temporary("t", float16, N * 2)]),
    program(Let(X, cast(Load("half", ZERO, float16), float32)), Store("out0", ZERO, X)),
    program(lanes(loop(K, 4, [Store("out0", K, ONE)], V))),
]


@pytest.mark.parametrize("good", GOOD, ids=range(len(GOOD)))
def test_good_programs_pass(good):
    verify(good)


def vector(access):
    """A program with a vector access; ``own`` is private, ``tile`` is not."""
    return program(lanes(access), locals=[TILE, Local("own", float32, 4, True)])


def retyped(function, *args, dtype):
    """A call that ``nodes.call`` would refuse."""
    return Let(Var("bad", dtype), Call(function, args, dtype))


BAD = [
    ("names", program(params=[Scalar("n", int32), Buffer("n", int32)]), "parameter n exists twice"),
    ("names", program(params=[Scalar("2n", int32)]), "'2n' is not a name"),
    ("names", program(temporaries=[Temporary("n", int32, ZERO)]), "parameter n exists twice"),
    ("names", Program("p", (), ()), "a program has at least one kernel"),
    ("names", Program("p", (), (Kernel("k", ()), Kernel("k", ()))), "kernel k exists twice"),
    ("parameter dtypes", program(params=[Buffer("b", complex64)]), r"kernels do not compute with complex64 \(b\)"),
    ("parameter dtypes", program(params=[Scalar("h", bfloat16)]), "scalar h is bfloat16; pass it as float32"),
    ("sizes of temporaries", program(temporaries=[Temporary("t", int32, ONE)]),
     "the size of temporary t is float32, not an integer"),
    ("variable", program(temporaries=[Temporary("t", int32, I)]), "temporary t: variable i is not defined here"),
    ("local arrays", program(locals=[TILE, TILE]), "name tile is taken here"),
    ("local arrays", program(locals=[Local("in0", int32, 4)]), "local array in0 has the name of a buffer"),
    ("local arrays", program(locals=[Local("n", int32, 4)]), "name n is taken here"),
    ("local arrays", program(locals=[Local("tile", int32, 0)]), "local array tile holds 0 elements of int32"),
    ("dtype", program(Let(Var("c", complex64), Const(1.0, complex64))), "kernels do not compute with complex64"),
    ("constant", program(Let(K, Const(1.5, int32))), "constant 1.5 of int32 is a int"),
    ("constant", program(Let(X, Const(1, float32))), "constant 1 of float32 is a float"),
    ("constant", program(Let(Var("u", uint8), Const(256, uint8))), "constant 256 does not fit into uint8"),
    ("constant", program(Let(Var("u", uint8), Const(-1, uint8))), "constant -1 does not fit into uint8"),
    ("constant", program(Let(K, Const(2**31, int32))), "constant 2147483648 does not fit into int32"),
    ("variable", program(Let(X, S)), "variable s is not defined here"),
    ("variable", program(Let(X, Var("n", float32))), "variable n is int32, used as float32"),
    ("variable", program(loop(I, N, [Let(X, ONE)]), Store("out0", ZERO, X)), "variable x is not defined here"),
    ("variable", program(loop(I, N, []), Store("out0", I, ONE)), "variable i is not defined here"),
    ("variable", program(SUM, Store("out0", K, ONE)), "variable k is not defined here"),
    ("variable", program(replace(SUM, identity=(Var("k", float32),))), "variable k is not defined here"),
    ("load", program(Let(X, Load("in9", ZERO, float32))), "array in9 is not known here"),
    ("load", program(Let(K, Load("in0", ZERO, int32))), "array in0 holds float32, used as int32"),
    ("load", program(Let(X, Load("in0", ONE, float32))), "index of in0 is float32; an index is an integer"),
    ("load", program(temporaries=[Temporary("t", int32, Load("in0", ZERO, int32))]), "array in0 is not known here"),
    ("call", program(retyped("frobnicate", ONE, dtype=float32)), "function 'frobnicate' is unknown"),
    ("call", program(retyped("exp", ONE, ONE, dtype=float32)), "exp takes 1 arguments, not 2"),
    ("call", program(retyped("add", ONE, ZERO, dtype=float32)), "add of float32, int32: the dtypes are equal"),
    ("call", program(retyped("select", ONE, ONE, ONE, dtype=float32)), "the condition of select is bool"),
    ("call", program(retyped("add", const(True, bool_), const(True, bool_), dtype=bool_)), "add does not take bool"),
    ("call", program(retyped("sqrt", ZERO, dtype=int32)), "sqrt does not take int32"),
    ("call", program(retyped("add", *[Load("half", ZERO, float16)] * 2, dtype=float16)),
     "add of float16: convert it to float32 first"),
    ("call", program(retyped("lt", ONE, ONE, dtype=float32)), "lt gives bool, not float32"),
    ("call", program(retyped("add", ONE, ONE, dtype=float64)), "add gives float32, not float64"),
    ("call", program(retyped("bitcast", ONE, dtype=float64)), "bitcast from float32 to float64: numbers of one size"),
    ("call", program(retyped("bitcast", const(1, uint8), dtype=bool_)), "bitcast from uint8 to bool"),
    ("definition", program(Let(X, ZERO)), "x is float32, its value int32"),
    ("definition", program(Let(X, ONE), Declare(X, ONE)), "name x is taken here"),
    ("definition", program(Let(Var("in0", float32), ONE)), "name in0 is taken here"),
    ("definition", program(Let(Var("a b", float32), ONE)), "'a b' is not a name"),
    ("definition", program(Let(X, ONE), loop(I, N, [Let(X, ONE)])), "name x is taken here"),
    ("assignment", program(Let(X, ONE), Assign(X, ONE)), "x is not a declared variable"),
    ("assignment", program(Assign(N, ZERO)), "n is not a declared variable"),
    ("assignment", program(Declare(X, ONE), Assign(X, ZERO)), "x is float32, its new value int32"),
    ("assignment", program(Declare(X, ONE), loop(I, N, [Assign(X, ONE)], P)),
     "x is declared outside of a loop whose iterations run at once"),
    ("store", program(Store("in0", ZERO, ONE)), "buffer in0 is not writable"),
    ("store", program(Atomic("add", "in0", ZERO, ONE)), "buffer in0 is not writable"),
    ("store", program(Store("nowhere", ZERO, ONE)), "array nowhere is not known here"),
    ("store", program(Store("out0", ZERO, ZERO)), "array out0 holds float32, used as int32"),
    ("store", program(Store("out0", ONE, ONE)), "index of out0 is float32"),
    ("vector access", vector(LoadVector("tile", "in0", ZERO, N, float32)), "tile is not a private array of float32"),
    ("vector access", vector(StoreVector("own", "in0", ZERO, N, float32)), "buffer in0 is not writable"),
    ("vector access", vector(LoadVector("own", "half", ZERO, N, float32)), "array half holds float16, used as float32"),
    ("vector access", vector(LoadVector("own", "in0", ZERO, const(1, int64), float32)),
     "the number of elements of own is int64"),
    ("vector access", program(StoreVector("own", "out0", ZERO, N, float32), locals=[Local("own", float32, 3, True)]),
     "private array own has 3 elements; a vector has a power of two"),
    ("atomic", program(Atomic("mul", "out0", ZERO, ONE)), "atomic 'mul': only add, min and max are"),
    ("atomic", program(Atomic("add", "u", ZERO, const(1, uint32)), params=[Buffer("u", uint32, True)]),
     "there are no atomics on uint32"),
    ("condition", program(If(ONE, ())), "the condition is float32, not bool"),
    ("loop variable", program(For(I, ZERO, const(4, int64), const(1, int32), (), P)),
     "i and its bounds are integers of one signed dtype"),
    ("loop variable", program(loop(X, 4, [])), "x and its bounds are integers of one signed dtype"),
    ("loop variable", program(loop(N, 4, [])), "name n is taken here"),
    ("loop bounds", program(loop(I, N, [], P, start=1)), "a parallel loop starts at 0 and has step 1"),
    ("loop bounds", program(loop(I, 4, [], V, step=2)), "a vector loop starts at 0 and has step 1"),
    ("loop bounds", program(loop(I, N, [], step=0)), "the step is positive"),
    ("parallel loop", program(lanes(loop(K, N, [], P))), "a parallel loop does not stand inside group, lane"),
    ("group loop", program(loop(I, N, [loop(J, N, [], G)])), "group loops enclose everything else"),
    ("group loop", program(Let(X, ONE), lanes()), "group loops enclose everything else"),
    ("group loop", program(If(N < 3, (lanes(),))), "group loops enclose everything else"),
    ("group loop", program(loop(K, N, [loop(Var("g", int32), N, [loop(Var("h", int32), N, [lanes()], G)], G)], G)),
     "there are at most 3 group loops"),
    ("group loop", program(loop(I, 4, [loop(J, I, [], G)], G)), "extent of a group loop uses scalar parameters only"),
    ("group loop", program(loop(I, cast(Load("in0", ZERO, float32), int32), [], G)), "uses scalar parameters only"),
    ("lane loop", program(loop(I, N, [WRITE, loop(J, 8, [], L)], G)), "lane loops stand directly inside the group"),
    ("lane loop", program(loop(I, 8, [loop(J, 8, [], L)])), "lane loops stand directly inside the group loops"),
    ("lane loop", program(loop(I, N, [], L)), "the extent of a lane loop is a positive constant"),
    ("lane loop", program(loop(I, 0, [], L)), "the extent of a lane loop is a positive constant"),
    ("lane loop", program(loop(I, 2, [loop(J, 2, [loop(K, 2, [loop(Var("m", int32), 2, [], L)], L)], L)], L)),
     "there are at most 3 lane loops"),
    ("vector loop", program(loop(I, N, [], V)), "the extent of a vector loop is a positive constant"),
    ("vector loop", program(loop(I, 4, [loop(J, 4, [], V)], V)), "only serial loops stand inside a vector loop"),
    ("barrier", program(Barrier()), "a barrier stands inside a lane loop"),
    ("barrier", program(loop(I, N, [Barrier()], G)), "a barrier stands inside a lane loop"),
    ("barrier", program(lanes(If(N < 3, (Barrier(),)))), "a barrier does not stand inside a condition"),
    ("barrier", program(lanes(loop(K, J, [Barrier()]))), "inside a loop whose extent differs between lanes"),
    ("barrier", program(lanes(Let(Var("m", int32), J + 1), loop(K, Var("m", int32), [Barrier()]))),
     "inside a loop whose extent differs between lanes"),
    ("barrier", program(lanes(Declare(Var("m", int32), ZERO), If(J < 2, (Assign(Var("m", int32), N),)),
                              loop(K, Var("m", int32), [Barrier()]))), "inside a loop whose extent differs between"),
    ("barrier", program(lanes(loop(K, 4, [Barrier()], V))), "inside a loop whose extent differs between lanes"),
    ("reduction placement", program(lanes(SUM)), "a reduction does not stand inside group, lane and vector loops"),
    ("reduction arity", program(replace(SUM, identity=())), "one result, value, identity, left, right and combined"),
    ("reduction arity", program(replace(SUM, loops=(), values=(ONE,))), "a reduction has at least one loop"),
    ("reduction dtypes", program(replace(SUM, identity=(const(0, int32),))), "s is float32, a part of it int32"),
    ("reduction loops", program(replace(SUM, loops=((K, const(4, int64)),))), "are signed integers of one dtype"),
    ("reduction body", program(replace(SUM, body=(WRITE,))), "the body of a reduction consists of lets"),
    ("reduction names", program(replace(SUM, body=(Let(A, ONE),))), "name a is defined twice in a reduction"),
    ("reduction names", program(Let(X, ONE), replace(SUM, results=(X,))), "name x is taken here"),
    ("reduction combine", program(replace(SUM, combine=Combine((A,), (B,), (Load("in0", ZERO, float32),)))),
     "combining does not load"),
    ("reduction combine", program(Let(X, ONE), replace(SUM, combine=Combine((A,), (B,), (A + X,)))),
     "combining uses the two sides and scalar parameters only, not x"),
]


@pytest.mark.parametrize(("rule", "bad", "message"), BAD, ids=[f"{k}-{row[0]}" for k, row in enumerate(BAD)])
def test_bad_programs_are_refused(rule, bad, message):
    with pytest.raises(IRError, match=message) as error:
        verify(bad)
    assert str(error.value).endswith(f"({rule})")


def test_every_rule_is_tested():
    assert {rule.name for rule in RULES} == {rule for rule, _, _ in BAD}


def test_message_names_kernel_and_statement():
    with pytest.raises(IRError, match=r"^kernel k0, `out0\[n\] = y \+ 1\.0`: variable y is not defined here"):
        verify(program(Store("out0", N, Var("y", float32) + 1.0)))


def test_shared_expressions_are_checked_once():
    e = Load("in0", ZERO, float32)
    for _ in range(200):
        e = e * e
    verify(program(Store("out0", ZERO, e)))
