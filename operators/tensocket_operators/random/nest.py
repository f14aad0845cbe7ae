"""The nest of all draws: one iteration computes the numbers from one block of random words."""

from __future__ import annotations

from collections.abc import Sequence

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.math import Computed
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import If, Let, Program, Store, Var, cast, const, select
from tensocket_plugins.ir.philox import philox4x32

from .distributions import Formula


def block_nest(name: str, formula: Formula, dtype: DType, index: DType,
               numbers: Sequence[DType], side: int) -> Program:
    """Fill ``out`` with the numbers of block after block.

    Args:
        name: Kernel name.
        formula: Takes the four words of a block and ``numbers``; returns random numbers.
        dtype: Dtype of the results.
        index: Integer type of index arithmetic.
        numbers: Types of further arguments.
        side: Number of blocks to interleave.

    Returns:
        A program whose scalars are the number of results, the number of groups of ``side`` blocks, the halves of the
        seed, the first block's number, and ``numbers``.
    """
    nest = ProgramBuilder(name, index)
    out = nest.buffer("out", dtype, writable=True)
    (count, groups), (group, lane) = nest.sizes("n", 2), nest.variables("i", 2)
    u32 = dtypes.uint32
    key = nest.number("seed_low", u32), nest.number("seed_high", u32)
    offset = nest.number("offset", dtypes.uint64)
    given = [nest.number(f"x{k}", kind) for k, kind in enumerate(numbers)]
    first, low, high = Var("first", dtypes.uint64), Var("low", u32), Var("high", u32)
    zero = const(0, u32)
    lets = [
        Let(first, cast(group * side, dtypes.uint64) + offset),
        Let(low, cast(first, u32) + cast(lane, u32)),
        Let(high, cast(first >> 32, u32) + select(low < cast(first, u32), const(1, u32), zero)),
    ]
    statements, words = philox4x32((low, high, zero, zero), key)
    made = formula(words, *given)
    if isinstance(made, Computed):
        statements, made = (*statements, *made.statements), made.value
    values = [cast(value, dtype) for value in made]
    places = [(group * side + lane) * len(values) + k for k in range(len(values))]
    named = [(Let(Var(f"place{k}", index), place), Let(Var(f"value{k}", dtype), value))
             for k, (place, value) in enumerate(zip(places, values, strict=True))]
    stores = [If(place.var < count, (Store(out, place.var, value.var),)) for place, value in named]
    body = [*lets, *statements, *[let for pair in named for let in pair], *stores]
    return nest.program(parallel((group, lane), (groups, const(side, index)), body))
