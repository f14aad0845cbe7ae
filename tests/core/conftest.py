"""Three toy operators on the device ``ref``: all that core needs to be exercised where no operators are installed."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensocket_core import functions
from tensocket_core.device import DeviceState, open_device
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.operator import Operator, check_dtype
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.dispatch.versions import bump
from tensocket_core.keys import DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch.fill import filled, from_values
from tensocket_core.launch.pointwise_plan import run_generated
from tensocket_core.promotion import promote_types
from tensocket_core.tensor import tensor_methods, wrap
from tensocket_core.transforms.batching import KINDS, Info
from tensocket_core.transforms.tangents import KINDS as TANGENTS
from tensocket_plugins.contract.dtypes import float64
from tensocket_plugins.ir.nodes import cast


class Pointwise(Operator):
    """A toy operator that computes every element alone, of operands of one shape."""

    kind = "toy"

    def __init__(self, schema: str, formula: Callable[..., Any], derivative: Derivative) -> None:
        super().__init__(schema, "A toy.", derivative=derivative, function=False, method=False)
        self.formula = formula

    def build(self, key: int, state: DeviceState) -> Callable[..., Any]:
        dtype = functools.reduce(promote_types, [DTYPE_OF[bit] for bit in DTYPE_OF if key & DTYPE_MASK & bit])
        check_dtype(self.name, state, dtype)

        def formula(*operands: Any) -> Any:
            return self.formula(*[cast(x, dtype) for x in operands])

        def run(*operands: Any) -> Any:
            out = state.runtime.empty(operands[0]._array.shape, dtype, state.stream)
            given = [(x._array, x.dtype) for x in operands]
            run_generated(state, (self.name, dtype), formula, given, out.shape, [(out, dtype)])
            return wrap(out, state.key | dtype_bit(dtype))

        return run


class AddInPlace(Operator):
    """The toy that writes to its first operand, as gradients are accumulated."""

    kind = "toy"

    def build(self, key: int, state: DeviceState) -> Callable[..., Any]:
        def run(target: Any, other: Any) -> Any:
            run_generated(state, ("toy_add_", target.dtype), lambda x, y: x + y,
                          [(x._array, x.dtype) for x in (target, other)], target._array.shape,
                          [(target._array, target.dtype)])
            bump(target)
            return target

        return run


ADD = Pointwise("toy_add(Tensor input, Tensor other) -> Tensor", lambda x, y: x + y,
                Derivative(input=lambda grad: grad, other=lambda grad: grad))
MUL = Pointwise("toy_mul(Tensor input, Tensor other) -> Tensor", lambda x, y: x * y,
                Derivative(input=lambda grad, other: mul(grad, other), other=lambda grad, input: mul(grad, input)))
ADD_ = AddInPlace("toy_add_(Tensor! input, Tensor other) -> Tensor", "A toy.", function=False, method=False)

for toy in (ADD, MUL, ADD_):  # other tests look through all records
    del OPERATORS[toy.name]


def add(x: Any, y: Any) -> Any:
    return call(ADD, x, y)


def mul(x: Any, y: Any) -> Any:
    return call(MUL, x, y)


def _batched(info: Info, dims: tuple[Any, ...], *operands: Any) -> tuple[Any, Any]:
    """Operands that all have the batch in front run at once."""
    assert all(dim == 0 for dim in dims)
    return call(info.operator, *operands), 0


def _tangent(operator: Any, args: tuple[Any, ...], tangents: tuple[Any, ...], result: Any) -> Any:
    """The sum over the operands that have a tangent."""
    parts = [x if operator is ADD else mul(x, other)
             for x, other in zip(tangents, reversed(args), strict=True) if x is not None]
    return functools.reduce(add, parts)


KINDS.insert(0, (lambda operator: isinstance(operator, Pointwise), _batched))
TANGENTS[Pointwise] = _tangent

if find_spec("tensocket_operators"):
    importlib.import_module("tensocket_operators")
else:  # core alone: what its engine calls is made of the toys

    @tensor_methods
    class Methods:
        add_ = lambda self, other: call(ADD_, self, other)
        __add__ = add
        __mul__ = mul

        def new_ones(self, shape: Any) -> Any:
            return filled("new_ones", tuple(shape), 1, self.dtype, self._device_state)

        def new_zeros(self, shape: Any) -> Any:
            return filled("new_zeros", tuple(shape), 0, self.dtype, self._device_state)

    functions.publish({"add": add, "mul": mul})


def values(tensor: Any) -> np.ndarray:
    """Elements on the host."""
    host = np.empty(tensor._array.shape, tensor.dtype.numpy)
    tensor._device_state.runtime.copy(host, tensor._array, tensor._device_state.stream)
    tensor._device_state.runtime.synchronize()
    return host


def tensor(data: Any, requires_grad: bool = False, dtype: Any = float64) -> Any:
    made = from_values(np.asarray(data, dtype.numpy), dtype, open_device("ref"))
    made.requires_grad = requires_grad
    return made


@pytest.fixture
def toys() -> SimpleNamespace:
    return SimpleNamespace(ADD=ADD, MUL=MUL, ADD_=ADD_, add=add, mul=mul, tensor=tensor, values=values)
