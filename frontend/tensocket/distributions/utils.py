"""Helpers of several distributions: broadcasting of parameters, probabilities and logits, packed triangles."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final

import tensocket as torch

from ..errors import ArgumentError
from ..overrides import handle_torch_function, has_torch_function, is_tensor_like

#: The Euler-Mascheroni constant.
euler_constant: Final = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Broadcast tensors and numbers to one shape; numbers get the dtype and device of the first tensor.

    Raises:
        ArgumentError: A value is neither a tensor nor a number.
    """
    if has_torch_function(values):
        return handle_torch_function(broadcast_all, values, *values)  # type: ignore[no-any-return]
    if not all(isinstance(v, (int, float)) or is_tensor_like(v) for v in values):
        raise ArgumentError("broadcast_all", f"values of types {', '.join(type(v).__name__ for v in values)}",
                            "parameters are tensors or numbers", "convert them with tensocket.tensor(...)")
    if all(map(is_tensor_like, values)):
        return tuple(torch.broadcast_tensors(*values))
    options: dict[str, Any] = {"dtype": torch.get_default_dtype()}
    for value in values:
        if isinstance(value, torch.Tensor):
            options = {"dtype": value.dtype, "device": value.device}
            break
    made = [v if is_tensor_like(v) else torch.tensor(v, **options) for v in values]
    return tuple(torch.broadcast_tensors(*made))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Return standard normal numbers of a shape, dtype and device."""
    return torch.randn(shape, dtype=dtype, device=device)


def batch_shape_of(given: tuple[Any, ...], tensor: Any) -> Any:
    """Return the batch shape of scalar parameters, which is () if all of them were numbers."""
    return torch.Size() if all(isinstance(v, (int, float)) for v in given) else tensor.size()


def standard_normal(shape: Any, like: Any) -> Any:
    """Draw standard normal numbers with the dtype and device of a tensor."""
    return torch.randn(shape, dtype=like.dtype, device=like.device)


def uniform(shape: Any, like: Any) -> Any:
    """Draw uniform numbers in (0, 1), which have finite logarithms, with the dtype and device of a tensor."""
    return torch.rand(shape, dtype=like.dtype, device=like.device).clamp(min=torch.finfo(like.dtype).tiny)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Return the probabilities of log-odds, or of unnormalised log-probabilities along the last dimension."""
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, -1)


def clamp_probs(probs: Any) -> Any:
    """Clamp probabilities to at least an epsilon from 0 and 1."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Return the log-odds of probabilities, or their logarithms."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def check_probs_or_logits(name: str, probs: Any, logits: Any) -> None:
    """Require one of two parameters.

    Raises:
        ArgumentError: Both or none are given.
    """
    if (probs is None) == (logits is None):
        raise ArgumentError(name, "both probs and logits" if probs is not None else "neither probs nor logits",
                            "either `probs` or `logits` is specified, but not both", "pass one of them")


def given_parameter(distribution: Any) -> Any:
    """Return ``probs`` or ``logits`` of a distribution, depending on which one it was made with."""
    return next(distribution.__dict__[name] for name in ("probs", "logits") if name in distribution.__dict__)


def sum_rightmost(value: Any, count: int) -> Any:
    """Return the sum over the last ``count`` dimensions."""
    return value if not count else value.reshape((*value.shape[:value.dim() - count], -1)).sum(-1)


#: PyTorch's name for it, which libraries of distributions import.
_sum_rightmost = sum_rightmost


def bernoulli_entropy(logits: Any, probs: Any) -> Any:
    """Return ``-p log p - (1 - p) log(1 - p)``."""
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, probs, reduction="none")


class lazy_property:
    """An attribute that is computed at its first use, with gradients."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        """Compute the attribute and store it in the instance, where later accesses find it."""
        if instance is None:
            return self
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """Return the elements of lower triangles up to a diagonal, row by row, in one dimension.

    Raises:
        ArgumentError: There is no such diagonal.
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ArgumentError("tril_matrix_to_vec", f"diag={diag} of a {n} x {n} matrix",
                            "a diagonal lies within the matrix", "pass a number from -n to n - 1")
    mask = torch.arange(n, device=mat.device) < torch.arange(n, device=mat.device).view(n, 1) + (diag + 1)
    return mat[..., mask]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Return the inverse of ``tril_matrix_to_vec``: zeros above the diagonal.

    Raises:
        ArgumentError: No triangle has so many elements.
    """
    count = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not round(n) - n == 0:
        raise ArgumentError("vec_to_tril_matrix", f"{count} elements",
                            "a triangle has so many elements as its rows together", "pass n (n + 1) / 2 elements")
    size = round(n)
    mask = torch.arange(size, device=vec.device) < torch.arange(size, device=vec.device).view(size, 1) + (diag + 1)
    matrix = torch.zeros((*vec.shape[:-1], size, size), dtype=vec.dtype, device=vec.device)
    rows, columns = mask.nonzero(as_tuple=True)
    index = (rows * size + columns).expand((*vec.shape[:-1], count))
    flat = matrix.reshape((*vec.shape[:-1], size * size)).scatter(-1, index, vec)
    return flat.reshape((*vec.shape[:-1], size, size))


__all__ = ["broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
           "tril_matrix_to_vec", "vec_to_tril_matrix"]
