"""Where the LLVM printer puts instructions: outside of the loops that they do not depend on, and each only once."""

from __future__ import annotations

from tensocket_plugins.contract.dtypes import float32, int64
from tensocket_plugins.ir.nodes import (
    Assign,
    Buffer,
    Declare,
    Expr,
    If,
    Kernel,
    Load,
    Local,
    LoopKind,
    Program,
    Scalar,
    Stmt,
    Store,
    Var,
    call,
    const,
    loop,
)
from tensocket_plugins.ir.printers.llvm import print_llvm
from tensocket_plugins.ir.schedule.adjacent import all_vectors

I, J, N, L = (Var(name, int64) for name in ("i", "j", "n", "l"))
X = Var("x", float32)


def program(*body: Stmt, locals: tuple[Local, ...] = ()) -> Program:
    params = (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int64), Scalar("x", float32))
    return Program("test", params, (Kernel("test", body, locals),))


def lines_in_loop(*body: Stmt, locals: tuple[Local, ...] = ()) -> list[str]:
    """The lines from the label of the innermost loop on to its branch."""
    lines = print_llvm(program(*body, locals=locals)).split("\n")
    first = max(k for k, line in enumerate(lines) if line.startswith("loop"))
    last = next(k for k in range(first, len(lines)) if lines[k].startswith("  br"))
    return lines[first:last]


def test_what_does_not_change_is_computed_before_the_loop() -> None:
    inside = lines_in_loop(loop(I, N, [Store("out", I, call("sqrt", X * X))]))
    assert not any("fmul" in line or "sqrt" in line for line in inside)


def test_each_loop_is_left_as_far_as_possible() -> None:
    inner = loop(J, N, [Store("out", I * N + J, call("fma", X, X, Load("in0", J, float32)))])
    text = print_llvm(program(loop(I, N, [inner])))
    product, outer, nested = text.index("mul nsw i64"), text.index("\nloop"), text.rindex("\nloop")
    assert text.index("br ") < outer < product < nested < text.index("call float @llvm.fma")


def test_a_division_is_not_done_where_it_might_not_be() -> None:
    body = If(N < I, (Store("out", I // N, X),))
    inside = print_llvm(program(loop(I, N, [loop(J, N, [If(J < I, (Store("out", I // N, X),))]), body])))
    innermost = inside[inside.rindex("\nloop"):inside.index("then")]
    assert "sdiv" not in innermost
    assert "sdiv" not in inside[:inside.index("\nthen")]


def test_loads_stay_behind_stores() -> None:
    def loads(target: str, source: str) -> int:
        body = Store(target, I % 4, Load(source, const(1, int64), float32))
        return sum("load float" in line for line in lines_in_loop(loop(I, N, [body]), locals=(Local("a", float32, 4),)))

    assert loads("a", "in0") == 0
    assert loads("a", "a") == 1
    # The two may be the same memory.
    assert loads("out", "in0") == 1


def test_variables_are_read_before_loops_that_do_not_assign_them() -> None:
    def reads(*more: Stmt) -> int:
        v = Var("v", float32)
        body = loop(I, N, [Store("out", I, v), *more])
        lines = print_llvm(program(Declare(v, X), body)).split("\n")
        first = next(k for k, line in enumerate(lines) if line.startswith("loop"))
        return sum("load float" in line for line in lines[first:])

    assert reads() == 0
    assert reads(Assign(Var("v", float32), X)) == 1


def test_an_instruction_is_printed_once_where_it_is_known() -> None:
    again = [Store("out", I + k, (Load("in0", I, float32) + 1.0) * (X + X)) for k in range(3)]
    text = print_llvm(program(loop(I, N, again)))
    assert text.count("fadd float %") == 1 + 3
    assert text.count("getelementptr inbounds float") == 1 + 3


def test_what_a_condition_computes_is_unknown_after_it() -> None:
    product = Load("in0", I, float32) * X
    first = If(I < 2, (Store("out", I, product),))
    assert print_llvm(program(loop(I, N, [first, Store("out", I, product)]))).count("fmul") == 2


def test_known_indices_are_literals() -> None:
    array = (Local("a", float32, 8),)
    at: Expr = const(3, int64)
    text = print_llvm(program(Store("a", at * 2 - at + 0, X), Store("out", at - 3, Load("a", at, float32)),
                              locals=array))
    assert text.count("getelementptr float") == 1
    assert "i64 3\n" in text
    assert "nsw" not in text


def test_all_vectors_means_every_innermost_loop() -> None:
    lane = loop(L, 16, [Store("out", I * 16 + L, X)], LoopKind.VECTOR)
    assert all_vectors(program(loop(I, N, [lane])))
    assert all_vectors(program(loop(I, N, [If(I < 2, (lane,))])))
    assert not all_vectors(program(loop(I, N, [loop(J, N, [Store("out", J, X)]), lane])))
    assert not all_vectors(program(loop(I, N, [If(I < 2, (loop(J, N, [Store("out", J, X)]),)), lane])))
    sine = loop(L, 16, [Store("out", L, call("sin", Load("in0", L, float32)))], LoopKind.VECTOR)
    assert not all_vectors(program(sine))


def test_an_address_is_advanced_where_it_changes() -> None:
    lane = loop(L, 16, [Store("out", (I * N + 5) + (J * 16 + L) + 2, X)], LoopKind.VECTOR)
    text = print_llvm(program(loop(I, N, [loop(J, N, [lane])])))
    outer, nested = text.index("\nloop"), text.rindex("\nloop")
    assert "mul" not in text[:outer]
    assert text[outer:nested].count("mul") == text[outer:nested].count("getelementptr float") == 1  # by I * N
    assert text[nested:].count("mul") == 1
    assert text[nested:].count("getelementptr float") == 2  # by J * 16, and by 7 with the instruction that writes
    assert "i64 7\n" in text[nested:]


def test_counters_of_settled_loops_are_hidden_from_llvm() -> None:
    lane = loop(L, 16, [Store("out", I * 16 + L, X)], LoopKind.VECTOR)
    settled, scalar = program(loop(I, N, [lane])), program(loop(I, N, [Store("out", I, X)]))
    assert print_llvm(settled).count(" asm ") == 1
    assert print_llvm(settled, settled=False).count(" asm ") == 0
    assert print_llvm(scalar).count(" asm ") == 0
