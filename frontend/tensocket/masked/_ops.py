"""Operations on masked elements, and helpers for their masks and tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.formats import strided
from tensocket_core.geometry import normalize_axes
from tensocket_operators import functions, tensor
from tensocket_operators.functions import masked_amax as amax
from tensocket_operators.functions import masked_amin as amin
from tensocket_operators.functions import masked_argmax as argmax
from tensocket_operators.functions import masked_argmin as argmin
from tensocket_operators.functions import masked_cumprod as cumprod
from tensocket_operators.functions import masked_cumsum as cumsum
from tensocket_operators.functions import masked_log_softmax as log_softmax
from tensocket_operators.functions import masked_logaddexp as logaddexp
from tensocket_operators.functions import masked_logsumexp as logsumexp
from tensocket_operators.functions import masked_mean as mean
from tensocket_operators.functions import masked_median as median
from tensocket_operators.functions import masked_norm as norm
from tensocket_operators.functions import masked_normalize as normalize
from tensocket_operators.functions import masked_prod as prod
from tensocket_operators.functions import masked_softmax as softmax
from tensocket_operators.functions import masked_softmin as softmin
from tensocket_operators.functions import masked_std as std
from tensocket_operators.functions import masked_sum as sum
from tensocket_operators.functions import masked_var as var
from tensocket_operators.reductions.masked import IDENTITIES, identity_of
from tensocket_operators.sparse.masked import canonical_mask, where_masked
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, UnsupportedOperator

from .maskedtensor.core import is_masked_tensor

_REDUCTIONS: Final = frozenset(("sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "norm", "var",
                                "std", "logsumexp"))
_NORMALISATIONS: Final = frozenset(("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"))
#: Operations that count elements and therefore have no identity.
_COUNTING: Final = frozenset(("mean", "var", "std"))


def _name_of(name: str, op: Any) -> str:
    """Return the name of an operation.

    Raises:
        ArgumentError: ``op`` is not a function.
    """
    if not callable(op):
        raise ArgumentError(name, f"a {type(op).__name__}: {name} expected masked operation (got {type(op).__name__} "
                            "object)", "the operation is a function of tensocket.masked", "pass masked.sum, for "
                            "example")
    return str(op.__name__).removeprefix("method_").removeprefix("masked_")


def _canonical_dim(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return dimensions as an ascending tuple; None and () mean all dimensions."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    return tuple(sorted(normalize_axes("masked", dim, max(ndim, 1))))


def _reduction_identity(op_name: str, input: Any, *args: Any) -> Any:
    """Return the identity of an operation on elements of ``input``, as a tensor; None for operations that count.

    Args:
        op_name: Name of the operation.
        input: A tensor of the dtype and on the device of the result.
        args: The order, for norms.

    Raises:
        UnsupportedOperator: The operation is not a reduction.
    """
    name = op_name.rsplit(".", 1)[-1]
    if name in _COUNTING:
        return None
    if name not in IDENTITIES:
        raise UnsupportedOperator(name, f"dtype {input.dtype.name}: identity of {name} on {input.dtype} input",
                                  "only reductions have an identity", "pass the name of one")
    dtype = dtypes.float32 if name == "median" and not input.dtype.is_floating_point else input.dtype
    return tensor(identity_of(name, dtype, *args), dtype=dtype, device=input.device)


def _where(mask: Any, input: Any, fill_value: Any) -> Any:
    """Return ``where`` of tensors in one layout; sparse results store the elements that the mask holds.

    Args:
        mask: Bools.
        input: A tensor of the mask's shape and layout.
        fill_value: The value for elements outside of the mask.
    """
    if mask.layout is strided:
        return functions.where(mask, input, fill_value)
    return where_masked(mask, input, fill_value)


_sparse_coo_where = _sparse_csr_where = where_masked


def _input_mask(input: Any, *args: Any, mask: Any = None, **kwargs: Any) -> Any:
    """Return the mask as bools in the shape and the layout of the input.

    Raises:
        ArgumentError: The mask is missing.
    """
    if mask is None:
        raise ArgumentError("_input_mask", "no mask: _input_mask requires explicit mask", "a mask is given by name",
                            "pass mask=")
    return canonical_mask(input, mask, "_input_mask")


def _output_mask(op: Callable[..., Any], input: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the mask of the result of a masked operation on these arguments.

    Raises:
        ArgumentError: ``op`` is not a function of ``tensocket.masked``.
    """
    name = _name_of("_output_mask", op)
    if name in _NORMALISATIONS:
        return _input_mask(input, *args, **kwargs)
    if name not in _REDUCTIONS:
        raise ArgumentError("_output_mask", f"{name}: _output_mask expected masked operation (got callable "
                            f"{op.__module__}.{name})", "the operation is a function of tensocket.masked",
                            "pass masked.sum, for example")
    rest = args[1:] if name == "norm" else args
    dim = rest[0] if rest else kwargs.get("dim")
    mask = _input_mask(input, *args, **kwargs)
    return mask.any(_canonical_dim(dim, input.ndim), bool(kwargs.get("keepdim", False)))


def _combine_input_and_mask(op: Callable[..., Any], input: Any, mask: Any, *args: Any) -> Any:
    """Return the input with the identity of an operation outside of the mask; a masked tensor has its own
    mask.

    Args:
        op: A function of ``tensocket.masked`` or of ``tensocket`` of that name.
        input: A tensor.
        mask: Of any layout, or None for all elements.
        args: The order, for norms.
    """
    if is_masked_tensor(input):
        input, mask = input.get_data(), input.get_mask()
    if mask is None:
        return input
    name = _name_of("_combine_input_and_mask", op)
    return _where(canonical_mask(input, mask, "_combine_input_and_mask"), input,
                  _reduction_identity(name, input, *args))


__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
           "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]
