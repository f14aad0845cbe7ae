"""Formulas on devices without a code generator: evaluated one primitive at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.contract.primitives import BY_FUNCTION
from tensocket_plugins.ir import nodes
from tensocket_plugins.ir.build import math as ir_math
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..device import DeviceState
from ..dispatch.operator import missing_primitive
from ..geometry import expand
from .stream_use import copy_arrays, note_use

if TYPE_CHECKING:
    from tensocket_plugins.ir.nodes import Call, Expr, For, Stmt, Var



def primitive(operator: str, state: DeviceState, name: str, dtype: DType) -> Callable[..., Any]:
    """Return the kernel of a primitive.

    Raises:
        UnsupportedOperator: The backend does not register one.
    """
    kernel = state.runtime.kernels.find(name, dtype.name, direct=False)
    if kernel is None:
        raise missing_primitive(operator, state, dtype, name)
    return tracked(kernel)


def tracked(kernel: Kernel) -> Callable[..., Any]:
    """Return a registered kernel that first tells the allocator which stream uses its arrays."""

    def run(outs: Sequence[Any], ins: Sequence[Any], scalars: tuple[Any, ...], stream: Stream) -> None:
        note_use((*outs, *ins), stream)
        kernel.run(outs, ins, scalars, stream)

    return run


def filled(operator: str, state: DeviceState, shape: tuple[int, ...], value: Any, dtype: DType) -> Any:
    """Return an array filled with one value, which is stored once."""
    one = state.runtime.empty((1,) * len(shape), dtype, state.stream)
    primitive(operator, state, "fill", dtype)([one], [], (value,), state.stream)
    return expand(one, shape)


class _Evaluator:
    """An evaluator of expressions over arrays, which computes shared sub-expressions once."""

    def __init__(self, operator: str, state: DeviceState, shape: tuple[int, ...], values: dict[str, Any]) -> None:
        self.operator = operator
        self.state = state
        self.shape = shape
        self.values = values
        #: Values by the identity of expressions; it holds the expressions, so that no other object gets the identity.
        self.done: dict[int, tuple[Expr, Any]] = {}

    def array(self, expr: Expr) -> Any:
        """Return the expression's values, of the evaluator's shape (possibly with stride 0)."""
        found = self.done.get(id(expr))
        if found is None:
            found = self.done[id(expr)] = expr, self._compute(expr)
        return found[1]

    def _compute(self, expr: Expr) -> Any:
        if isinstance(expr, nodes.Var):
            return self.values[expr.name]
        if isinstance(expr, nodes.Const):
            return filled(self.operator, self.state, self.shape, expr.value, expr.dtype)
        assert isinstance(expr, nodes.Call), "formulas are made of variables, constants and calls"
        return self.call(expr, self.state.runtime.empty(self.shape, expr.dtype, self.state.stream))

    def call(self, expr: Call, out: Any) -> Any:
        """Run the primitive behind a call into ``out``."""
        name = BY_FUNCTION.get(expr.function, expr.function)
        run = primitive(self.operator, self.state, name, expr.args[-1].dtype)
        run([out], [self.array(x) for x in expr.args], (), self.state.stream)
        return out

    # ------------------------------------------------------------------------------------------------ statements

    def run(self, statements: Sequence[Stmt], taking_part: Expr | None = None) -> None:
        """Run statements; variables change only at elements where ``taking_part`` holds."""
        for s in statements:
            if isinstance(s, nodes.For):
                self._loop(s)
            elif isinstance(s, nodes.If):
                self.run(s.body, s.condition if taking_part is None else nodes.call("and", taking_part, s.condition))
            elif isinstance(s, nodes.Assign) and taking_part is not None:
                self._define(s.var, nodes.select(taking_part, s.value, s.var))
            else:
                assert isinstance(s, (nodes.Let, nodes.Declare, nodes.Assign)), "formulas have no other statements"
                self._define(s.var, s.value)

    def _define(self, var: Var, value: Expr) -> None:
        self.values[var.name] = self.array(value)
        self.done.clear()

    def _loop(self, s: For) -> None:
        """Run a loop step by step until no element takes part; each step reads one number from the device."""
        k = 0
        while True:
            self.values[s.var.name] = filled(self.operator, self.state, self.shape, k, s.var.dtype)
            self.done.clear()
            inside = nodes.call("lt", s.var, s.stop)
            if not self._any(inside):
                return
            going = s.body[0] if len(s.body) == 1 else None
            if isinstance(going, nodes.If) and not self._any(nodes.call("and", inside, going.condition)):
                return
            self.run(s.body, inside)
            k += 1

    def _any(self, condition: Expr) -> bool:
        """Whether a condition holds for any element."""
        found = self.state.runtime.empty((), condition.dtype, self.state.stream)
        dims = tuple(range(len(self.shape)))
        primitive(self.operator, self.state, "amax", condition.dtype)(
            [found], [self.array(condition)], (dims,), self.state.stream)
        answer = np.empty((), condition.dtype.numpy)
        copy_arrays(self.state, answer, found)
        return bool(answer)


def run_formula(operator: str, state: DeviceState, formula: Callable[..., Any], operands: Sequence[tuple[Any, DType]],
                compute: DType, shape: tuple[int, ...], out: Any, stored: DType, registered: Kernel | None) -> None:
    """Evaluate a formula into ``out``.

    Args:
        operator: Name, for errors.
        state: The device.
        formula: Over one expression per operand, in arithmetic dtypes.
        operands: Handles or Python numbers, with their element types.
        compute: The compute dtype.
        shape: Shape of ``out``; operands broadcast to it.
        out: The result's handle.
        stored: Its element type.
        registered: The backend's own kernel for the operator, used if the result needs no conversion.
    """
    values: dict[str, Any] = {}
    arguments: list[Expr] = []
    for k, (x, dtype) in enumerate(operands):
        array = expand(x, shape) if hasattr(x, "strides") else filled(operator, state, shape, x, dtype)
        values[f"in{k}"] = array
        arguments.append(nodes.Var(f"in{k}", dtype))
    if registered is not None and (stored is compute or stored is dtypes.bool_) and all(
            x is compute or x is dtypes.bool_ for _, x in operands):
        tracked(registered)([out], list(values.values()), (), state.stream)
        return
    evaluator = _Evaluator(operator, state, shape, values)
    result = formula(*[nodes.cast(x, arithmetic_dtype(x.dtype)) for x in arguments])
    if isinstance(result, ir_math.Computed):
        evaluator.run(result.statements)
        result = result.value
    result = nodes.cast(result, stored)
    if isinstance(result, nodes.Call):
        evaluator.call(result, out)
    else:  # a formula that returns an operand
        primitive(operator, state, "copy", stored)([out], [evaluator.array(result)], (), state.stream)
