"""A scheduled program as a built-in function: ``entry(*arrays) -> array``.

The function is LLVM IR around the program's own kernel: it checks that its operands are dense arrays of the expected
dtypes and of one shape, makes the result through NumPy's C interface, and runs the kernel on it. It hands other calls
to the next path, a Python function, with the same arguments; it computes the same as the next path, only faster.

With a wrapper (``wrappers``), operands and result are objects around arrays, and one call runs a whole operator.

Its ``self`` is an array of addresses (types, dtypes, C functions), so that the machine code holds none and the disk
cache can store it like any other kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.plans import LAST_DIM, EntryPlan
from tensocket_plugins.ir.nodes import Call, Const, Expr, Var
from tensocket_plugins.ir.printers.llvm import print_llvm
from tensocket_plugins.ir.printers.llvm_calls import entry_name, slots, split_loop
from tensocket_plugins.ir.schedule.adjacent import all_vectors

from ..code.executable import grain
from ..code.immortal import immortal
from ..memory.allocator import POOLED
from .changes import check_target, count_change
from .layout import DENSE, Layout
from .resources import Resources, resources_text
from .wrappers import new_wrapper, open_wrapper, python_number, slot_offsets
from .writer import Text

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: Flags of C functions that take an array of arguments, keyword arguments last, and a tuple of the keywords.
_FASTCALL: Final = 0x0080 | 0x0002
_NAME: Final = "tensocket_native"
#: The highest rank for which an entry recognizes the last dimension by its nonnegative number.
_RANKS: Final = 4
#: LLVM's instructions for the functions in the extents of loops.
_COUNTING: Final = {"add": "add", "sub": "sub", "mul": "mul", "idiv": "sdiv"}


class _MethodDef(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p))


class Words(np.ndarray[Any, Any]):
    """Words of memory, and the owners of the addresses in them; made as ``Words(count, np.uint64)``."""

    alive: Any = None


#: Definitions of functions, by name and address; a function reads its definition until freed, so definitions stay.
_METHODS: Final[dict[tuple[str, int], _MethodDef]] = {}


def make_entry(compiler: Compiler, layout: Layout, resources: Resources, plan: EntryPlan,
               next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Compile a native entry.

    Args:
        compiler: The compiler of the machine code.
        layout: The byte offsets of fields.
        resources: Memory and threads.
        plan: The plan, with a program that is scheduled for a processor; its buffers are the result and the operands
            that are arrays.
        next_path: Serves calls that do not fit the plan, with the same arguments.

    Returns:
        The function; None for a program with several kernels or temporaries, or for a wrapper of an unknown layout.
    """
    if len(plan.program.kernels) != 1 or plan.program.temporaries:
        return None
    offsets = None if plan.wrapper is None else slot_offsets(plan.wrapper)
    if plan.wrapper is not None and offsets is None:
        return None
    w = Text()
    text = _text(w, plan, layout, offsets or {}, resources, next_path)
    addresses, library = compiler.compile_text(plan.program.name, text, [_NAME], vectors=all_vectors(plan.program))
    return make_builtin(plan.program.name, addresses[0], w, (library, next_path, plan))


def make_builtin(name: str, address: int, w: Text, alive: Any) -> Callable[..., Any]:
    """Return a built-in function that runs machine code.

    Args:
        name: The function's name.
        address: The address of its code.
        w: Its text; the addresses in it become the function's ``self``.
        alive: The owners of the code and the addresses; they live as long as the function.
    """
    words = Words(len(w.addresses), np.uint64)
    words[:] = w.addresses
    words.alive = alive
    return make_method(name, address, words)


def make_method(name: str, address: int, words: Words) -> Callable[..., Any]:
    """Return a built-in function that runs machine code with a table of addresses.

    Args:
        name: The function's name.
        address: The address of its code.
        words: The addresses that it uses. They and their owners live as long as the function: the garbage collector
            does not traverse the function's ``self``; if it did, it could clear them before the last call.
    """
    definition = _METHODS.get((name, address))
    if definition is None:
        definition = immortal(_MethodDef(name.encode(), address, _FASTCALL, None))
        definition = _METHODS.setdefault((name, address), definition)
    table = words.view(np.ndarray)
    assert table.base is words, "NumPy skips views, but these own their memory"
    create = ctypes.pythonapi.PyCMethod_New
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p]
    entry: Callable[..., Any] = create(ctypes.addressof(definition), table, None, None)
    return entry


def _text(w: Text, plan: EntryPlan, layout: Layout, offsets: dict[str, int], resources: Resources,
          next_path: Callable[..., Any]) -> str:
    """Return the LLVM IR of the kernel and of the function around it."""
    w.do(f"  %table = load ptr, ptr {w.op(f'getelementptr i8, ptr %self, i64 {layout.data}')}")
    given = len(plan.operands)
    count_arguments(w, layout, given + len(plan.trailing))
    items = [w.item("%args", k, "ptr") for k in range(given + len(plan.trailing))]
    rest = list(zip(items[given:], plan.trailing, strict=True))
    if rest:
        w.branch([w.op(f"icmp eq ptr {item}, {w.known(id(value))}") for item, value in rest if value is not LAST_DIM])
    words: dict[int, str] = {}
    target = items[0]
    if plan.wrapper is not None:
        words = {k: python_number(w, layout, plan.operands[k], items[k]) for k in plan.numbers}
        items = [item if k in words else open_wrapper(w, layout, plan.wrapper, offsets[plan.wrapper.array], item)
                 for k, item in enumerate(items[:given])]
    arrays = {k: items[k] for k in range(given) if k not in words}
    _check(w, plan, layout, arrays, [item for item, value in rest if value is LAST_DIM])
    sizes = _sizes(w, plan, layout, arrays)
    w.do(f"  %block = bitcast ptr {w.known(resources.address)} to ptr")
    _divide(w, plan, sizes)
    if plan.shape == "into":
        assert plan.wrapper is not None
        counter = w.field(target, offsets[plan.wrapper.counter], "ptr")
        nbytes = w.op(f"mul i64 {sizes['size']}, {plan.result.itemsize}")
        check_target(w, layout, arrays[0], [array for k, array in arrays.items() if k], nbytes, counter)
        _run(w, plan, arrays, arrays[0], sizes, words)
        count_change(w, layout, counter, w.op(f"getelementptr i8, ptr {target}, i64 {offsets[plan.wrapper.counter]}"))
        w.do(f"call void {w.known(layout.retain)}(ptr {target})")
        answer = target
    else:
        answer = _new_result(w, plan, layout, offsets, arrays, sizes, words)
    w.do(f"ret ptr {answer}")
    w.do("failed:")
    w.do("ret ptr null")
    call_next_path(w, layout, next_path)
    kernel = print_llvm(plan.program, pointer_field=layout.data, internal=True)
    head = f"define ptr @{_NAME}(ptr %self, ptr %args, i64 %count, ptr %names) {{"
    reserved = [f"  %slots = alloca [{len(slots(plan.program))} x i64], align 16", "  %beyond = alloca i32"]
    return "\n".join([kernel, resources_text(POOLED), head, "entry:", *reserved, *w.lines, "}", ""])


def _new_result(w: Text, plan: EntryPlan, layout: Layout, offsets: dict[str, int],
                arrays: dict[int, str], sizes: dict[str, str], words: dict[int, str]) -> str:
    """Run the kernel on a new array; return the array, or the wrapper around it if the plan has one."""
    result, rank = _allocate(w, plan, layout, sizes)
    words |= {k: _number(w, layout, plan.operands[k], array) for k, array in arrays.items() if k in plan.numbers}
    _run(w, plan, arrays, result, sizes, words)
    return result if plan.wrapper is None else new_wrapper(w, layout, plan.wrapper, offsets, result, rank)


def count_arguments(w: Text, layout: Layout, expected: int) -> None:
    """Go to ``slow`` unless the number of arguments, by position and by name, is as expected."""
    some, every = w.label(), w.label()
    w.do(f"br i1 {w.op('icmp eq ptr %names, null')}, label %{every}, label %{some}")
    w.do(f"{some}:")
    named = w.op(f"call i64 {w.known(layout.tuple_size)}(ptr %names)")
    w.do(f"br label %{every}")
    w.do(f"{every}:")
    more = w.op(f"phi i64 [0, %entry], [{named}, %{some}]")
    w.branch([w.op(f"icmp eq i64 {w.op(f'add i64 %count, {more}')}, {expected}")])


def call_next_path(w: Text, layout: Layout, next_path: Callable[..., Any]) -> None:
    """Call the next path."""
    w.do("slow:")
    answer = w.op(f"call ptr {w.known(layout.call)}(ptr {w.known(id(next_path))}, ptr %args, i64 %count, ptr %names)")
    w.do(f"ret ptr {answer}")


def _check(w: Text, plan: EntryPlan, layout: Layout, arrays: dict[int, str], dims: list[str]) -> None:
    """Check types first, because only arrays have the other fields; each of ``dims`` must be the last dimension."""
    array_type = w.known(id(np.ndarray))
    w.branch([w.op(f"icmp eq ptr {w.field(array, layout.type, 'ptr')}, {array_type}") for array in arrays.values()])
    conditions = []
    for k, array in arrays.items():
        wanted = w.known(id(np.dtype(plan.operands[k].numpy)))
        conditions.append(w.op(f"icmp eq ptr {w.field(array, layout.dtype, 'ptr')}, {wanted}"))
        dense = w.op(f"and i32 {w.field(array, layout.flags, 'i32')}, {DENSE}")
        conditions.append(w.op(f"icmp eq i32 {dense}, {DENSE}"))
    ranks = {k: w.field(array, layout.rank, "i32") for k, array in arrays.items()}
    for k in arrays:
        if k:
            wanted_rank = "0" if k in plan.numbers else ranks[0]
            conditions.append(w.op(f"icmp eq i32 {ranks[k]}, {wanted_rank}"))
    if plan.shape == "rows" or plan.rows:
        conditions.append(w.op(f"icmp sge i32 {ranks[0]}, 1"))
    conditions += [_is_last(w, ranks[0], dim) for dim in dims]
    w.branch(conditions, "dense")


def _is_last(w: Text, rank: str, dim: str) -> str:
    """Test whether an argument is the int object -1 or rank - 1; CPython has one object for each of these numbers."""
    found = w.op(f"icmp eq ptr {dim}, {w.known(id(-1))}")
    for last in range(_RANKS):
        here = w.op(f"icmp eq i32 {rank}, {last + 1}")
        same = w.op(f"icmp eq ptr {dim}, {w.known(id(last))}")
        found = w.op(f"or i1 {found}, {w.op(f'and i1 {here}, {same}')}")
    return found


def _sizes(w: Text, plan: EntryPlan, layout: Layout, arrays: dict[int, str]) -> dict[str, str]:
    """Read rank, sizes and number of elements of the first operand, and compare them with those of the others."""
    shape = w.field(arrays[0], layout.shape, "ptr")
    rank = w.op(f"sext i32 {w.field(arrays[0], layout.rank, 'i32')} to i64")
    others = [w.field(array, layout.shape, "ptr") for k, array in arrays.items() if k and k not in plan.numbers]
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
        w.branch([w.op(f"icmp eq i64 {w.item(other, '%axis', 'i64')}, {size}") for other in others], "size")
    else:
        w.do("br label %size")
        w.do("size:")
    w.do("br label %sizes")
    w.do("counted:")
    few = w.op(f"icmp sle i64 %total, {plan.limit}")
    some = w.op("icmp sge i64 %total, 1")
    w.branch([few, some])
    found = {"size": "%total", "rank": rank, "shape": shape}
    if plan.rows:
        last = w.op(f"sub i64 {rank}, 1")
        found["columns"] = w.item(shape, last, "i64")
        found["rows"] = w.op(f"sdiv i64 %total, {found['columns']}")
    return found


def _divide(w: Text, plan: EntryPlan, sizes: dict[str, str]) -> None:
    """Set ``%pieces``, the most parts of the iterations that are worth a thread; go to ``slow`` if no worker runs."""
    if plan.shape not in ("same", "into") or plan.rows:
        w.do("  %pieces = add i64 0, 1")
        return
    least = grain(plan.program.kernels[0])
    many = w.op(f"icmp sgt i64 {sizes['size']}, {least}")
    workers, enough = w.label(), w.label()
    w.do(f"br i1 {many}, label %{workers}, label %{enough}")
    w.do(f"{workers}:")
    w.branch([w.op("call i1 @ready(ptr %block)")], enough)
    twice = w.op(f"mul i64 {sizes['size']}, 2")
    parts = w.op(f"udiv i64 {twice}, {least}")
    w.do(f"  %pieces = select i1 {many}, i64 {parts}, i64 1")


def _allocate(w: Text, plan: EntryPlan, layout: Layout, sizes: dict[str, str]) -> tuple[str, str]:
    """Allocate the result; return the array and its rank."""
    dtype = w.known(id(np.dtype(plan.result.numpy)))
    lost = {"same": 0, "rows": 1}.get(plan.shape)
    rank = "0"
    if lost is not None:
        wide = w.op(f"sub i64 {sizes['rank']}, {lost}")
        rank = w.op(f"trunc i64 {wide} to i32")
    large = plan.shape == "same"  # others have few elements
    nbytes = w.op(f"mul i64 {sizes['size']}, {plan.result.itemsize}") if large else "0"
    made = w.op(f"call ptr @allocate(ptr %block, ptr {dtype}, i32 {rank}, ptr {sizes['shape']}, ptr null, "
                f"i64 {nbytes})")
    w.branch([w.op(f"icmp ne ptr {made}, null")])
    return made, rank


def _run(w: Text, plan: EntryPlan, arrays: dict[int, str], result: str, sizes: dict[str, str],
         numbers: dict[int, str]) -> None:
    """Fill the kernel's slots and run it over its whole range."""
    buffers = [result, *[array for k, array in arrays.items() if k not in plan.numbers]]
    words = [w.op(f"ptrtoint ptr {buffer} to i64") for buffer in buffers]
    for meaning in plan.scalars:
        if isinstance(meaning, int):
            words.append(str(meaning))
        elif meaning.startswith("number"):
            words.append(numbers[int(meaning[len("number"):])])
        elif meaning.startswith("float_"):
            number = w.op(f"sitofp i64 {sizes[meaning[len('float_'):]]} to double")
            words.append(w.op(f"bitcast double {number} to i64"))
        else:
            words.append(sizes[meaning])
    for k, word in enumerate(words):
        at = w.op(f"getelementptr i64, ptr %slots, i64 {k}")
        w.do(f"store i64 {word}, ptr {at}")
    split = split_loop(plan.program, plan.program.kernels[0])
    end = "1"
    if split is not None:
        end = _extent(w, split.stop, dict(zip([item.name for item in slots(plan.program)], words, strict=True)))
    kernel = entry_name(0, plan.program.kernels[0])
    w.do(f"call void @divide(ptr %block, ptr @{kernel}, ptr %slots, i64 {end}, i64 %pieces)")


def _extent(w: Text, stop: Expr, known: dict[str, str]) -> str:
    """Return the number of iterations of a loop, from the words of the slots: a size, or a number of blocks."""
    if isinstance(stop, Const):
        return str(stop.value)
    if isinstance(stop, Var):
        return known[stop.name]
    assert isinstance(stop, Call)
    left, right = (_extent(w, arg, known) for arg in stop.args)
    return w.op(f"{_COUNTING[stop.function]} i64 {left}, {right}")


def _number(w: Text, layout: Layout, dtype: DType, array: str) -> str:
    """Read the element of a 0-d array as the word of a scalar's slot: a double, or an integer."""
    data = w.field(array, layout.data, "ptr")
    if dtype.kind == "float":
        value = w.op(f"load {'double' if dtype.itemsize == 8 else 'float'}, ptr {data}")
        wide = value if dtype.itemsize == 8 else w.op(f"fpext float {value} to double")
        return w.op(f"bitcast double {wide} to i64")
    bits = 8 * dtype.itemsize
    value = w.op(f"load i{bits}, ptr {data}")
    if bits == 64:
        return value
    return w.op(f"{'sext' if dtype.kind == 'int' else 'zext'} i{bits} {value} to i64")
