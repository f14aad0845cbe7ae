"""The C source of a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tensocket_plugins.contract.dtypes import uint8
from tensocket_plugins.ir.nodes import Program

from .cblas import PRELUDE as BLAS
from .cblas import has_blas
from .convolutions import padding_call, padding_text
from .device import Check, Routine
from .header import parameters
from .interface import Interface, c_type
from .kernels import PRELUDE, kernel_calls, kernels_text, share_text
from .matrix_steps import PackedWeights
from .plan import Number, Operand, Plan, PlannedStep
from .polynomials import Polynomial
from .pooling import pooling_call, pooling_text
from .products import PRELUDE as PRODUCTS
from .products import packing_text, product_text
from .runtime import runtime_text
from .weights import Weight, array_name, declaration, place_weights

#: The functions that print routines besides products.
_TEXTS = {"padding": padding_text, "pooling": pooling_text}
#: Bytes of the largest array of a launch from which threads may share it.
_SHARED = 1 << 16


class Source:
    """The texts of a library.

    Args:
        plan: Its steps and memory.
        interface: The names.
        in_file: Whether weights are in a file.
        blas: Whether BLAS multiplies matrices.
    """

    def __init__(self, plan: Plan, interface: Interface, *, in_file: bool, blas: bool = False) -> None:
        self.plan, self.interface, self.in_file, self.blas = plan, interface, in_file, blas
        written = {x.block for step in plan.steps for x in step.operands if x.written}
        #: Whether calls write to the model.
        self.writes = any(block.role == "state" and n in written for n, block in enumerate(plan.blocks))
        dtypes = {x.block: x.dtype for step in plan.steps for x in step.operands}
        outputs = {n for n, block in enumerate(plan.blocks) if block.role == "output"}
        used = set(dtypes) | outputs
        self.weights, self.weight_bytes = place_weights([
            (n, interface.states[block.number][1] if block.role == "state" else dtypes[n], block.data or b"")
            for n, block in enumerate(plan.blocks) if block.role in ("constant", "state") and n in used])
        #: Blocks that something reads; routines do not write to others.
        self._needed = {n for n, block in enumerate(plan.blocks) if block.role != "temporary"} | {
            x.block for step in plan.steps for x in step.operands if not x.written}
        self._weight = {x.block: x for x in self.weights}
        self._mutable: dict[int, int] = {}
        self.state_bytes = 0
        for x in self.weights:
            if plan.blocks[x.block].role == "state" and self.writes:
                self._mutable[x.block] = self.state_bytes
                self.state_bytes += -(-len(x.data) // 64) * 64
        #: The weights that products read in another order.
        self.packed = PackedWeights(self._is_constant, interface.size_names, blas=blas)

    def _is_constant(self, block: int) -> bool:
        return block in self._weight and block not in self._mutable

    @property
    def arena(self) -> int:
        """Bytes that a call needs, to begin at a multiple of 64."""
        return self.plan.arena + 64

    def text(self) -> str:
        """Return the source."""
        interface, plan = self.interface, self.plan
        shared = {id(s.program): s.program for s in plan.steps if isinstance(s.program, Program) and self._shares(s)}
        routines = [*dict.fromkeys(s.program for s in plan.steps if isinstance(s.program, Routine))]
        weights = [] if self.in_file else [f"{declaration(interface.name, x)};" for x in self.weights]
        share = [share_text(interface.name)] if shared or routines else []
        run = self._run()
        return "\n\n".join([
            f'#include "{interface.name}.h"\n\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>',
            PRELUDE, *(["\n".join(weights)] if weights else []),
            f"struct {interface.name} {{\n    {interface.name}_parallel parallel;\n    void *context;\n"
            "    unsigned char *weights, *state, *packed;\n};", *share, *self._routines(routines),
            kernels_text(plan.programs, list(shared.values())), run, *runtime_text(self)]) + "\n"

    def _routines(self, routines: Sequence[Routine]) -> Iterator[str]:
        """Return the texts of the routines."""
        if any(x.name == "product" for x in routines):
            yield "\n\n".join([PRODUCTS, *([BLAS] if self.blas else [])])
        for x in routines:
            yield self._routine(x)
        for dtype in dict.fromkeys(x.dtype for x in self.packed.calls):
            yield packing_text(dtype, c_type(dtype))

    def _routine(self, routine: Routine) -> str:
        dtype, name = routine.dtype, self.interface.name
        if routine.name == "product":
            return product_text(dtype, c_type(dtype), name, blas=self.blas and has_blas(dtype))
        return _TEXTS[routine.name](dtype, c_type(dtype), name)

    def _shares(self, step: PlannedStep) -> bool:
        return max([self.plan.blocks[x.block].nbytes for x in step.operands], default=0) >= _SHARED

    # ------------------------------------------------------------------------------------------------ memory

    def pointer(self, block: int, t: str) -> str:
        """Return the beginning of a block as a pointer to elements of type ``t``."""
        found = self.plan.blocks[block]
        if found.role == "input":
            return self._cast(t, self.interface.inputs[found.number])
        if found.role == "output":
            return self._cast(t, self.interface.outputs[found.number])
        if found.role == "temporary":
            return f"({t} *)(arena + {self.plan.offsets[block]})"
        if block in self._mutable:
            return f"({t} *)(self->state + {self._mutable[block]})"
        weight = self._weight[block]
        if self.in_file:
            return f"({t} *)(self->weights + {weight.offset})"
        name = array_name(self.interface.name, weight)
        return name if t == f"const {c_type(weight.dtype)}" else f"({t} *){name}"

    @staticmethod
    def _cast(t: str, argument: object) -> str:
        found = c_type(argument.dtype)  # type: ignore[attr-defined]
        name = argument.name  # type: ignore[attr-defined]
        return str(name) if t in (found, f"const {found}") else f"({t} *){name}"

    def initial(self, weight: Weight) -> str:
        """Return the place of a weight's first contents."""
        return f"self->weights + {weight.offset}" if self.in_file else array_name(self.interface.name, weight)

    def packings(self) -> list[str]:
        """Return the calls that pack weights."""
        found = []
        for x in self.packed.calls:
            t = c_type(x.dtype)
            numbers = ", ".join(map(str, x.numbers))
            found.append(f"ts_pack_all_{x.dtype.short}({self.pointer(x.block, f'const {t}')} + {x.offset}, {numbers}, "
                         f"({t} *)(self->packed + {x.place}));")
        return found

    @property
    def mutable(self) -> list[tuple[Weight, int]]:
        """Weights that calls may write, with their places in the state."""
        return [(self._weight[block], at) for block, at in self._mutable.items()]

    # ------------------------------------------------------------------------------------------------- steps

    def _number(self, number: Number) -> str:
        if not isinstance(number.value, Polynomial):
            return _literal(number.value)
        text = number.value.text(self.interface.size_names)
        if number.form == "int":
            return text
        return f"(double)({text})" if number.form == "float" else f"1.0 / ({text})"

    def _offset(self, operand: Operand) -> str:
        return operand.offset.text(self.interface.size_names)

    def _typed(self, operand: Operand) -> Callable[[str], str]:
        return partial(self.pointer, operand.block)

    def _element(self, operand: Operand) -> str:
        """Return a pointer to an operand's first element."""
        t = c_type(operand.dtype)
        text, offset = self.pointer(operand.block, t if operand.written else f"const {t}"), self._offset(operand)
        return text if offset == "0" else f"{text} + {offset}"

    def step(self, step: PlannedStep) -> list[str]:
        """Return a step as C."""
        numbers = [self._number(x) for x in step.numbers]
        if isinstance(step.program, Check):
            check, (operand,) = step.program, step.operands
            return [f"for (int64_t ts_i = 0; ts_i < {numbers[0]}; ++ts_i) {{",
                    f"    const int64_t ts_x = (int64_t)({self._element(operand)})[ts_i];",
                    f"    if ((ts_x < {check.low} || ts_x >= {check.high}) && ts_x != {check.other}) "
                    f"return {self.interface.upper}_ERROR_INDEX;", "}"]
        if isinstance(step.program, Program):
            return kernel_calls(step.program, [self._typed(x) for x in step.operands],
                                [self._offset(x) for x in step.operands], numbers, share=self._shares(step))
        if step.kind == "product":
            return [self.packed.step(step, self._element)]
        if isinstance(step.program, Routine):
            call = padding_call if step.kind == "padding" else pooling_call
            pointers = [self._element(x) if x.block in self._needed else "NULL" for x in step.operands]
            return [call(step.program.dtype, numbers, pointers)]
        to, source = step.operands
        return [f"memcpy({self.pointer(to.block, c_type(uint8))} + {self._offset(to)}, "
                f"{self.pointer(source.block, 'const void')}, {numbers[0]});"]

    def _run(self) -> str:
        """Return the function with all steps, whose arguments are checked."""
        name = self.interface.name
        lines = ["    " + line for step in self.plan.steps for line in self.step(step)]
        model = name if self.writes else f"const {name}"
        given = ",\n    ".join([f"{model} *self", "unsigned char *arena", *parameters(self.interface)])
        names = ["self", "arena", *self.interface.size_names,
                 *[x.name for x in (*self.interface.inputs, *self.interface.outputs)]]
        unused = "\n".join([f"    (void){x};" for x in names])
        return f"static int run_steps({given})\n{{\n{unused}\n" + "\n".join(lines) + "\n    return 0;\n}"


def _literal(value: float) -> str:
    if isinstance(value, (bool, int)):
        return str(int(value))
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return value.hex() if not value.is_integer() or abs(value) >= 1e15 else f"{value!r}"
