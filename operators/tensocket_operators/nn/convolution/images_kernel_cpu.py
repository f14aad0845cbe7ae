"""Maps and largest elements of windows of small images, for processors: vector lanes are images.

Rows of few elements fill no vector, so a tile holds adjacent images transposed, one to a lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final, Literal

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.geometry import contiguous
from tensocket_core.launch.kernel_handles import moved_handle
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, int32, int64
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.element_types import MOVED_AS, arithmetic_dtype
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    If,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)

from ...kinds.programs import Programs
from .taps import NONE, Taps

_PROGRAMS: Final = Programs("small_images", cpu=True, simt=False)
#: Images that a tile holds, and the most elements of each, before and after.
_LANES: Final = 16
_ELEMENTS: Final = 512
#: The fewest images; the most taps, whose sum has one order; adjacent elements from which on they fill vectors.
_IMAGES: Final = 2 * _LANES
_TAPS: Final = 64
_ADJACENT: Final = 16
#: Position for a window without elements.
_NOWHERE: Final = (1 << 30) - 1

Kind = Literal["copy", "sum", "max"]


def images_nest(kind: Kind, dtype: DType, lowest: Expr | None) -> Program:
    """Return the program of ``copy_images``, ``sum_images`` or ``max_images``.

    Its buffers are the result, for ``max`` that of positions, the table of positions, for ``sum`` that of weights, and
    the images. The sizes are the number of images, their elements before and after, and taps.

    Args:
        kind: The map of each image.
        dtype: Element type of images.
        lowest: The least element, for ``max``.
    """
    return _Images(kind, dtype, lowest).program()


class _Images:
    """Writer of the nest."""

    def __init__(self, kind: Kind, dtype: DType, lowest: Expr | None) -> None:
        self.kind, self.dtype, self.work, self.lowest = kind, dtype, arithmetic_dtype(dtype), lowest
        self.nest = ProgramBuilder(f"images_{kind}", int64)
        self.nest.buffer("out0", dtype, writable=True)
        if kind == "max":
            self.nest.buffer("out1", int64, writable=True)
        self.nest.buffer("positions", int32)
        if kind == "sum":
            self.nest.buffer("weights", self.work)
        self.nest.buffer("in0", dtype)
        self.images, self.size, self.outputs, self.taps = self.nest.sizes("n", 4)
        self.start, self.lane, self.image, self.at, self.o, self.t, self.position = (
            Var(name, int64) for name in ("start", "lane", "image", "at", "o", "t", "position"))
        self.value, self.total, self.place = Var("value", self.work), Var("total", self.work), Var("place", int32)

    def program(self) -> Program:
        """Return the finished nest: an iteration takes as many images as a tile holds, the last one by one."""
        if self.kind == "copy":  # each element once: a tile would only move it once more
            return self.nest.program(parallel([self.image], [self.images], [self._alone()]))
        number = Var("number", int64)
        whole = (self.start + _LANES) <= self.images
        body: list[Stmt] = [
            Let(self.start, number * _LANES), If(whole, tuple(self._together())),
            If(~whole, (loop(self.image, self.images, [self._alone()], start=self.start),))]
        tiles = [Local("tile", self.work, _LANES * _ELEMENTS), Local("results", self.dtype, _LANES * _ELEMENTS)]
        if self.kind == "max":
            tiles.append(Local("places", int32, _LANES * _ELEMENTS))
        return self.nest.program(parallel([number], [(self.images + (_LANES - 1)) // _LANES], body), tuple(tiles))

    def _together(self) -> list[Stmt]:
        image = self.start + self.lane
        read = Store("tile", self.at * _LANES + self.lane, self._element(image * self.size + self.at))
        to = self.o * _LANES + self.lane
        results: list[Stmt] = [Store("results", to, cast(self.total, self.dtype))]
        written: list[Stmt] = [Store("out0", image * self.outputs + self.o, Load("results", to, self.dtype))]
        if self.kind == "max":
            results.append(Store("places", to, self.place))
            written.append(Store("out1", image * self.outputs + self.o, cast(Load("places", to, int32), int64)))
        found = Load("tile", call("max", self.position, 0) * _LANES + self.lane, self.work)
        return [
            loop(self.lane, _LANES, [loop(self.at, self.size, [read])]),
            loop(self.o, self.outputs, [loop(self.lane, _LANES, [*self._output(found), *results], LoopKind.VECTOR)]),
            loop(self.lane, _LANES, [loop(self.o, self.outputs, written)]),
        ]

    def _alone(self) -> Stmt:
        to = self.image * self.outputs + self.o
        found = self._element(self.image * self.size + call("max", self.position, 0))
        stores: list[Stmt] = [Store("out0", to, cast(self.total, self.dtype))]
        if self.kind == "max":
            stores.append(Store("out1", to, cast(self.place, int64)))
        return loop(self.o, self.outputs, [*self._output(found), *stores])

    def _element(self, at: Expr) -> Expr:
        return cast(Load("in0", at, self.dtype), self.work)

    def _output(self, found: Expr) -> list[Stmt]:
        """Compute one output of an image from the elements at its taps, in their order."""
        if self.kind == "copy":
            place = cast(Load("positions", self.o, int32), int64)
            return [Let(self.position, place), Declare(self.total, found)]
        at = self.o * self.taps + self.t
        step: list[Stmt] = [Let(self.position, cast(Load("positions", at, int32), int64)), Let(self.value, found)]
        inside = self.position >= 0
        if self.kind == "sum":
            part = select(inside, self.value * Load("weights", at, self.work), const(0, self.work))
            return [Declare(self.total, const(0, self.work)),
                    loop(self.t, self.taps, [*step, Assign(self.total, self.total + part)])]
        # The first of equal values, and the last of several NaN, as in PyTorch.
        assert self.lowest is not None
        nowhere, better = const(_NOWHERE, int32), Var("better", inside.dtype)
        larger = (self.total < self.value) | call("ne", self.value, self.value) | call("eq", self.place, nowhere)
        step += [Let(better, inside & larger),
                 Assign(self.total, select(better, self.value, self.total)),
                 Assign(self.place, select(better, cast(self.position, int32), self.place))]
        return [Declare(self.total, self.lowest), Declare(self.place, nowhere), loop(self.t, self.taps, step)]


def _suits(state: DeviceState, out: Any, source: Any, images: int, taps: int) -> bool:
    return _PROGRAMS.of(state) and images >= _IMAGES and taps <= _TAPS and max(out.size, source.size) <= (
        images * _ELEMENTS) and contiguous(out) and contiguous(source)


def copy_images(state: DeviceState, out: Any, source: Any, maps: Sequence[Taps], dtype: DType) -> bool:
    """Copy one element for each output of maps over the last dimensions; return whether the kernel suits the arrays."""
    images, word = math.prod(source.shape[:source.ndim - len(maps)]), MOVED_AS.get(dtype, dtype)
    if maps[-1].outputs >= _ADJACENT or word.itemsize != dtype.itemsize or not _suits(state, out, source, images, 1):
        return False
    flat = _joined(tuple(maps))
    launch(state, ("images", "copy", word), partial(images_nest, "copy", word, None), None,
           [moved_handle(out, dtype), flat.on(state, "positions"), moved_handle(source, dtype)],
           [images, source.size // images, out.size // images, 1])
    return True


def sum_images(state: DeviceState, out: Any, source: Any, axis: int, taps: Taps, dtype: DType) -> bool:
    """Apply a map along ``axis`` to each part before it; return whether the kernel suits the arrays."""
    inner = math.prod(source.shape[axis + 1:])
    images = math.prod(source.shape[:axis])
    if inner >= _ADJACENT or not _suits(state, out, source, images, taps.taps):
        return False
    flat = _spread(taps, inner) if inner > 1 else taps
    launch(state, ("images", "sum", dtype), partial(images_nest, "sum", dtype, None), None,
           [out, flat.on(state, "positions"), flat.on(state, "weights", arithmetic_dtype(dtype)), source],
           [images, source.size // images, out.size // images, flat.taps])
    return True


def max_images(state: DeviceState, out: Any, places: Any, source: Any, windows: Sequence[Taps], dtype: DType,
               lowest: Expr) -> bool:
    """Find the largest elements of windows over the last dimensions; return whether the kernel suits the arrays."""
    images = math.prod(source.shape[:source.ndim - len(windows)])
    if windows[-1].outputs >= _ADJACENT or not _suits(
            state, out, source, images, math.prod(window.taps for window in windows)) or not contiguous(places):
        return False
    flat = _joined(tuple(windows))
    launch(state, ("images", "max", dtype), partial(images_nest, "max", dtype, lowest), None,
           [out, places, flat.on(state, "positions"), source],
           [images, source.size // images, out.size // images, flat.taps])
    return True


@lru_cache(maxsize=256)
def _spread(taps: Taps, inner: int) -> Taps:
    """Return a map along one dimension as a map of the flattened parts, with ``inner`` elements at each position."""
    def make() -> tuple[Any, Any, None]:
        places = taps.positions.astype(np.int64)[:, None, :]
        moved = np.where(places >= 0, places * inner + np.arange(inner)[None, :, None], NONE)
        weights = np.repeat(np.asarray(taps.weights), inner, 0)
        return moved.reshape(-1, taps.taps), weights, None

    return Taps(taps.size * inner, taps.outputs * inner, make, taps.taps)


@lru_cache(maxsize=256)
def _joined(windows: tuple[Taps, ...]) -> Taps:
    """Return windows over several dimensions as windows over the flattened image."""
    def make() -> tuple[Any, None, None]:
        dims = len(windows)
        flat, valid = np.zeros((1,) * 2 * dims, np.int64), np.ones((1,) * 2 * dims, bool)
        for d, window in enumerate(windows):
            axes = [1] * 2 * dims
            axes[d], axes[dims + d] = window.positions.shape
            places = window.positions.astype(np.int64).reshape(axes)
            flat, valid = flat * window.size + places, valid & (places >= 0)
        return np.where(valid, flat, NONE).reshape(math.prod(flat.shape[:dims]), -1), None, None

    return Taps(math.prod(w.size for w in windows), math.prod(w.outputs for w in windows), make,
                math.prod(w.taps for w in windows))
