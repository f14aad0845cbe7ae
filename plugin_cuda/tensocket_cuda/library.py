"""Matrix products by cuBLAS, through ctypes; the library comes from its wheel or from the system."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from ctypes import c_int, c_int64, c_longlong, c_void_p
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.arrays import DeviceArray, Storage, contiguous_strides
from tensocket_plugins.contract.backend import Executable
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.launch_recorder import RECORDERS, note_launch, outside_recording
from tensocket_plugins.ir.nodes import Buffer, If, Kernel, Let, Load, LoopKind, Program, Scalar, Store, Var, loop
from tensocket_plugins.kit.bounded import BoundedCache

if TYPE_CHECKING:
    from .device import CudaDevice

#: File names of the library, newest first; the wheel of each major version brings its own.
NAMES: Final = ("libcublas.so.13", "libcublas.so.12", "libcublas.so")
_DISALLOW_REDUCED_PRECISION: Final = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
_DEFAULT_ALGORITHM: Final = -1
#: Maps an element type to cuBLAS's data and compute types: float32 sums for 16-bit floats, no TF32 for float32.
TYPES: Final = {"float16": (2, 68), "bfloat16": (14, 68), "float32": (0, 68), "float64": (1, 70)}
#: The factors 0 and 1 by compute type; cuBLAS reads them from memory during a call.
_FACTORS: Final = {68: (ctypes.c_float(0), ctypes.c_float(1)), 70: (ctypes.c_double(0), ctypes.c_double(1))}
#: Most layouts of products whose calls are kept.
_PLANNED: Final = 1024


def find_library() -> ctypes.CDLL | None:
    """Return the library from the NVIDIA wheels or the system; None if neither has one."""
    packages = find_spec("nvidia")
    folders = [Path(place) for place in (packages.submodule_search_locations or () if packages else ())]
    wheels = [path for folder in folders for name in NAMES for path in sorted(folder.glob(f"*/lib/{name}"))]
    for candidate in (*map(str, wheels), *NAMES):
        try:
            library = ctypes.CDLL(candidate)
            _ = library.cublasGemmStridedBatchedEx_64
        except (OSError, AttributeError):
            continue  # missing, or older than CUDA 12
        return library
    return None


@dataclass(frozen=True, slots=True)
class Operand:
    """The layout of a matrix operand for cuBLAS.

    Attributes:
        transpose: Whether cuBLAS must transpose the matrix, because its columns instead of its rows are contiguous.
        step: The leading dimension, in elements.
    """

    transpose: bool
    step: int


def operand(rows: int, columns: int, row_step: int, column_step: int) -> Operand | None:
    """Return the layout of a matrix for cuBLAS, which reads a row-major one as its transpose; None if it cannot.

    >>> operand(3, 4, 4, 1), operand(3, 4, 1, 3), operand(3, 4, 8, 2)
    (Operand(transpose=False, step=4), Operand(transpose=True, step=3), None)
    """
    if (column_step == 1 or columns == 1) and (rows == 1 or row_step >= columns):
        return Operand(False, row_step if rows > 1 else columns)
    if (row_step == 1 or rows == 1) and (columns == 1 or column_step >= rows):
        return Operand(True, column_step if columns > 1 else rows)
    return None


def merge_batch(shape: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Coalesce adjacent batch dimensions if the strides of every operand allow it, and drop those of size 1.

    >>> merge_batch((2, 3, 1), [(60, 20, 7), (0, 0, 7)])
    ([6], [[20], [0]])
    """
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in steps]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(m[-1] == s[axis] * size for m, s in zip(merged, steps, strict=True)):
            sizes[-1] *= size
            for m, s in zip(merged, steps, strict=True):
                m[-1] = s[axis]
            continue
        sizes.append(size)
        for m, s in zip(merged, steps, strict=True):
            m.append(s[axis])
    return sizes, merged


@dataclass(frozen=True, slots=True)
class ProductCalls:
    """The calls of cuBLAS for a product, which follow from layouts alone.

    Attributes:
        compute: The compute type.
        starts: For each call, the bytes from the address of result, left and right operand.
        sizes: Whether the operands are transposed, and the sizes; row-major C = A B is column-major C' = B' A', so the
            right operand comes first.
        right, left, out: Element type, leading dimension and batch stride.
        count: The number of matrices of a call.
    """

    compute: int
    starts: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    right: tuple[int, ...]
    left: tuple[int, ...]
    out: tuple[int, ...]
    count: int


def plan_products(out: DeviceArray, left: DeviceArray, right: DeviceArray) -> ProductCalls:
    """Return the calls for arrays whose matrices cuBLAS can read."""
    x, y = (operand(*array.shape[-2:], *array.strides[-2:]) for array in (left, right))
    assert x is not None
    assert y is not None
    sizes, (out_steps, left_steps, right_steps) = merge_batch(
        out.shape[:-2], [out.strides[:-2], left.strides[:-2], right.strides[:-2]])
    count, width = sizes.pop() if sizes else 1, out.dtype.itemsize
    c, a, b = (steps.pop() if steps else 0 for steps in (out_steps, left_steps, right_steps))
    (m, k), n, (kind, compute) = left.shape[-2:], out.shape[-1], TYPES[out.dtype.name]
    starts = tuple([tuple([n * width for n in place]) for place in _outer(sizes, out_steps, left_steps, right_steps)])
    return ProductCalls(compute, starts, (int(y.transpose), int(x.transpose), n, m, k), (kind, y.step, b),
                        (kind, x.step, a), (kind, n, c), count)


class Cublas:
    """A cuBLAS handle and the ``matmul`` kernel on it.

    Args:
        device: The opened device.
        library: The library that ``find_library`` returned.
    """

    def __init__(self, device: CudaDevice, library: ctypes.CDLL) -> None:
        self._device = device
        self._library = library
        self._lock = threading.Lock()  # a handle has one current stream
        self._handle = c_void_p()
        self._copies: dict[tuple[DType, int], Executable] = {}
        self._plans: BoundedCache[tuple[Any, ...], ProductCalls] = BoundedCache(_PLANNED)
        matrix = (c_void_p, c_int, c_int64, c_longlong)
        library.cublasGemmStridedBatchedEx_64.argtypes = [
            c_void_p, c_int, c_int, c_int64, c_int64, c_int64, c_void_p, *matrix, *matrix, c_void_p, *matrix, c_int64,
            c_int, c_int]
        library.cublasSetStream_v2.argtypes = [c_void_p, c_void_p]
        library.cublasSetMathMode.argtypes = [c_void_p, c_int]
        library.cublasDestroy_v2.argtypes = [c_void_p]
        with device.current:
            self._check("cublasCreate", library.cublasCreate_v2(ctypes.byref(self._handle)))
            self._check("cublasSetMathMode", library.cublasSetMathMode(self._handle, _DISALLOW_REDUCED_PRECISION))

    def _check(self, function: str, status: int) -> None:
        if status:
            raise KernelError("matmul", f"{function} on {self._device.name}", f"cuBLAS returned status {status}",
                              "look for an earlier error of the device; free memory if it is nearly full")

    def matmul(self, outs: Sequence[DeviceArray], ins: Sequence[DeviceArray], scalars: Sequence[Any],
               stream: Any) -> None:
        """Compute ``outs[0] = ins[0] @ ins[1]``: [..., m, k] times [..., k, n], equal batch dimensions, any strides.

        Matrices of which neither rows nor columns are contiguous are copied first.

        Raises:
            KernelError: cuBLAS failed.
        """
        self._run((outs[0], *ins), scalars, stream)

    def _run(self, buffers: Sequence[DeviceArray], scalars: Sequence[Any], stream: Any) -> None:
        """Multiply; the form of an executable, which notes its launch for replays."""
        out, left, right = buffers
        if RECORDERS:
            note_launch(self._run, buffers, (True, False, False), ())
            with outside_recording():  # copies and the product are one launch
                self._multiply(out, left, right, stream)
        else:
            self._multiply(out, left, right, stream)

    def _multiply(self, out: DeviceArray, left: DeviceArray, right: DeviceArray, stream: Any) -> None:
        if not out.size:
            return
        if left.shape[-1] == 0:
            with self._device.current as driver:
                driver.memset_d8_async(self._device.address(out), 0, out.nbytes, stream.handle)
            return
        left, right = self._prepared(left, stream), self._prepared(right, stream)
        key = out.dtype, out.shape, out.strides, left.shape, left.strides, right.shape, right.strides
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = plan_products(out, left, right)
        compute, factors = plan.compute, _FACTORS[plan.compute]
        to, x, y = (self._device.address(array) for array in (out, left, right))
        with self._lock, self._device.current:
            self._check("cublasSetStream", self._library.cublasSetStream_v2(self._handle, stream.pointer))
            for c, a, b in plan.starts:
                self._check("cublasGemmStridedBatchedEx", self._library.cublasGemmStridedBatchedEx_64(
                    self._handle, *plan.sizes, ctypes.addressof(factors[1]), y + b, *plan.right, x + a, *plan.left,
                    ctypes.addressof(factors[0]), to + c, *plan.out, plan.count, compute, _DEFAULT_ALGORITHM))

    def _prepared(self, array: DeviceArray, stream: Any) -> DeviceArray:
        """Return an operand that cuBLAS can read: the array itself, or a contiguous copy."""
        if operand(*array.shape[-2:], *array.strides[-2:]) is not None:
            return array
        block = self._device.allocator.allocate(array.nbytes, stream)
        copy = DeviceArray(Storage(block, self._device.allocator), array.dtype, array.shape,
                           contiguous_strides(array.shape), 0)
        run = self._copies.get((array.dtype, array.ndim))
        if run is None:
            run = self._copies[array.dtype, array.ndim] = self._device.compile_ir(copy_program(array.dtype, array.ndim))
        run([copy, array], [array.size, *array.shape, *array.strides], stream)
        return copy

    def close(self) -> None:
        """Destroy the handle."""
        with self._lock, self._device.current:
            if self._handle.value is not None:
                self._library.cublasDestroy_v2(self._handle)
                self._handle = c_void_p()


def _outer(sizes: Sequence[int], *steps: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the offsets of all operands for each position of the outer batch dimensions."""
    for position in product(*map(range, sizes)):
        yield tuple(sum(i * s for i, s in zip(position, one, strict=True)) for one in steps)


def copy_program(dtype: DType, rank: int) -> Program:
    """Return the program that copies a strided array into a contiguous one.

    Its scalars are the number of elements, the sizes and the strides.
    """
    index = [Var(name, int64) for name in ("g", "l", "i", "count")]
    g, l, i, count = index
    sizes = [Var(f"n{axis}", int64) for axis in range(rank)]
    steps = [Var(f"s{axis}", int64) for axis in range(rank)]
    place, rest = sizes[0] * 0, i + 0
    for axis in reversed(range(rank)):
        place = place + rest % sizes[axis] * steps[axis]
        rest = rest // sizes[axis]
    body = (Let(i, g * 256 + l), If(i < count, (Store("out", i, Load("a", place, dtype)),)))
    nest = loop(g, (count + 255) // 256, (loop(l, 256, body, LoopKind.LANE),), LoopKind.GROUP)
    scalars = [Scalar(v.name, int64) for v in (count, *sizes, *steps)]
    return Program("contiguous", (Buffer("out", dtype, True), Buffer("a", dtype), *scalars),
                   (Kernel("contiguous", (nest,)),))


def register_cublas(device: CudaDevice) -> Cublas | None:
    """Register cuBLAS's ``matmul`` on a device; without the library, generated kernels serve."""
    library = find_library()
    if library is None:
        return None
    cublas = Cublas(device, library)
    device.kernels.register("matmul", cublas.matmul, dtypes=TYPES, recorded=True)
    return cublas
