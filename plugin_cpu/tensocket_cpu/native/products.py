"""Products of two small matrices as built-in functions that call ``gemm`` without the interpreter or a copy."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import ProductPlan

from ..float_gemm.addresses import gemm_address
from ..linear.blas import Library
from .entries import call_next_path, count_arguments, make_builtin
from .layout import Layout
from .wrappers import new_wrapper, open_wrapper, slot_offsets
from .writer import Text

if TYPE_CHECKING:
    from ..code.compiler import Compiler

_NAME: Final = "tensocket_product"
#: Bit of arrays whose elements are aligned.
_ALIGNED: Final = 0x0100
#: The most multiplications, about 10 microseconds: more are worth a second thread, and would delay Python threads.
_WORK: Final = 1 << 20
#: The most of them for a single row or column. The next path has routines for vectors, which then win more than its
#: call costs: an inner product of 65,536 elements takes 4 instead of 40 microseconds.
_VECTOR_WORK: Final = 1 << 13
#: The most bytes of a result; larger results take their memory from the pool.
_BYTES: Final = 1 << 16
_ONE: Final = {"float32": struct.unpack("=q", struct.pack("=ff", 1, 0))[0],
               "float64": struct.unpack("=q", struct.pack("=d", 1))[0]}
#: The words that are in memory, because Fortran takes addresses.
_WORDS: Final = ("m", "n", "k", "lda", "ldb", "trans_a", "trans_b", "one", "beta")


def make_product(compiler: Compiler, layout: Layout, library: Library, plan: ProductPlan,
                 next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Compile a native entry for ``x @ y``, or for ``x @ y.T + bias``.

    Args:
        compiler: The compiler of the machine code.
        layout: The byte offsets of fields.
        library: The BLAS, whose routine serves what the backend's own does not.
        plan: The plan.
        next_path: Serves calls that do not fit the plan, with the same arguments.

    Returns:
        The function; None if BLAS does not have the dtype, or for a wrapper of an unknown layout.
    """
    offsets = slot_offsets(plan.wrapper)
    if plan.dtype.name not in _ONE or offsets is None:
        return None
    w = Text()
    text = _text(w, layout, plan, offsets, gemm_address(compiler, library, plan.dtype.name), next_path)
    (address,), code = compiler.compile_text(_NAME, text, [_NAME])
    return make_builtin("linear" if plan.affine else "matmul", address, w, (code, library, plan, next_path))


def _text(w: Text, layout: Layout, plan: ProductPlan, offsets: dict[str, int], gemm: int,
          next_path: Callable[..., Any]) -> str:
    w.do(f"  %table = load ptr, ptr {w.op(f'getelementptr i8, ptr %self, i64 {layout.data}')}")
    count_arguments(w, layout, 3 if plan.affine else 2)
    at = offsets[plan.wrapper.array]
    x, y = (open_wrapper(w, layout, plan.wrapper, at, w.item("%args", k, "ptr")) for k in (0, 1))
    _check(w, layout, plan, [x, y], 2)
    (m, k), (rows, columns) = _pair(w, layout, x, layout.shape), _pair(w, layout, y, layout.shape)
    depth, n = (columns, rows) if plan.affine else (rows, columns)
    result_bytes = w.op(f"mul i64 {w.op(f'mul i64 {m}, {n}')}, {plan.dtype.itemsize}")
    work = w.op(f"mul i64 {w.op(f'mul i64 {m}, {n}')}, {k}")
    w.branch([w.op(f"icmp eq i64 {k}, {depth}"), w.op(f"icmp sge i64 {work}, 1"), w.op(f"icmp sle i64 {work}, {_WORK}"),
              w.op(f"icmp sle i64 {result_bytes}, {_BYTES}"),
              w.op(f"or i1 {w.op(f'icmp sle i64 {work}, {_VECTOR_WORK}')}, {_are_matrices(w, m, n)}")])
    lda, plain_a = _orientation(w, layout, plan, x, (m, k))
    ldb, plain_b = _orientation(w, layout, plan, y, (rows, columns))
    bias = _bias(w, layout, plan, at, n) if plan.affine else None
    if plan.affine:
        plain_b = w.op(f"xor i1 {plain_b}, true")
    letter_a, letter_b = (w.op(f"select i1 {plain}, i64 {ord('N')}, i64 {ord('T')}") for plain in (plain_a, plain_b))
    out = _allocate(w, layout, plan, m, n)
    one = str(_ONE[plan.dtype.name])
    beta = "0" if bias is None else _prefill(w, layout, plan, out, bias, m, n, one)
    for name, value in zip(_WORDS, (m, n, k, lda, ldb, letter_a, letter_b, one, beta), strict=True):
        w.do(f"store i64 {value}, ptr %{name}.at")
    data = [w.field(array, layout.data, "ptr") for array in (x, y, out)]
    w.do(f"call void {w.known(gemm)}(ptr %trans_b.at, ptr %trans_a.at, ptr %n.at, ptr %m.at, ptr %k.at, ptr %one.at, "
         f"ptr {data[1]}, ptr %ldb.at, ptr {data[0]}, ptr %lda.at, ptr %beta.at, ptr {data[2]}, ptr %n.at, i64 1, "
         "i64 1)")
    w.do(f"ret ptr {new_wrapper(w, layout, plan.wrapper, offsets, out, '2')}")
    w.do("failed:")
    w.do("ret ptr null")
    call_next_path(w, layout, next_path)
    places = [f"  %{name}.at = alloca i64" for name in _WORDS]
    return "\n".join([f"define ptr @{_NAME}(ptr %self, ptr %args, i64 %count, ptr %names) {{", "entry:",
                      "  %sizes = alloca [2 x i64]", *places, *w.lines, "}",
                      "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)", ""])


def _check(w: Text, layout: Layout, plan: ProductPlan, arrays: list[str], rank: int) -> None:
    """Check types first, because only arrays have the fields that the other checks read."""
    array_type = w.known(id(np.ndarray))
    w.branch([w.op(f"icmp eq ptr {w.field(array, layout.type, 'ptr')}, {array_type}") for array in arrays])
    dtype = w.known(id(np.dtype(plan.dtype.numpy)))
    conditions = []
    for array in arrays:
        conditions.append(w.op(f"icmp eq ptr {w.field(array, layout.dtype, 'ptr')}, {dtype}"))
        aligned = w.op(f"and i32 {w.field(array, layout.flags, 'i32')}, {_ALIGNED}")
        conditions.append(w.op(f"icmp ne i32 {aligned}, 0"))
        conditions.append(w.op(f"icmp eq i32 {w.field(array, layout.rank, 'i32')}, {rank}"))
    w.branch(conditions)


def _are_matrices(w: Text, m: str, n: str) -> str:
    """Return whether the result has several rows and columns."""
    return w.op(f"and i1 {w.op(f'icmp sgt i64 {m}, 1')}, {w.op(f'icmp sgt i64 {n}, 1')}")


def _pair(w: Text, layout: Layout, array: str, field: int) -> tuple[str, str]:
    """Read both sizes, or both strides, of a matrix."""
    numbers = w.field(array, field, "ptr")
    return w.item(numbers, 0, "i64"), w.item(numbers, 1, "i64")


def _orientation(w: Text, layout: Layout, plan: ProductPlan, array: str, sizes: tuple[str, str]) -> tuple[str, str]:
    """Return the leading dimension and whether rows are contiguous; go to ``slow`` if neither rows nor columns are."""
    item = plan.dtype.itemsize
    down, along = _pair(w, layout, array, layout.strides)

    def fits(near: str, far: str, length: str) -> str:
        wide = w.op(f"mul i64 {length}, {item}")
        whole = w.op(f"icmp eq i64 {w.op(f'and i64 {far}, {item - 1}')}, 0")
        both = w.op(f"and i1 {whole}, {w.op(f'icmp sge i64 {far}, {wide}')}")
        return w.op(f"and i1 {both}, {w.op(f'icmp eq i64 {near}, {item}')}")

    plain, turned = fits(along, down, sizes[1]), fits(down, along, sizes[0])
    w.branch([w.op(f"or i1 {plain}, {turned}")])
    far = w.op(f"select i1 {plain}, i64 {down}, i64 {along}")
    return w.op(f"sdiv i64 {far}, {item}"), plain


def _bias(w: Text, layout: Layout, plan: ProductPlan, at: int, n: str) -> str:
    """Return the bias, a contiguous vector, or null if it is None."""
    item = w.item("%args", 2, "ptr")
    given, ready, none = w.label(), w.label(), w.label()
    w.do(f"br i1 {w.op(f'icmp eq ptr {item}, {w.known(id(None))}')}, label %{none}, label %{given}")
    w.do(f"{none}:")
    w.do(f"br label %{ready}")
    w.do(f"{given}:")
    array = open_wrapper(w, layout, plan.wrapper, at, item)
    _check(w, layout, plan, [array], 1)
    size = w.item(w.field(array, layout.shape, "ptr"), 0, "i64")
    step = w.item(w.field(array, layout.strides, "ptr"), 0, "i64")
    last = w.label()
    w.branch([w.op(f"icmp eq i64 {size}, {n}"), w.op(f"icmp eq i64 {step}, {plan.dtype.itemsize}")], last)
    w.do(f"br label %{ready}")
    w.do(f"{ready}:")
    return w.op(f"phi ptr [null, %{none}], [{array}, %{last}]")


def _allocate(w: Text, layout: Layout, plan: ProductPlan, m: str, n: str) -> str:
    for k, size in enumerate((m, n)):
        w.do(f"store i64 {size}, ptr {w.op(f'getelementptr i64, ptr %sizes, i64 {k}')}")
    dtype = w.known(id(np.dtype(plan.dtype.numpy)))
    w.do(f"call void {w.known(layout.retain)}(ptr {dtype})")
    made = w.op(f"call ptr {w.known(layout.new_array)}(ptr {w.known(id(np.ndarray))}, ptr {dtype}, i32 2, ptr %sizes, "
                "ptr null, ptr null, i32 0, ptr null)")
    w.branch([w.op(f"icmp ne ptr {made}, null")], otherwise="failed")
    return made


def _prefill(w: Text, layout: Layout, plan: ProductPlan, out: str, bias: str, m: str, n: str, one: str) -> str:
    """Copy the bias, if any, to every row of the result; return beta, the factor of the result in the sum."""
    begin, row, done, fill = w.label(), w.label(), w.label(), w.label()
    w.do(f"br label %{begin}")
    w.do(f"{begin}:")
    w.do(f"br i1 {w.op(f'icmp eq ptr {bias}, null')}, label %{done}, label %{fill}")
    w.do(f"{fill}:")
    source, target = w.field(bias, layout.data, "ptr"), w.field(out, layout.data, "ptr")
    width = w.op(f"mul i64 {n}, {plan.dtype.itemsize}")
    w.do(f"br label %{row}")
    w.do(f"{row}:")
    w.do(f"  %row = phi i64 [0, %{fill}], [%row.next, %{row}]")
    place = w.op(f"getelementptr i8, ptr {target}, i64 {w.op(f'mul i64 %row, {width}')}")
    w.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {place}, ptr {source}, i64 {width}, i1 false)")
    w.do("  %row.next = add i64 %row, 1")
    w.do(f"br i1 {w.op(f'icmp slt i64 %row.next, {m}')}, label %{row}, label %{done}")
    w.do(f"{done}:")
    return w.op(f"phi i64 [0, %{begin}], [{one}, %{row}]")
