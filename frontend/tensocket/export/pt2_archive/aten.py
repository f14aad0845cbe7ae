"""Operators of PyTorch's graphs that are other operators here, or several: by their names in ``aten``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket.nn import functional as F
from tensocket.overrides import _assert
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_operators import no_grad
from tensocket_operators.graph_functions import FUNCTIONS_OF_GRAPHS
from tensocket_operators.namespaces import ops

from ..values import GraphOperator


def _softmax(input: Any, dim: int, half_to_float: bool) -> Any:
    return F.softmax(input.float() if half_to_float else input, dim)


def _log_softmax(input: Any, dim: int, half_to_float: bool) -> Any:
    return F.log_softmax(input.float() if half_to_float else input, dim)


def _batch_norm_no_training(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float,
                            eps: float) -> Any:
    """Return the normalised input, and two tensors without elements, as in PyTorch."""
    return (F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps),
            input.new_empty(0), input.new_empty(0))


def _batch_norm_functional(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
                           momentum: float, eps: float) -> Any:
    """Return the normalised input, mean and reciprocal deviation of each channel, and new running statistics."""
    mean, var = running_mean.detach().clone(), running_var.detach().clone()
    result = F.batch_norm(input, mean, var, weight, bias, training, momentum, eps)
    dims = [k for k in range(input.dim()) if k != 1]
    with no_grad():
        seen = input.mean(dims)
        scale = (input.var(dims, correction=0) + eps).rsqrt()
    return result, seen, scale, mean, var


def _to(input: Any, *args: Any, **kwargs: Any) -> Any:
    """Convert a tensor; the last of five arguments is a memory format."""
    given = [x for k, x in enumerate(args) if k < 3 or x is not None]
    return input.to(*given, **{name: x for name, x in kwargs.items() if name not in ("layout", "pin_memory")})


def _assert_scalar(value: Any, message: str) -> None:
    """Raise an error with a message if a number is zero.

    Raises:
        AssertionError: It is.
    """
    _assert(bool(value), message)


def _constrain(*args: Any, **kwargs: Any) -> None:
    """Do nothing: PyTorch tells its compiler a range by this call; the graph's assertions check it."""


def _check_tensor(a: Any, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None,
                  layout: Any = None) -> None:
    """Raise an error if a tensor has another dtype.

    Raises:
        AssertionError: It has.
    """
    _assert(dtype is None or a.dtype is dtype, f"Tensor dtype mismatch! Expected: {dtype}, Got: {a.dtype}")


_OTHERS: Final[dict[str, Callable[..., Any]]] = {
    "lift_fresh_copy": lambda input: input.clone(), "lift_fresh": lambda input: input.alias(),
    "_native_batch_norm_legit_no_training": _batch_norm_no_training,
    "_native_batch_norm_legit_functional": _batch_norm_functional, "_assert_scalar": _assert_scalar,
    "sym_constrain_range": _constrain, "sym_constrain_range_for_size": _constrain,
    "_assert_tensor_metadata": _check_tensor, "sym_numel": lambda input: input.numel(),
    "_log_softmax_of_graphs": _log_softmax, "_softmax_of_graphs": _softmax,
    "_to_of_graphs": _to}
for _name, _function in _OTHERS.items():
    if _name not in FUNCTIONS_OF_GRAPHS:
        GraphOperator(_name, _function)
#: Names that are records of other operators here, which take other arguments.
SYNONYMS: Final = {"_softmax": "_softmax_of_graphs", "_log_softmax": "_log_softmax_of_graphs"}


def operator_named(name: str, overload: str) -> Any:
    """Return the operator of graphs with a name; None if there is none.

    The record of ``to`` takes its arguments as one, so that overloads of PyTorch are another function.
    """
    name = "_to_of_graphs" if name == "to" and overload != "default" else SYNONYMS.get(name, name)
    return COMPOSITES.get(name) or getattr(getattr(ops.aten, name, None), "default", None)


def name_of_composite(target: Any) -> str | None:
    """Return the name of a composite operator; None for other functions.

    Some composites have a part of the same name, which ``ops.aten`` returns. In files the name stands for the
    composite, as in PyTorch.
    """
    name = str(getattr(target, "name", ""))
    return f"torch.ops.aten.{name}.default" if COMPOSITES.get(name) is target else None
