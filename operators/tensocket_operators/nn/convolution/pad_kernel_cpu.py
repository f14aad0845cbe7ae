"""Borders around images in one pass, for processors: a line's inner part is copied as a run, its ends per element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import contiguous
from tensocket_core.launch.kernel_handles import moved_handle
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.elements import load, moves, stores
from tensocket_plugins.ir.build.nest import ProgramBuilder, linear, parallel
from tensocket_plugins.ir.element_types import MOVED_AS, arithmetic_dtype
from tensocket_plugins.ir.nodes import Expr, Let, LoopKind, Program, Stmt, Var, call, const, loop, select
from tensocket_plugins.ir.strategies import Strategy

from ...kinds.programs import Programs

_PROGRAMS: Final = Programs("pad", cpu=True, simt=False)
#: Source position of a border element, by its position (negative before the line) and the line's size.
_PLACES: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "reflect": lambda at, n: n - 1 - abs(n - 1 - abs(at)),
    "replicate": lambda at, n: call("max", call("min", at, n - 1), 0),
    "circular": lambda at, n: select(at < 0, at + n, select(at < n, at, at - n)),
    "constant": lambda at, n: call("max", call("min", at, n - 1), 0),
}


def border_nest(dtype: DType, dims: int, mode: str, index: DType) -> Program:
    """Return the program that copies images of ``dims`` dimensions into contiguous arrays with a border.

    Sizes are the number of images, their sizes, and the borders before and after each dimension; negative ones crop,
    except with mode ``circular``. With mode ``constant`` the value is a number.
    """
    nest = ProgramBuilder(f"border_{mode}", index)
    held = dtype if mode == "constant" else MOVED_AS.get(dtype, dtype)
    nest.buffer("out0", held, writable=True)
    nest.buffer("in0", held)
    (count,), sizes = nest.sizes("images", 1), nest.sizes("n", dims)
    low, high = nest.sizes("low", dims), nest.sizes("high", dims)
    value = nest.number("value", dtype) if mode == "constant" else None
    image, rows = nest.variables("image", 1)[0], nest.variables("y", dims - 1)
    grown = [a + n + b for a, n, b in zip(low, sizes, high, strict=True)]
    place, start, to, x = _PLACES[mode], Var("start", index), Var("to", index), Var("x", index)
    inside: Expr | None = None
    for y, n, before in zip(rows, sizes[:-1], low[:-1], strict=True):
        within = call("le", const(0, index), y - before) & (y - before < n)
        inside = within if inside is None else inside & within

    def element(target: Expr, source: Expr | None) -> list[Stmt]:
        if value is None:
            assert source is not None
            return moves("out0", target, "in0", source, dtype)
        if source is None:
            return stores("out0", target, value, dtype)
        found = load("in0", source, dtype)
        return stores("out0", target, found if inside is None else select(inside, found, value), dtype)

    width, before, behind = sizes[-1], low[-1], high[-1]
    ahead, after, skipped, dropped = (call("max", side, 0) for side in (before, behind, -before, -behind))
    kept = width - skipped - dropped
    ends = [loop(x, extent, element(to + first + x, None if value is not None else start + place(at + x, width)))
            for first, at, extent in ((const(0, index), -before, ahead), (ahead + kept, width, after))]
    moved = [place(y - b, n) for y, n, b in zip(rows, sizes, low, strict=False)]
    body = [
        Let(start, linear([image, *moved], [count, *sizes[:-1]]) * width),
        Let(to, linear([image, *rows], [count, *grown[:-1]]) * grown[-1]),
        loop(x, kept, element(to + ahead + x, start + skipped + x), LoopKind.PARALLEL), *ends]
    return nest.program(parallel([image, *rows], [count, *grown[:-1]], body))


def border_array(state: DeviceState, out: Any, source: Any, pad: tuple[int, ...], mode: str, value: Any,
                 dtype: DType) -> bool:
    """Fill ``out`` with ``source`` and a border; return False if this kernel does not apply.

    Args:
        state: The device.
        out: An array of the padded shape.
        source: The images.
        pad: Pairs of a low and a high side, from the last dimension on.
        mode: A mode of ``pad``.
        value: Fill value of ``constant``.
        dtype: Element type of both arrays.
    """
    dims = len(pad) // 2
    if not _PROGRAMS.of(state) or not (contiguous(source) and contiguous(out)):
        return False
    if min(pad) < 0 and mode not in ("reflect", "replicate"):
        return False
    if mode == "constant" and (arithmetic_dtype(dtype).kind not in ("int", "uint", "float") or dtype.itemsize == 1):
        return False
    width = index_dtype(state, [2 * out.size, 2 * source.size])
    lead = len(source.shape) - dims
    low, high = (list(reversed(pad[side::2])) for side in (0, 1))
    numbers = [value] if mode == "constant" else []
    launch(state, ("border", dtype, dims, mode, width), lambda: border_nest(dtype, dims, mode, width), Strategy.GROUP,
           [out, source] if mode == "constant" else [moved_handle(out, dtype), moved_handle(source, dtype)],
           [math.prod(source.shape[:lead]), *source.shape[lead:], *low, *high, *numbers])
    return True
