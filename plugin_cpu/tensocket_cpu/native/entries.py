"""A scheduled program as a built-in function: ``entry(*arrays) -> array``.

The function is LLVM IR around the program's own kernel: it checks that its operands are dense arrays of the expected
dtypes and of one shape, makes the result through NumPy's C interface, and runs the kernel on it. It hands other calls
to the next path, a Python function, with the same arguments; it computes the same as the next path, only faster.

With a wrapper (``wrappers``), operands and result are objects around arrays, and one call runs a whole operator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.plans import LAST_DIM, EntryPlan
from tensocket_plugins.ir.nodes import Call, Const, Expr, Var
from tensocket_plugins.ir.printers.llvm import print_llvm
from tensocket_plugins.ir.printers.llvm_calls import entry_name, slots, split_loop
from tensocket_plugins.ir.schedule.adjacent import all_vectors

from ..code.executable import grain
from .builder import NULL, Operand, Value
from .builtin import Builtin
from .guards import check_target, checked_array, element_word, fits, is_last_dim, python_number
from .layout import Layout
from .resources import Resources
from .wrappers import Wrapper, count_change, find_wrapper

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: The functions in the extents of loops.
_COUNTING: Final = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "idiv": operator.floordiv}


def make_entry(compiler: Compiler, layout: Layout, resources: Resources, plan: EntryPlan,
               next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Compile a native entry; return None for several kernels or temporaries, or for a wrapper of an unknown layout.

    The buffers of the plan's program, which is scheduled for a processor, are the result and the operands that are
    arrays. The next path serves calls that do not fit the plan, with the same arguments.
    """
    if len(plan.program.kernels) != 1 or plan.program.temporaries:
        return None
    wrapper = None if plan.wrapper is None else find_wrapper(plan.wrapper)
    if plan.wrapper is not None and wrapper is None:
        return None
    kernel = print_llvm(plan.program, pointer_field=layout.data, internal=True)
    return _EntryCode(layout, resources, plan, wrapper).make(compiler, plan.program.name, next_path, plan,
                                                             kernel=kernel, vectors=all_vectors(plan.program))


class _EntryCode(Builtin):
    """The machine code around the kernel of a plan."""

    def __init__(self, layout: Layout, resources: Resources, plan: EntryPlan, wrapper: Wrapper | None) -> None:
        super().__init__(layout, "tensocket_native")
        self.resources, self.plan, self.wrapper = resources, plan, wrapper
        self.kernel = plan.program.kernels[0]
        #: The operands that are arrays, and the words of those that are Python numbers, by position.
        self.arrays: dict[int, Value] = {}
        self.numbers: dict[int, Value] = {}
        self._open_arguments()
        self._check()
        sizes = self._sizes()
        pieces = self._pieces(sizes["size"])
        if self.plan.shape == "into":
            self._run_into(sizes, pieces)
        else:
            self._run_new(sizes, pieces)

    def _open_arguments(self) -> None:
        """Check number and types of the arguments."""
        plan = self.plan
        given = len(plan.operands)
        self.require(self.arguments() == given + len(plan.trailing))
        items = [self.args.pointer(k) for k in range(given)]
        rest = [(self.args.pointer(given + k), value) for k, value in enumerate(plan.trailing)]
        self.require(*[item == self.object(value) for item, value in rest if value is not LAST_DIM])
        self._dims = [item for item, value in rest if value is LAST_DIM]
        self._target = items[0]
        if self.wrapper is not None:
            self.numbers = {k: python_number(items[k], plan.operands[k]) for k in plan.numbers}
        open_array = checked_array if self.wrapper is None else self.wrapper.open
        self.arrays = {k: open_array(item) for k, item in enumerate(items) if k not in self.numbers}

    def _check(self) -> None:
        """Check dtypes and ranks of the arrays, and that they are dense."""
        plan = self.plan
        rank = self.arrays[0].field("rank")
        conditions = [is_last_dim(dim, rank) for dim in self._dims]
        for k, array in self.arrays.items():
            conditions += fits(array, np.dtype(plan.operands[k].numpy), 0 if k in plan.numbers else rank)
        if plan.shape == "rows" or plan.rows:
            conditions.append(rank >= 1)
        self.require(*conditions)

    def _sizes(self) -> dict[str, Value]:
        """Return rank, sizes and number of elements of the first operand; compare the others' sizes with them."""
        plan = self.plan
        shape, rank = self.arrays[0].field("shape"), self.arrays[0].field("rank").cast("sext", "i64")
        others = [array.field("shape") for k, array in self.arrays.items() if k and k not in plan.numbers]
        total = self.variable(1)
        with self.loop(rank) as axis:
            size = shape[axis]
            self.require(*[other[axis] == size for other in others])
            total.value = total.value * size
        found = {"size": total.value, "rank": rank, "shape": shape}
        self.require(found["size"] <= plan.limit, found["size"] >= 1)
        if plan.rows:
            found["columns"] = shape[rank - 1]
            found["rows"] = found["size"] // found["columns"]
        return found

    def _pieces(self, size: Value) -> Operand:
        """Return the most parts of the iterations that are worth a thread; go to ``slow`` if no worker runs."""
        plan = self.plan
        if plan.shape not in ("same", "into") or plan.rows:
            return 1
        least = grain(self.kernel)
        with self.when(size > least):
            self.require(self.call(self.resources.ready, returns="i1"))
        return (size > least).select(size * 2 // least, 1)

    def _run_into(self, sizes: Mapping[str, Value], pieces: Operand) -> None:
        """Run the kernel on the first operand, and count the change."""
        wrapper = self.wrapper
        assert wrapper is not None
        place = wrapper.counter_place(self._target)
        counter = place.load()
        first, *others = self.arrays.values()
        check_target(first, others, sizes["size"] * self.plan.result.itemsize, counter)
        self._run(first, sizes, pieces)
        count_change(place, counter)
        self.returns(self.retain(self._target))

    def _run_new(self, sizes: Mapping[str, Value], pieces: Operand) -> None:
        """Run the kernel on a new array; return the array, or the wrapper around it if the plan has one."""
        plan = self.plan
        rank = self.constant(0, "i32")
        if plan.shape != "scalar":
            rank = (sizes["rank"] - int(plan.shape == "rows")).cast("trunc", "i32")
        # Results of other shapes have few elements.
        nbytes = sizes["size"] * plan.result.itemsize if plan.shape == "same" else 0
        dtype = self.object(np.dtype(plan.result.numpy))
        made = self.call(self.resources.allocate, dtype, rank, sizes["shape"], NULL, nbytes)
        self.require(made != NULL)
        self.numbers |= {k: element_word(array, plan.operands[k])
                         for k, array in self.arrays.items() if k in plan.numbers}
        self._run(made, sizes, pieces)
        self.returns(made if self.wrapper is None else self.wrapper.wrap(made, rank))

    def _run(self, result: Value, sizes: Mapping[str, Value], pieces: Operand) -> None:
        """Fill the kernel's slots and run it over its whole range."""
        plan = self.plan
        buffers = [result, *[array for k, array in self.arrays.items() if k not in plan.numbers]]
        words = [*[buffer.cast("ptrtoint", "i64") for buffer in buffers],
                 *[self._scalar(meaning, sizes) for meaning in plan.scalars]]
        place = self.stack(len(slots(plan.program)))
        for k, word in enumerate(words):
            place[k] = word
        split = split_loop(plan.program, self.kernel)
        end: Operand = 1
        if split is not None:
            end = _extent(split.stop, dict(zip([item.name for item in slots(plan.program)], words, strict=True)))
        self.call(self.resources.divide, f"@{entry_name(0, self.kernel)}", place, end, pieces, returns="void")

    def _scalar(self, meaning: str | int, sizes: Mapping[str, Value]) -> Operand:
        """Return the word of a scalar."""
        if isinstance(meaning, int):
            return meaning
        if meaning.startswith("number"):
            return self.numbers[int(meaning.removeprefix("number"))]
        if meaning.startswith("float_"):
            return sizes[meaning.removeprefix("float_")].cast("sitofp", "double").cast("bitcast", "i64")
        return sizes[meaning]


def _extent(stop: Expr, known: Mapping[str, Operand]) -> Any:
    """Return the number of iterations of a loop, from the words of the slots: a size, or a number of blocks."""
    if isinstance(stop, Const):
        return stop.value
    if isinstance(stop, Var):
        return known[stop.name]
    assert isinstance(stop, Call)
    left, right = (_extent(arg, known) for arg in stop.args)
    return _COUNTING[stop.function](left, right)
