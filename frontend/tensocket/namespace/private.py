"""Private functions of PyTorch that libraries call."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentError
from tensocket.overrides import wrap_torch_function
from tensocket_operators import Tensor, arange, int32, int64, repeat_interleave, searchsorted, tensor
from tensocket_operators.linalg.scaled_products import grouped_mm as _grouped_mm
from tensocket_operators.linalg.scaled_products import int_mm as _int_mm
from tensocket_operators.linalg.scaled_products import scaled_product as _scaled_mm

__all__ = ["_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo", "_grouped_mm",
           "_has_compatible_shallow_copy_type", "_int_mm", "_sample_dirichlet", "_scaled_mm", "_shape_as_tensor",
           "_softmax_backward_data"]


def _sample_dirichlet(self: Tensor, generator: Any = None) -> Tensor:
    """Return a draw from Dirichlet distributions: probabilities along the last dimension.

    Args:
        self: The concentrations; shape ``(…, categories)``.
        generator: None: the device's generator draws.

    Raises:
        ArgumentError: Another generator is given.
    """
    from tensocket.distributions.pathwise import standard_dirichlet

    if generator is not None:
        raise ArgumentError("_sample_dirichlet", "a generator", "the device's generator draws gamma numbers",
                            "seed it with manual_seed, and leave generator out")
    return standard_dirichlet(self).detach()  # type: ignore[no-any-return]


def _shape_as_tensor(self: Tensor) -> Tensor:
    """Return the sizes of a tensor as a tensor of int64 on the host, of shape ``(dim,)``."""
    return tensor(list(self.shape), dtype=int64, device="cpu")  # type: ignore[no-any-return]


def _convert_indices_from_coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Return where each of ``size`` rows begins in a sorted list of rows, and where the last one ends.

    Args:
        self: The row of each element, in ascending order; shape ``(n,)``, int32 or int64.
        size: The number of rows.
        out_int32: Whether the result is int32 instead of int64.

    Returns:
        Shape ``(size + 1,)``.
    """
    rows = arange(size + 1, dtype=self.dtype, device=self.device)
    return searchsorted(self, rows, out_int32=out_int32)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Return the rows and columns of elements from the beginnings of rows; the inverse of the above.

    Args:
        crow_indices: Where each row begins, and where the last one ends; shape ``(rows + 1,)``.
        col_indices: The columns; shape ``(n,)``.
        out_int32: Whether the result is int32 instead of int64.
        transpose: Whether columns come first.

    Returns:
        Shape ``(2, n)``.
    """
    counts = crow_indices.diff()
    rows = repeat_interleave(arange(counts.numel(), device=counts.device), counts)
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    made = crow_indices.new_empty((2, col_indices.numel()), dtype=int32 if out_int32 else int64)
    made[0], made[1] = pair
    return made  # type: ignore[no-any-return]


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """Return the gradient of softmax: ``y (g - sum(g y))`` over ``dim``, in the dtype of the input."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


@wrap_torch_function(lambda self, from_: (self, from_))
def _has_compatible_shallow_copy_type(self: Tensor, from_: Tensor) -> bool:
    """Whether ``self.data = from_`` is possible: both tensors hold their elements in the same layout."""
    return bool(self.layout is from_.layout)
