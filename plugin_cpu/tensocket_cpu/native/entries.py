"""A scheduled program as a built-in function: ``entry(*arrays) -> array``.

The function is LLVM IR around the program's own kernel: it checks that its operands are dense arrays of the expected
dtypes and of one shape, makes the result through NumPy's C interface, and runs the kernel on it. Whatever is different
goes to a Python fallback with the same arguments, so the entry is a faster spelling of the fallback and nothing else.

Its ``self`` is an array of addresses (types, dtypes, C functions), so that the machine code holds none and can be kept
on disk like every other kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.native import NativeForm
from tensocket_plugins.ir.nodes import Program, Var
from tensocket_plugins.ir.printers.llvm import entry_name, print_llvm, slots, split_loop

from .layout import DENSE, Layout

if TYPE_CHECKING:
    from ..compiler import Compiler

#: Flag of C functions that take an array of arguments.
_FASTCALL: Final = 0x0080
_NAME: Final = "tensocket_native"
#: Places in the table of addresses; dtypes of operands and of the result follow.
_NDARRAY, _NEW, _CALL, _RETAIN, _FALLBACK, _DTYPES = range(6)
#: Everything that compiled entries point to; they live as long as the process.
_ALIVE: Final[list[Any]] = []


class _MethodDef(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


def make_entry(compiler: Compiler, layout: Layout, program: Program, form: NativeForm,
               fallback: Callable[..., Any]) -> Callable[..., Any] | None:
    """Compile a native entry.

    Args:
        compiler: Makes machine code.
        layout: Where objects keep their fields.
        program: Scheduled for a processor; its buffers are the result and the operands that are arrays.
        form: What operands there are, and what the program's scalars mean.
        fallback: Called with the same arguments where they do not fit.

    Returns:
        The function; None for programs of several kernels or with temporaries.
    """
    if len(program.kernels) != 1 or program.temporaries:
        return None
    text = _text(program, form, layout)
    addresses, library = compiler.compile_text(program, text, [_NAME])
    types = [np.dtype(d.numpy) for d in (*form.operands, form.result)]
    table = np.array([id(np.ndarray), layout.new_array, layout.call, layout.retain, id(fallback), *map(id, types)],
                     np.uint64)
    definition = _MethodDef(program.name.encode(), addresses[0], _FASTCALL, None)
    create = ctypes.pythonapi.PyCMethod_New
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
    _ALIVE.append((definition, library, table, fallback, types))
    entry: Callable[..., Any] = create(ctypes.addressof(definition), table, None, None)
    return entry


class _Text:
    """Lines of the function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def op(self, text: str) -> str:
        """An instruction with a result."""
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def do(self, text: str) -> None:
        """An instruction without a result, or a label."""
        self.lines.append(text if text.endswith(":") else f"  {text}")

    def field(self, base: str, offset: int, kind: str) -> str:
        """The value ``offset`` bytes behind a pointer."""
        at = self.op(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.op(f"load {kind}, ptr {at}")

    def item(self, base: str, index: int | str, kind: str) -> str:
        """Element of an array of words."""
        at = self.op(f"getelementptr i64, ptr {base}, i64 {index}")
        return self.op(f"load {kind}, ptr {at}")


def _text(program: Program, form: NativeForm, layout: Layout) -> str:
    """The kernel, and the function around it."""
    w = _Text()
    table = w.field("%self", layout.data, "ptr")
    _branch(w, [w.op(f"icmp eq i64 %count, {len(form.operands)}")], "given")
    arrays = [w.item("%args", k, "ptr") for k in range(len(form.operands))]
    _check(w, form, layout, table, arrays)
    sizes = _sizes(w, form, layout, arrays)
    result = _allocate(w, form, table, sizes)
    _run(w, program, form, layout, arrays, result, sizes)
    kernel = print_llvm(program, pointer_field=layout.data)
    head = f"define ptr @{_NAME}(ptr %self, ptr %args, i64 %count) {{"
    return "\n".join([kernel, head, "entry:", f"  %slots = alloca [{len(slots(program))} x i64], align 16",
                      *w.lines, *_slow(table), "}", ""])


def _slow(table: str) -> list[str]:
    """Calling the fallback."""
    return ["slow:",
            f"  %fallback.at = getelementptr i64, ptr {table}, i64 {_FALLBACK}",
            "  %fallback = load ptr, ptr %fallback.at",
            f"  %call.at = getelementptr i64, ptr {table}, i64 {_CALL}",
            "  %call = load ptr, ptr %call.at",
            "  %answer = call ptr %call(ptr %fallback, ptr %args, i64 %count, ptr null)",
            "  ret ptr %answer"]


def _branch(w: _Text, conditions: list[str], label: str) -> None:
    """Go on at ``label`` where all conditions hold."""
    both = conditions[0]
    for condition in conditions[1:]:
        both = w.op(f"and i1 {both}, {condition}")
    w.do(f"br i1 {both}, label %{label}, label %slow")
    w.do(f"{label}:")


def _check(w: _Text, form: NativeForm, layout: Layout, table: str, arrays: list[str]) -> None:
    """Types first, because only arrays have the fields that are read next."""
    array_type = w.item(table, _NDARRAY, "ptr")
    kinds = [w.op(f"icmp eq ptr {w.field(array, layout.type, 'ptr')}, {array_type}") for array in arrays]
    _branch(w, kinds, "typed")
    conditions = []
    for k, array in enumerate(arrays):
        wanted = w.item(table, _DTYPES + k, "ptr")
        conditions.append(w.op(f"icmp eq ptr {w.field(array, layout.dtype, 'ptr')}, {wanted}"))
        dense = w.op(f"and i32 {w.field(array, layout.flags, 'i32')}, {DENSE}")
        conditions.append(w.op(f"icmp eq i32 {dense}, {DENSE}"))
    ranks = [w.field(array, layout.rank, "i32") for array in arrays]
    for k in range(1, len(arrays)):
        wanted_rank = "0" if k in form.numbers else ranks[0]
        conditions.append(w.op(f"icmp eq i32 {ranks[k]}, {wanted_rank}"))
    if form.shape != "same" or form.rows:
        conditions.append(w.op(f"icmp sge i32 {ranks[0]}, 1"))
    _branch(w, conditions, "dense")


def _sizes(w: _Text, form: NativeForm, layout: Layout, arrays: list[str]) -> dict[str, str]:
    """Rank, sizes and number of elements of the first operand, compared with those of the others."""
    shape = w.field(arrays[0], layout.shape, "ptr")
    rank = w.op(f"sext i32 {w.field(arrays[0], layout.rank, 'i32')} to i64")
    others = [w.field(array, layout.shape, "ptr") for k, array in enumerate(arrays) if k and k not in form.numbers]
    w.do("br label %sizes")
    w.do("sizes:")
    w.do("  %axis = phi i64 [0, %dense], [%axis.next, %size]")
    w.do("  %total = phi i64 [1, %dense], [%total.next, %size]")
    w.do(f"  %more = icmp slt i64 %axis, {rank}")
    w.do("br i1 %more, label %axis.body, label %counted")
    w.do("axis.body:")
    size = w.item(shape, "%axis", "i64")
    w.do(f"  %total.next = mul i64 %total, {size}")
    w.do("  %axis.next = add i64 %axis, 1")
    if others:
        _branch(w, [w.op(f"icmp eq i64 {w.item(other, '%axis', 'i64')}, {size}") for other in others], "size")
    else:
        w.do("br label %size")
        w.do("size:")
    w.do("br label %sizes")
    w.do("counted:")
    few = w.op(f"icmp sle i64 %total, {form.limit}")
    some = w.op("icmp sge i64 %total, 1")
    _branch(w, [few, some], "ready")
    found = {"size": "%total", "rank": rank, "shape": shape}
    if form.rows:
        last = w.op(f"sub i64 {rank}, 1")
        found["columns"] = w.item(shape, last, "i64")
        found["rows"] = w.op(f"sdiv i64 %total, {found['columns']}")
    return found


def _allocate(w: _Text, form: NativeForm, table: str, sizes: dict[str, str]) -> str:
    """A new array for the result."""
    dtype = w.item(table, _DTYPES + len(form.operands), "ptr")
    retain, create = w.item(table, _RETAIN, "ptr"), w.item(table, _NEW, "ptr")
    w.do(f"call void {retain}(ptr {dtype})")
    lost = {"same": 0, "rows": 1}.get(form.shape)
    rank = "0"
    if lost is not None:
        wide = w.op(f"sub i64 {sizes['rank']}, {lost}")
        rank = w.op(f"trunc i64 {wide} to i32")
    array_type = w.item(table, _NDARRAY, "ptr")
    made = w.op(f"call ptr {create}(ptr {array_type}, ptr {dtype}, i32 {rank}, ptr {sizes['shape']}, ptr null, "
                "ptr null, i32 0, ptr null)")
    w.do(f"  %failed = icmp eq ptr {made}, null")
    w.do("br i1 %failed, label %done, label %run")
    w.do("run:")
    return made


def _run(w: _Text, program: Program, form: NativeForm, layout: Layout, arrays: list[str], result: str,
         sizes: dict[str, str]) -> None:
    """Fill the kernel's slots and run it over its whole range."""
    buffers = [result, *[array for k, array in enumerate(arrays) if k not in form.numbers]]
    words = [w.op(f"ptrtoint ptr {buffer} to i64") for buffer in buffers]
    for meaning in form.scalars:
        if isinstance(meaning, int):
            words.append(str(meaning))
        elif meaning.startswith("number"):
            words.append(_number(w, form, layout, arrays, int(meaning[len("number"):])))
        elif meaning.startswith("float_"):
            number = w.op(f"sitofp i64 {sizes[meaning[len('float_'):]]} to double")
            words.append(w.op(f"bitcast double {number} to i64"))
        else:
            words.append(sizes[meaning])
    for k, word in enumerate(words):
        at = w.op(f"getelementptr i64, ptr %slots, i64 {k}")
        w.do(f"store i64 {word}, ptr {at}")
    split = split_loop(program, program.kernels[0])
    end = "1"
    if split is not None:
        assert isinstance(split.stop, Var)
        end = words[[item.name for item in slots(program)].index(split.stop.name)]
    w.do(f"call void @{entry_name(0, program.kernels[0])}(ptr %slots, i64 0, i64 {end})")
    w.do("br label %done")
    w.do("done:")
    w.do(f"ret ptr {result}")


def _number(w: _Text, form: NativeForm, layout: Layout, arrays: list[str], operand: int) -> str:
    """The element of a 0-d array as the word of a scalar's slot: a double, or an integer."""
    data = w.field(arrays[operand], layout.data, "ptr")
    dtype = form.operands[operand]
    if dtype.kind == "float":
        value = w.op(f"load {'double' if dtype.itemsize == 8 else 'float'}, ptr {data}")
        wide = value if dtype.itemsize == 8 else w.op(f"fpext float {value} to double")
        return w.op(f"bitcast double {wide} to i64")
    bits = 8 * dtype.itemsize
    value = w.op(f"load i{bits}, ptr {data}")
    if bits == 64:
        return value
    return w.op(f"{'sext' if dtype.kind == 'int' else 'zext'} i{bits} {value} to i64")
