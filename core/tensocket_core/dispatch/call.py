"""Direct calls of an operator record, as generated functions make them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.errors import ArgumentTypeError

from ..keys import SCALAR, SCALAR_LEFT, WRAPPER
from .modes import ACTIVE, STATE, run_with_modes
from .overrides import MAX_NESTING, overrides_functions, self_containing_error

if TYPE_CHECKING:
    from .operator import Operator

#: Number of tensors of ``addmm`` and similar operators.
_SCALED: Final = 3


def argument_key(operator: str, value: Any, numbers: dict[type, int] = SCALAR) -> int:
    """Return the key bits of one argument; ``numbers`` are those of Python numbers in its position.

    A NumPy scalar goes to the layer for subclasses and transforms, which calls again with a Python number.

    Raises:
        ArgumentTypeError: The argument is neither a tensor nor a Python number.
    """
    key = getattr(value, "_key", None)
    if key is None:
        key = numbers.get(type(value))
    if key is None and (overrides_functions(type(value)) or isinstance(value, np.generic)):
        key = WRAPPER
    if key is None:
        raise ArgumentTypeError(operator, f"an argument of type {type(value).__name__}",
                                "operands are tensors or Python numbers", "convert it with tensocket.tensor(...)")
    return int(key)


def tensor_key(operator: str, value: Any) -> int:
    """Return the key bits of an element of a list of tensors.

    Raises:
        ArgumentTypeError: The element is not a tensor.
    """
    if not hasattr(value, "_key"):
        if overrides_functions(type(value)):
            return WRAPPER
        raise ArgumentTypeError(operator, f"an element of type {type(value).__name__}", "the list holds tensors",
                                "convert it with tensocket.tensor(...)")
    return int(value._key)


def collected_key(values: Any, depth: int = 0) -> int:
    """Return ``WRAPPER`` if any argument, also in tuples and lists, leaves the fast path; else 0.

    Such arguments are tensors of overriding subclasses or transforms, and objects that override functions.

    Raises:
        ArgumentTypeError: A list contains itself.
    """
    if depth > MAX_NESTING:
        raise self_containing_error()
    for value in values:
        kind = type(value)
        bits = getattr(value, "_key", None)
        if bits is None:
            inside = kind is tuple or kind is list
            bits = collected_key(value, depth + 1) if inside else WRAPPER if overrides_functions(kind) else 0
        if bits & WRAPPER:
            return WRAPPER
    return 0


def warn_old_form(operator: str) -> None:
    """Warn of a number between the tensors, PyTorch's form from before keyword arguments."""
    warnings.warn(f"[{operator}] a number between the tensors — This overload of {operator} is deprecated — pass the "
                  "number by its name", UserWarning, stacklevel=3)


def scaled_form(operator: str, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sort the arguments of a call such as ``addmm(beta, input, alpha, mat1, mat2)``, with a warning.

    Args:
        operator: The operator's name.
        given: Positional arguments, padded with None. For a method, the tensor itself comes first.

    Returns:
        beta, alpha, and the three tensors.

    Raises:
        ArgumentTypeError: The last two arguments are not tensors, or not exactly one tensor precedes them.
    """
    values = [value for value in given if value is not None]
    factors = [value for value in values[:-2] if not hasattr(value, "_key")]
    tensors = [value for value in values if hasattr(value, "_key")]
    if len(tensors) != _SCALED or len(factors) != len(values) - _SCALED:
        kinds = ", ".join(type(value).__name__ for value in values)
        raise ArgumentTypeError(operator, f"({kinds})", "a call with more than three arguments by position is of the "
                                "old form with numbers before two tensors", "pass three tensors, beta= and alpha=")
    warn_old_form(operator)
    return (*factors, 1, *tensors) if len(factors) == 1 else (*factors, *tensors)


def key_of(operator: Operator, args: tuple[Any, ...]) -> int:
    """Return the dispatch key of a call.

    Raises:
        ArgumentTypeError: An argument is neither a tensor nor a number, but must be.
    """
    key = 0
    if ACTIVE and STATE.function_modes:
        return WRAPPER  # modes receive calls with any arguments
    for position in operator.schema.tensors:
        value = args[position]
        kind = operator.schema.parameters[position].type
        if kind.endswith("[]"):
            if not isinstance(value, (tuple, list)):
                raise ArgumentTypeError(operator.name, f"an argument of type {type(value).__name__}",
                                        "tensors come in a tuple or list", "pass [tensor]")
            for item in value:
                if item is not None or kind == "Tensor[]":
                    key |= tensor_key(operator.name, item)
        elif kind == "Tensor" and type(value) in SCALAR and _tensors_only(operator):
            raise ArgumentTypeError(operator.name, f"a number as {operator.schema.names[position]}",
                                    "this operand is a tensor", "pass tensor.new_tensor(number)")
        elif value is not None or (kind == "Tensor" and not operator.schema.parameters[position].optional):
            key |= argument_key(operator.name, value, SCALAR if position else SCALAR_LEFT)
    return key


def _tensors_only(operator: Operator) -> bool:
    """Whether operands must be tensors; otherwise any operand may be a number, for Python's reflected operators."""
    return all(p.type != "Operand" for p in operator.schema.parameters)


def call(operator: Operator, *args: Any) -> Any:
    """Dispatch a call with all arguments in positional form."""
    key, schema = 0, operator.schema
    for position in schema.tensors:
        value = args[position]
        if value is not None:
            bits = getattr(value, "_key", None)
            if bits is None or schema.lists:
                key = key_of(operator, args)
                break
            key |= bits
    if ACTIVE:
        return run_with_modes(operator, key, args)
    kernel = operator.table.get(key)
    if kernel is None:
        kernel = operator.resolve(key)
    return kernel(*args)
