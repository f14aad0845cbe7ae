"""Compare the CPU backend's own matrix product with the library's, on one thread of one process.

    python benchmarks/gemm.py [--dtype float64] [--sizes 512x128x384 64x64x64] [--rounds 20]

Each row is one size, rows x terms x columns. For each layout, it shows GFLOP/s of the library and of the own routine;
``NT`` is ``x @ weight.T``, and ``add`` adds the product ``NN`` to the result. The best of all rounds counts, in time of
the thread, so that other programs disturb little.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_cpu.device import CpuDevice
from tensocket_cpu.float_gemm.addresses import gemm_address
from tensocket_cpu.linear.blas import best_library

SIZES: Final = ("512x128x384", "512x128x512", "512x512x128", "128x512x512", "512x128x128", "1024x1024x1024",
                "256x1024x1024", "2048x64x32", "64x784x128", "8x512x1024", "4096x256x10", "64x32x64", "32x64x128",
                "32x128x128", "128x32x128", "100x100x100")
#: The layouts, with the factor of the result.
COLUMNS: Final = {"NN": ("NN", 0), "NT": ("NT", 0), "TN": ("TN", 0), "TT": ("TT", 0), "add": ("NN", 1)}
#: The seconds of a measurement.
SPAN: Final = 2e-3
_ARGUMENTS: Final = 13
_LOADS: Final = "\n".join(f"  %at{k} = getelementptr ptr, ptr %args, i64 {k}\n  %p{k} = load ptr, ptr %at{k}"
                          for k in range(_ARGUMENTS))
_LOOP: Final = f"""\
define void @repeated(ptr %routine, ptr %args, i64 %times) {{
start:
{_LOADS}
  br label %next
next:
  %n = phi i64 [%times, %start], [%less, %next]
  call void %routine({', '.join(f'ptr %p{k}' for k in range(_ARGUMENTS))}, i64 1, i64 1)
  %less = sub i64 %n, 1
  %more = icmp sgt i64 %less, 0
  br i1 %more, label %next, label %out
out:
  ret void
}}
"""


class Product:
    """The arguments of one product, in memory.

    Args:
        layout: Whether each matrix is plain, ``N``, or transposed, ``T``.
        sizes: Rows, terms and columns.
        dtype: The matrices' dtype.
        beta: The factor of the result.
    """

    def __init__(self, layout: str, sizes: tuple[int, int, int], dtype: str, beta: int) -> None:
        m, k, n = sizes
        rng = np.random.default_rng(0)
        shapes = [(k, m) if layout[0] == "T" else (m, k), (n, k) if layout[1] == "T" else (k, n), (m, n)]
        x, y, c = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
        numbers = np.array([n, m, k, y.shape[1], x.shape[1], n], np.int64)
        factors, letters = np.array([1, beta], dtype), np.frombuffer(layout.encode(), np.uint8)
        self._held: list[NDArray[Any]] = [x, y, c, numbers, factors, letters]
        word, letter, factor = numbers.ctypes.data, letters.ctypes.data, factors.ctypes.data
        self.args = np.array([letter + 1, letter, word, word + 8, word + 16, factor, y.ctypes.data, word + 24,
                              x.ctypes.data, word + 32, factor + factors.itemsize, c.ctypes.data, word + 40], np.int64)
        self.operations = 2 * m * k * n


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    library, compiler = best_library(), CpuDevice(0).compiler
    if library is None:
        raise SystemExit("no BLAS that is known")
    routines = (library.address("sgemm" if given.dtype == "float32" else "dgemm"),
                gemm_address(compiler, library, given.dtype))
    (address,), code = compiler.compile_text("repeated", _LOOP, ["repeated"])
    repeated = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
    print(f"{'rows x terms x columns':24}" + "".join(f"{name:>14}" for name in COLUMNS))
    for text in given.sizes:
        m, k, n = map(int, text.split("x"))
        cells = []
        for layout, beta in COLUMNS.values():
            product = Product(layout, (m, k, n), given.dtype, beta)
            times = max(1, round(SPAN * 1e11 / product.operations))
            best = [float("inf")] * 2
            for _ in range(given.rounds):
                for which, routine in enumerate(routines):
                    began = time.thread_time_ns()
                    repeated(routine, product.args.ctypes.data, times)
                    best[which] = min(best[which], time.thread_time_ns() - began)
            cells.append("/".join(f"{product.operations * times / nanoseconds:6.1f}" for nanoseconds in best))
        print(f"{text:24}" + "".join(f"{cell:>14}" for cell in cells), flush=True)
    assert code is not None


if __name__ == "__main__":
    main()
