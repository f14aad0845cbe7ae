"""The recorder: functions written in ONNX Script run on symbolic values, and their operators become nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from ..packages import package

#: Data types of Python numbers that no typed value is beside.
_NUMBERS: Final = ((bool, ir.DataType.BOOL), (int, ir.DataType.INT64), (float, ir.DataType.FLOAT),
                   (str, ir.DataType.STRING))


class SymbolicValue(ir.Value):  # type: ignore[misc]
    """A value of the graph, with Python's arithmetic.

    Args:
        opset: The operators that arithmetic calls.
        name: Its name.
    """

    def __init__(self, opset: Any, name: str | None = None) -> None:
        super().__init__(name=name)
        self._opset = opset

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if it is unknown."""
        return None if self.shape is None else len(self.shape)

    def __add__(self, other: Any) -> Any:
        return self._opset.Add(self, other)

    def __radd__(self, other: Any) -> Any:
        return self._opset.Add(other, self)

    def __sub__(self, other: Any) -> Any:
        return self._opset.Sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._opset.Sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return self._opset.Mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._opset.Mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._opset.Div(self, other)

    def __matmul__(self, other: Any) -> Any:
        return self._opset.MatMul(self, other)

    def __pow__(self, other: Any) -> Any:
        return self._opset.Pow(self, other)

    def __mod__(self, other: Any) -> Any:
        floats = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
        return self._opset.Mod(self, other, fmod=int(self.dtype in floats))

    def __neg__(self) -> Any:
        return self._opset.Neg(self)

    def __lt__(self, other: Any) -> Any:
        return self._opset.Less(self, other)

    def __le__(self, other: Any) -> Any:
        return self._opset.LessOrEqual(self, other)

    def __gt__(self, other: Any) -> Any:
        return self._opset.Greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return self._opset.GreaterOrEqual(self, other)

    def __ne__(self, other: object) -> Any:
        return self._opset.Not(self._opset.Equal(self, other))

    __hash__ = ir.Value.__hash__


class Recorder:
    """An evaluator of ONNX Script that notes nodes.

    Args:
        opset: The operators.

    Attributes:
        nodes: The nodes so far.
        functions: Functions that nodes call, by identifier.
    """

    def __init__(self, opset: Any) -> None:
        self.nodes: list[Any] = []
        self.functions: dict[Any, Any] = {}
        self._opset = opset
        self._constants: dict[Any, Any] = {}
        self._script = package("onnxscript")

    # ---- the interface of evaluators

    def eval_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Note a node, and return its results."""
        return self._note(op.op_signature, args, kwargs)

    def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Note a call of a function that has a body in ONNX, and return its results."""
        found = self._note(function.op_signature, args, kwargs)
        identifier = (function.function_ir.domain, function.name, "")
        if identifier not in self.functions:
            self.functions[identifier] = ir.serde.deserialize_function(function.to_function_proto())
        return found

    # ---- nodes

    def _note(self, signature: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        inputs, attributes = _sorted_arguments(signature, args, kwargs)
        dtypes = {p.type_constraint: x.dtype for p, value in inputs for x in _flat(value)
                  if isinstance(x, ir.Value) and x.dtype is not None}
        values: list[Any] = []
        for parameter, value in inputs:
            values += self._input(parameter, value, dtypes)
        while values and values[-1] is None:
            values.pop()
        made = [SymbolicValue(self._opset) for _ in range(_result_count(signature, attributes))]
        known = [x for x in ir.convenience.convert_attributes(attributes) if x.value is not None]
        node = ir.Node(signature.domain, signature.name, values, known, outputs=made,
                       version=signature.since_version)
        self.nodes.append(node)
        return made[0] if len(made) == 1 else made

    def _input(self, parameter: Any, value: Any, dtypes: dict[Any, Any]) -> list[Any]:
        """Return the values of an argument: several for a variadic parameter."""
        if value is None or isinstance(value, ir.Value):
            return [value]
        dtype = _dtype_for(parameter, value, dtypes)
        if all(isinstance(t, ir.SequenceType) for t in parameter.type_constraint.allowed_types):
            return [self._opset.SequenceConstruct(*value)]
        if parameter.variadic:
            return [x if isinstance(x, ir.Value) or x is None else self.constant(x, dtype) for x in value]
        if isinstance(value, (list, tuple)) and any(isinstance(x, ir.Value) for x in value):
            return [self.joined(value, dtype)]
        return [self.constant(value, dtype)]

    def joined(self, items: Sequence[Any], dtype: Any = ir.DataType.INT64) -> Any:
        """Return a vector of numbers, some of which are values."""
        line = self.constant([-1], ir.DataType.INT64)
        parts = [self._opset.Reshape(x, line) if isinstance(x, ir.Value) else self.constant([x], dtype)
                 for x in items if x is not None]
        return parts[0] if len(parts) == 1 else self._opset.Concat(*parts, axis=0)

    def constant(self, value: Any, dtype: Any = None) -> Any:
        """Return a constant; equal ones of one recorder are one node."""
        if isinstance(value, ir.TensorProtocol):
            return self._opset.Constant(value=value)
        if isinstance(value, complex):
            value = [value.real, value.imag]
        array = np.asarray(value)
        if dtype is None and array.dtype == np.float64:
            dtype = ir.DataType.FLOAT
        tensor = ir.tensor(array.tolist() if dtype is not None else array, dtype=dtype) if array.size or (
            dtype is None) else ir.tensor(np.zeros(array.shape, dtype.numpy()))
        key = (tensor.dtype, tuple(tensor.shape), tensor.tobytes())
        if key not in self._constants:
            made = self._opset.Constant(value=tensor)
            made.dtype, made.shape = tensor.dtype, ir.Shape(list(tensor.shape))
            self._constants[key] = made
        return self._constants[key]


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _sorted_arguments(signature: Any, args: Sequence[Any],
                      kwargs: Mapping[str, Any]) -> tuple[list[tuple[Any, Any]], dict[str, Any]]:
    """Return the inputs with their parameters, and the attributes."""
    inputs: list[tuple[Any, Any]] = []
    attributes: dict[str, Any] = {}
    left = list(args)
    for parameter in signature.params:
        if parameter.is_attribute():
            value = left.pop(0) if left else kwargs.get(parameter.name)
            if value is None and parameter.name not in kwargs and parameter.default is not None and signature.domain:
                value = parameter.default.value
            if value is not None:
                kind = parameter.type
                attributes[parameter.name] = float(value) if kind == ir.AttributeType.FLOAT else value
        elif parameter.variadic:
            inputs.append((parameter, left))
            left = []
        else:
            inputs.append((parameter, left.pop(0) if left else kwargs.get(parameter.name)))
    return inputs, attributes


def _dtype_for(parameter: Any, value: Any, dtypes: dict[Any, Any]) -> Any:
    """Return the data type for Python numbers: that of values with the same constraint, or their own."""
    if parameter.type_constraint in dtypes:
        return dtypes[parameter.type_constraint]
    allowed = parameter.type_constraint.allowed_types
    if len(allowed) == 1:
        return next(iter(allowed)).dtype
    if isinstance(value, ir.TensorProtocol):
        return value.dtype
    leaves = _flat(value)
    if not leaves:
        return ir.DataType.INT64
    known = next((x.dtype for x in leaves if isinstance(x, ir.Value) and x.dtype is not None), None)
    if known is not None:
        return known
    if any(isinstance(x, (float, complex)) for x in leaves):
        return ir.DataType.FLOAT
    return next((dtype for kind, dtype in _NUMBERS for x in leaves if isinstance(x, kind)), ir.DataType.INT64)


def _result_count(signature: Any, attributes: dict[str, Any]) -> int:
    """Return how many results of an operator are used: some are for training alone, or as many as an attribute says."""
    if not signature.domain:
        if signature.name == "BatchNormalization" and not attributes.get("training_mode"):
            return 1
        if signature.name == "Split":
            return int(attributes["num_outputs"])
    return len(signature.outputs)
