"""Every primitive of the contract in NumPy, for backends that compute on the host in their own memory.

A backend makes a NumPy view of each argument (``host_view``) and calls ``compute``; it chooses the time and the thread.
Float16 is computed in float32 and rounded once; bfloat16 is not supported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..contract.arrays import DeviceArray
from ..ir.scalar import fma

_HostArray = np.ndarray[Any, np.dtype[Any]]
#: Writes the result of one primitive into its output, which has elements and the right shape.
HostPrimitive = Callable[[_HostArray, Sequence[_HostArray], Sequence[Any]], None]


def host_view(array: DeviceArray, memory: _HostArray) -> _HostArray:
    """Return ``array`` as a NumPy view of ``memory``, the bytes of its whole block.

    Args:
        array: The layout, which must be within the block.
        memory: A contiguous uint8 array of one dimension.
    """
    item = array.dtype.itemsize
    elements = memory[: memory.size // item * item].view(array.dtype.numpy)
    strides = tuple(stride * item for stride in array.strides)
    return as_strided(elements[array.offset:], array.shape, strides)


def compute(name: str, out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    """Run the primitive ``name``; overflow and NaN never raise or warn.

    Raises:
        KeyError: No primitive has this name.
    """
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        if out.dtype != np.float16 or name in _EXACT:
            function(out, ins, scalars)
            return
        wide = np.empty(out.shape, np.float32)
        function(wide, [x.astype(np.float32) if x.dtype == np.float16 else x for x in ins], scalars)
        out[...] = wide


def _ufunc(function: Callable[..., Any]) -> HostPrimitive:
    def run(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
        out[...] = function(*ins)

    return run


def _erf(x: _HostArray) -> _HostArray:
    # NumPy has no error function; math.erf is exact enough for every dtype, and slow.
    values = [math.erf(value) for value in x.ravel().tolist()]
    return np.array(values, np.float64).reshape(x.shape).astype(x.dtype)


def _idiv(x: _HostArray, y: _HostArray) -> _HostArray:
    # Exact division of the multiple of y: truncates towards zero without a conversion to floats.
    return np.asarray(np.floor_divide(x - np.fmod(x, y), y))


def _reduction(function: Callable[..., Any], **options: Any) -> HostPrimitive:
    def run(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
        x = _reduced_last(ins[0], scalars[0])
        out[...] = function(x, axis=-1, **options)

    return run


def _summation(function: Callable[..., Any]) -> HostPrimitive:
    def run(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
        # NumPy sums pairwise along a contiguous last axis.
        x = np.ascontiguousarray(_reduced_last(ins[0], scalars[0]))
        out[...] = function(x, axis=-1, dtype=out.dtype)

    return run


def _reduced_last(x: _HostArray, dims: Sequence[int]) -> _HostArray:
    """Return ``x`` with the reduced dimensions merged into one, the last."""
    kept = [axis for axis in range(x.ndim) if axis not in dims]
    moved = x.transpose([*kept, *dims])
    return moved.reshape(*(x.shape[axis] for axis in kept), math.prod(x.shape[axis] for axis in dims))


def _matmul(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    out[...] = np.matmul(ins[0], ins[1])


def _copy(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    # ``out`` may share memory with the input: NumPy copies as if through a temporary.
    np.copyto(out, ins[0], casting="unsafe")


def _positions(index: _HostArray, dim: int) -> tuple[_HostArray, ...]:
    """Return advanced indices of the elements to which ``index`` refers along ``dim``."""
    grid = np.ogrid[tuple(slice(0, size) for size in index.shape)]
    return tuple(index if axis == dim else position for axis, position in enumerate(grid))


def _gather(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    out[...] = ins[0][_positions(ins[1], scalars[0])]


def _scatter(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    out[...] = ins[0]
    out[_positions(ins[1], scalars[0])] = ins[2]


def _scatter_add(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    out[...] = ins[0]
    np.add.at(out, _positions(ins[1], scalars[0]), ins[2])


def _bitcast(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    out[...] = ins[0].view(out.dtype)


def _fill(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    np.copyto(out, np.asarray(scalars[0]), casting="unsafe")


def _arange(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    start, step = scalars
    wide: Any = np.float64 if out.dtype.kind == "f" else np.int64
    np.copyto(out, np.asarray(start, wide) + np.arange(out.shape[0], dtype=wide) * np.asarray(step, wide),
              casting="unsafe")


def philox(blocks: _HostArray, seed: int) -> _HostArray:
    """Return the four output words of Philox 4x32-10 for each block.

    Args:
        blocks: Block numbers, uint64, ``(n,)``; counter words 0 and 1. Words 2 and 3 are zero.
        seed: The key, low word first.

    Returns:
        uint32 words, ``(n, 4)``.
    """
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    c0, c1 = blocks & low, blocks >> shift
    c2, c3 = np.zeros_like(blocks), np.zeros_like(blocks)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (p1 >> shift) ^ c1 ^ np.uint64(key[0]), (p0 >> shift) ^ c3 ^ np.uint64(key[1])
        c1, c3 = p1 & low, p0 & low
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def _philox_bits(out: _HostArray, ins: Sequence[_HostArray], scalars: Sequence[Any]) -> None:
    seed, offset = scalars
    blocks = np.arange((out.size + 3) // 4, dtype=np.uint64) + np.uint64(offset)
    out[...] = philox(blocks, int(seed)).ravel()[: out.size].reshape(out.shape)


_POINTWISE: Final[dict[str, Callable[..., Any]]] = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "rint": np.rint, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sin": np.sin,
    "cos": np.cos, "tanh": np.tanh, "erf": _erf, "bitwise_not": np.invert, "add": np.add, "sub": np.subtract,
    "mul": np.multiply, "div": np.divide, "idiv": _idiv, "imod": np.fmod, "fmod": np.fmod, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "fma": fma, "where": np.where, "shl": np.left_shift, "shr": np.right_shift,
}
#: The function of every primitive.
FUNCTIONS: Final[dict[str, HostPrimitive]] = {
    **{name: _ufunc(function) for name, function in _POINTWISE.items()},
    "sum": _summation(np.sum), "prod": _summation(np.prod),
    "amax": _reduction(np.amax), "amin": _reduction(np.amin),
    "argmax": _reduction(np.argmax), "argmin": _reduction(np.argmin),
    "matmul": _matmul, "copy": _copy, "gather": _gather, "scatter": _scatter, "scatter_add": _scatter_add,
    "bitcast": _bitcast, "fill": _fill, "arange": _arange, "philox_bits": _philox_bits,
}
#: Primitives that only move values, so that float16 need not go through float32.
_EXACT: Final = frozenset({"bitcast", "copy", "gather", "scatter", "fill", "maximum", "minimum", "where", "neg", "abs"})
