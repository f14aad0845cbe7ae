"""Operators of one tensor. The mask stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.formats import sparse_coo, strided
from tensocket_operators import Tensor
from tensocket_operators.namespaces import ops
from tensocket_operators.sparse.tensor import like
from tensocket_plugins.contract.errors import ArgumentTypeError

from .core import is_masked_tensor, joined, name_of, rule

#: PyTorch's names, including aliases.
UNARY_NAMES: Final = [
    "abs", "absolute", "acos", "arccos", "acosh", "arccosh", "angle", "asin", "arcsin", "asinh", "arcsinh", "atan",
    "arctan", "atanh", "arctanh", "bitwise_not", "ceil", "clamp", "clip", "conj_physical", "cos", "cosh", "deg2rad",
    "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix", "floor", "frac", "lgamma", "log", "log10",
    "log1p", "log2", "logit", "i0", "isnan", "nan_to_num", "neg", "negative", "positive", "pow", "rad2deg",
    "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sgn", "signbit", "sin", "sinc", "sinh", "sqrt", "square",
    "tan", "tanh", "trunc",
]  # fmt: skip
INPLACE_UNARY_NAMES: Final = [f"{name}_" for name in UNARY_NAMES
                              if name not in ("angle", "isnan", "positive", "signbit")]
NATIVE_UNARY_FNS: Final = [getattr(ops.aten, name) for name in UNARY_NAMES]
NATIVE_INPLACE_UNARY_FNS: Final = [getattr(ops.aten, name) for name in INPLACE_UNARY_NAMES]


def on_elements(function: Callable[[Any], Any], data: Any) -> Any:
    """Apply ``function`` to the stored elements of a tensor, at the same positions."""
    if data.layout is strided:
        return function(data)
    source = data.coalesce() if data.layout is sparse_coo else data
    return like(source, function(source.values()))


def _check_operands(name: str, args: tuple[Any, ...]) -> None:
    if not is_masked_tensor(args[0]) or any(isinstance(x, Tensor) for x in args[1:]):
        raise ArgumentTypeError(name, "several tensors: MaskedTensor unary ops do not support additional Tensor "
                                "arguments", "the operator takes one masked tensor and numbers", "pass numbers")


@rule(*(f.default.name for f in NATIVE_UNARY_FNS))
def unary(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply the operator to the data, and keep the mask."""
    _check_operands(name_of(func), (*args, *kwargs.values()))
    masked, *rest = args
    return joined(on_elements(lambda x: func(x, *rest, **kwargs), masked.get_data()), masked.get_mask())


@rule(*(f.default.name for f in NATIVE_INPLACE_UNARY_FNS))
def inplace_unary(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply the operator in place to the data."""
    _check_operands(name_of(func), (*args, *kwargs.values()))
    masked, *rest = args
    masked._masked_data = on_elements(lambda x: func(x, *rest, **kwargs), masked._masked_data)
    return masked
